//! Output: results on stdout, everything else on stderr.
//!
//! Server text is escaped before it comes here. Colours are removed unless the stream is a terminal
//! that shows them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use switchboard::untrusted::{Untrusted, is_hidden};

use crate::failure::{Code, Failure};

/// Marks an error.
const ERROR: Style = AnsiColor::Red.on_default().bold();
/// The style of notices.
const NOTICE: Style = AnsiColor::Yellow.on_default();

/// With `--json`, a command that ends by itself holds notices back until the outcome is known, so that
/// a failure is one JSON line on stderr.
static HOLD_NOTICES: AtomicBool = AtomicBool::new(false);
static HELD_NOTICES: Mutex<HeldLines> = Mutex::new(HeldLines::new());
const MAX_HELD_NOTICES: usize = 1000;
/// See [`stdout_is_closed`].
static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);
/// Notices that were printed: the same line is not repeated.
static PRINTED_NOTICES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Lines that are held back. Those beyond the limit are only counted.
struct HeldLines {
    lines: Vec<String>,
    left_out: usize,
}

impl HeldLines {
    const fn new() -> Self {
        Self {
            lines: Vec::new(),
            left_out: 0,
        }
    }

    fn push(&mut self, line: &str) {
        match self.lines.len() < MAX_HELD_NOTICES {
            true => self.lines.push(line.to_owned()),
            false => self.left_out += 1,
        }
    }

    /// The lines, and one about those that were left out.
    fn into_lines(self) -> Vec<String> {
        let mut lines = self.lines;
        lines.extend((self.left_out > 0).then(|| format!("{} more", self.left_out)));
        lines
    }
}

/// Prints text for a person on stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let text = if io::stdout().is_terminal() {
        isolate_right_to_left(text)
    } else {
        Cow::Borrowed(text)
    };
    let mut stdout = anstream::stdout().lock();
    ignore_closed_pipe(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
    )
}

/// Prints a model's text and a newline: as it is, but escaped on a terminal.
pub(crate) fn print_model_text(text: &str) -> Result<(), Failure> {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let mut stdout = io::stdout();
    if stdout.is_terminal() {
        let text = Untrusted::new(text).for_terminal().to_string();
        return print(&format!("{text}{newline}"));
    }
    ignore_closed_pipe(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.write_all(newline.as_bytes()))
            .and_then(|()| stdout.flush()),
    )
}

/// Prints a chunk of a model's text: as it is, but escaped on a terminal.
pub(crate) fn print_piece(text: &str) {
    let mut stdout = io::stdout();
    let escaped = stdout
        .is_terminal()
        .then(|| Untrusted::new(text).for_terminal().to_string());
    // A closed pipe is noticed when the input ends.
    let _ = stdout
        .write_all(escaped.as_deref().unwrap_or(text).as_bytes())
        .and_then(|()| stdout.flush());
}

/// Prints one JSON document and a newline, byte for byte; on a terminal, control and hidden
/// characters become escapes of the same value.
pub(crate) fn print_json(document: &str) -> Result<(), Failure> {
    let stdout = io::stdout();
    let line = if stdout.is_terminal() {
        escape_for_terminal(document)
    } else {
        document.to_owned()
    };
    let mut stdout = stdout.lock();
    ignore_closed_pipe(
        stdout
            .write_all(line.as_bytes())
            .and_then(|()| stdout.write_all(b"\n"))
            .and_then(|()| stdout.flush()),
    )
}

/// A closed pipe is not an error: see [`stdout_is_closed`].
fn ignore_closed_pipe(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            STDOUT_IS_CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => Err(Failure::new(
            Code::Usage,
            format!("cannot write to stdout: {error}"),
        )),
        Ok(()) => Ok(()),
    }
}

/// Whether something was printed that nobody can read, because stdout is a pipe whose reader has
/// ended.
pub(crate) fn stdout_is_closed() -> bool {
    STDOUT_IS_CLOSED.load(Ordering::Relaxed)
}

/// The same JSON value, without characters that move the cursor, hide or reorder text.
pub(crate) fn escape_for_terminal(document: &str) -> String {
    let mut escaped = String::with_capacity(document.len());
    let mut inside_string = false;
    let mut after_backslash = false;
    for character in document.chars() {
        if inside_string && (is_hidden(character) || is_right_to_left(character)) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else if character == '\r' {
            // Outside strings a carriage return is white space.
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

/// Isolates each run of right-to-left letters, so that it does not reorder the text around it.
/// Punctuation ends a run: a key and its value, or a name and our text, keep their order.
pub(crate) fn isolate_right_to_left(text: &str) -> Cow<'_, str> {
    if !text.contains(is_right_to_left) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(start) = rest.find(is_right_to_left) {
        let inside = |character: char| {
            is_right_to_left(character) || matches!(character, ' ' | '\u{300}'..='\u{36f}')
        };
        let end = rest[start..]
            .find(|character| !inside(character))
            .map_or(rest.len(), |length| start + length);
        let run = rest[start..end].trim_end_matches(' ');
        shown.extend([&rest[..start], "\u{2068}", run, "\u{2069}"]);
        rest = &rest[start + run.len()..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Whether a character belongs to a right-to-left script.
fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Prints a notice once: now, or with the outcome if `--json` is on.
pub(crate) fn notice(line: &str) {
    let line = line.replace("\n    ", " ").replace('\n', " ");
    if !PRINTED_NOTICES
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .insert(line.clone())
    {
        return;
    }
    if !hold(&line) {
        crate::progress::print_line(format!("{NOTICE}{line}{NOTICE:#}"));
    }
}

/// Prints a line that may repeat: now, or with the outcome if `--json` is on.
pub(crate) fn log(line: String) {
    if !hold(&line) {
        crate::progress::print_line(line);
    }
}

/// Holds a line back, if lines are held back.
fn hold(line: &str) -> bool {
    let holds = HOLD_NOTICES.load(Ordering::Relaxed);
    if holds {
        let mut held = HELD_NOTICES
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        held.push(line);
    }
    holds
}

/// Holds notices back until the outcome is known.
pub(crate) fn hold_notices() {
    HOLD_NOTICES.store(true, Ordering::Relaxed);
}

/// The notices that were held back.
pub(crate) fn take_held_notices() -> Vec<String> {
    let mut held = HELD_NOTICES
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    std::mem::replace(&mut *held, HeldLines::new()).into_lines()
}

/// Prints one line on stderr, and ignores failures: there is nowhere to report them.
pub(crate) fn line_on_stderr(line: &str) {
    let line = if io::stderr().is_terminal() {
        isolate_right_to_left(line)
    } else {
        Cow::Borrowed(line)
    };
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// A line for stderr: without colours unless stderr shows them.
pub(crate) fn styled_for_stderr(line: &str) -> String {
    let line = isolate_right_to_left(line);
    match anstream::AutoStream::choice(&io::stderr()) {
        anstream::ColorChoice::Never => anstream::adapter::strip_str(&line).to_string(),
        _ => line.into_owned(),
    }
}

/// Prints several lines on stderr, with the spinner hidden.
pub(crate) fn print_on_stderr(text: &str) {
    crate::progress::with_spinner_hidden(|| {
        let text = if io::stderr().is_terminal() {
            isolate_right_to_left(text)
        } else {
            Cow::Borrowed(text)
        };
        let _ = anstream::stderr().lock().write_all(text.as_bytes());
    });
}

/// Prints the error of the run on stderr, with a prefix on each line. Indented lines continue the
/// one before.
pub(crate) fn error_on_stderr(text: &str) {
    for line in text.lines() {
        let is_continuation = line.starts_with("    ");
        line_on_stderr(&if is_continuation {
            line.to_owned()
        } else {
            format!("{ERROR}error:{ERROR:#} {line}")
        });
    }
}

/// The width of stdout; `None` if it is not a terminal, and nothing is cut.
pub(crate) fn stdout_columns() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size()
        .ok()
        .map(|(columns, _)| usize::from(columns))
        .filter(|&columns| columns > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn t13_each_right_to_left_run_is_isolated() {
        let check = |text: &str, expected: &str| {
            assert_eq!(isolate_right_to_left(text), expected, "{text:?}")
        };
        check("plain, é, 漢", "plain, é, 漢");
        check(
            "\"אב\": \"גד\"",
            "\"\u{2068}אב\u{2069}\": \"\u{2068}גד\u{2069}\"",
        );
        check("שלום עולם, 100", "\u{2068}שלום עולם\u{2069}, 100");
        check("a אב  b", "a \u{2068}אב\u{2069}  b");
        check("سلام", "\u{2068}سلام\u{2069}");
    }

    #[test]
    fn t12_json_on_a_terminal_keeps_its_value_without_control_characters() {
        let raw = "{\"a\":\"x\u{9b}2J\u{202e}\u{e0041}\\\"\u{7f}\",\r\n \"b\":1.50}";
        let escaped = escape_for_terminal(raw);
        assert!(
            !escaped
                .chars()
                .any(|character| is_hidden(character) && character != '\n'),
            "{escaped:?}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
            serde_json::from_str::<serde_json::Value>(raw).unwrap()
        );
        assert!(escaped.contains("1.50"), "number text stays: {escaped}");
    }

    #[test]
    fn lines_beyond_the_limit_of_held_notices_are_counted() {
        let mut held = HeldLines::new();
        (0..MAX_HELD_NOTICES).for_each(|_| held.push("line"));
        held.push("one");
        held.push("another");
        let lines = held.into_lines();
        assert_eq!(lines.len(), MAX_HELD_NOTICES + 1);
        assert_eq!(lines.last().unwrap(), "2 more");
    }

    #[test]
    fn a_backslash_before_a_quote_does_not_end_the_string() {
        assert_eq!(
            escape_for_terminal(r#"{"a\\":"\"\u009b"}"#),
            r#"{"a\\":"\"\u009b"}"#
        );
        assert_eq!(
            escape_for_terminal("[\"\\\\\u{9b}\",\"\u{9b}\"]"),
            r#"["\\\u009b","\u009b"]"#
        );
    }
}
