//! A child process as it will be started: references expanded, the program found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::environment::{Environment, is_passed_on};
use super::expand::Expansion;
use super::reference::TextRole;
use super::sensitive::{is_ordinary, secrets_in_arguments, secrets_of};
use super::{StdioEndpoint, program};
use crate::secret::{Redactor, Secret};

/// A child process as it will be started.
#[derive(Clone)]
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
    /// Every value that must not appear in a log: the entry's own env values and what references
    /// expanded to.
    pub secrets: Vec<Secret>,
}

impl fmt::Debug for ResolvedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments and paths may hold what references expanded to.
        let args = format_args!("[{} arguments]", self.args.len());
        f.debug_struct("ResolvedLaunch")
            .field("args", &args)
            .field("env", &self.env)
            .field("unset", &self.unset)
            .finish_non_exhaustive()
    }
}

/// Expands references against `environment` and finds the program in the child's own PATH. `folder`
/// is the base of relative paths.
pub fn resolve_launch(
    endpoint: &StdioEndpoint,
    folder: &Path,
    environment: &Environment,
) -> Result<ResolvedLaunch, LaunchFault> {
    let mut expansion = Expansion::new(environment, endpoint.syntax);
    let command = expansion.expand_for_launch(TextRole::Launch, "command", &endpoint.command)?;
    let mut args = Vec::with_capacity(endpoint.args.len());
    for (index, arg) in endpoint.args.iter().enumerate() {
        args.push(expansion.expand_for_launch(TextRole::Launch, &format!("args[{index}]"), arg)?);
    }
    let mut own = Vec::with_capacity(endpoint.env.len());
    for (name, value) in &endpoint.env {
        let value = Secret::new(expansion.expand_for_launch(
            TextRole::Value,
            &format!("env.{name}"),
            value.expose(),
        )?);
        expansion.secrets.extend(secrets_of(name, value.expose()));
        own.push((name.clone(), value));
    }
    let cwd = match &endpoint.cwd {
        Some(cwd) => Some(program::absolute(
            folder,
            &expansion.expand_for_launch(TextRole::Launch, "cwd", cwd)?,
        )),
        None => None,
    };
    if let Some(path) = cwd.as_ref().filter(|path| !path.is_dir()) {
        return Err(LaunchFault::BadCwd { path: path.clone() }.without(&expansion.secrets));
    }

    let mut env: BTreeMap<String, Secret> = environment
        .iter()
        .filter(|(name, _)| endpoint.inherit_env || is_passed_on(name))
        .filter(|(name, _)| !endpoint.unset.iter().any(|unset| unset == name))
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    env.extend(own);
    let path = env.get("PATH").map(Secret::expose).unwrap_or_default();
    let program = program::find(&command, &endpoint.command, folder, path)
        .map_err(|fault| fault.without(&expansion.secrets))?;
    let Expansion {
        unset, mut secrets, ..
    } = expansion;
    secrets.extend(secrets_in_arguments(&args));
    secrets.retain(|secret| !is_ordinary(secret.expose()));
    Ok(ResolvedLaunch {
        program,
        argv0: command,
        args,
        env: env.into_iter().collect(),
        cwd,
        unset,
        secrets,
    })
}

/// Why a child process cannot be started, and what to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchFault {
    /// No program of that name in PATH.
    #[error("no program {command:?} in PATH; install it, or give its full path in `command`")]
    NoSuchProgram {
        /// As written.
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
        /// Where it was found.
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
        /// What is wrong with it; never the text.
        fact: &'static str,
    },
}

fn starts_at(folder: Option<&Path>) -> String {
    folder
        .map(|folder| format!(" (relative paths start at {folder:?})"))
        .unwrap_or_default()
}

impl LaunchFault {
    /// The same fault; if its path is below `folder`, because the current folder was not accepted,
    /// it says so.
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
    fn without(mut self, secrets: &[Secret]) -> Self {
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
