//! The real program around real processes: what it starts, how both end, and how failures are reported
//! (Linux).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod diagnostics;
mod fixture;
mod launch;
mod shutdown;
