//! Printing above the status line: what the conversation shows, and how it looks.

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;
use crate::{output, progress};

/// Less important than the rest.
pub(super) const FAINT: Style = Style::new().dimmed();
/// Something went wrong.
pub(super) const FAULT: Style = AnsiColor::Red.on_default();
/// A name to look for.
pub(super) const NAME: Style = Style::new().bold();

/// The prefix of each line of a server's text.
pub(super) const BAR: &str = "  │ ";

/// Prints escaped text on stdout, above the status line.
pub(super) fn print(text: &str) {
    progress::with_spinner_hidden(|| {
        // A closed pipe or terminal ends the conversation by its input.
        let _ = output::print(text);
    });
}

/// A line beside the conversation: on stderr, so that a pipe gets the answers alone.
pub(super) fn aside(line: &str) {
    output::log(format!("{FAINT}{line}{FAINT:#}"));
}

/// Several such lines.
pub(super) fn aside_text(text: &str) {
    output::print_on_stderr(text);
}

/// A failure, with what could be done.
pub(super) fn failure(failure: &Failure) {
    progress::clear();
    progress::with_spinner_hidden(|| output::error_on_stderr(&failure.as_line()));
}

/// How wide lines may be; `None` where they are not wrapped.
pub(super) fn columns() -> Option<usize> {
    output::stdout_columns()
}
