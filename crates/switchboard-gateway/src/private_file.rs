//! Files that only their owner can read: 0600, read without following a link, changed under a lock.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// Reads a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Changes a file under a lock that also holds against other processes. `change` gets the text that
/// is there and returns the new one, or `None` to leave it. The file is replaced atomically.
pub(crate) fn update<T>(
    path: &Path,
    change: impl FnOnce(Option<String>) -> io::Result<(Option<String>, T)>,
) -> io::Result<T> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let lock = open_lock(&path.with_extension("lock"))?;
    lock.lock()?;
    let (text, outcome) = change(read(path)?)?;
    if let Some(text) = text {
        let new = path.with_extension("new");
        // Left by a crash, or a planted link: removed, never written to.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = open_new(&new, true)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
    }
    Ok(outcome)
}

/// A file that processes lock; created if there is none.
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    open_new(path, false)
}

fn open_new(path: &Path, exclusive: bool) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .create_new(exclusive)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
}
