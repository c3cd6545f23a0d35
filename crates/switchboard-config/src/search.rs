//! Finds configuration files if none was given.

use std::path::{Path, PathBuf};

use super::{ConfigFile, Scope};

/// A project's files, highest precedence first.
const OF_PROJECT: [&str; 4] = [
    "switchboard.toml",
    ".mcp.json",
    ".agents/mcp.json",
    ".gemini/settings.json",
];

/// The native file in the user's folder of configurations.
const OF_USER: &str = "switchboard/switchboard.toml";

/// The other programs' files in the user's home folder.
const OF_HOME: [&str; 2] = [".agents/mcp.json", ".gemini/settings.json"];

/// Markers of a repository's root, where the search for a project's files ends.
const OF_REPOSITORY: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// The folder of the project that `current` belongs to: the nearest one with a project's file, from
/// `current` up to the root of its repository; `current` itself if there is none.
pub fn project_folder(current: &Path) -> PathBuf {
    let has_any =
        |folder: &Path, names: &[&str]| names.iter().any(|name| is_there(&folder.join(name)));
    let root = current
        .ancestors()
        .find(|folder| has_any(folder, &OF_REPOSITORY))
        .unwrap_or(current);
    let inside = current
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    let mut with_files = inside.filter(|folder| has_any(folder, &OF_PROJECT));
    with_files.next().unwrap_or(current).to_owned()
}

/// Every path that is searched, highest precedence first: the project's, then the user's own.
pub fn search_order(
    project_folder: &Path,
    config_folder: &Path,
    home_folder: &Path,
) -> Vec<ConfigFile> {
    let projects =
        OF_PROJECT.map(|name| ConfigFile::new(project_folder.join(name), Scope::Project));
    let user = ConfigFile::new(config_folder.join(OF_USER), Scope::User);
    let home = OF_HOME.map(|name| ConfigFile::new(home_folder.join(name), Scope::User));
    projects.into_iter().chain([user]).chain(home).collect()
}

/// The files of the [`search_order`] that exist. A project's file behind a symbolic link is left
/// out, because a link could lead to what was accepted in another project; [`linked_project_files`]
/// lists such files.
pub fn search(project_folder: &Path, config_folder: &Path, home_folder: &Path) -> Vec<ConfigFile> {
    let mut files = search_order(project_folder, config_folder, home_folder);
    files.retain(|file| {
        is_there(&file.path)
            && (file.scope == Scope::User || link_on_path(project_folder, &file.path).is_none())
    });
    let place = |file: &ConfigFile| file.path.canonicalize().ok();
    let users: Vec<_> = files
        .iter()
        .filter(|file| file.scope == Scope::User)
        .filter_map(place)
        .collect();
    // In the home folder, a project's path may be the user's own file: then it counts as the
    // user's.
    files.retain(|file| {
        file.scope == Scope::User || place(file).is_none_or(|place| !users.contains(&place))
    });
    files
}

/// A project's file that is not read because its path contains a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedFile {
    /// Where it was looked for.
    pub file: PathBuf,
    /// The link: the file itself, or a folder on the way to it.
    pub link: PathBuf,
}

/// The project's files that [`search`] leaves out. The user's own files may be links.
pub fn linked_project_files(
    project_folder: &Path,
    config_folder: &Path,
    home_folder: &Path,
) -> Vec<LinkedFile> {
    let order = search_order(project_folder, config_folder, home_folder);
    let (projects, users): (Vec<_>, Vec<_>) = order
        .into_iter()
        .partition(|file| file.scope == Scope::Project);
    let is_users = |path: &Path| users.iter().any(|file| file.path == path);
    let linked = projects
        .into_iter()
        .filter(|file| is_there(&file.path) && !is_users(&file.path));
    linked
        .filter_map(|file| {
            Some(LinkedFile {
                link: link_on_path(project_folder, &file.path)?,
                file: file.path,
            })
        })
        .collect()
}

/// True for dangling links and folders too: reading them reports the error.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The symbolic link between a folder and a file in it, if there is one.
fn link_on_path(folder: &Path, file: &Path) -> Option<PathBuf> {
    let below: Vec<_> = file
        .ancestors()
        .take_while(|path| *path != folder)
        .collect();
    below
        .into_iter()
        .rev()
        .find(|path| path.is_symlink())
        .map(Path::to_owned)
}
