//! A change of one file: planned from the content that the conversation has read, shown as a diff, and
//! applied atomically.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstatat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use switchboard::line_diff;

use super::blocking::StopSignal;
use super::text_file::{MAX_FILE_BYTES, TextFile};
use super::workspace::WorkspacePath;

/// How many lines around a change are shown.
const CONTEXT_LINES: usize = 3;

/// The planned content of a file.
#[derive(Debug)]
pub(super) struct FileChange<'w> {
    place: WorkspacePath<'w>,
    /// `None` if the file is created.
    before: Option<TextFile>,
    after: String,
}

impl<'w> FileChange<'w> {
    /// Plans the change of a file: `change` gets its text, or `None` where there is no file, and
    /// returns the new text. `known` is the content that the conversation has read.
    pub(super) fn plan(
        place: WorkspacePath<'w>,
        known: Option<blake3::Hash>,
        change: impl FnOnce(Option<&str>) -> Result<String, String>,
    ) -> Result<Self, String> {
        let shown = place.shown();
        let wrong = |fact: &str| Err(format!("path {shown}: {fact}"));
        if !place.is_writable() {
            return wrong("this folder can be read and not written");
        }
        let is_git = |name: &OsStr| name.eq_ignore_ascii_case(".git");
        if place.relative.iter().any(is_git) {
            return wrong("files of git are not written: git runs programs that they name");
        }
        let before = TextFile::open_to_replace(&place)?;
        if let Some(file) = &before {
            match known {
                None => {
                    return wrong("it exists and was not read in this conversation; Read it first");
                }
                Some(known) if known != file.hash => {
                    return wrong("it changed since it was read; Read it again");
                }
                Some(_) => {}
            }
            if file.stat.st_nlink > 1 {
                let links = file.stat.st_nlink;
                return wrong(&format!(
                    "it has {links} hard links, so it is more than one file"
                ));
            }
        }
        let after = change(before.as_ref().map(|file| &*file.text))?;
        if after.len() as u64 > MAX_FILE_BYTES {
            return wrong(&format!("it would have more than {MAX_FILE_BYTES} bytes"));
        }
        if after.contains('\0') {
            return wrong("the text has a NUL character");
        }
        Ok(Self {
            place,
            before,
            after,
        })
    }

    /// The difference, for a person.
    pub(super) fn preview(&self) -> Vec<String> {
        let before = self.before.as_ref().map_or("", |file| &file.text);
        let mut lines = line_diff::file_changes(before, &self.after, CONTEXT_LINES);
        if lines.is_empty() {
            let line = match (&self.before, before == self.after) {
                (None, _) => "an empty file is created",
                (Some(_), true) => "nothing changes",
                (Some(_), false) => "only the end of the last line changes",
            };
            lines.push(line.to_owned());
        }
        lines
    }

    /// Writes the file atomically. Returns the hash of its new content.
    pub(super) fn apply(&self, stop: &StopSignal) -> Result<blake3::Hash, String> {
        let bytes = match &self.before {
            Some(file) => file.bytes_of(&self.after),
            None => self.after.clone().into_bytes(),
        };
        let (folder, name) = self.place.open_parent()?;
        let explain = |error: Errno| self.place.explain(error);
        let mut temporary =
            TemporaryFile::create(&folder, self.before.is_none()).map_err(explain)?;
        let written = (temporary.file.write_all(&bytes)).and_then(|()| temporary.file.sync_all());
        written.map_err(|error| format!("path {}: not written: {error}", self.place.shown()))?;
        if stop.is_set() {
            return Err("stopped before the file was changed".to_owned());
        }
        match &self.before {
            Some(file) => {
                self.check_unchanged(&folder, &name, &file.stat)?;
                let mode = Mode::from_bits_truncate(file.stat.st_mode & 0o777);
                fchmod(&temporary.file, mode).map_err(explain)?;
                temporary.replace(&name).map_err(explain)?;
            }
            None => temporary.create_new(&name).map_err(|error| match error {
                Errno::EEXIST => {
                    let shown = self.place.shown();
                    format!(
                        "path {shown}: it was created by somebody else meanwhile; Read it first"
                    )
                }
                other => explain(other),
            })?,
        }
        Ok(blake3::hash(&bytes))
    }

    /// Checks that the file is still the one that was read.
    fn check_unchanged(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        read: &FileStat,
    ) -> Result<(), String> {
        let now = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        let state = |stat: &FileStat| {
            let changed = (stat.st_ctime, stat.st_ctime_nsec);
            (
                stat.st_dev,
                stat.st_ino,
                stat.st_size,
                stat.st_nlink,
                changed,
            )
        };
        match now {
            Ok(now) if state(&now) == state(read) => Ok(()),
            _ => {
                let shown = self.place.shown();
                Err(format!(
                    "path {shown}: it changed since it was read; Read it again"
                ))
            }
        }
    }
}

/// A temporary file in the same folder. Removed unless it replaced the file.
struct TemporaryFile<'f> {
    folder: &'f OwnedFd,
    name: OsString,
    file: File,
    is_renamed: bool,
}

impl<'f> TemporaryFile<'f> {
    /// Creates it: private, unless it is to be a new file with the mode that new files have.
    fn create(folder: &'f OwnedFd, is_new: bool) -> Result<Self, Errno> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(if is_new { 0o666 } else { 0o600 });
        let name = OsString::from(format!(".switchboard-{:016x}.tmp", fastrand::u64(..)));
        let file = openat(folder, &*name, flags | OFlag::O_NOFOLLOW, mode)?;
        Ok(Self {
            folder,
            name,
            file: File::from(file),
            is_renamed: false,
        })
    }

    /// Replaces the file of this name.
    fn replace(&mut self, name: &OsStr) -> Result<(), Errno> {
        renameat(self.folder, &*self.name, self.folder, name)?;
        self.is_renamed = true;
        Ok(())
    }

    /// Becomes the file of this name; fails if there is one.
    fn create_new(&mut self, name: &OsStr) -> Result<(), Errno> {
        let flags = AtFlags::empty();
        match linkat(self.folder, &*self.name, self.folder, name, flags) {
            // A file system without hard links, such as vfat.
            Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS) => self.reserve_and_replace(name),
            linked => linked,
        }
    }

    /// The same without a hard link: an empty file reserves the name until it is replaced.
    fn reserve_and_replace(&mut self, name: &OsStr) -> Result<(), Errno> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o600);
        drop(openat(self.folder, name, flags | OFlag::O_NOFOLLOW, mode)?);
        self.replace(name).inspect_err(|_| {
            let _ = unlinkat(self.folder, name, UnlinkatFlags::NoRemoveDir);
        })
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = unlinkat(self.folder, &*self.name, UnlinkatFlags::NoRemoveDir);
        }
    }
}

#[cfg(test)]
mod tests;
