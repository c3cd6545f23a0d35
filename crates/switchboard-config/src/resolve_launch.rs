//! A child process as it will be started: references expanded, the program found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::expand::Expansion;
use super::reference::TextRole;
use super::sensitive::{is_ordinary, secrets_in_arguments, secrets_of};
use super::{LaunchFault, StdioEndpoint, program};
use crate::secret::Secret;

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
    /// The working folder.
    pub cwd: Option<PathBuf>,
    /// References to unset variables: (variable, field).
    pub unset: Vec<(String, String)>,
    /// Every value that must not appear in a log: the entry's own env values and the expanded
    /// references.
    pub secrets: Vec<Secret>,
}

impl fmt::Debug for ResolvedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments and paths may contain expanded references.
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
        .filter(|(name, _)| endpoint.inherits(name))
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
