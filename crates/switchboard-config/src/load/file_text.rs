//! The text of a configuration file: opened without blocking, bounded in size, UTF-8.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;

use crate::format::Format;
use crate::{Diagnostic, Scope};

const MIB: u64 = 1024 * 1024;

/// Larger files are refused: they are a mistake, or an attempt to exhaust memory.
const MAX_FILE_MIB: u64 = 1;

/// The same for JSON given with `-c`: Claude Code's own file, which has its history, grows to
/// several MiB.
const MAX_GIVEN_JSON_MIB: u64 = 16;

/// The text of a file.
pub(super) fn read(path: &Arc<PathBuf>, scope: Scope) -> Result<String, Vec<Diagnostic>> {
    let bytes =
        read_bytes(path, scope).map_err(|message| vec![Diagnostic::of_file(path, message)])?;
    as_text(&bytes, path).map(str::to_owned)
}

fn as_text<'t>(bytes: &'t [u8], shown: &Arc<PathBuf>) -> Result<&'t str, Vec<Diagnostic>> {
    std::str::from_utf8(bytes).map_err(|fault| {
        let (line, column) = line_and_column_of_byte(bytes, fault.valid_up_to());
        vec![Diagnostic {
            file: shown.clone(),
            line,
            column,
            field: String::new(),
            message: "not UTF-8 text; save the file as UTF-8".to_owned(),
        }]
    })
}

/// Whether the path may exist: also true for one that cannot be looked up, for example in a folder
/// that the user may not enter. Reading such a file reports the error. If it counted as absent, the
/// deny rules in it would be lost without a word.
pub(crate) fn may_exist(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.map_or_else(|error| !means_absent(error.kind()), |_| true)
}

/// Whether an error of looking a path up means that there is nothing.
fn means_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn read_bytes(path: &Path, scope: Scope) -> Result<Vec<u8>, String> {
    // A named pipe in a project must not block: it is opened without blocking, and refused below.
    let flags = if scope == Scope::Given {
        OFlag::empty()
    } else {
        OFlag::O_NONBLOCK
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
        .map_err(|fault| match fault.kind() {
            ErrorKind::NotFound if path.is_symlink() => {
                "is a symbolic link that leads nowhere".to_owned()
            }
            _ => unreadable(fault),
        })?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err("is a folder; expected a file".to_owned());
    }
    if !metadata.is_file() && scope != Scope::Given {
        return Err("is not a regular file; expected one".to_owned());
    }
    let max_mib = match scope == Scope::Given && Format::of(path) == Some(Format::Json) {
        true => MAX_GIVEN_JSON_MIB,
        false => MAX_FILE_MIB,
    };
    let mut text = Vec::new();
    file.take(max_mib * MIB + 1)
        .read_to_end(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > max_mib * MIB {
        return Err(format!(
            "larger than {max_mib} MiB, which no configuration is; is it the right file?"
        ));
    }
    Ok(text)
}

fn unreadable(fault: std::io::Error) -> String {
    match fault.kind() {
        ErrorKind::NotFound => "no such file; correct the path".to_owned(),
        ErrorKind::PermissionDenied => {
            "cannot be read: permission denied; try `chmod u+r`, or another file".to_owned()
        }
        _ => format!("cannot be read: {fault}"),
    }
}

fn line_and_column_of_byte(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    (
        line,
        String::from_utf8_lossy(&before[line_start..])
            .chars()
            .count()
            + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The superuser can read every file, so the message is produced directly.
    #[test]
    fn a_file_without_permission_is_reported_with_the_next_step() {
        assert_eq!(
            unreadable(ErrorKind::PermissionDenied.into()),
            "cannot be read: permission denied; try `chmod u+r`, or another file"
        );
    }

    #[test]
    fn only_a_missing_file_or_folder_means_absent() {
        for kind in [ErrorKind::NotFound, ErrorKind::NotADirectory] {
            assert!(means_absent(kind), "{kind:?}");
        }
        for kind in [
            ErrorKind::PermissionDenied,
            ErrorKind::StaleNetworkFileHandle,
            ErrorKind::Other,
        ] {
            assert!(!means_absent(kind), "{kind:?}");
        }
    }
}
