//! The real program around real processes: what it starts, how both end, what a person is told
//! (Linux).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod ending;
mod launching;
mod run;
mod telling;
