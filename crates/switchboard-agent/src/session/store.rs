//! The folder of session files: new ones, those of a project, and one by its id.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::record::storable;
use super::{LoadedSession, SessionError, SessionFile, SessionHeader, SessionRecord, lock};
use crate::conversation::ContentPart;

/// How much of a file is read to describe its session.
const MAX_DESCRIBED_BYTES: u64 = 256 << 10;

/// How many sessions of a project are stored; beyond that its oldest files are deleted.
const MAX_SESSIONS: usize = 1000;

/// How long a title is.
const MAX_TITLE_CHARS: usize = 80;

/// Where sessions are stored, and which folder they belong to.
#[derive(Debug, Clone)]
pub struct SessionStore {
    folder: PathBuf,
    project: Option<PathBuf>,
}

/// A stored session, for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// When it was last written to.
    pub changed: SystemTime,
    /// The first line that the person wrote, without characters that a person would not see.
    pub title: String,
    /// The session that it was forked from.
    pub parent: Option<String>,
}

impl SessionStore {
    /// Sessions in `folder`, for work in `project`.
    pub fn new(folder: impl Into<PathBuf>, project: Option<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            project: project.map(storable),
        }
    }

    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the file of a new session. Of the sessions of this project, the last 1000 are kept, and
    /// those that are in use.
    pub fn create(&self) -> Result<SessionFile, SessionError> {
        self.delete_oldest(MAX_SESSIONS - 1);
        SessionFile::create(&self.folder, SessionHeader::new(self.project.clone()))
    }

    /// Deletes all sessions of this project but the last `count` and those in use.
    pub(super) fn delete_oldest(&self, count: usize) {
        let files = self.files();
        // Most folders have few files: their headers need not be read.
        if files.len() <= count {
            return;
        }
        let is_own = |path: &Path| read_header(path).is_some_and(|(header, _)| self.owns(&header));
        let own = files.into_iter().filter(|(_, path)| is_own(path));
        own.skip(count).for_each(|(_, path)| delete_unused(&path));
    }

    fn owns(&self, header: &SessionHeader) -> bool {
        header.folder == self.project
    }

    /// The sessions of this project, the one that changed last first. Files that are no sessions
    /// are left out.
    pub fn list(&self) -> Vec<SessionInfo> {
        let files = self.files().into_iter();
        let described = files.filter_map(|(changed, path)| describe(changed, path));
        let own = described.filter(|(header, _)| self.owns(header));
        own.map(|(_, info)| info).collect()
    }

    /// The file of the session of this project that changed last.
    pub fn latest(&self) -> Result<PathBuf, SessionError> {
        let latest = self.list().into_iter().next();
        latest.map(|info| info.path).ok_or(SessionError::NoSession)
    }

    /// Opens a session to continue it.
    pub fn load(&self, path: &Path) -> Result<LoadedSession, SessionError> {
        SessionFile::load(path)
    }

    /// Opens a copy of a session to continue that. The session may be in use.
    pub fn fork(&self, path: &Path) -> Result<LoadedSession, SessionError> {
        let copy = SessionFile::copy_of(path, &self.folder)?;
        SessionFile::load(&copy)
    }

    /// The file of a session by its id, or by the beginning of an id that no other session has. It
    /// may belong to another project.
    pub fn find(&self, id: &str) -> Result<PathBuf, SessionError> {
        let unknown = || SessionError::UnknownId(id.to_owned());
        let id_of = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
        let files = self.files().into_iter().map(|(_, path)| path);
        let begins = |path: &PathBuf| id_of(path).is_some_and(|found| found.starts_with(id));
        let found: Vec<PathBuf> = files.filter(begins).collect();
        let exact = found.iter().find(|path| id_of(path).as_deref() == Some(id));
        match (exact, &*found) {
            _ if id.is_empty() => Err(unknown()),
            (Some(path), _) | (None, [path]) => Ok(path.clone()),
            (None, []) => Err(unknown()),
            (None, _) => Err(SessionError::AmbiguousId(id.to_owned())),
        }
    }

    /// The session files, the one that changed last first.
    fn files(&self) -> Vec<(SystemTime, PathBuf)> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let paths = entries.flatten().map(|entry| entry.path());
        let sessions = paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        let mut files: Vec<_> = sessions
            .filter_map(|path| {
                let metadata = std::fs::symlink_metadata(&path).ok()?;
                let changed = metadata.modified().unwrap_or(UNIX_EPOCH);
                metadata.is_file().then_some((changed, path))
            })
            .collect();
        files.sort_by(|one, other| other.cmp(one));
        files
    }
}

/// Deletes a session, unless a process has it open.
fn delete_unused(path: &Path) {
    let file = File::open(path);
    if file.is_ok_and(|file| lock(&file, path).is_ok()) {
        let _ = std::fs::remove_file(path);
    }
}

/// The first record of a file, and the lines after it. `None` if it is not a session.
fn read_header(path: &Path) -> Option<(SessionHeader, impl Iterator<Item = io::Result<String>>)> {
    let file = File::open(path).ok()?.take(MAX_DESCRIBED_BYTES);
    let mut lines = BufReader::new(file).lines();
    match serde_json::from_str(&lines.next()?.ok()?).ok()? {
        SessionRecord::Session(header) => Some((header, lines)),
        _ => None,
    }
}

/// What the first lines of a file say. `None` if it is not a session.
fn describe(changed: SystemTime, path: PathBuf) -> Option<(SessionHeader, SessionInfo)> {
    let (header, lines) = read_header(&path)?;
    let records = lines.map_while(|line| serde_json::from_str(&line.ok()?).ok());
    let first = records.into_iter().find_map(|record| match record {
        SessionRecord::User(message) => Some(message),
        _ => None,
    });
    let parts = first.into_iter().flat_map(|message| message.parts);
    let text = parts.filter_map(|part| match part {
        ContentPart::Text(text) => Some(text),
        ContentPart::Image(_) => None,
    });
    let line = crate::fault::plain_line(&text.collect::<Vec<_>>().join(" "));
    let title = line.chars().take(MAX_TITLE_CHARS).collect();
    let info = SessionInfo {
        id: header.id.clone(),
        path,
        changed,
        title,
        parent: header.parent.clone(),
    };
    Some((header, info))
}
