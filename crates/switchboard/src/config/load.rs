//! Reads files and merges them by whole entries.

use std::path::PathBuf;

use super::{Config, ConfigErrors};

/// Whose file it is: decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The user's own: trusted.
    User,
    /// A project's: inert until trusted, can only tighten.
    Project,
    /// Given with `-c`: trusted for this run.
    Given,
}

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub scope: Scope,
}

/// Reads the files, highest precedence first, and merges them. All errors of all files come back at once.
pub fn load(files: &[ConfigFile]) -> Result<Config, ConfigErrors> {
    let _ = files;
    todo!()
}
