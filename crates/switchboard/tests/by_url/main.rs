//! Servers that are given by a URL, under a whole host: which wire is found, what is remembered,
//! what a login that is missing comes to.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used)]

mod peer;
mod support;

mod closing;
mod dual_era;
mod failing;
mod finding;
mod gemini;
mod headers;
mod login;
mod proxied;
mod streaming;
