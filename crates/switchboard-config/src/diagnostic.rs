//! Errors and warnings about files, with file, line, column, field and what was expected.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::source::Source;
use super::tree::{Node, Tree};

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file.
    pub file: Arc<PathBuf>,
    /// 1-based line; 0 for the whole file.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// The field, dotted: `servers.git.command`.
    pub field: String,
    /// The fact and what was expected.
    pub message: String,
}

impl Diagnostic {
    /// A diagnostic about the whole file.
    pub fn of_file(file: &Arc<PathBuf>, message: impl Into<String>) -> Self {
        Self {
            file: file.clone(),
            line: 0,
            column: 0,
            field: String::new(),
            message: message.into(),
        }
    }

    /// A diagnostic about a configuration that is written in code.
    pub fn in_code(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            ..Self::of_file(&Source::code().file, message)
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible_path(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// All errors of all files. Nothing starts if there is any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Diagnostic>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A path with control and invisible characters escaped: names of folders are untrusted text too.
pub fn visible_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let quoted = format!("{text:?}");
    // `Debug` adds quotes; they are shown only if something was escaped.
    if quoted.len() == text.len() + 2 {
        text.into_owned()
    } else {
        quoted
    }
}

/// A key for a dotted field: bare if TOML allows it, else quoted and escaped.
pub(super) fn visible_key(key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    match key.char_indices().nth(MAX_KEY_LENGTH) {
        Some((end, _)) => format!("{:?}…", &key[..end]),
        None if bare => key.to_owned(),
        None => format!("{key:?}"),
    }
}

/// Longer keys are truncated in messages.
const MAX_KEY_LENGTH: usize = 80;

/// Turns byte offsets into lines and columns, in bounded time for any file.
#[derive(Debug)]
pub(super) struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// How many characters begin before each block of bytes: a file may be one very long line.
    before: Vec<usize>,
}

const BLOCK_BYTES: usize = 256;

impl<'a> LineIndex<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        let mut before = vec![0];
        let mut characters = 0;
        for block in text.as_bytes().chunks(BLOCK_BYTES) {
            characters += count_characters(block);
            before.push(characters);
        }
        Self {
            text,
            starts,
            before,
        }
    }

    /// 1-based line and column (in characters) of a byte offset.
    pub(super) fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let line = self.line(offset);
        (
            line,
            self.characters_before(offset) - self.characters_before(self.starts[line - 1]) + 1,
        )
    }

    /// 1-based line of a byte offset.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK_BYTES;
        self.before[block] + count_characters(&self.text.as_bytes()[block * BLOCK_BYTES..offset])
    }
}

/// Counts the characters that begin in these bytes.
fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Collects the errors and warnings of one file.
#[derive(Debug)]
pub(super) struct Diagnostics<'a> {
    pub(super) file: Arc<PathBuf>,
    pub(super) lines: LineIndex<'a>,
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
    /// Unknown fields, with a suggestion. Warnings, unless there are errors: then an unknown field
    /// may be their cause (a misspelt `command`).
    pub(super) unknown: Vec<(Diagnostic, String)>,
    /// Whether the file is JSON: messages say object instead of table.
    pub(super) json: bool,
    /// Lines with syntax errors; further errors on them are dropped as consequences.
    pub(super) syntax_error_lines: BTreeSet<usize>,
}

/// Longer messages are cut.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// The longest list of errors or warnings of one file.
const MAX_DIAGNOSTICS: usize = 100;

impl<'a> Diagnostics<'a> {
    pub(super) fn new(file: Arc<PathBuf>, text: &'a str) -> Self {
        let (errors, warnings, unknown) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            file,
            lines: LineIndex::new(text),
            errors,
            warnings,
            unknown,
            json: false,
            syntax_error_lines: BTreeSet::new(),
        }
    }

    pub(super) fn error(
        &mut self,
        offset: usize,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        let finding = self.finding(offset, field.into(), message.into());
        if !self.syntax_error_lines.contains(&finding.line) {
            self.errors.push(finding);
        }
    }

    /// As [`error`](Self::error), for something missing. Dropped if there are syntax errors, which
    /// may hide it.
    pub(super) fn missing(
        &mut self,
        offset: usize,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        if self.syntax_error_lines.is_empty() {
            self.error(offset, field, message);
        }
    }

    /// Reports a syntax error, the first of each line: parsers report the same mistake several
    /// times.
    pub(super) fn syntax_error(&mut self, offset: Option<usize>, message: impl Into<String>) {
        let finding = match offset {
            Some(offset) => self.finding(offset, String::new(), message.into()),
            None => Diagnostic::of_file(&self.file, message),
        };
        if self.syntax_error_lines.insert(finding.line) {
            self.errors.push(finding);
        }
    }

    pub(super) fn warn(
        &mut self,
        offset: usize,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        let finding = self.finding(offset, field.into(), message.into());
        self.warnings.push(finding);
    }

    /// Reports an unknown name; `hint` is empty or begins with a semicolon.
    pub(super) fn unknown(
        &mut self,
        offset: usize,
        field: impl Into<String>,
        noun: &str,
        hint: impl Into<String>,
    ) {
        let finding = self.finding(offset, field.into(), format!("unknown {noun}"));
        self.unknown.push((finding, hint.into()));
    }

    /// The type of a value, in the terms of its format.
    pub(super) fn kind(&self, node: &Node) -> &'static str {
        if self.json && matches!(node.value, Tree::Table(_)) {
            "an object"
        } else {
            node.kind()
        }
    }

    /// Errors and warnings, each in the order of the file and bounded.
    pub(super) fn finish(mut self) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
        // With syntax errors a field may only seem unknown, because the line before it was not
        // closed.
        if self.syntax_error_lines.is_empty() {
            // A file with errors is not used, so its unknown fields are not called ignored.
            let (reported, fate) = if self.errors.is_empty() {
                (&mut self.warnings, ", ignored")
            } else {
                (&mut self.errors, "")
            };
            reported.extend(self.unknown.drain(..).map(|(mut finding, hint)| {
                finding.message.extend([fate, &hint]);
                finding
            }));
        }
        (bounded(self.errors), bounded(self.warnings))
    }

    fn finding(&self, offset: usize, field: String, message: String) -> Diagnostic {
        let (line, column) = self.lines.line_and_column(offset);
        Diagnostic {
            file: self.file.clone(),
            line,
            column,
            field,
            message: shortened(message),
        }
    }
}

/// Cuts a message that repeats too much of its file.
fn shortened(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.push('…');
    }
    message
}

fn bounded(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|finding| (finding.line, finding.column));
    let more = diagnostics.len().saturating_sub(MAX_DIAGNOSTICS);
    if more > 0 {
        let file = diagnostics[0].file.clone();
        diagnostics.truncate(MAX_DIAGNOSTICS);
        diagnostics.push(Diagnostic::of_file(
            &file,
            format!("and {more} more of the same file; correct the first ones and try again"),
        ));
    }
    diagnostics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_on_any_line() {
        let text = format!("é\n{}x\n", "é".repeat(1000));
        let lines = LineIndex::new(&text);
        assert_eq!(lines.line_and_column(0), (1, 1));
        assert_eq!(lines.line_and_column(2), (1, 2));
        assert_eq!(lines.line_and_column(3), (2, 1));
        assert_eq!(lines.line_and_column(3 + 2000), (2, 1001));
        assert_eq!(
            lines.line_and_column(4),
            (2, 1),
            "the middle of a character is that character"
        );
        assert_eq!(lines.line_and_column(usize::MAX), (3, 1));
        for (offset, _) in text.char_indices() {
            let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
            assert_eq!(
                lines.line_and_column(offset).1,
                text[start..offset].chars().count() + 1
            );
        }
    }

    #[test]
    fn a_message_that_repeats_much_of_its_file_is_cut() {
        assert_eq!(shortened("short".to_owned()), "short");
        let cut = shortened("é".repeat(MAX_MESSAGE_BYTES));
        assert_eq!(cut, "é".repeat(MAX_MESSAGE_BYTES / 2) + "…");
        let scheme = "http".repeat(1_000);
        let fault = crate::server_entry::check_url(&format!("{scheme}:x"));
        assert!(fault.is_err_and(|message| message.len() < 200));
    }

    #[test]
    fn control_characters_in_a_path_are_escaped() {
        assert_eq!(visible_path(Path::new("a/b.toml")), "a/b.toml");
        assert_eq!(
            visible_path(Path::new("a\u{1b}[2J/b.toml")),
            "\"a\\u{1b}[2J/b.toml\""
        );
    }
}
