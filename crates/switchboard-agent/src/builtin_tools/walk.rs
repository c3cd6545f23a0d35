//! The files below a folder, in the order of their paths, without those that `.gitignore` names.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use nix::fcntl::OFlag;

use super::blocking::StopSignal;
use super::workspace::{FollowLinks, WorkspacePath};

/// Calls `visit` with each file's path below `base`, until it returns false or the signal is set.
/// Directories are listed by path, so a file counts only after it was opened below the workspace.
pub(super) fn visit_files(
    base: &WorkspacePath<'_>,
    stop: &StopSignal,
    mut visit: impl FnMut(&Path) -> bool,
) -> Result<(), String> {
    base.open(OFlag::O_RDONLY | OFlag::O_NONBLOCK, FollowLinks::Inside)?;
    let root = base.path();
    let walk = WalkBuilder::new(&root)
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    // Unreadable entries are left out, as by other tools.
    for entry in walk.flatten() {
        if stop.is_set() {
            break;
        }
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let relative = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        if !visit(relative) {
            break;
        }
    }
    Ok(())
}

/// A path as it is shown: relative to the first folder if it is inside, else absolute.
pub(super) fn shown_path(place: &WorkspacePath<'_>, first: &Path) -> String {
    let path: PathBuf = place.path();
    let shown = path.strip_prefix(first).unwrap_or(&path);
    shown.display().to_string()
}
