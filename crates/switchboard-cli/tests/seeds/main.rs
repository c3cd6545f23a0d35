//! Each seed's own examples through the program: what a user of that system types in a fresh
//! folder, and what they are shown.
//!
//! The files are the documents' own. Programs that would come from a network have stand-ins of the
//! same names; an address that cannot be reached from here is replaced by that of a server on this
//! machine. What is shown is kept as a reviewed snapshot.
#![allow(clippy::unwrap_used)]

#[path = "../console/mod.rs"]
mod console;
#[path = "../support/mod.rs"]
mod support;
#[path = "../vendor/mod.rs"]
mod vendor;

mod a3s;
mod agent_apps;
mod agent_code;
mod chats;
mod core_agent;
mod gemini;
mod gemini_chat;
mod machine;
mod names;
mod permissions;
