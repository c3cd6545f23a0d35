//! `switchboard chat` at a real terminal: the whole program in a pty, its screen read back.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod bringing;
mod living;
mod picture;
mod talking;

use support::{Home, Terminal};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const SHIFT_TAB: &str = "\x1b[Z";

/// A rule, so that nothing is asked.
const ALLOWED: &str = "[permissions]\nallow = ['demo/echo', 'demo/add']\n";

/// Starts a conversation and waits for its prompt.
fn chat(home: &Home, words: &[&str]) -> Terminal {
    let words: Vec<_> = ["chat"].iter().chain(words).copied().collect();
    let terminal = home.sit_at(&words);
    terminal.wait_for("switchboard chat:");
    terminal.wait("a prompt", |screen| screen.trim_end().ends_with(">"));
    terminal
}

/// Ends it with Ctrl-D.
fn leave(mut terminal: Terminal) {
    prompt(&terminal);
    terminal.send(CTRL_D);
    let ended = terminal.end();
    assert_eq!((ended.code, ended.restored), (0, true), "{ended:?}");
}

/// Waits until the last line is an empty prompt.
fn prompt(terminal: &Terminal) {
    let is_prompt = |screen: &str| screen.trim_end().ends_with("\n>");
    terminal.wait("an empty prompt", is_prompt);
}
