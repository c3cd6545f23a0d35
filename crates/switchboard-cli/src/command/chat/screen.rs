//! Prints the conversation above the status line, and has its styles.

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;
use crate::{output, progress};

/// Secondary text.
pub(super) const FAINT: Style = Style::new().dimmed();
/// Errors.
pub(super) const FAULT: Style = AnsiColor::Red.on_default();
/// Names of tools.
pub(super) const NAME: Style = Style::new().bold();

/// The prefix of each line of a server's text.
pub(super) const BAR: &str = "  │ ";

/// Prints escaped text on stdout, above the status line.
pub(super) fn print(text: &str) {
    progress::with_spinner_hidden(|| {
        // If stdout is closed, the input ends too, and with it the conversation.
        let _ = output::print(text);
    });
}

/// Prints a note on stderr, so that a pipe gets the model's answers alone.
pub(super) fn note(line: &str) {
    output::log(format!("{FAINT}{line}{FAINT:#}"));
}

/// Prints several lines on stderr.
pub(super) fn note_lines(text: &str) {
    output::print_on_stderr(text);
}

/// Prints a failure with its hint.
pub(super) fn failure(failure: &Failure) {
    progress::clear();
    progress::with_spinner_hidden(|| output::error_on_stderr(&failure.as_line()));
}

/// The width of the terminal; `None` without one, where nothing is wrapped.
pub(super) fn columns() -> Option<usize> {
    output::stdout_columns()
}
