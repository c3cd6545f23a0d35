//! `switchboard chat` at a real terminal: the whole program in a pty, its screen read back.
#![allow(clippy::unwrap_used)]

#[path = "../browser_visit/mod.rs"]
mod browser_visit;
#[path = "../console/mod.rs"]
mod console;
#[path = "../support/mod.rs"]
mod support;
#[path = "../vendor/mod.rs"]
mod vendor;

mod conversation;
mod keys;
mod lifecycle;
mod readme_picture;
mod server_requests;
mod slash_commands;

use console::{CTRL_C, SHIFT_TAB, leave, prompt};
use support::{Home, Terminal};

/// A rule, so that nothing is asked.
const ALLOWED: &str = "[permissions]\nallow = ['demo/echo', 'demo/add']\n";

/// Starts a conversation and waits for its prompt.
fn chat(home: &Home, words: &[&str]) -> Terminal {
    let words: Vec<_> = ["chat"].iter().chain(words).copied().collect();
    console::started(home.run_in_terminal(&words))
}

/// The same on a screen of another size.
fn chat_sized(home: &Home, words: &[&str], rows: u16, columns: u16) -> Terminal {
    let words: Vec<_> = ["chat"].iter().chain(words).copied().collect();
    console::started_sized(home.run_in_terminal(&words), rows, columns)
}
