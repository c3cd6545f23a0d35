//! Reading a session file, with the repair of what a crash left.

use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;

use super::{
    MAX_FILE_BYTES, SessionError, SessionFile, SessionHeader, SessionRecord, VERSION, lock,
};
use crate::conversation::{AwaitingResults, CallOutcome, Conversation, ResultError};

/// A session that was read and can be continued.
#[derive(Debug)]
pub struct LoadedSession {
    /// The conversation, with a result for each call.
    pub conversation: Conversation,
    /// What had to be repaired, for the person.
    pub repairs: Vec<SessionRepair>,
    /// The file, to append to.
    pub file: SessionFile,
}

/// Something that a crash left and that was repaired.
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
                "the call of {} had no result; it is unknown whether it ran",
                crate::fault::plain_line(tool)
            ),
        }
    }
}

pub(super) fn load(path: &Path) -> Result<LoadedSession, SessionError> {
    let failed = |error| SessionError::File {
        path: path.to_owned(),
        error,
    };
    let metadata = std::fs::symlink_metadata(path).map_err(failed)?;
    let unreadable = |line, reason: &str| SessionError::Unreadable {
        path: path.to_owned(),
        line,
        reason: reason.to_owned(),
    };
    if !metadata.is_file() {
        return Err(unreadable(1, "not a regular file"));
    }
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .open(path)
        .map_err(failed)?;
    lock(&file, path)?;
    let mut bytes = Vec::new();
    let mut limited = (&mut file).take(MAX_FILE_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(1, "the file is too large"));
    }
    let mut repairs = Vec::new();
    let complete = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    if complete < bytes.len() {
        file.set_len(complete as u64).map_err(failed)?;
        let bytes = bytes.len() - complete;
        repairs.push(SessionRepair::RemovedCutLine { bytes });
    }
    let mut header = None;
    let mut state = ReadState::Complete(Conversation::new());
    for (index, line) in bytes[..complete]
        .split_inclusive(|&byte| byte == b'\n')
        .enumerate()
    {
        let number = index + 1;
        let record: SessionRecord = serde_json::from_slice(line)
            .map_err(|error| unreadable(number, &format!("not a record: {error}")))?;
        match (record, &header) {
            (SessionRecord::Session(first), None) if first.version > VERSION => {
                return Err(unreadable(
                    number,
                    "written by a newer version of the program",
                ));
            }
            (SessionRecord::Session(first), None) => header = Some(first),
            (_, None) => return Err(unreadable(number, "the first line is not a header")),
            (record, Some(_)) => {
                state = state
                    .read(record, &mut repairs)
                    .map_err(|reason| unreadable(number, reason))?;
            }
        }
    }
    let header: SessionHeader = header.ok_or_else(|| unreadable(1, "the file is empty"))?;
    let path = path.to_owned();
    let mut file = SessionFile { path, file, header };
    let conversation = match state {
        ReadState::Complete(conversation) => conversation,
        ReadState::Waiting(waiting) => {
            for (call, _) in waiting.open_calls() {
                let outcome = CallOutcome::Lost;
                file.append(&SessionRecord::Result { call, outcome })?;
            }
            close(*waiting, &mut repairs)
        }
    };
    Ok(LoadedSession {
        conversation,
        repairs,
        file,
    })
}

/// The conversation as far as it was read.
enum ReadState {
    Complete(Conversation),
    /// A turn was read; its results may follow.
    Waiting(Box<AwaitingResults>),
}

impl ReadState {
    fn read(
        self,
        record: SessionRecord,
        repairs: &mut Vec<SessionRepair>,
    ) -> Result<Self, &'static str> {
        match (self, record) {
            (Self::Waiting(mut waiting), SessionRecord::Result { call, outcome }) => {
                match waiting.answer(call, outcome) {
                    // Calls that could not run have their result already.
                    Ok(()) | Err(ResultError::AlreadyAnswered(_)) => Ok(Self::Waiting(waiting)),
                    Err(_) => Err("a result of a call that the turn does not have"),
                }
            }
            (Self::Waiting(waiting), record) => Self::read_next(close(*waiting, repairs), record),
            (Self::Complete(conversation), record) => Self::read_next(conversation, record),
        }
    }

    fn read_next(
        mut conversation: Conversation,
        record: SessionRecord,
    ) -> Result<Self, &'static str> {
        match record {
            SessionRecord::Session(_) => return Err("a second header"),
            SessionRecord::Result { .. } => return Err("a result without a call"),
            SessionRecord::User(message) => conversation.add_user_message(message),
            SessionRecord::ToolsLoaded { names } => conversation.add_loaded_tools(names),
            SessionRecord::Note { text } => conversation.add_note(text),
            SessionRecord::Summary { replaced, text } => {
                conversation.replace_by_summary(replaced, text);
            }
            SessionRecord::Turn(turn) => {
                return Ok(Self::Waiting(Box::new(conversation.reply(*turn))));
            }
        }
        Ok(Self::Complete(conversation))
    }
}

/// Ends a turn whose calls a crash left without results.
fn close(waiting: AwaitingResults, repairs: &mut Vec<SessionRepair>) -> Conversation {
    let lost = waiting
        .open_calls()
        .map(|(_, call)| SessionRepair::LostCall {
            tool: call.name.clone(),
        });
    repairs.extend(lost);
    waiting.close_after_crash()
}
