//! What people see of their servers in each dialect's words, where values come from, and files that
//! are edited; with the real program.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

mod core_agent;
mod edits;
mod errors;
mod fixture;
mod gemini;
mod secrets;
mod stderr;
mod why;
