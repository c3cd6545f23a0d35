//! Where files are looked for that nobody gave.

use std::path::Path;

use super::{ConfigFile, Scope};

/// A project's files, highest precedence first.
const OF_PROJECT: [&str; 4] = ["switchboard.toml", ".mcp.json", ".agents/mcp.json", ".gemini/settings.json"];

/// The native file in the user's folder of configurations.
const OF_USER: &str = "switchboard/switchboard.toml";

/// The other programs' files in the user's home folder.
const OF_HOME: [&str; 2] = [".agents/mcp.json", ".gemini/settings.json"];

/// Every file that is looked for, there or not, highest precedence first: the project's, then the user's own.
pub fn search_order(project_folder: &Path, config_folder: &Path, home_folder: &Path) -> Vec<ConfigFile> {
    let projects = OF_PROJECT.map(|name| ConfigFile::new(project_folder.join(name), Scope::Project));
    let user = ConfigFile::new(config_folder.join(OF_USER), Scope::User);
    let home = OF_HOME.map(|name| ConfigFile::new(home_folder.join(name), Scope::User));
    projects.into_iter().chain([user]).chain(home).collect()
}

/// The files of the [`search_order`] that exist.
pub fn search(project_folder: &Path, config_folder: &Path, home_folder: &Path) -> Vec<ConfigFile> {
    let mut files = search_order(project_folder, config_folder, home_folder);
    // A dangling link or a folder of that name is there: reading it says what is wrong.
    files.retain(|file| file.path.symlink_metadata().is_ok());
    let place = |file: &ConfigFile| file.path.canonicalize().ok();
    let users: Vec<_> = files.iter().filter(|file| file.scope == Scope::User).filter_map(place).collect();
    // In the user's own folder a project's file may be the user's own: then it is that.
    files.retain(|file| file.scope == Scope::User || place(file).is_none_or(|place| !users.contains(&place)));
    files
}
