//! The threats of the security page, each tried on the real program: hostile projects, hostile
//! servers, hostile words, planted files.
#![allow(clippy::unwrap_used)]

mod support;

/// T1: the questions of `trust`, and what was accepted.
#[path = "threats/accepting.rs"]
mod accepting;
/// T2 to T5, T7: each kind of project file, once it is there and when it changes.
#[path = "threats/changing.rs"]
mod changing;
/// T27, T35: files made to hurt, and files that others must not read.
#[path = "threats/files.rs"]
mod files;
/// T1, T6: the folders that servers run in, and where a project's files are found.
#[path = "threats/folders.rs"]
mod folders;
/// One project file of each kind.
#[path = "threats/projects.rs"]
mod projects;
/// T1, T12, T13: what a project and a server can do to the person who is asked.
#[path = "threats/prompts.rs"]
mod prompts;
/// T9, P1: answers that are remembered for good.
#[path = "threats/remembered.rs"]
mod remembered;
/// T25: what must not show anywhere.
#[path = "threats/secrets.rs"]
mod secrets;
/// T1, T6: what a shell completes, and what a person copies into one.
#[path = "threats/shells.rs"]
mod shells;
/// T1, T2, T5: what a project's file can start.
#[path = "threats/starting.rs"]
mod starting;
/// T8, T9, T14, T33: what servers say of their tools, and what may be sent to them.
#[path = "threats/tools.rs"]
mod tools;
/// T12, T13: what servers' words can do to a terminal and to the person at it.
#[path = "threats/words.rs"]
mod words;
