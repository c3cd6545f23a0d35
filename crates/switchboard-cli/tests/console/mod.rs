//! A conversation at a terminal: its prompt, its answers, its end.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use crate::support::Terminal;

pub const CTRL_C: &str = "\x03";
pub const CTRL_D: &str = "\x04";
pub const CTRL_L: &str = "\x0c";
pub const SHIFT_TAB: &str = "\x1b[Z";
pub const ESCAPE: &str = "\x1b";

/// Waits until a conversation shows its first prompt.
pub fn started(terminal: Terminal) -> Terminal {
    terminal.wait_for("switchboard chat:");
    terminal.wait("a prompt", |screen| screen.trim_end().ends_with('>'));
    terminal
}

/// The same on a screen of another size, which the program has from its start.
pub fn started_sized(terminal: Terminal, rows: u16, columns: u16) -> Terminal {
    terminal.resize(rows, columns);
    started(terminal)
}

/// Waits until the last line is an empty prompt, and returns the screen.
pub fn prompt(terminal: &Terminal) -> String {
    let is_prompt = |screen: &str| screen.trim_end().ends_with("\n>");
    terminal.wait("an empty prompt", is_prompt)
}

/// Clears the screen. Notices can appear above the prompt at any time.
pub fn clear(terminal: &mut Terminal) {
    terminal.send(CTRL_L);
    terminal.wait("an empty screen", |screen| {
        let is_entered = |line: &str| line.starts_with("> ") && line.trim_end() != ">";
        !screen.lines().any(is_entered) && screen.trim_end().ends_with('>')
    });
}

/// Enters a line on an empty screen, and returns the screen at the next prompt.
pub fn enter(terminal: &mut Terminal, line: &str) -> String {
    clear(terminal);
    terminal.send(line);
    let shown: String = line.chars().take(20).collect();
    terminal.wait_for(&format!("> {shown}"));
    terminal.send("\r");
    prompt(terminal)
}

/// Enters a line until its answer satisfies the check.
pub fn enter_until(terminal: &mut Terminal, line: &str, done: impl Fn(&str) -> bool) -> String {
    loop {
        let screen = enter(terminal, line);
        if done(&screen) {
            return screen;
        }
    }
}

/// Pastes lines, as a terminal does, and enters them as one message.
pub fn paste(terminal: &mut Terminal, lines: &[&str]) {
    terminal.send(&format!("\x1b[200~{}\x1b[201~\r", lines.join("\n")));
}

/// Ends it with Ctrl-D.
pub fn leave(mut terminal: Terminal) {
    prompt(&terminal);
    terminal.send(CTRL_D);
    let ended = terminal.end();
    assert_eq!((ended.code, ended.restored), (0, true), "{ended:?}");
}
