//! Why a call did not complete: which server, what happened, and what a person could do as a value.

use std::fmt;
use std::time::Duration;

use crate::catalog::Unresolved;
use crate::hint::Hint;
use crate::host::LeaseError;
use crate::name::ServerName;
use crate::result::CallResult;
use crate::schema::ValidationFault;
use crate::server::NotReady;
use crate::session::RequestFault;
use crate::untrusted::escaped_line;

/// Why a call did not complete. A tool that answered `isError` is not among these.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No such tool.
    #[error("no tool {name:?}{}", suggestion(.why))]
    Unresolved {
        /// As asked for.
        name: String,
        /// Why.
        why: Unresolved,
    },
    /// No such server.
    #[error("no server \"{server}\" is configured")]
    UnknownServer {
        /// As asked for.
        server: ServerName,
    },
    /// One reload after another replaced the server while the request looked for it.
    #[error(
        "server \"{server}\": it is being replaced by reloads of the configuration; call again when they have ended"
    )]
    Replaced {
        /// Which server.
        server: ServerName,
    },
    /// The arguments do not fit.
    #[error("{}tool {tool}: {misfit}", of(.server))]
    Misfit {
        /// Which server.
        server: ServerName,
        /// Which tool, escaped.
        tool: String,
        /// How.
        misfit: ValidationFault,
    },
    /// A rule, a mode, or a person said no.
    #[error("{}tool {tool}: denied: {reason}", of(.server))]
    Denied {
        /// Which server.
        server: ServerName,
        /// Which tool, escaped.
        tool: String,
        /// Who or what said no.
        reason: DenialReason,
        /// What a person could do about it.
        hint: Option<Hint>,
    },
    /// The server cannot be used.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The definition changed between approval and call.
    #[error(
        "{}tool {tool}: its definition changed after it was approved; look at it again and repeat the call", of(.server)
    )]
    Moved {
        /// Which server.
        server: ServerName,
        /// Which tool, escaped.
        tool: String,
    },
    /// The request did not complete.
    #[error("{}{fault}{}", whose(.server), .detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default())]
    Request {
        /// Which server.
        server: ServerName,
        /// What happened.
        fault: RequestFault,
        /// Exit status and last stderr, where the server died.
        detail: Option<String>,
        /// What a person could do about it.
        hint: Option<Hint>,
    },
}

/// Who or what denied a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DenialReason {
    /// A rule, or a mode.
    Rule(String),
    /// The caller.
    Caller {
        /// Why, where it said so.
        reason: Option<String>,
    },
    /// The caller did not answer in time.
    NoAnswer {
        /// How long it had.
        after: Duration,
    },
    /// It needs approval, and a person may still give it.
    ApprovalPending {
        /// The number by which that person finds the question.
        number: u64,
        /// What whoever called can do meanwhile, as a clause.
        next_step: String,
    },
    /// It needs approval, and the caller cannot ask a person.
    ApprovalUnavailable,
}

impl fmt::Display for DenialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => f.write_str(rule),
            Self::Caller { reason: None } => f.write_str("the answer was no"),
            Self::Caller {
                reason: Some(reason),
            } => write!(f, "the answer was no: {}", escaped_line(reason)),
            Self::NoAnswer { after } => {
                write!(f, "nobody answered within {} s", after.as_secs())
            }
            Self::ApprovalPending { number, next_step } => {
                write!(f, "approval {number} is pending; {next_step}")
            }
            Self::ApprovalUnavailable => {
                f.write_str("it needs approval, and no person can be asked")
            }
        }
    }
}

impl CallError {
    /// What a person could do about it, for the front to word.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Denied { hint, .. } | Self::Request { hint, .. } => *hint,
            Self::NotReady(not_ready) => not_ready.hint,
            _ => None,
        }
    }

    /// How a log names it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unresolved { .. } | Self::UnknownServer { .. } => "unresolved",
            Self::Replaced { .. } | Self::Moved { .. } => "changed",
            Self::Misfit { .. } => "invalid arguments",
            Self::Denied { .. } => "denied",
            Self::NotReady(_) => "not ready",
            Self::Request { .. } => "failed",
        }
    }
}

impl From<LeaseError> for CallError {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::UnknownServer(server) => Self::UnknownServer { server },
            LeaseError::Replaced(server) => Self::Replaced { server },
        }
    }
}

/// For a model, which may try again or do something else, a call that did not complete is one that
/// failed.
impl From<CallError> for CallResult {
    fn from(error: CallError) -> Self {
        Self::failure(error.to_string())
    }
}

/// Which server's tool it is; this program's own is nobody's.
fn of(server: &ServerName) -> String {
    if server.is_host() {
        String::new()
    } else {
        format!("server \"{server}\", ")
    }
}

fn whose(server: &ServerName) -> String {
    if server.is_host() {
        String::new()
    } else {
        format!("server \"{server}\": ")
    }
}

fn suggestion(why: &Unresolved) -> String {
    let why = why.to_string();
    if why.is_empty() {
        why
    } else {
        format!("; {why}")
    }
}
