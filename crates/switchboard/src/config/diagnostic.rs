//! What is wrong in a file, or odd: with file, line, column, the field and what was expected.

use std::fmt;
use std::path::PathBuf;
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

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
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
