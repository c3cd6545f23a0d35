//! The threats of the security page, each tried on the real program: hostile projects, hostile
//! servers, hostile text, planted files.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

/// A gateway and its client.
#[allow(dead_code)]
#[path = "../gateway_http/client.rs"]
mod client;
/// T27, T35: hostile configuration files, and files that others must not read.
mod files;
/// T1, T6: the folders that servers run in, and where a project's files are found.
mod folders;
/// T2 to T5, T7: each kind of project file, when it is added and when it changes.
mod project_changes;
/// One project file of each kind.
mod project_files;
/// T1, T12, T13: prompts that a project or a server tries to imitate.
mod prompts;
/// T9, P1: approvals that are remembered between runs.
mod remembered_approvals;
/// T25: secrets that must not be printed or stored.
mod secrets;
/// T1, T6: what a shell completes, and what a person copies into one.
mod shells;
/// T12, T13: control sequences and misleading text of servers.
mod terminal_injection;
/// T8, T9, T14, T33: what servers claim about their tools, and which calls are sent.
mod tool_definitions;
/// T1: the prompts of `trust`, and the list of what was accepted.
mod trust_prompt;
/// T1, T2, T5: servers of a project that must not start.
mod untrusted_servers;
