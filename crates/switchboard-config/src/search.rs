//! Finds configuration files if none was given.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

use super::Scope;
use super::load::{ConfigFile, may_exist};

/// A project's files, highest precedence first.
const PROJECT_FILES: [&str; 4] = [
    "switchboard.toml",
    ".mcp.json",
    ".agents/mcp.json",
    ".gemini/settings.json",
];

/// The native file in the user's folder of configurations.
const USER_FILE: &str = "switchboard/switchboard.toml";

/// The other programs' files in the user's home folder.
const HOME_FILES: [&str; 2] = [".agents/mcp.json", ".gemini/settings.json"];

/// Markers of a repository's root, where the search for a project's files ends.
const REPOSITORY_MARKERS: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// The folder of the project that `current` belongs to: the nearest one with a project's file, from
/// `current` up to the root of its repository; `current` itself if there is none. A folder above
/// `current` that belongs to another user, or whose files do, is skipped: [`foreign_project_files`]
/// lists these.
pub fn project_folder(current: &Path) -> PathBuf {
    project_folder_of(current, Uid::effective())
}

fn project_folder_of(current: &Path, user: Uid) -> PathBuf {
    let own = folders_with_files(current).find(|folder| is_usable(folder, current, user));
    own.unwrap_or(current).to_owned()
}

/// The project's files that [`project_folder`] skips, because they or their folder belong to
/// another user: anyone who can write above the current folder could place them there.
pub fn foreign_project_files(current: &Path) -> Vec<PathBuf> {
    foreign_project_files_of(current, Uid::effective())
}

fn foreign_project_files_of(current: &Path, user: Uid) -> Vec<PathBuf> {
    folders_with_files(current)
        .take_while(|folder| !is_usable(folder, current, user))
        .flat_map(project_files_in)
        .collect()
}

/// The folders with a project's file, from `current` up to the root of its repository.
fn folders_with_files(current: &Path) -> impl Iterator<Item = &Path> {
    let is_root = |folder: &&Path| {
        REPOSITORY_MARKERS
            .iter()
            .any(|name| exists(&folder.join(name)))
    };
    let root = current.ancestors().find(is_root).unwrap_or(current);
    current
        .ancestors()
        .take_while(move |folder| folder.starts_with(root))
        .filter(|folder| project_files_in(folder).next().is_some())
}

fn project_files_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = PROJECT_FILES.map(|name| folder.join(name));
    paths.into_iter().filter(|path| exists(path))
}

/// Whether the project's files in this folder may be used: all of them and their folders belong to
/// the user, or it is the current folder.
fn is_usable(folder: &Path, current: &Path, user: Uid) -> bool {
    let is_own = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|found| found.uid() == user.as_raw())
    };
    let mut files = project_files_in(folder);
    folder == current
        || files.all(|file| {
            file.ancestors()
                .take_while(|path| path.starts_with(folder))
                .all(is_own)
        })
}

/// Every path that is searched, highest precedence first: the project's, then the user's own.
pub fn search_order(
    project_folder: &Path,
    config_folder: &Path,
    home_folder: &Path,
) -> Vec<ConfigFile> {
    let projects =
        PROJECT_FILES.map(|name| ConfigFile::new(project_folder.join(name), Scope::Project));
    let user = ConfigFile::new(config_folder.join(USER_FILE), Scope::User);
    let home = HOME_FILES.map(|name| ConfigFile::new(home_folder.join(name), Scope::User));
    projects.into_iter().chain([user]).chain(home).collect()
}

/// The files of the [`search_order`] that exist, and those of the user that cannot be looked up, for
/// which loading reports the error. A project's file behind a symbolic link is left
/// out, because a link could point to a file that was accepted in another project;
/// [`linked_project_files`] lists such files.
pub fn search(project_folder: &Path, config_folder: &Path, home_folder: &Path) -> Vec<ConfigFile> {
    let mut files = search_order(project_folder, config_folder, home_folder);
    files.retain(|file| match file.scope {
        Scope::User => may_exist(&file.path),
        _ => exists(&file.path) && link_on_path(project_folder, &file.path).is_none(),
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
    /// The path that was searched.
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
        .filter(|file| exists(&file.path) && !is_users(&file.path));
    linked
        .filter_map(|file| {
            Some(LinkedFile {
                link: link_on_path(project_folder, &file.path)?,
                file: file.path,
            })
        })
        .collect()
}

/// Whether the path exists; also true for dangling links and folders, for which reading reports the
/// error.
fn exists(path: &Path) -> bool {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// T1: whoever can write to a folder above the current one cannot make us read a file there.
    #[test]
    fn t1_files_of_another_user_above_the_current_folder_are_skipped() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let below = root.join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        let file = root.join("a/.mcp.json");
        std::fs::write(&file, "{}").unwrap();
        let (own, other) = (
            Uid::effective(),
            Uid::from_raw(Uid::effective().as_raw() + 1),
        );

        assert_eq!(project_folder_of(&below, own), root.join("a"));
        assert_eq!(foreign_project_files_of(&below, own), Vec::<PathBuf>::new());
        assert_eq!(project_folder_of(&below, other), below);
        assert_eq!(foreign_project_files_of(&below, other), [file]);
        // The current folder itself is used: nothing starts before it is accepted.
        assert_eq!(project_folder_of(&root.join("a"), other), root.join("a"));
        assert_eq!(
            foreign_project_files_of(&root.join("a"), other),
            Vec::<PathBuf>::new()
        );
    }

    /// T1: deny rules hold, or the run ends: a file of the user that cannot be looked up is not
    /// taken for absent.
    #[test]
    fn a_users_file_that_cannot_be_looked_up_counts_as_existing() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        // A link to itself cannot be followed: what is behind it is unknown.
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        let users_file = at("loop").join(USER_FILE);
        let found = search(&at("project"), &at("loop"), &at("file"));
        assert_eq!(
            found,
            [ConfigFile::new(users_file.clone(), Scope::User)],
            "the file is read, and one below a plain file is absent"
        );
        let errors = crate::load(&found).unwrap_err();
        assert!(
            errors
                .to_string()
                .contains(&users_file.display().to_string()),
            "{errors}"
        );
    }
}
