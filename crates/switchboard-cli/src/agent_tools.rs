//! The built-in tools of `run` and `chat`: their folders, their denylist and their environment.

use std::path::PathBuf;
use std::sync::Arc;

use switchboard::HostTool;
use switchboard::config::{Config, Environment};
use switchboard::launch::Launcher;
use switchboard::secret::Secret;
use switchboard_agent::builtin_tools::{BuiltinTools, Denylist, Workspace, forget_old_results};
use switchboard_agent::settings::all_key_variables;

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
    denylist: &Denylist,
) -> Result<Vec<Arc<dyn HostTool>>, Failure> {
    if folders.is_empty() {
        return Ok(Vec::new());
    }
    apply_rules(denylist, config)?;
    let workspace = Workspace::open(folders).map_err(|error| {
        usage(format!(
            "the folder for built-in tools cannot be used: {error}"
        ))
    })?;
    forget_old_results(&paths.results());
    let results = paths.conversation_results();
    let tools = BuiltinTools::new(workspace).results_folder(&results);
    let tools = tools.map_err(|error| {
        let folder = escaped(&results.display().to_string());
        usage(format!("{folder} cannot be used for results: {error}"))
    })?;
    Ok(tools
        .launcher(launcher.clone())
        .environment(command_environment(config, environment))
        .denylist(denylist.clone())
        .build())
}

/// Replaces the rules by the deny rules for commands, which apply in every mode.
pub(crate) fn apply_rules(denylist: &Denylist, config: &Config) -> Result<(), Failure> {
    let deny = config.permissions.deny.iter();
    let rules = deny.filter_map(|rule| rule.text.strip_prefix(COMMAND_RULE));
    let replaced = denylist.replace_rules(rules);
    replaced.map_err(|fact| usage(format!("deny rule for a command: {fact}")))
}

/// The environment of commands: without the keys of model vendors, and without the key in `[model]`
/// under any name.
fn command_environment(config: &Config, environment: &Environment) -> Environment {
    let entry = config.model.as_ref();
    let entry = entry.and_then(|entry| entry.resolve(environment).ok());
    let own_key = entry.and_then(|entry| entry.api_key);
    let own_key = own_key.as_ref().map(Secret::expose);
    let variables = environment.iter().filter(|(name, value)| {
        all_key_variables().all(|variable| variable != *name) && own_key != Some(value.expose())
    });
    Environment::new(variables.map(|(name, value)| (name.to_owned(), value.expose().to_owned())))
}

fn usage(message: String) -> Failure {
    Failure::new(Code::Usage, message)
}
