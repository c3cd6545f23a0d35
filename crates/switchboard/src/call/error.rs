//! Errors of a call: the server, what happened, and a hint for people.

use std::fmt;
use std::time::Duration;

use crate::caller::ReportedOutcome;
use crate::catalog::Unresolved;
use crate::hint::Hint;
use crate::host::LeaseError;
use crate::name::ServerName;
use crate::result::CallResult;
use crate::schema::ValidationFault;
use crate::server::NotReady;
use crate::session::RequestFault;
use crate::untrusted::escaped_line;

/// Why a call did not complete. A result with `isError` is not an error.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No such tool.
    #[error("{}", unresolved(.name, .why))]
    Unresolved {
        /// The name as given.
        name: String,
        /// The reason.
        why: Unresolved,
    },
    /// No such server.
    #[error("no server \"{server}\" is configured")]
    UnknownServer {
        /// The name as given.
        server: ServerName,
    },
    /// A reload removed or replaced the server while the call waited, or consecutive reloads did while
    /// the request looked for it.
    #[error(
        "server \"{server}\": a reload of the configuration removed or replaced it; call again"
    )]
    Replaced {
        /// The server.
        server: ServerName,
    },
    /// The arguments violate the tool's input schema.
    #[error("{}tool {tool}: {schema_violation}", of(.server))]
    InvalidArguments {
        /// The server.
        server: ServerName,
        /// The tool's name, escaped.
        tool: String,
        /// The violations.
        schema_violation: ValidationFault,
    },
    /// A rule, a mode or a person denied the call.
    #[error("{}tool {tool}: denied: {reason}", of(.server))]
    Denied {
        /// The server.
        server: ServerName,
        /// The tool's name, escaped.
        tool: String,
        /// Who or what denied it.
        reason: DenialReason,
        /// What a person could do about it.
        hint: Option<Hint>,
    },
    /// The server cannot be used.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The definition changed between approval and call.
    #[error(
        "{}tool {tool}: its definition changed after it was approved; review the definition and call again", of(.server)
    )]
    DefinitionChanged {
        /// The server.
        server: ServerName,
        /// The tool's name, escaped.
        tool: String,
    },
    /// The request did not complete.
    #[error("{}{fault}{}", whose(.server), .detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default())]
    Request {
        /// The server.
        server: ServerName,
        /// What happened.
        fault: RequestFault,
        /// Exit status and last stderr, if the server's process ended.
        detail: Option<String>,
        /// What a person could do about it.
        hint: Option<Hint>,
    },
}

impl CallError {
    /// Whether the tool may have run, or may still be running: such a call is not simply repeated.
    pub fn may_have_run(&self) -> bool {
        matches!(self, Self::Request { fault, .. } if fault.may_have_run())
    }

    /// The server of the call, if its name is known.
    pub fn server(&self) -> Option<&ServerName> {
        match self {
            Self::Unresolved { .. } => None,
            Self::NotReady(not_ready) => Some(&not_ready.server),
            Self::UnknownServer { server }
            | Self::Replaced { server }
            | Self::InvalidArguments { server, .. }
            | Self::Denied { server, .. }
            | Self::DefinitionChanged { server, .. }
            | Self::Request { server, .. } => Some(server),
        }
    }

    /// Whether no tool has the name: it may belong to a server that is not listed yet.
    pub(super) fn is_unknown_name(&self) -> bool {
        matches!(
            self,
            Self::Unresolved {
                why: Unresolved::Unknown { .. },
                ..
            }
        )
    }
}

impl From<Box<CallError>> for CallError {
    fn from(error: Box<CallError>) -> Self {
        *error
    }
}

/// Who or what denied a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DenialReason {
    /// A rule or a mode.
    Rule(String),
    /// The caller.
    Caller {
        /// The caller's reason, if it gave one.
        reason: Option<String>,
    },
    /// The caller did not answer in time.
    NoAnswer {
        /// The time limit.
        after: Duration,
    },
    /// The call needs approval, and a person may still give it.
    ApprovalPending {
        /// The number of the question, for that person.
        number: u64,
        /// What the caller can do in the meantime, as a clause.
        next_step: String,
    },
    /// The call needs approval, and the caller cannot ask a person.
    ApprovalUnavailable,
}

impl fmt::Display for DenialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => f.write_str(rule),
            Self::Caller { reason: None } => f.write_str("the caller declined"),
            Self::Caller {
                reason: Some(reason),
            } => write!(f, "{}", escaped_line(reason)),
            Self::NoAnswer { after } => {
                write!(f, "no approval within {} s", after.as_secs())
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
    /// What a person could do about it; the front end words it.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Denied { hint, .. } | Self::Request { hint, .. } => *hint,
            Self::NotReady(not_ready) => not_ready.hint,
            _ => None,
        }
    }

    /// The kind of error in logs.
    pub(super) fn outcome(&self) -> ReportedOutcome {
        match self {
            Self::Unresolved { .. } | Self::UnknownServer { .. } => ReportedOutcome::Unresolved,
            Self::Replaced { .. } | Self::DefinitionChanged { .. } => ReportedOutcome::Changed,
            Self::InvalidArguments { .. } => ReportedOutcome::InvalidArguments,
            Self::Denied { .. } => ReportedOutcome::Denied,
            Self::NotReady(_) => ReportedOutcome::NotReady,
            Self::Request { .. } => ReportedOutcome::Failed,
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

/// A call that did not complete is an error result for a model, which may try again or do something
/// else.
impl From<CallError> for CallResult {
    fn from(error: CallError) -> Self {
        Self::failure(error.to_string())
    }
}

/// The server of a tool; empty for a host tool.
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

fn unresolved(name: &str, why: &Unresolved) -> String {
    match why {
        Unresolved::Unknown { nearest } if nearest.is_empty() => format!("no tool {name:?}"),
        Unresolved::Unknown { .. } => format!("no tool {name:?}; {why}"),
        Unresolved::Withheld(_) => why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Withheld;
    use crate::name::ToolName;
    use crate::transport::TransportFault;

    #[test]
    fn an_error_says_whether_the_tool_may_have_run() {
        let server = ServerName::new("files").expect("a valid name");
        let request = |fault| CallError::Request {
            server: server.clone(),
            fault,
            detail: None,
            hint: None,
        };
        let status = |status| TransportFault::Status {
            status,
            detail: String::new(),
            retry_after: None,
            error: None,
        };
        let late = RequestFault::Timeout {
            after: Duration::from_secs(1),
            total: true,
        };
        for (fault, expected) in [
            (late, true),
            (RequestFault::Closed("it exited".into()), true),
            (
                RequestFault::Transport(TransportFault::Lost(String::new())),
                true,
            ),
            (RequestFault::Transport(status(503)), true),
            (RequestFault::Transport(status(404)), false),
            (
                RequestFault::Transport(TransportFault::NotSent(String::new())),
                false,
            ),
            (RequestFault::NotSent("no room".into()), false),
            (RequestFault::DefinitionChanged, false),
        ] {
            let error = request(fault);
            assert_eq!(error.may_have_run(), expected, "{error}");
            assert_eq!(error.server(), Some(&server));
        }
        let removed = CallError::Replaced { server };
        assert!(!removed.may_have_run());
    }

    #[test]
    fn an_error_names_the_server_the_tool_and_the_limit() {
        let server = ServerName::new("files").expect("a valid name");
        let late = |after, total| CallError::Request {
            server: server.clone(),
            fault: RequestFault::Timeout { after, total },
            detail: None,
            hint: None,
        };
        let withheld = |tool: &str| CallError::Unresolved {
            name: "files__read".to_owned(),
            why: Unresolved::Withheld(Withheld {
                server: server.clone(),
                tool: ToolName::new(tool),
                reason: "its schema is not an object".to_owned(),
            }),
        };
        for (error, expected) in [
            (
                late(Duration::from_secs(30), true),
                "server \"files\": not completed within 30 s",
            ),
            (
                late(Duration::from_millis(1_500), false),
                "server \"files\": no answer or progress within 1.5 s",
            ),
            (
                withheld("read"),
                "server \"files\": tool \"read\" is withheld: its schema is not an object",
            ),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
