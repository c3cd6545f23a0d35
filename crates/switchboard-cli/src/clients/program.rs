//! Programs on the PATH, and the command for this program in an entry.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::{Code, Failure};

/// The first program of this name on the PATH. Relative folders of the PATH are passed over.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The command for this program in an entry: `switchboard` if the client is started from a shell and
/// the PATH finds this program, else an absolute path. A link on the PATH is preferred to its target,
/// which an update may change.
pub(crate) fn own(is_desktop: bool) -> Result<String, Failure> {
    let running = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| {
            Failure::new(
                Code::Usage,
                format!("the path of this program is not known: {error}"),
            )
        })?;
    let on_path = find("switchboard")
        .filter(|found| found.canonicalize().is_ok_and(|found| found == running));
    let path = match on_path {
        Some(_) if !is_desktop => return Ok("switchboard".to_owned()),
        Some(found) => found,
        None => running,
    };
    path.into_os_string().into_string().map_err(|_| {
        Failure::new(
            Code::Usage,
            "the path of this program is not UTF-8 text, and clients' files are",
        )
    })
}
