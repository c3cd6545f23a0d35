//! Reads the recordings: what `chaosd` received, and what passed through `wiretee`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::script::RawJson;

/// One line of `chaosd`'s record. Restarts append to the same file; each has its own pid.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// Which process.
    pub pid: u32,
    /// Milliseconds since that process started.
    pub ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What a `chaosd` process saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It started.
    Start,
    /// A line came, as it was without its newline.
    Received {
        /// The line.
        line: String,
    },
    /// Stdin ended.
    Eof,
    /// A signal came.
    Signal {
        /// Its name: `SIGTERM`.
        name: String,
    },
}

/// Everything in one record file of `chaosd`, in the order it happened.
#[derive(Debug, Clone, Default)]
pub struct Record(pub Vec<Entry>);

/// A message in a record: what a test asks about.
#[derive(Debug, Clone, Deserialize)]
pub struct Message {
    /// Its id, as written.
    pub id: Option<RawJson>,
    /// Its method; a response has none.
    pub method: Option<String>,
    /// Its parameters, as written.
    pub params: Option<RawJson>,
    /// Its result, as written.
    pub result: Option<RawJson>,
    /// Its error, as written.
    pub error: Option<RawJson>,
}

impl Record {
    /// Reads what is there by now; a file that is not there yet is an empty record. A last line
    /// without its newline is left out.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        Self(
            complete
                .lines()
                .map(|line| serde_json::from_str(line).expect("chaosd writes one entry per line"))
                .collect(),
        )
    }

    /// How many processes wrote it.
    pub fn starts(&self) -> usize {
        self.0
            .iter()
            .filter(|entry| entry.event == Event::Start)
            .count()
    }

    /// Every message received; lines that are none are left out.
    pub fn messages(&self) -> Vec<Message> {
        self.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Every message received with this method.
    pub fn with_method(&self, method: &str) -> Vec<Message> {
        self.messages()
            .into_iter()
            .filter(|message| message.method.as_deref() == Some(method))
            .collect()
    }

    /// How many messages with this method were received.
    pub fn count(&self, method: &str) -> usize {
        self.with_method(method).len()
    }

    /// The methods of all requests and notifications received, in order.
    pub fn methods(&self) -> Vec<String> {
        self.messages()
            .into_iter()
            .filter_map(|message| message.method)
            .collect()
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|entry| match &entry.event {
            Event::Received { line } => Some(line.as_str()),
            _ => None,
        })
    }
}

/// What `wiretee` saw pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passed {
    /// Lines from the host to the server, without their newlines.
    pub to_server: Vec<Vec<u8>>,
    /// Lines from the server to the host, without their newlines.
    pub to_host: Vec<Vec<u8>>,
}

impl Passed {
    /// Reads a record file of `wiretee`; a file that is not there yet is an empty record.
    pub fn read(path: &Path) -> Self {
        let mut passed = Self::default();
        for line in std::fs::read(path)
            .unwrap_or_default()
            .split(|byte| *byte == b'\n')
        {
            match (line.first(), line.get(2..)) {
                (Some(b'>'), Some(rest)) => passed.to_server.push(rest.to_vec()),
                (Some(b'<'), Some(rest)) => passed.to_host.push(rest.to_vec()),
                _ => {}
            }
        }
        passed
    }

    /// The results that the server gave to requests with this method, byte for byte, in the order
    /// they came.
    pub fn results_of(&self, method: &str) -> Vec<String> {
        let asked: Vec<String> = self
            .to_server
            .iter()
            .filter_map(|line| serde_json::from_slice::<Message>(line).ok())
            .filter(|message| message.method.as_deref() == Some(method))
            .filter_map(|message| message.id.map(|id| id.get().to_owned()))
            .collect();
        self.to_host
            .iter()
            .filter_map(|line| serde_json::from_slice::<Message>(line).ok())
            .filter(|message| {
                message.method.is_none()
                    && message
                        .id
                        .as_ref()
                        .is_some_and(|id| asked.iter().any(|asked| asked == id.get()))
            })
            .filter_map(|message| message.result.map(|result| result.get().to_owned()))
            .collect()
    }
}
