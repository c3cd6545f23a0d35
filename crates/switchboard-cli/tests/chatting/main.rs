//! `switchboard chat` at a real terminal: the whole program in a pty, its screen read back.
#![allow(clippy::unwrap_used)]

#[path = "../console/mod.rs"]
mod console;
#[path = "../support/mod.rs"]
mod support;
#[path = "../visit/mod.rs"]
mod visit;

mod bringing;
mod commands;
mod keys;
mod living;
mod picture;
mod talking;

use console::{CTRL_C, SHIFT_TAB, leave, prompt};
use support::{Home, Terminal};

/// A rule, so that nothing is asked.
const ALLOWED: &str = "[permissions]\nallow = ['demo/echo', 'demo/add']\n";

/// Starts a conversation and waits for its prompt.
fn chat(home: &Home, words: &[&str]) -> Terminal {
    let words: Vec<_> = ["chat"].iter().chain(words).copied().collect();
    console::started(home.sit_at(&words))
}

/// The same on a screen of another size.
fn chat_sized(home: &Home, words: &[&str], rows: u16, columns: u16) -> Terminal {
    let words: Vec<_> = ["chat"].iter().chain(words).copied().collect();
    console::started_sized(home.sit_at(&words), rows, columns)
}
