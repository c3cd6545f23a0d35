//! Tests of files of other programs, as documented, with real servers: the children's environment,
//! when they start, what is sent.
#![allow(clippy::unwrap_used)]

mod support;

mod children;
mod keeping;
mod lazy;
#[cfg(feature = "http")]
mod streams;
