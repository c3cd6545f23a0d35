//! References in values, expanded in one pass when a server starts; and the child's environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::StdioEndpoint;
use crate::secret::Secret;

/// The variables a host was handed. The library never reads the process's own.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, Secret>);

impl Environment {
    /// Takes the variables, as from `std::env::vars()`.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
    }

    /// One variable.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// A child process as it will be started: everything expanded, the program found.
#[derive(Debug, Clone)]
pub struct ResolvedLaunch {
    /// Absolute path, found in the child's PATH.
    pub program: PathBuf,
    /// `argv[0]`, as written.
    pub argv0: String,
    /// The arguments.
    pub args: Vec<String>,
    /// The child's whole environment.
    pub env: Vec<(String, Secret)>,
    /// Its working folder.
    pub cwd: Option<PathBuf>,
    /// References to variables that are not set: (variable, field).
    pub unset: Vec<(String, String)>,
    /// Every value that must not show up in a log: the entry's own env values and what references expanded to.
    pub secrets: Vec<Secret>,
}

/// Why a child cannot be started as written. Each tells what to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchFault {
    /// Nothing of that name in PATH.
    #[error("no program {command:?} in PATH; install it, or give its full path in `command`")]
    NoSuchProgram {
        /// As written.
        command: String,
    },
    /// It is there, and cannot be run.
    #[error("{path:?} is not executable; try `chmod +x`")]
    NotExecutable {
        /// Where it was found.
        path: PathBuf,
    },
    /// The working folder is not one.
    #[error("the working folder {path:?} does not exist or is not a folder; correct `cwd`")]
    BadCwd {
        /// The expanded path.
        path: PathBuf,
    },
}

/// Expands references against `environment` in one pass and finds the program in the child's own PATH. `folder` is the file's folder.
pub fn resolve_launch(
    endpoint: &StdioEndpoint,
    folder: &std::path::Path,
    environment: &Environment,
) -> Result<ResolvedLaunch, LaunchFault> {
    let _ = (endpoint, folder, environment);
    todo!()
}
