//! What is wrong in a file, or odd: with file, line, column, the field and what was expected.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One finding in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file.
    pub file: Arc<PathBuf>,
    /// 1-based line; 0 where the file as a whole is meant.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// The field, dotted: `servers.git.command`.
    pub field: String,
    /// The fact and what was expected.
    pub message: String,
}

impl Diagnostic {
    /// A finding about a file as a whole.
    pub(crate) fn of_file(file: &Arc<PathBuf>, message: impl Into<String>) -> Self {
        Self { file: file.clone(), line: 0, column: 0, field: String::new(), message: message.into() }
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

/// Everything wrong in the files, at once. Nothing starts while there is any.
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

/// A path as text in which every control or invisible character shows: a folder's name is a stranger's text too.
pub(crate) fn visible_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let quoted = format!("{text:?}");
    // Debug escapes quotes and backslashes too; those alone are no reason to show a path in quotes.
    if quoted.len() == text.len() + 2 { text.into_owned() } else { quoted }
}

/// A key as it stands in a dotted field: bare where TOML allows it, quoted and escaped elsewhere.
pub(super) fn visible_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    match key.char_indices().nth(LONGEST_KEY) {
        Some((end, _)) => format!("{:?}…", &key[..end]),
        None if bare => key.to_owned(),
        None => format!("{key:?}"),
    }
}

/// A longer key is shown cut: it is no name that anybody meant.
const LONGEST_KEY: usize = 80;

/// Where lines begin, to turn an offset into line and column.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    /// 1-based line and column (in characters) of a byte offset.
    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let line = self.starts.partition_point(|start| *start <= offset);
        let column = self.text[self.starts[line - 1]..offset].chars().count() + 1;
        (line, column)
    }

    /// 1-based line of a byte offset.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.place(offset).0
    }
}

/// Collects what one file has to be told, in the order of the file.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    pub(super) file: Arc<PathBuf>,
    pub(super) lines: Lines<'a>,
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
    /// Lines that are not TOML: what is found on them besides would only repeat it.
    pub(super) broken_lines: Vec<usize>,
}

/// More findings than this in one file help nobody.
const MAX_FINDINGS: usize = 100;

impl<'a> Findings<'a> {
    pub(super) fn new(file: Arc<PathBuf>, text: &'a str) -> Self {
        Self { file, lines: Lines::new(text), errors: Vec::new(), warnings: Vec::new(), broken_lines: Vec::new() }
    }

    pub(super) fn error(&mut self, offset: usize, field: impl Into<String>, message: impl Into<String>) {
        let finding = self.finding(offset, field.into(), message.into());
        if !self.broken_lines.contains(&finding.line) {
            self.errors.push(finding);
        }
    }

    /// As [`error`](Self::error), for something missing: a broken line may be what holds it.
    pub(super) fn missing(&mut self, offset: usize, field: impl Into<String>, message: impl Into<String>) {
        if self.broken_lines.is_empty() {
            self.error(offset, field, message);
        }
    }

    /// As [`error`](Self::error), for text that is not TOML.
    pub(super) fn broken(&mut self, offset: Option<usize>, message: impl Into<String>) {
        let finding = match offset {
            Some(offset) => self.finding(offset, String::new(), message.into()),
            None => Diagnostic::of_file(&self.file, message),
        };
        self.broken_lines.push(finding.line);
        self.errors.push(finding);
    }

    pub(super) fn warn(&mut self, offset: usize, field: impl Into<String>, message: impl Into<String>) {
        let finding = self.finding(offset, field.into(), message.into());
        self.warnings.push(finding);
    }

    /// Errors and warnings, each in the order of the file and bounded.
    pub(super) fn finish(self) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
        (bounded(self.errors), bounded(self.warnings))
    }

    fn finding(&self, offset: usize, field: String, message: String) -> Diagnostic {
        let (line, column) = self.lines.place(offset);
        Diagnostic { file: self.file.clone(), line, column, field, message }
    }
}

fn bounded(mut findings: Vec<Diagnostic>) -> Vec<Diagnostic> {
    findings.sort_by_key(|finding| (finding.line, finding.column));
    let more = findings.len().saturating_sub(MAX_FINDINGS);
    if more > 0 {
        let file = findings[0].file.clone();
        findings.truncate(MAX_FINDINGS);
        findings
            .push(Diagnostic::of_file(&file, format!("and {more} more of the same file; correct the first ones and try again")));
    }
    findings
}
