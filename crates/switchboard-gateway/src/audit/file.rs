//! The files of the audit log: 0600 in a 0700 folder, rotated, at most five of 8 MiB.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

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
        let mut file = match self.file.take() {
            Some(file) => file,
            None => open(&self.path)?,
        };
        let size = file.metadata()?.len();
        if size > 0 && size + lines.len() as u64 > self.rotate_bytes {
            for number in (1..OLDER_FILES).rev() {
                let _ = fs::rename(self.older(number), self.older(number + 1));
            }
            fs::rename(&self.path, self.older(1))?;
            file = open(&self.path)?;
        }
        let size = file.metadata()?.len();
        if let Err(error) = file.write_all(lines) {
            // Removes an incomplete line.
            let _ = file.set_len(size);
            return Err(error);
        }
        self.file = Some(file);
        Ok(())
    }

    fn older(&self, number: usize) -> PathBuf {
        self.path.with_added_extension(number.to_string())
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
