//! The files of the audit log: 0600 in a 0700 folder, rotated, at most five of 8 MiB. Several
//! gateways may share them.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use switchboard::store::private;

/// The size at which the file is rotated.
const ROTATE_BYTES: u64 = 8 << 20;

/// How many older files are kept.
const OLDER_FILES: usize = 4;

#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    /// `None` at first and after a failure; opened with the next write.
    file: Option<File>,
    rotate_bytes: u64,
}

impl AuditFile {
    /// The files in this folder. They are created with the first line.
    pub(super) fn new(folder: &Path) -> Self {
        Self::with_size(folder, ROTATE_BYTES)
    }

    pub(super) fn with_size(folder: &Path, rotate_bytes: u64) -> Self {
        Self {
            path: folder.join("audit/audit.jsonl"),
            file: None,
            rotate_bytes,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut file = self.current()?;
        if self.is_full(&file, lines)? {
            file = self.rotate(file, lines)?;
        }
        append_whole(&mut file, lines)?;
        self.file = Some(file);
        Ok(())
    }

    /// The file at the path. The one that was opened before may have been rotated by another gateway:
    /// what is appended to it would be lost with it.
    fn current(&mut self) -> io::Result<File> {
        if let Some(file) = self.file.take()
            && is_at(&file, &self.path)?
        {
            return Ok(file);
        }
        open(&self.path)
    }

    fn is_full(&self, file: &File, lines: &[u8]) -> io::Result<bool> {
        let size = file.metadata()?.len();
        Ok(size > 0 && size + lines.len() as u64 > self.rotate_bytes)
    }

    /// Renames the files, and returns a new one.
    fn rotate(&mut self, file: File, lines: &[u8]) -> io::Result<File> {
        let lock = private::open_lock(&self.path.with_extension("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            // Another gateway rotates now. The file becomes a little larger than it should.
            Err(TryLockError::WouldBlock) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Another gateway may have rotated before the lock was there.
        self.file = Some(file);
        let file = self.current()?;
        if !self.is_full(&file, lines)? {
            return Ok(file);
        }
        for number in (1..OLDER_FILES).rev() {
            let _ = fs::rename(self.older(number), self.older(number + 1));
        }
        fs::rename(&self.path, self.older(1))?;
        open(&self.path)
    }

    fn older(&self, number: usize) -> PathBuf {
        self.path.with_added_extension(number.to_string())
    }
}

/// Appends all of the lines, or removes the part that was written, unless another gateway has
/// appended since.
fn append_whole(file: &mut File, lines: &[u8]) -> io::Result<()> {
    let size = file.metadata()?.len();
    let mut written = 0;
    while written < lines.len() {
        let error = match file.write(&lines[written..]) {
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Ok(count) => {
                written += count;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        if file
            .metadata()
            .is_ok_and(|now| now.len() == size + written as u64)
        {
            let _ = file.set_len(size);
        }
        return Err(error);
    }
    Ok(())
}

/// Whether an open file is the one at the path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Follows no symbolic link, does not block on a pipe, and lets no other user read.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    if found.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}
