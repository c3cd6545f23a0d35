//! Finds the program of a command: in the child's own PATH, or at a path; never in the current
//! folder.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::LaunchFault;

/// The absolute path of `command`. Errors show `as_written`: an expanded command may contain a
/// secret.
pub(super) fn find(
    command: &str,
    as_written: &str,
    folder: &Path,
    path: &str,
) -> Result<PathBuf, LaunchFault> {
    if command.contains('/') {
        let starts_at = Path::new(command).is_relative().then(|| folder.to_owned());
        return at_path(&absolute(folder, command)).map_err(|fault| match fault {
            LaunchFault::NoSuchFile { path, .. } => LaunchFault::NoSuchFile {
                path,
                folder: starts_at,
            },
            other => other,
        });
    }
    let mut not_executable = None;
    if !command.is_empty() {
        // Empty and relative parts would mean the current folder, whose content is not trusted.
        for part in path
            .split(':')
            .map(Path::new)
            .filter(|part| part.is_absolute())
        {
            match at_path(&part.join(command)) {
                Ok(program) => return Ok(program),
                Err(fault @ LaunchFault::NotExecutable { .. }) => {
                    not_executable.get_or_insert(fault);
                }
                Err(_) => {}
            }
        }
    }
    Err(
        not_executable.unwrap_or_else(|| LaunchFault::NoSuchProgram {
            command: as_written.to_owned(),
        }),
    )
}

/// Joins a path to the file's folder, without `.` components.
pub(crate) fn absolute(folder: &Path, path: &str) -> PathBuf {
    let joined = folder.join(path);
    std::path::absolute(&joined)
        .unwrap_or(joined)
        .components()
        .collect()
}

fn at_path(path: &Path) -> Result<PathBuf, LaunchFault> {
    if !path.is_file() {
        return Err(LaunchFault::NoSuchFile {
            path: path.to_owned(),
            folder: None,
        });
    }
    match access(path, AccessFlags::X_OK) {
        Ok(()) => Ok(path.to_owned()),
        Err(_) => Err(LaunchFault::NotExecutable {
            path: path.to_owned(),
        }),
    }
}
