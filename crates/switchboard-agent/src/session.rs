//! A conversation in a file: JSON lines that are only appended to, readable by their owner alone.
//!
//! Each line is one `SessionRecord`. Vendors' items and servers' results are recorded as strings of
//! JSON text, so they come back byte for byte. A crash can leave an incomplete last line and calls
//! without results: `SessionFile::load` repairs and reports both. System prompt and tools are
//! recorded, too, so `replay` can build each request again.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use load::{LoadedSession, SessionRepair};
pub use record::{RecordedRequest, RequestPrefix, SessionHeader, SessionRecord};
pub use replay::{ReplayDifference, ReplayReport, replay};
pub use store::{SessionInfo, SessionStore};

mod load;
mod reading;
mod record;
pub(crate) mod recorder;
mod replay;
mod store;

#[cfg(test)]
mod tests;

/// The version of the format.
const VERSION: u32 = 1;

/// The largest session: a loaded session is in memory as a whole.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// Why a session cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The file system returned an error.
    #[error("session file {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Another process has it open.
    #[error("session file {0} is in use by another process")]
    InUse(PathBuf),
    /// The text is not a session.
    #[error("session file {path}, line {line}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The folder has none.
    #[error("no conversation of this project is stored")]
    NoSession,
    /// No session has the id.
    #[error("no conversation has the id \"{0}\"")]
    UnknownId(String),
    /// Several sessions have an id that begins so.
    #[error("several conversations have an id that begins with \"{0}\"; write more of it")]
    AmbiguousId(String),
}

impl SessionError {
    fn file(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::File { path, error }
    }

    fn unreadable(path: &Path, line: usize, reason: &str) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            line,
            reason: reason.to_owned(),
        }
    }
}

/// A session file that is open for appending. Only one process has it open at a time.
#[derive(Debug)]
pub struct SessionFile {
    path: PathBuf,
    file: File,
    header: SessionHeader,
}

impl SessionFile {
    /// Creates the file of a new session in a folder.
    pub fn create(folder: &Path, header: SessionHeader) -> Result<Self, SessionError> {
        let path = path_of(folder, &header.id);
        let failed = |error| SessionError::File {
            path: path.clone(),
            error,
        };
        create_private_folder(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        make_private(&mut options);
        let file = options.open(&path).map_err(failed)?;
        lock(&file, &path)?;
        let mut session = Self { path, file, header };
        session.append(&SessionRecord::Session(session.header.clone()))?;
        Ok(session)
    }

    /// Opens a session to continue it. What a crash left is repaired, in the file too.
    pub fn load(path: &Path) -> Result<LoadedSession, SessionError> {
        load::load(path)
    }

    /// Appends one record.
    pub fn append(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        let mut line = serde_json::to_vec(record).expect("a record serialises");
        line.push(b'\n');
        // One write: another reader sees the whole line or none of it.
        self.file
            .write_all(&line)
            .map_err(|error| self.failed(error))
    }

    /// Copies the session into a new file, which continues on its own.
    pub fn fork(&mut self, folder: &Path) -> Result<Self, SessionError> {
        let bytes = self.bytes()?;
        // A write that failed may have left a part of a line.
        let complete = load::complete_bytes(&bytes);
        Self::create_fork(&self.header, &bytes[..complete], folder)
    }

    /// Copies a session that may be in use into a new file; the path of that.
    pub(crate) fn copy_of(path: &Path, folder: &Path) -> Result<PathBuf, SessionError> {
        let bytes = load::read_file(path)?;
        let header = load::read_header(path, load::read_lines(path, &bytes).next())?;
        // The last line may be incomplete if it is being written.
        let complete = load::complete_bytes(&bytes);
        let fork = Self::create_fork(&header, &bytes[..complete], folder)?;
        Ok(fork.path)
    }

    fn create_fork(
        parent: &SessionHeader,
        lines: &[u8],
        folder: &Path,
    ) -> Result<Self, SessionError> {
        let header = SessionHeader {
            parent: Some(parent.id.clone()),
            ..SessionHeader::new(parent.folder.clone())
        };
        let mut lines = lines.splitn(2, |&byte| byte == b'\n').skip(1);
        let mut fork = Self::create(folder, header)?;
        let copied = fork.file.write_all(lines.next().unwrap_or_default());
        copied.map_err(|error| fork.failed(error))?;
        Ok(fork)
    }

    /// Copies the session into a new file that only its owner can read.
    pub fn copy_to(&mut self, path: &Path) -> Result<(), SessionError> {
        let bytes = self.bytes()?;
        let failed = |error| SessionError::file(path, error);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        make_private(&mut options);
        let mut copy = options.open(path).map_err(failed)?;
        copy.write_all(&bytes).map_err(failed)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, SessionError> {
        let mut bytes = Vec::new();
        let read = self
            .file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.read_to_end(&mut bytes));
        read.map_err(|error| self.failed(error))?;
        Ok(bytes)
    }

    /// The header.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, error: io::Error) -> SessionError {
        SessionError::file(&self.path, error)
    }
}

/// The file of a session with this id.
pub fn path_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.jsonl"))
}

fn lock(file: &File, path: &Path) -> Result<(), SessionError> {
    let mut attempts_left = 20;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            // Until it calls exec, a child process has copies of our file descriptors, and with them
            // the lock of a session that we closed.
            Err(TryLockError::WouldBlock) if attempts_left > 0 => {
                attempts_left -= 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => return Err(SessionError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(SessionError::file(path, error)),
        }
    }
}

#[cfg(unix)]
fn make_private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn make_private(_options: &mut OpenOptions) {}

fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
