//! Why a child process cannot be started.

use std::path::{Path, PathBuf};

use crate::secret::{Redactor, Secret};

/// Why a child process cannot be started, and what to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchFault {
    /// No program of that name in PATH.
    #[error("no program {command:?} in PATH; install it, or give its full path in `command`")]
    NoSuchProgram {
        /// The command as written.
        command: String,
    },
    /// No file at that path.
    #[error("there is no file {path:?}; correct `command`{}", starts_at(.folder.as_deref()))]
    NoSuchFile {
        /// The expanded path.
        path: PathBuf,
        /// The base of the path, if it was written as a relative one.
        folder: Option<PathBuf>,
    },
    /// The file is not executable.
    #[error("{path:?} is not executable; try `chmod +x`")]
    NotExecutable {
        /// The path of the file.
        path: PathBuf,
    },
    /// The working folder does not exist.
    #[error("the working folder {path:?} does not exist or is not a folder; correct `cwd`")]
    BadCwd {
        /// The expanded path.
        path: PathBuf,
    },
    /// A relative path of the user's own file starts at the current folder, which the user has not
    /// accepted.
    #[error(
        "`{field}` is relative to the current folder, in which your own servers do not run yet; \
         accept the folder, or write the whole path"
    )]
    FolderNotAccepted {
        /// The field.
        field: &'static str,
    },
    /// A value contains a zero byte, or a malformed reference.
    #[error("`{field}` cannot be passed to a program: {fact}")]
    BadText {
        /// The field.
        field: String,
        /// The error; never the text.
        fact: &'static str,
    },
}

fn starts_at(folder: Option<&Path>) -> String {
    folder
        .map(|folder| format!(" (relative paths start at {folder:?})"))
        .unwrap_or_default()
}

impl LaunchFault {
    /// Says that the current folder was not accepted, if the path of the fault is below `folder`.
    pub fn not_accepted_below(self, folder: &Path) -> Self {
        match self {
            Self::NoSuchFile { path, .. } if path.starts_with(folder) => {
                Self::FolderNotAccepted { field: "command" }
            }
            Self::BadCwd { path } if path.starts_with(folder) => {
                Self::FolderNotAccepted { field: "cwd" }
            }
            other => other,
        }
    }

    /// Removes secrets from the paths in the message.
    pub(super) fn without(mut self, secrets: &[Secret]) -> Self {
        if let Self::NoSuchFile { path, .. }
        | Self::NotExecutable { path }
        | Self::BadCwd { path } = &mut self
        {
            *path = Redactor::new(secrets.iter().cloned())
                .redact(&path.to_string_lossy())
                .into_owned()
                .into();
        }
        self
    }
}
