//! What people see of their servers in each dialect's words, where values come from, and files that
//! are edited; with the real program.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

mod stage;

mod core_agent;
mod edits;
mod errors;
mod gemini;
mod secrets;
mod stderr;
mod why;
