//! Files that only their owner can read: 0600 in a 0700 folder, without following links, replaced
//! atomically.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Creates a folder that only its owner can enter, or checks that an existing one is such.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(folder)?;
    let metadata = std::fs::metadata(folder)?;
    let us = nix::unistd::geteuid();
    if !us.is_root() && metadata.uid() != us.as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "this folder belongs to another user; choose one of your own",
        ));
    }
    if metadata.mode() & 0o777 != FOLDER_MODE {
        std::fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))?;
    }
    Ok(())
}

/// Reads a regular file, following no link; `None` if there is none.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Non-blocking: a pipe in its place would block forever.
    let mut file = match OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
    {
        Ok(file) => file,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(explain_link(fault)),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file; remove it",
        ));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Replaces a file atomically. The caller has the lock, so nobody else uses the temporary name.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = with_suffix(path, ".new");
    let written = write_new(&new, bytes).and_then(|()| std::fs::rename(&new, path));
    if let Err(fault) = written {
        // On a full disk, remove the partial file.
        let _ = std::fs::remove_file(&new);
        return Err(fault);
    }
    // The rename is durable once the folder is synced.
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Renames a file to a free name and returns that.
pub(super) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..1000 {
        let kept_as = with_suffix(path, &format!(".damaged-{number}"));
        if kept_as.symlink_metadata().is_err() {
            std::fs::rename(path, &kept_as)?;
            return Ok(kept_as);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "a thousand damaged copies are kept beside it; remove some",
    ))
}

/// Whether [`set_aside`] renamed this file.
pub(super) fn was_set_aside(path: &Path) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| extension.starts_with("damaged-"))
}

/// Opens or creates a lock file.
pub fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
        .map_err(explain_link)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A leftover of a crash, or a planted link: removed, never written to.
    match std::fs::remove_file(path) {
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn explain_link(fault: io::Error) -> io::Error {
    if fault.raw_os_error() == Some(nix::libc::ELOOP) {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a symbolic link, which is never followed here; remove it",
        )
    } else {
        fault
    }
}
