//! Where text goes: the answer to stdout, everything else to stderr.
//!
//! Server text has been escaped before it comes here; what passes through is printed with colours only where they are wanted.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};

use crate::failure::{Code, Failure};

/// Marks an error.
const ERROR: Style = AnsiColor::Red.on_default().bold();
/// What is said beside the answer.
const NOTICE: Style = AnsiColor::Yellow.on_default();

/// With `--json`, notices wait for the outcome, so that a failure leaves one JSON line on stderr.
static HOLD: AtomicBool = AtomicBool::new(false);
static HELD: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// What has been said: the same line twice tells nobody more.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Prints text for a person on stdout, without colours where they are not wanted.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    quiet_if_closed(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints one JSON document and a newline. Its bytes stay as they are; on a terminal, characters that could act become escapes
/// of the same value.
pub(crate) fn print_json(document: &str) -> Result<(), Failure> {
    let stdout = io::stdout();
    let line = if stdout.is_terminal() { escape_for_terminal(document) } else { document.to_owned() };
    let mut stdout = stdout.lock();
    quiet_if_closed(stdout.write_all(line.as_bytes()).and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush()))
}

/// A reader that has seen enough is not an error.
fn quiet_if_closed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Code::Usage, format!("the answer could not be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// The same JSON value, in characters that cannot move a cursor, hide or reorder text.
pub(crate) fn escape_for_terminal(document: &str) -> String {
    let mut escaped = String::with_capacity(document.len());
    let mut inside_string = false;
    let mut after_backslash = false;
    for character in document.chars() {
        if inside_string && acts_on_a_terminal(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else if character == '\r' {
            // Between tokens: white space is white space.
            escaped.push(' ');
        } else {
            escaped.push(character);
        }
        if !inside_string {
            inside_string = character == '"';
        } else if after_backslash {
            after_backslash = false;
        } else if character == '\\' {
            after_backslash = true;
        } else if character == '"' {
            inside_string = false;
        }
    }
    escaped
}

fn acts_on_a_terminal(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Says one line beside the answer, once: at once, or with the outcome where `--json` is on.
pub(crate) fn notice(line: &str) {
    let line = line.replace('\n', " ");
    if !SAID.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(line.clone()) {
        return;
    }
    if HOLD.load(Ordering::Relaxed) {
        HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(line);
    } else {
        crate::progress::line(format!("{NOTICE}{line}{NOTICE:#}"));
    }
}

/// Says one line that may be said again: at once, or with the outcome where `--json` is on.
pub(crate) fn log(line: String) {
    if HOLD.load(Ordering::Relaxed) {
        HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(line);
    } else {
        crate::progress::line(line);
    }
}

/// Holds notices back until the outcome is known.
pub(crate) fn hold_notices() {
    HOLD.store(true, Ordering::Relaxed);
}

/// The notices that were held back.
pub(crate) fn take_held_notices() -> Vec<String> {
    std::mem::take(&mut *HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// One line on stderr. Nobody is left to tell if it cannot be written.
pub(crate) fn line_on_stderr(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Several lines on stderr, with the spinner out of the way.
pub(crate) fn suspended_stderr(text: &str) {
    crate::progress::suspended(|| {
        let _ = anstream::stderr().lock().write_all(text.as_bytes());
    });
}

/// The failure of the run, on stderr: each of its lines can be searched for and clicked on.
pub(crate) fn error_on_stderr(text: &str) {
    text.lines().for_each(|line| line_on_stderr(&format!("{ERROR}error:{ERROR:#} {line}")));
}

/// How many columns stdout has; `None` where it is not a terminal, and nothing needs to be cut.
pub(crate) fn stdout_columns() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|&columns| columns > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn t12_json_on_a_terminal_keeps_its_value_and_loses_its_power() {
        let raw = "{\"a\":\"x\u{9b}2J\u{202e}\u{e0041}\\\"\u{7f}\",\r\n \"b\":1.50}";
        let escaped = escape_for_terminal(raw);
        assert!(!escaped.chars().any(|character| acts_on_a_terminal(character) && character != '\n'), "{escaped:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
            serde_json::from_str::<serde_json::Value>(raw).unwrap()
        );
        assert!(escaped.contains("1.50"), "number text stays: {escaped}");
    }

    #[test]
    fn a_backslash_before_a_quote_does_not_end_the_string() {
        assert_eq!(escape_for_terminal(r#"{"a\\":"\"\u009b"}"#), r#"{"a\\":"\"\u009b"}"#);
        assert_eq!(escape_for_terminal("[\"\\\\\u{9b}\",\"\u{9b}\"]"), r#"["\\\u009b","\u009b"]"#);
    }
}
