//! The records of a session file, one per line.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::VERSION;
use crate::conversation::{CallOutcome, ModelTurn, UserMessage};
use crate::settings::ModelSettings;
use crate::tools::ToolListRecord;
use crate::tools::ToolTreatment;
use crate::usage::TokenUsage;
use crate::wire::WireRequest;

/// One line of a session file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionRecord {
    /// The first line.
    Session(SessionHeader),
    /// The model that is asked from here on.
    Model(Box<ModelSettings>),
    /// The beginning of requests from here on. The list of tools starts empty.
    Prefix(RequestPrefix),
    /// A change of the list of tools.
    Tools(ToolListRecord),
    /// The vendor refused a tool.
    ToolRefused {
        /// The name of the tool.
        name: String,
        /// What is done about it.
        treatment: ToolTreatment,
    },
    /// A message of the person.
    User(UserMessage),
    /// The request that the next turn answers.
    Request(RecordedRequest),
    /// A turn of the model.
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
        /// Its text.
        text: String,
    },
    /// A summary replaced the first entries.
    Summary {
        /// How many entries of the conversation it replaced.
        replaced: usize,
        /// The summary.
        text: String,
        /// The tokens of the request for it.
        #[serde(default)]
        usage: TokenUsage,
    },
}

/// The header of a session file.
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
    /// A header with a new id: the time, and letters that distinguish two sessions of one second.
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
            folder: folder.map(storable),
        }
    }
}

/// A path as it can be stored and compared: one that is not Unicode is escaped. It is the same as that
/// of another folder only if this is named as the escaped one reads.
pub(super) fn storable(path: PathBuf) -> PathBuf {
    match path.to_str() {
        Some(_) => path,
        None => {
            let bytes = path.as_os_str().as_encoded_bytes();
            bytes.escape_ascii().to_string().into()
        }
    }
}

/// The beginning of every request of a conversation, without the tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPrefix {
    /// The whole system prompt.
    pub system: String,
    /// Identifies the session to the vendor's cache.
    pub cache_key: String,
}

/// A request as its difference to the one before it: the beginning is the same, since vendors
/// cache it, so a file grows with the conversation and not with its square.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The path and query below the base URL.
    pub path: String,
    /// How many bytes at the beginning of the body are those of the request before.
    pub same_start: usize,
    /// How many bytes at its end are.
    pub same_end: usize,
    /// The bytes between.
    pub text: String,
}

impl RecordedRequest {
    /// The difference between a request and the body before it.
    pub fn new(before: &str, request: &WireRequest) -> Self {
        let body = request.body.as_str();
        let pairs = before.bytes().zip(body.bytes());
        let same = pairs.take_while(|(one, other)| one == other).count();
        let same_start = body.floor_char_boundary(same);
        let (rest_before, rest) = (&before.as_bytes()[same_start..], &body[same_start..]);
        let pairs = rest_before.iter().rev().zip(rest.bytes().rev());
        let same = pairs.take_while(|(one, other)| **one == *other).count();
        let end = rest.ceil_char_boundary(rest.len() - same);
        Self {
            path: request.path.clone(),
            same_start,
            same_end: rest.len() - end,
            text: rest[..end].to_owned(),
        }
    }

    /// The body. `None` if it does not match the one before.
    pub fn body(&self, before: &str) -> Option<String> {
        let start = before.get(..self.same_start)?;
        let end = before.get(before.len().checked_sub(self.same_end)?..)?;
        Some(format!("{start}{}{end}", self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, body: &str) {
        let request = WireRequest {
            path: "/p".to_owned(),
            headers: Vec::new(),
            key_header: ("k", ""),
            body: body.to_owned(),
        };
        let recorded = RecordedRequest::new(before, &request);
        assert_eq!(recorded.body(before).as_deref(), Some(body), "{recorded:?}");
        assert!(recorded.text.len() <= body.len());
    }

    #[test]
    fn a_request_is_rebuilt_from_its_difference() {
        for (before, body) in [
            ("", ""),
            ("", "{}"),
            ("{\"a\":[1]}", "{\"a\":[1,2]}"),
            ("{\"a\":[1,2]}", "{\"a\":[1]}"),
            ("aaaa", "aaaaaaa"),
            ("aaaaaaa", "aaaa"),
            ("aéb", "aèb"),
            ("é", "ê"),
            ("same", "same"),
        ] {
            check(before, body);
        }
        let request = RecordedRequest {
            path: String::new(),
            same_start: 3,
            same_end: 0,
            text: String::new(),
        };
        assert_eq!(request.body("ab"), None);
    }
}
