//! Tests of servers with a URL, through a whole host: which transport is detected, what is
//! remembered, missing logins.
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
#[cfg(feature = "oauth")]
mod shared_login;
mod streaming;
