//! Reports configuration files of other programs that exist but are not read, once each, with the
//! command that reads it.

use std::path::PathBuf;

use switchboard::config::{self, ConfigFile, Scope};
use switchboard::store::{Store, StoreTable};

use crate::paths::Paths;
use crate::view::counted;
use crate::view::server::escaped;
use crate::{hints, output};

/// In a project: VS Code and Cursor.
const IN_PROJECT: [&str; 2] = [".vscode/mcp.json", ".cursor/mcp.json"];
/// In the home folder: Codex, Cursor and Claude Code.
const IN_HOME: [&str; 3] = [".codex/config.toml", ".cursor/mcp.json", ".claude.json"];
/// In the configuration folder: Claude's desktop program and VS Code.
const IN_CONFIG: [&str; 2] = ["Claude/claude_desktop_config.json", "Code/User/mcp.json"];

/// Prints a notice for each such file with servers, unless it was reported before.
pub(crate) fn report(paths: &Paths, store: &dyn Store) {
    // A project's file is read only from a path without symbolic links.
    let is_no_link = |path: &PathBuf| path.canonicalize().is_ok_and(|real| real == *path);
    let all = IN_PROJECT
        .map(|name| paths.project.join(name))
        .into_iter()
        .filter(is_no_link)
        .chain(IN_HOME.map(|name| paths.home.join(name)))
        .chain(IN_CONFIG.map(|name| paths.config.join(name)));
    for file in all.filter(|file| file.is_file()) {
        let key = file.display().to_string();
        let was_reported = store
            .get(StoreTable::Notices, &key)
            .is_ok_and(|value| value.is_some());
        if was_reported {
            continue;
        }
        let Some(count) = server_count(&file) else {
            continue;
        };
        let (servers, read) = (
            counted(count, "server"),
            hints::with_file(&file, None, &[], &[]),
        );
        // A file given with `-c` is trusted for that run, and this one may be somebody else's.
        let warning = if file.starts_with(&paths.project) && paths.project != paths.home {
            " and starts its servers without asking"
        } else {
            ""
        };
        output::notice(&format!(
            "{} has {servers} and is not read; {read} reads it{warning}",
            escaped(&key)
        ));
        // If this fails, the notice is printed again next time.
        let _ = store.put(StoreTable::Notices, &key, "true");
    }
}

/// The number of its servers; `None` if there are none or it cannot be read.
fn server_count(file: &PathBuf) -> Option<usize> {
    let config = config::load(&[ConfigFile::new(file, Scope::Given)]).ok()?;
    Some(config.servers.len()).filter(|count| *count > 0)
}
