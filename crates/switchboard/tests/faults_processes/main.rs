//! Tests of real processes under a real host: start, supervision, status and end (Linux).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod accepting;
mod core_agent;
mod deciding_again;
mod ending;
mod launching;
mod outliving;
mod reloading;
mod starting;
mod supervising;
mod support;
