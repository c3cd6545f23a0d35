//! The agent's own tools, for `run` and `chat`.

use std::path::PathBuf;
use std::sync::Arc;

use switchboard::HostTool;
use switchboard_agent::builtin_tools::{BuiltinTools, Workspace};

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::view::server::escaped;

/// The folders that the tools may use: the current one, and those given with `--root`.
pub(crate) fn workspace(paths: &Paths, options: &Options) -> Vec<PathBuf> {
    let given = options.root.iter().cloned();
    std::iter::once(paths.current.clone())
        .chain(given)
        .collect()
}

/// The tools of these folders; none where there is no folder.
pub(crate) fn build(folders: &[PathBuf], paths: &Paths) -> Result<Vec<Arc<dyn HostTool>>, Failure> {
    if folders.is_empty() {
        return Ok(Vec::new());
    }
    let workspace = Workspace::open(folders).map_err(|error| {
        Failure::new(
            Code::Usage,
            format!("the current folder cannot be used: {error}"),
        )
    })?;
    let tools = BuiltinTools::new(workspace).results_folder(paths.results());
    let tools = tools.map_err(|error| {
        let folder = escaped(&paths.results().display().to_string());
        Failure::new(
            Code::Usage,
            format!("{folder} cannot be used for results: {error}"),
        )
    })?;
    Ok(tools.build())
}
