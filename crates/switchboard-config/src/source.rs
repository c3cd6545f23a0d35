//! The source of settings: the file, its owner, and the position in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where an entry is written, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file; its folder is absolute and without symbolic links.
    pub file: Arc<PathBuf>,
    /// The base of relative paths: the file's folder, or the project's if the dialect keeps its
    /// file in a folder of its own.
    pub folder: Arc<PathBuf>,
    /// 1-based line of the entry's head.
    pub line: usize,
    /// Whose file it is.
    pub scope: Scope,
    /// The entry of the same name that this one replaced. Of several it is the nearest, but one of
    /// the user's own files comes before those of the project.
    pub shadows: Option<ShadowedEntry>,
}

/// The place of an entry that was replaced by one of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowedEntry {
    /// Its file.
    pub file: Arc<PathBuf>,
    /// Whose file it is.
    pub scope: Scope,
}

impl Source {
    /// No file: an embedder's own code, trusted like a file given with `-c`. Relative paths start
    /// at the process's working folder.
    pub fn code() -> Self {
        Self::new(Arc::new(PathBuf::from("(code)")), 1, Scope::Given)
    }

    /// An entry of a file; relative paths start at its folder.
    pub fn new(file: Arc<PathBuf>, line: usize, scope: Scope) -> Self {
        let folder = Arc::new(file.parent().map(Path::to_owned).unwrap_or_default());
        Self {
            file,
            folder,
            line,
            scope,
            shadows: None,
        }
    }
}

/// Who wrote a file, which decides how far it is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The user: trusted.
    User,
    /// A project: its servers do not start, and its permissions do not apply, until a person has
    /// accepted them.
    Project,
    /// Given with `-c`: trusted for this run.
    Given,
}

/// A position in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file, as it was given.
    pub file: Arc<PathBuf>,
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
}
