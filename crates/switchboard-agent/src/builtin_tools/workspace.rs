//! The folders that file tools may use, and how a path in them is opened.
//!
//! A path is resolved by the kernel below the open folder, in one step with the opening: no check
//! that a link could be swapped after, and no way out through `..` or a symbolic link.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};
use switchboard::untrusted::{escaped_line, quoted};

/// The folders of a conversation. Relative paths begin in the first.
#[derive(Debug)]
pub struct Workspace {
    folders: Vec<WorkspaceFolder>,
}

#[derive(Debug)]
struct WorkspaceFolder {
    /// Without symbolic links.
    path: PathBuf,
    folder: OwnedFd,
    is_writable: bool,
}

/// A path inside a workspace.
#[derive(Debug, Clone)]
pub(super) struct WorkspacePath<'w> {
    folder: &'w WorkspaceFolder,
    /// Below the folder: plain names only.
    pub(super) relative: PathBuf,
}

/// Which symbolic links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowLinks {
    /// Those that lead to a place in the same folder.
    Inside,
    /// None.
    No,
}

impl Workspace {
    /// Opens the folders. There must be at least one.
    pub fn open(folders: impl IntoIterator<Item = impl AsRef<Path>>) -> io::Result<Self> {
        let folders = folders
            .into_iter()
            .map(|folder| WorkspaceFolder::open(folder.as_ref(), true))
            .collect::<io::Result<Vec<_>>>()?;
        match folders.is_empty() {
            true => Err(io::Error::other("a workspace needs a folder")),
            false => Ok(Self { folders }),
        }
    }

    /// With a folder that may be read and not written.
    pub(super) fn add_read_only(&mut self, folder: &Path) -> io::Result<()> {
        self.folders.push(WorkspaceFolder::open(folder, false)?);
        Ok(())
    }

    /// The first folder, without symbolic links.
    pub(super) fn first(&self) -> &Path {
        &self.folders[0].path
    }

    /// Finds a path in the folders; `None` is the first folder.
    pub(super) fn locate(&self, path: Option<&str>) -> Result<WorkspacePath<'_>, String> {
        let text = path.unwrap_or(".");
        let wrong = |fact: &str| Err(format!("path {}: {fact}", quoted(text)));
        if text.is_empty() {
            return wrong("it is empty");
        }
        if text.contains('\0') {
            return wrong("it has a NUL character");
        }
        let path = Path::new(text);
        if path.components().any(|part| part == Component::ParentDir) {
            return wrong("it has \"..\"; give the path without it");
        }
        let found = match path.is_absolute() {
            false => Some((&self.folders[0], path)),
            true => self.folders.iter().find_map(|folder| {
                let relative = path.strip_prefix(&folder.path).ok()?;
                Some((folder, relative))
            }),
        };
        let Some((folder, relative)) = found else {
            return wrong(&format!("it is outside the workspace ({self})"));
        };
        let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
        Ok(WorkspacePath {
            folder,
            relative: relative.components().filter(is_name).collect(),
        })
    }
}

impl fmt::Display for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writable = self.folders.iter().filter(|folder| folder.is_writable);
        for (number, folder) in writable.enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            let path = folder.path.display().to_string();
            write!(f, "{separator}{}", escaped_line(&path))?;
        }
        Ok(())
    }
}

impl WorkspaceFolder {
    fn open(path: &Path, is_writable: bool) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        Ok(Self {
            folder: open(&path, flags, Mode::empty())?,
            path,
            is_writable,
        })
    }
}

impl WorkspacePath<'_> {
    /// The whole path.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path.join(&self.relative)
    }

    /// The path in quotes, for messages.
    pub(super) fn shown(&self) -> String {
        let shown = match self.relative.as_os_str().is_empty() {
            true => self.folder.path.display(),
            false => self.relative.display(),
        };
        quoted(&shown.to_string())
    }

    /// A place below this one: plain names only.
    pub(super) fn below(&self, relative: &Path) -> Self {
        Self {
            folder: self.folder,
            relative: self.relative.join(relative),
        }
    }

    /// Whether tools may write here.
    pub(super) fn is_writable(&self) -> bool {
        self.folder.is_writable
    }

    /// Opens the place itself, without creating it.
    pub(super) fn open(&self, flags: OFlag, links: FollowLinks) -> Result<OwnedFd, String> {
        open_beneath(&self.folder.folder, &self.relative, flags, links)
            .map_err(|error| self.explain(error))
    }

    /// As [`open`](Self::open), with the system's error.
    pub(super) fn try_open(&self, flags: OFlag, links: FollowLinks) -> Result<OwnedFd, Errno> {
        open_beneath(&self.folder.folder, &self.relative, flags, links)
    }

    /// Opens the folder of the place, name by name, and creates it if it is missing. No link is
    /// followed. Also returns the name of the place in it.
    pub(super) fn open_parent(&self) -> Result<(OwnedFd, OsString), String> {
        let (Some(parent), Some(name)) = (self.relative.parent(), self.relative.file_name()) else {
            return Err(self.explain(Errno::EISDIR));
        };
        let opened = self.open_or_create(parent);
        Ok((opened.map_err(|error| self.explain(error))?, name.into()))
    }

    fn open_or_create(&self, parent: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_NOFOLLOW;
        let mut folder = self.folder.folder.try_clone().map_err(|_| Errno::EMFILE)?;
        for name in parent {
            let open =
                |folder: &OwnedFd| openat(folder, name, flags | OFlag::O_CLOEXEC, Mode::empty());
            folder = match open(&folder) {
                Err(Errno::ENOENT) => {
                    match mkdirat(&folder, name, Mode::from_bits_truncate(0o777)) {
                        Ok(()) | Err(Errno::EEXIST) => open(&folder)?,
                        Err(error) => return Err(error),
                    }
                }
                opened => opened?,
            };
        }
        Ok(folder)
    }

    /// Why the place cannot be opened, as a sentence.
    pub(super) fn explain(&self, error: Errno) -> String {
        let fact = match error {
            Errno::EXDEV => "a symbolic link in it leads out of the workspace",
            Errno::ELOOP => "a part of it is a symbolic link, which is not followed",
            Errno::ENOENT => "there is no such file",
            Errno::ENOTDIR => "a part of it is not a folder",
            Errno::EACCES | Errno::EPERM => "this user may not open it",
            Errno::ENXIO => "it is a socket or a device, not a regular file",
            Errno::EISDIR => "it is a folder; Glob lists its files",
            Errno::ENAMETOOLONG => "it is too long",
            other => return format!("path {}: {}", self.shown(), other.desc()),
        };
        format!("path {}: {fact}", self.shown())
    }
}

/// Opens a path of plain names below a folder, in one step with its resolution.
fn open_beneath(
    folder: &OwnedFd,
    relative: &Path,
    flags: OFlag,
    links: FollowLinks,
) -> Result<OwnedFd, Errno> {
    let relative = match relative.as_os_str().is_empty() {
        true => Path::new("."),
        false => relative,
    };
    let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    #[cfg(target_os = "linux")]
    match resolve_beneath(folder, relative, flags, links) {
        // A kernel before 5.6, or a sandbox that does not know the call.
        Err(Errno::ENOSYS) => {}
        opened => return opened,
    }
    let _ = links;
    open_each(folder, relative, flags)
}

#[cfg(target_os = "linux")]
fn resolve_beneath(
    folder: &OwnedFd,
    relative: &Path,
    flags: OFlag,
    links: FollowLinks,
) -> Result<OwnedFd, Errno> {
    use nix::fcntl::{OpenHow, ResolveFlag, openat2};

    /// The kernel gives up where names change while it resolves.
    const ATTEMPTS: usize = 10;
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | match links {
            FollowLinks::Inside => ResolveFlag::RESOLVE_NO_MAGICLINKS,
            FollowLinks::No => ResolveFlag::RESOLVE_NO_SYMLINKS,
        };
    let how = OpenHow::new().flags(flags).resolve(resolve);
    for _ in 0..ATTEMPTS {
        match openat2(folder, relative, how) {
            Err(Errno::EAGAIN) => {}
            opened => return opened,
        }
    }
    Err(Errno::EAGAIN)
}

/// Opens one name after the other, and follows no symbolic link.
fn open_each(folder: &OwnedFd, relative: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    let step = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let mut opened: Option<OwnedFd> = None;
    let names: Vec<_> = relative.components().collect();
    for (number, name) in names.iter().enumerate() {
        let flags = match number + 1 == names.len() {
            true => flags | OFlag::O_NOFOLLOW,
            false => step,
        };
        let parent = opened.as_ref().unwrap_or(folder).as_fd();
        let next = openat(parent, name.as_os_str(), flags, Mode::empty());
        opened = Some(match next {
            // What systems answer to O_NOFOLLOW on a link.
            Err(Errno::EMLINK) => return Err(Errno::ELOOP),
            next => next?,
        });
    }
    opened.ok_or(Errno::ENOENT)
}

#[cfg(test)]
mod tests;
