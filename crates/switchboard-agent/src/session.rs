//! A conversation in a file: JSON lines that are only appended to, readable by their owner alone.
//!
//! Each line is one [`SessionRecord`]. Vendors' items and servers' results stand in it as strings
//! that hold their JSON text, so they come back byte for byte. A crash can leave a cut last line
//! and calls without results: [`SessionFile::load`] repairs both and says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::conversation::{CallOutcome, ModelTurn, UserMessage};

pub use load::{LoadedSession, SessionRepair};

mod load;

#[cfg(test)]
mod tests;

/// The version of the format.
const VERSION: u32 = 1;

/// No session is larger: what is loaded is held in memory.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// One line of a session file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionRecord {
    /// The first line.
    Session(SessionHeader),
    /// What the person said.
    User(UserMessage),
    /// What the model answered.
    Turn(Box<ModelTurn>),
    /// The result of a call of the last turn.
    Result {
        /// The index of the call in its turn.
        call: usize,
        /// The result.
        outcome: CallOutcome,
    },
    /// Tools that were loaded at this point.
    ToolsLoaded {
        /// Their names.
        names: Vec<String>,
    },
    /// A note of the program to the model.
    Note {
        /// What it says.
        text: String,
    },
    /// A summary took the place of the first entries.
    Summary {
        /// How many entries of the conversation it replaced.
        replaced: usize,
        /// The summary.
        text: String,
    },
}

/// What a session file begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHeader {
    /// The version of the format.
    pub version: u32,
    /// The id, which is the name of the file.
    pub id: String,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// The session that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The folder that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

impl SessionHeader {
    /// A header with a new id: the time, and letters that keep two sessions of one second apart.
    pub fn new(folder: Option<PathBuf>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let started = now.map(|now| now.as_secs()).unwrap_or_default();
        let letters: String = std::iter::repeat_with(fastrand::lowercase)
            .take(6)
            .collect();
        Self {
            version: VERSION,
            id: format!("{started}-{letters}"),
            started,
            parent: None,
            folder,
        }
    }
}

/// Why a session cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The file system said no.
    #[error("session file {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Another process has it open.
    #[error("session file {0} is in use by another process; end that one, or fork the session")]
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
        let header = SessionHeader {
            parent: Some(self.header.id.clone()),
            ..SessionHeader::new(self.header.folder.clone())
        };
        let mut text = String::new();
        self.file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.read_to_string(&mut text))
            .map_err(|error| self.failed(error))?;
        let records = text.split_once('\n').map_or("", |(_, records)| records);
        let mut fork = Self::create(folder, header)?;
        let copied = fork.file.write_all(records.as_bytes());
        copied.map_err(|error| fork.failed(error))?;
        Ok(fork)
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
        let path = self.path.clone();
        SessionError::File { path, error }
    }
}

/// The file of a session with this id.
pub fn path_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.jsonl"))
}

/// The session files of a folder, the one that changed last first.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut sessions: Vec<(SystemTime, PathBuf)> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .filter_map(|path| {
            let metadata = std::fs::symlink_metadata(&path).ok()?;
            let changed = metadata.modified().unwrap_or(UNIX_EPOCH);
            metadata.is_file().then_some((changed, path))
        })
        .collect();
    sessions.sort_by(|one, other| other.cmp(one));
    sessions.into_iter().map(|(_, path)| path).collect()
}

fn lock(file: &File, path: &Path) -> Result<(), SessionError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => Err(SessionError::InUse(path.to_owned())),
        Err(std::fs::TryLockError::Error(error)) => Err(SessionError::File {
            path: path.to_owned(),
            error,
        }),
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
