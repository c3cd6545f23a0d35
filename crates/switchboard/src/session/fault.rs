//! Errors of opening a session and of requests on it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::duration_text::duration_text;
use crate::transport::TransportFault;
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// The code of [`RequestFault::HeaderMismatch`].
pub(super) const HEADER_MISMATCH: i64 = -32020;

/// The result of a request, byte for byte, or its fault.
pub(super) type RequestResult = Result<RawJson, RequestFault>;

/// The same with a boxed fault: a response is stored and moved several times, and would be as large
/// as the fault.
pub(super) type ResponseResult = Result<RawJson, Box<RequestFault>>;

/// Why a session was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFault {
    /// The channel did not open, or ended during the handshake.
    #[error("{0}")]
    Channel(String),
    /// No response in time.
    #[error("no answer to the handshake within {}", duration_text(*.0))]
    Timeout(Duration),
    /// The server responded with an error or an invalid result.
    #[error("the server refused the handshake: {0}")]
    Refused(String),
    /// The server refused `initialize` after a probe: restart it and use legacy without a probe.
    #[error("the server refused `initialize` after a probe")]
    RefusedAfterProbe,
    /// The endpoint does not speak Streamable HTTP (400, 404 or 405 to `initialize`); it may speak
    /// HTTP+SSE.
    #[error("{0}")]
    WrongTransport(String),
    /// No response came, for another reason.
    #[error("{0}")]
    Transport(TransportFault),
    /// A person must log in first.
    #[error("{0}")]
    NeedsLogin(crate::transport::NeedsLogin),
    /// The server violated the protocol, so the session was ended. Its later exit status has no
    /// meaning.
    #[error("{0}")]
    ProtocolViolation(String),
}

/// Why a request on a session did not complete. A result with `isError` is not a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestFault {
    /// The server responded with a JSON-RPC error.
    #[error("the server answered with error {code}: {message}")]
    ErrorResponse {
        /// JSON-RPC code.
        code: i64,
        /// The server's message, escaped.
        message: String,
        /// The `data` of the error.
        data: Option<RawJson>,
    },
    /// A modern server found headers that do not match the message; it did not execute the call.
    #[error("the server answered with error {HEADER_MISMATCH}: {message}")]
    HeaderMismatch {
        /// The server's message, escaped.
        message: String,
        /// The `data` of the error.
        data: Option<RawJson>,
    },
    /// No response in time.
    #[error("{} within {}", missed(*.total), duration_text(*.after))]
    Timeout {
        /// The deadline that passed.
        after: Duration,
        /// True: the total time limit; false: no progress for too long.
        total: bool,
    },
    /// The connection ended first.
    #[error("the connection ended: {0}")]
    Closed(String),
    /// The response exceeds the size limit.
    #[error("the answer is too large: more than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The response violates the protocol.
    #[error("the answer is not valid: {0}")]
    Invalid(String),
    /// Calls of another caller were in flight for too long.
    #[error(
        "not sent within {}: calls of other callers were in flight, and a server that asks questions gets those of one caller at a time",
        duration_text(*.after)
    )]
    QueueTimeout {
        /// The deadline.
        after: Duration,
    },
    /// The transport brought no response.
    #[error("{0}")]
    Transport(TransportFault),
    /// The request was not sent: the server does not offer it, or one of our limits is reached.
    #[error("{0}")]
    NotSent(String),
    /// The server does not support the request, and said so other than with an error.
    #[error("{0}")]
    NotSupported(String),
    /// A sampling request of the server was refused, and it cannot complete without an answer.
    #[error("not completed: a sampling request of the server was refused: {0}")]
    Declined(String),
    /// The call became a task that has no result.
    #[error("{0}")]
    Task(TaskFault),
    /// The tool is no longer the approved one; the call was not sent.
    #[error("not sent: the definition changed after it was approved")]
    DefinitionChanged,
}

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskFault {
    /// The server no longer knows the task.
    #[error("the task expired before its result was fetched: {0}")]
    Expired(String),
    /// The task failed; with the server's message, escaped.
    #[error("the task failed{}", following(.0))]
    Failed(Option<String>),
    /// The server cancelled the task; with its message, escaped.
    #[error("the server cancelled the task{}", following(.0))]
    Cancelled(Option<String>),
}

/// What did not happen in time.
fn missed(total: bool) -> &'static str {
    match total {
        true => "not completed",
        false => "no answer or progress",
    }
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

impl From<Box<RequestFault>> for RequestFault {
    fn from(fault: Box<RequestFault>) -> Self {
        *fault
    }
}

impl RequestFault {
    /// Whether the server may have executed the request, or may still be executing it.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::HeaderMismatch { .. }
            | Self::QueueTimeout { .. }
            | Self::NotSent(_)
            | Self::NotSupported(_)
            | Self::DefinitionChanged => false,
            Self::Transport(fault) => fault.may_have_run(),
            Self::ErrorResponse { .. }
            | Self::Timeout { .. }
            | Self::Closed(_)
            | Self::TooLarge { .. }
            | Self::Invalid(_)
            | Self::Declined(_)
            | Self::Task(_) => true,
        }
    }

    pub(super) fn not_offered(what: &str) -> Self {
        Self::NotSent(format!("the server does not offer {what}"))
    }

    pub(super) fn no_permit() -> Self {
        Self::NotSent("tools/call needs a permit".into())
    }

    pub(super) fn session_dropped() -> Self {
        Self::Closed("the session was dropped".into())
    }

    /// Redacts the server's texts: a server may repeat a secret in an error.
    pub(crate) fn redacted(self, redact: impl Fn(&str) -> String) -> Self {
        // `data` is for programs: if it contains a secret it is dropped rather than altered.
        let without_secrets =
            |data: Option<RawJson>| data.filter(|data| redact(data.as_str()) == data.as_str());
        match self {
            Self::ErrorResponse {
                code,
                message,
                data,
            } => Self::ErrorResponse {
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
            Self::Transport(fault) => Self::Transport(fault.redacted(redact)),
            Self::Task(fault) => Self::Task(fault.redacted(redact)),
            other => other,
        }
    }
}

/// Parses a JSON-RPC error object.
pub(super) fn read_error(error: &RawJson) -> RequestFault {
    #[derive(Deserialize)]
    struct ErrorObject<'a> {
        #[serde(borrow, default)]
        code: Option<&'a RawValue>,
        #[serde(default)]
        message: String,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    match error.decode::<ErrorObject<'_>>() {
        Ok(read) => RequestFault::ErrorResponse {
            code: read
                .code
                .and_then(|code| code.get().parse().ok())
                .unwrap_or_default(),
            message: Untrusted::new(read.message)
                .for_terminal_indented()
                .to_string(),
            data: read.data.map(|data| error.part(data)),
        },
        Err(fault) => RequestFault::Invalid(format!("an invalid error object: {fault}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_error_without_an_integer_as_its_code_has_code_0() {
        for (code, expected) in [
            ("-32601", -32601),
            ("7.5", 0),
            ("1e2", 0),
            ("\"7\"", 0),
            ("null", 0),
            ("[[],[]]", 0),
            ("99999999999999999999", 0),
        ] {
            let error = format!(r#"{{"code": {code} , "message":"m"}}"#);
            let answered = RequestFault::ErrorResponse {
                code: expected,
                message: "m".to_owned(),
                data: None,
            };
            assert_eq!(read_error(&error.parse().unwrap()), answered, "{error}");
        }
    }
}
