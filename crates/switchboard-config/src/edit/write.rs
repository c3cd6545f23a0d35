//! Replaces a file atomically, and locks its folder meanwhile.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an edit waits for another one. An edit takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Locks the folder of a file until the returned value is dropped or the process ends. The file
/// itself cannot be locked: an edit replaces it. `create`: a missing folder is created, private.
pub(super) fn lock_folder(path: &Path, create: bool) -> io::Result<File> {
    let folder = folder_of(path);
    if create {
        create_private(folder)?;
    }
    let folder = File::open(folder)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match folder.try_lock() {
            // Some network file systems have no locks for folders: an edit works there as well.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(folder),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                let fact = format!(
                    "another process has locked its folder for {} s",
                    LOCK_TIMEOUT.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, fact));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Replaces a file atomically; its owner and permissions stay.
pub(super) fn write(path: &Path, bytes: &[u8], exists: bool) -> io::Result<()> {
    let folder = folder_of(path);
    if !exists {
        create_private(folder)?;
    }
    let before = exists.then(|| path.metadata()).transpose()?;
    if before
        .as_ref()
        .is_some_and(|before| before.mode() & 0o200 == 0)
    {
        // A rename would replace it, but somebody made it read-only on purpose.
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is read-only",
        ));
    }
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let new = folder.join(format!(".{name}.{}.new", std::process::id()));
    let written = write_new(&new, bytes, before.as_ref()).and_then(|()| rename(&new, path));
    if let Err(fault) = written {
        let _ = std::fs::remove_file(&new);
        return Err(fault);
    }
    // The rename is durable once the folder is synced. The file is written even if that fails, which
    // some file systems do.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn rename(new: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(new, path).map_err(|fault| match fault.kind() {
        io::ErrorKind::ResourceBusy => io::Error::new(
            fault.kind(),
            "it is a mount point, which cannot be replaced; edit the file by hand",
        ),
        _ => fault,
    })
}

/// Writes a new file with the owner and permissions of the one that it will replace; otherwise
/// private.
fn write_new(path: &Path, bytes: &[u8], before: Option<&Metadata>) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    if let Some(before) = before {
        keep_owner(&file, before)?;
        file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))?;
    }
    file.sync_all()
}

/// Gives a file the owner of the one that it will replace: after an edit with `sudo`, the person
/// could not read it.
fn keep_owner(file: &File, before: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == (before.uid(), before.gid()) {
        return Ok(());
    }
    fchown(file, Some(before.uid()), Some(before.gid())).map_err(|fault| {
        let fact = format!("it would change its owner ({fault}); edit it as its owner");
        io::Error::new(fault.kind(), fact)
    })
}
