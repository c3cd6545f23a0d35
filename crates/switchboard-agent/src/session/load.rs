//! Reads a session file, and repairs it after a crash.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;

use super::reading::SessionReading;
use super::{
    MAX_FILE_BYTES, RequestPrefix, SessionError, SessionFile, SessionHeader, SessionRecord,
    VERSION, lock,
};
use crate::conversation::{CallOutcome, Conversation};
use crate::price::CostSum;
use crate::settings::ModelSettings;
use crate::tools::ToolList;
use crate::usage::TokenUsage;

/// A session that was read and can be continued.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedSession {
    /// The conversation, with a result for each call.
    pub conversation: Conversation,
    /// Repairs after a crash, for the person.
    pub repairs: Vec<SessionRepair>,
    /// The model that was asked last.
    pub model: Option<ModelSettings>,
    /// The beginning of requests.
    pub prefix: Option<RequestPrefix>,
    /// The tools that the model was offered.
    pub tools: ToolList,
    /// What all turns used.
    pub usage: TokenUsage,
    /// What all turns cost.
    pub cost: CostSum,
    /// The body of the last request.
    pub(crate) last_body: String,
    /// The file, to append to.
    pub file: SessionFile,
}

/// A repair after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionRepair {
    /// The last line was incomplete and was removed.
    RemovedCutLine {
        /// How many bytes it had.
        bytes: usize,
    },
    /// A call had no result; now its result says that it was lost.
    LostCall {
        /// The name of the tool.
        tool: String,
    },
}

impl std::fmt::Display for SessionRepair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RemovedCutLine { bytes } => {
                write!(f, "removed an incomplete last line of {bytes} bytes")
            }
            Self::LostCall { tool } => write!(
                f,
                "the program ended during the call of {}; it is unknown whether it ran",
                crate::fault::plain_line(tool)
            ),
        }
    }
}

pub(super) fn load(path: &Path) -> Result<LoadedSession, SessionError> {
    let mut file = open(path, true)?;
    lock(&file, path)?;
    let bytes = read_bytes(path, &mut file)?;
    let mut lines = read_lines(path, &bytes);
    // A file that is no session is not changed.
    let header = read_header(path, lines.next())?;
    let mut repairs = Vec::new();
    let complete = complete_bytes(&bytes);
    if complete < bytes.len() {
        file.set_len(complete as u64)
            .map_err(|error| SessionError::file(path, error))?;
        let bytes = bytes.len() - complete;
        repairs.push(SessionRepair::RemovedCutLine { bytes });
    }
    let mut reading = SessionReading::default();
    for next in lines {
        let (line, record) = next?;
        let read = reading.read(record, &mut repairs);
        read.map_err(|reason| SessionError::unreadable(path, line, reason))?;
    }
    let path = path.to_owned();
    let mut file = SessionFile { path, file, header };
    for call in reading.open_calls() {
        let outcome = CallOutcome::Lost;
        file.append(&SessionRecord::Result { call, outcome })?;
    }
    reading.close(&mut repairs);
    Ok(LoadedSession {
        repairs,
        model: reading.model.clone(),
        prefix: reading.prefix.clone(),
        tools: std::mem::take(&mut reading.tools),
        usage: reading.usage,
        cost: reading.cost,
        last_body: std::mem::take(&mut reading.body),
        conversation: reading.into_conversation(),
        file,
    })
}

/// The bytes of a session file that is only read.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, SessionError> {
    read_bytes(path, &mut open(path, false)?)
}

fn open(path: &Path, is_appended_to: bool) -> Result<File, SessionError> {
    let failed = |error| SessionError::file(path, error);
    let metadata = std::fs::symlink_metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(SessionError::unreadable(path, 1, "not a regular file"));
    }
    let mut options = OpenOptions::new();
    options.read(true).append(is_appended_to);
    options.open(path).map_err(failed)
}

fn read_bytes(path: &Path, file: &mut File) -> Result<Vec<u8>, SessionError> {
    let mut bytes = Vec::new();
    let mut limited = file.take(MAX_FILE_BYTES + 1);
    limited
        .read_to_end(&mut bytes)
        .map_err(|error| SessionError::file(path, error))?;
    match bytes.len() as u64 > MAX_FILE_BYTES {
        true => Err(SessionError::unreadable(path, 1, "the file is too large")),
        false => Ok(bytes),
    }
}

/// How many bytes the complete lines have.
pub(super) fn complete_bytes(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|&byte| byte == b'\n');
    last.map_or(0, |at| at + 1)
}

/// The records of the complete lines, with their line numbers.
pub(super) fn read_lines<'a>(
    path: &'a Path,
    bytes: &'a [u8],
) -> impl Iterator<Item = Result<(usize, SessionRecord), SessionError>> + 'a {
    let lines = bytes[..complete_bytes(bytes)].split_inclusive(|&byte| byte == b'\n');
    lines.enumerate().map(|(index, line)| {
        let record = serde_json::from_slice(line);
        record.map(|record| (index + 1, record)).map_err(|error| {
            SessionError::unreadable(path, index + 1, &format!("not a record: {error}"))
        })
    })
}

/// The header, from the first line.
pub(super) fn read_header(
    path: &Path,
    first: Option<Result<(usize, SessionRecord), SessionError>>,
) -> Result<SessionHeader, SessionError> {
    let unreadable = |reason| SessionError::unreadable(path, 1, reason);
    match first.transpose()? {
        None => Err(unreadable("the file is empty")),
        Some((_, SessionRecord::Session(header))) if header.version > VERSION => {
            Err(unreadable("written by a newer version of the program"))
        }
        Some((_, SessionRecord::Session(header))) => Ok(header),
        Some(_) => Err(unreadable("the first line is not a header")),
    }
}
