//! Why a session was not opened, and why a request on it did not complete.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::transport::WireFault;
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// The code of [`RequestFault::HeaderMismatch`].
pub(super) const HEADER_MISMATCH: i64 = -32020;

/// What a request comes to: its result byte for byte, or why there is none.
pub(super) type RequestResult = Result<RawJson, RequestFault>;

/// Why a session was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenFault {
    /// The channel did not open, or ended during the handshake.
    #[error("{0}")]
    Channel(String),
    /// No answer in time.
    #[error("no answer to the handshake within {0:?}")]
    Timeout(Duration),
    /// The server answered with an error, or with an invalid result.
    #[error("the server refused the handshake: {0}")]
    Refused(String),
    /// It refused `initialize` because it had been probed: start it again and speak legacy at once.
    #[error("the server refused `initialize` after a probe")]
    RefusedAfterProbe,
    /// The endpoint does not speak Streamable HTTP (400, 404 or 405 to `initialize`); it may speak
    /// the older wire.
    #[error("{0}")]
    WrongWire(String),
    /// No response came, for another reason.
    #[error("{0}")]
    Wire(WireFault),
    /// A person must log in first.
    #[error("{0}")]
    NeedsLogin(crate::transport::NeedsLogin),
    /// It broke the protocol, so we ended the connection. How its process ended then has no
    /// meaning.
    #[error("{0}")]
    ProtocolViolation(String),
}

/// Why a request on a session did not complete. An answer with `isError` is not among these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// The server answered with a JSON-RPC error.
    #[error("the server answered with error {code}: {message}")]
    Answered {
        /// JSON-RPC code.
        code: i64,
        /// The server's words, escaped.
        message: String,
        /// What it sent beside them.
        data: Option<RawJson>,
    },
    /// A modern server found headers that do not match the message: the call was not executed.
    #[error("the server answered with error {HEADER_MISMATCH}: {message}")]
    HeaderMismatch {
        /// The server's words, escaped.
        message: String,
        /// What it sent beside them.
        data: Option<RawJson>,
    },
    /// No answer in time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// Which deadline it was.
        after: Duration,
        /// True: the whole call took too long; false: no progress for too long.
        total: bool,
    },
    /// The connection ended first.
    #[error("the connection ended: {0}")]
    Closed(String),
    /// The response was larger than the bound.
    #[error("the answer is too large: more than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// The answer is not one that the protocol allows.
    #[error("the answer is not valid: {0}")]
    Invalid(String),
    /// Calls of another caller were in flight for too long.
    #[error(
        "not sent within {after:?}: a call of another caller is under way, and this server asks questions"
    )]
    QueueTimeout {
        /// The deadline.
        after: Duration,
    },
    /// The transport brought no response.
    #[error("{0}")]
    Wire(WireFault),
    /// It was not sent: the server does not offer it, or a bound of ours is reached.
    #[error("{0}")]
    NotSent(String),
    /// The server answered that it does not do it, in another way than with an error.
    #[error("{0}")]
    NotSupported(String),
    /// The server requested an answer of the caller's model, which was refused, and it cannot go on
    /// without.
    #[error("not finished: the server wanted an answer of a model and got none: {0}")]
    Declined(String),
    /// The call became a task, and the task came to no result.
    #[error("{0}")]
    Task(TaskFault),
    /// The tool is no longer the one that was approved; the call was not sent.
    #[error("not sent: the definition changed after it was approved")]
    DefinitionChanged,
}

/// Why a task came to no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskFault {
    /// The server no longer knows the task.
    #[error(
        "the task is gone before its result came: {0}; a server keeps a task only for its time to live"
    )]
    Expired(String),
    /// The task failed; with the server's words, escaped.
    #[error("the task failed{}", following(.0))]
    Failed(Option<String>),
    /// The server cancelled the task; with its words, escaped.
    #[error("the server cancelled the task{}", following(.0))]
    Cancelled(Option<String>),
}

fn following(words: &Option<String>) -> String {
    words
        .as_ref()
        .map_or_else(String::new, |words| format!(": {words}"))
}

impl TaskFault {
    fn redacted(self, redact: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Expired(words) => Self::Expired(redact(&words)),
            Self::Failed(words) => Self::Failed(words.map(|words| redact(&words))),
            Self::Cancelled(words) => Self::Cancelled(words.map(|words| redact(&words))),
        }
    }
}

impl RequestFault {
    pub(super) fn not_offered(what: &str) -> Self {
        Self::NotSent(format!("the server does not offer {what}"))
    }

    pub(super) fn session_dropped() -> Self {
        Self::Closed("the session was dropped".into())
    }

    /// The same with the server's words filtered: a server may repeat a secret in an error.
    pub(crate) fn redacted(self, redact: impl Fn(&str) -> String) -> Self {
        // `data` is for programs, so it is dropped rather than altered where it holds a secret.
        let without_secrets =
            |data: Option<RawJson>| data.filter(|data| redact(data.as_str()) == data.as_str());
        match self {
            Self::Answered {
                code,
                message,
                data,
            } => Self::Answered {
                code,
                message: redact(&message),
                data: without_secrets(data),
            },
            Self::HeaderMismatch { message, data } => Self::HeaderMismatch {
                message: redact(&message),
                data: without_secrets(data),
            },
            Self::Closed(reason) => Self::Closed(redact(&reason)),
            Self::Invalid(fact) => Self::Invalid(redact(&fact)),
            Self::Wire(fault) => Self::Wire(fault.redacted(redact)),
            Self::Task(fault) => Self::Task(fault.redacted(redact)),
            other => other,
        }
    }
}

/// Reads a JSON-RPC error object.
pub(super) fn read_error(error: &RawJson) -> RequestFault {
    #[derive(Deserialize)]
    struct ErrorObject<'a> {
        #[serde(default)]
        code: serde_json::Value,
        #[serde(default)]
        message: String,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    match error.decode::<ErrorObject<'_>>() {
        Ok(read) => RequestFault::Answered {
            code: read.code.as_i64().unwrap_or_default(),
            message: Untrusted::new(read.message)
                .for_terminal_indented()
                .to_string(),
            data: read.data.map(|data| error.part(data)),
        },
        Err(fault) => RequestFault::Invalid(format!("an invalid error object: {fault}")),
    }
}
