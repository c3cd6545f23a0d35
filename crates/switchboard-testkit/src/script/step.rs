//! The steps of a script, with their parameters.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::RawJson;

/// One thing to do. The word in JSON is the variant's name in snake case.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// The usual answer of the method; of a tool, the text `ok`.
    Answer,
    /// A tool result with this text.
    Text(String),
    /// This result, byte for byte.
    Result(RawJson),
    /// A JSON-RPC error.
    Error(Failure),
    /// A tool result with the arguments, as text and as `structuredContent`.
    Echo,
    /// A tool result that tells pid, parent, session, group, folder, arguments, environment and
    /// descriptors of the process.
    Inspect,
    /// This whole line; `@id@` in it becomes the id of the request.
    AnswerRaw(String),
    /// The usual answer under another id.
    AnswerAs(IdForm),
    /// The first half of the usual answer, and no newline.
    HalfAnswer,
    /// A result whose text has this many bytes.
    Huge(Huge),
    /// A result whose `structuredContent` is this many arrays inside each other.
    Deep(usize),
    /// No answer, ever.
    Drop,
    /// A modern result that asks for input; the steps after it are those of the retry.
    InputRequired(InputRequired),
    /// A tool result with `inputResponses` and `requestState` as they came with the retry.
    AnswerInput,

    /// Sends a request to the host and waits for the response.
    Request(Request),
    /// Sends `elicitation/create` with these parameters and waits for the response.
    Ask(RawJson),
    /// Sends `ping` and waits for the response.
    Ping,
    /// A tool result with the last response of the host: `{"result": …}` or `{"error": …}`.
    AnswerReply,
    /// Sends a notification.
    Notify(Request),
    /// Sends `notifications/progress` for this request, if it came with a token.
    Progress(f64),
    /// Sends `notifications/tools/list_changed` so many times.
    ListChanged(usize),
    /// Sends so many `notifications/message`.
    FloodNotifications(usize),
    /// Sends so many `ping` requests and waits for no response.
    FloodPings(usize),

    /// This text and a newline, on stdout; `@id@` in it becomes the id of the request.
    Say(String),
    /// This text without a newline, on stdout.
    Part(String),
    /// So many lines on stdout that are no messages.
    Junk(usize),
    /// This text on stderr, as it is.
    Stderr(String),
    /// So many bytes on stderr, in lines.
    FloodStderr(u64),

    /// Waits so many milliseconds.
    Sleep(u64),
    /// Waits until the file is there.
    WaitFile(PathBuf),
    /// Waits until `notifications/cancelled` came for this request.
    AwaitCancel,
    /// Waits until a message with this method has come.
    AwaitMethod(String),
    /// Makes the file.
    Touch(PathBuf),
    /// Writes this text to the file, in place of what it held.
    Write(Written),

    /// Ends the process with this status.
    Exit(i32),
    /// Ends the process with this signal, for example `SIGKILL`.
    Signal(String),
    /// Ends its stdout and lives on.
    CloseStdout,
    /// Ends its stderr and lives on.
    CloseStderr,
    /// Reads no further message.
    StopReading,
    /// Starts a process that ignores SIGTERM.
    Fork,
    /// Starts a process that ignores SIGTERM and holds this one's stdout open.
    ForkHoldingStdout,
    /// Starts a process that ignores SIGTERM, by double fork and setsid.
    Daemon,

    /// The first time these steps, the second time those; the last repeat. Counted per tool or
    /// method.
    Turns(Vec<Steps>),
    /// These steps if the marker file is not there, which is then made: once over all restarts.
    Once(Once),
}

/// A JSON-RPC error to answer with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: String,
    /// The data, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<RawJson>,
}

/// An id that is not the one asked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdForm {
    /// A number that nobody asked with.
    Wrong,
    /// The id as a fraction: `7.0`.
    Float,
    /// The id as text: `"7"`.
    String,
    /// `null`.
    Null,
    /// No id at all.
    Missing,
}

/// A line that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Huge {
    /// How long its text is.
    pub bytes: u64,
    /// Where the id stands.
    pub id: IdPlace,
}

/// Where a huge answer carries its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdPlace {
    /// Before the result.
    First,
    /// After the result.
    Last,
    /// Nowhere.
    None,
}

/// A modern result that asks for input.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct InputRequired {
    /// What is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<RawJson>,
    /// What the host must send back as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
}

/// A method and its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The parameters, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<RawJson>,
}

/// A file and what it is to hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub text: String,
}

/// Steps for one launch of many.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Once {
    /// The file that tells that it was done.
    pub marker: PathBuf,
    /// What is done.
    pub steps: Steps,
}

/// Steps in their order. In JSON a list, or one step without its brackets.
#[derive(Clone, Default)]
pub struct Steps(pub Vec<Step>);

impl Steps {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Step> for Steps {
    fn from(step: Step) -> Self {
        Self(vec![step])
    }
}

impl From<Vec<Step>> for Steps {
    fn from(steps: Vec<Step>) -> Self {
        Self(steps)
    }
}

impl<const N: usize> From<[Step; N]> for Steps {
    fn from(steps: [Step; N]) -> Self {
        Self(steps.into())
    }
}

impl Serialize for Steps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [step] => step.serialize(serializer),
            steps => steps.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Steps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not an untagged enum: serde would take the JSON apart first, and with it the bytes that a
        // script wants kept.
        let raw = RawJson::deserialize(deserializer)?;
        let steps = if raw.get().starts_with('[') {
            serde_json::from_str(raw.get())
        } else {
            serde_json::from_str(raw.get()).map(|step| vec![step])
        };
        steps.map(Self).map_err(serde::de::Error::custom)
    }
}
