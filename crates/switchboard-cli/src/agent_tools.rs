//! The built-in tools of `run` and `chat`: their folders, their denylist and their environment.

use std::path::PathBuf;
use std::sync::Arc;

use switchboard::HostTool;
use switchboard::config::{Config, Environment};
use switchboard::launch::Launcher;
use switchboard_agent::ModelVendor;
use switchboard_agent::builtin_tools::{BuiltinTools, Denylist, Workspace};

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::view::server::escaped;

/// The prefix of deny rules for commands of Bash: `bash:git push*`.
const COMMAND_RULE: &str = "bash:";

/// The folders that the tools may use: the current one, and those given with `--root`.
pub(crate) fn workspace(paths: &Paths, options: &Options) -> Vec<PathBuf> {
    let roots = options.root.iter().cloned();
    std::iter::once(paths.current.clone())
        .chain(roots)
        .collect()
}

/// The tools for these folders; none without a folder.
pub(crate) fn build(
    folders: &[PathBuf],
    paths: &Paths,
    config: &Config,
    environment: &Environment,
    launcher: &Launcher,
) -> Result<Vec<Arc<dyn HostTool>>, Failure> {
    if folders.is_empty() {
        return Ok(Vec::new());
    }
    let workspace = Workspace::open(folders).map_err(|error| {
        usage(format!(
            "the folder for built-in tools cannot be used: {error}"
        ))
    })?;
    let tools = BuiltinTools::new(workspace).results_folder(paths.results());
    let tools = tools.map_err(|error| {
        let folder = escaped(&paths.results().display().to_string());
        usage(format!("{folder} cannot be used for results: {error}"))
    })?;
    Ok(tools
        .launcher(launcher.clone())
        .environment(command_environment(environment))
        .denylist(denylist(config)?)
        .build())
}

/// The deny rules for commands, which apply in every mode (S0-26).
fn denylist(config: &Config) -> Result<Denylist, Failure> {
    let deny = config.permissions.deny.iter();
    let rules = deny.filter_map(|rule| rule.text.strip_prefix(COMMAND_RULE));
    Denylist::new(rules).map_err(|fact| usage(format!("deny rule for a command: {fact}")))
}

/// The environment of commands: without the keys of model vendors.
fn command_environment(environment: &Environment) -> Environment {
    let is_key = |name: &str| {
        let vendors = ModelVendor::ALL.into_iter();
        let mut keys = vendors.flat_map(ModelVendor::key_variables);
        keys.any(|key| *key == name)
    };
    let variables = environment.iter().filter(|(name, _)| !is_key(name));
    Environment::new(variables.map(|(name, value)| (name.to_owned(), value.expose().to_owned())))
}

fn usage(message: String) -> Failure {
    Failure::new(Code::Usage, message)
}
