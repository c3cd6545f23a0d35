//! Files of other programs' kinds, as their documents write them, with real servers behind: what
//! children get, when they start, what goes over the wire.
#![allow(clippy::unwrap_used)]

mod support;

mod children;
mod keeping;
mod lazy;
#[cfg(feature = "http")]
mod streams;
