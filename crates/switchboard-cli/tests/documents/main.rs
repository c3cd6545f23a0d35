//! The examples of the five documents, through the program: what a user of each agent types in a
//! fresh folder, and what they see.
//!
//! The files are the documents' own. Programs that would be downloaded have stand-ins of the same
//! names; unreachable addresses are replaced by that of a server on this machine. The output is
//! compared with reviewed snapshots.
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
mod conversations;
mod core_agent;
mod gemini;
mod gemini_chat;
mod machine;
mod names;
mod permissions;
