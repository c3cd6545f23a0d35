//! Why a server cannot be used now: a typed reason, and what a person could do about it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{ConnectStep, State};
use crate::config::ServerConfig;
use crate::duration_text::duration_text;
use crate::hint::Hint;
use crate::name::ServerName;

/// Why a server cannot be used now. Displays the server's name and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("server \"{server}\": {reason}")]
#[non_exhaustive]
pub struct NotReady {
    /// The server.
    pub server: ServerName,
    /// The reason.
    pub reason: NotReadyReason,
    /// What a person could do about it.
    pub hint: Option<Hint>,
    /// The server's state.
    pub state: State,
}

/// The reason why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotReadyReason {
    /// Its entry disables it.
    Disabled {
        /// The file of the entry.
        file: Arc<PathBuf>,
        /// 1-based.
        line: usize,
    },
    /// A list in `[security]` forbids it.
    Blocked {
        /// The rule that matched.
        rule: String,
    },
    /// Nobody has accepted its entry in its present form.
    Untrusted {
        /// What is missing: an acceptance, or a new one after a change.
        reason: String,
    },
    /// It is still connecting.
    Connecting {
        /// The current step.
        step: ConnectStep,
        /// How long the caller waited.
        waited: Duration,
    },
    /// A person must log in.
    NeedsLogin {
        /// What the server said, or what is missing.
        reason: String,
    },
    /// The server refused the credentials of its entry, which a login would not replace.
    TokenRefused {
        /// What the server said.
        reason: String,
    },
    /// Connecting failed.
    Failed {
        /// Why.
        error: String,
    },
    /// It was stopped.
    Stopped,
    /// It was not connected in time.
    TimedOut {
        /// How long the caller waited.
        waited: Duration,
    },
    /// The limit of per-caller sessions is reached, and all are in use.
    TooManyCallers {
        /// The limit.
        limit: usize,
    },
}

impl NotReady {
    pub(super) fn new(config: &ServerConfig, state: &State, waited: Duration) -> Self {
        let (reason, hint) = match state {
            State::Disabled => {
                let (file, line) = (config.source.file.clone(), config.source.line);
                let reason = NotReadyReason::Disabled { file, line };
                (reason, Some(Hint::Enable(config.dialect)))
            }
            State::Blocked { rule } => {
                let rule = rule.clone();
                (
                    NotReadyReason::Blocked { rule },
                    Some(Hint::ChangeServerList),
                )
            }
            State::Untrusted { reason } => {
                let reason = reason.clone();
                (NotReadyReason::Untrusted { reason }, Some(Hint::Accept))
            }
            State::Connecting { step, .. } => (
                NotReadyReason::Connecting {
                    step: *step,
                    waited,
                },
                Some(Hint::Examine),
            ),
            State::NeedsLogin { reason, hint, .. } => {
                let reason = reason.clone();
                let reason = match config.endpoint.has_own_token() {
                    true => NotReadyReason::TokenRefused { reason },
                    false => NotReadyReason::NeedsLogin { reason },
                };
                (reason, Some(*hint))
            }
            State::Backoff { error, .. } | State::Failed { error } => {
                let error = error.clone();
                (NotReadyReason::Failed { error }, Some(Hint::Examine))
            }
            State::Stopped => (NotReadyReason::Stopped, Some(Hint::StartAgain)),
            State::Idle | State::Ready { .. } => (NotReadyReason::TimedOut { waited }, None),
        };
        Self {
            server: config.name.clone(),
            reason,
            hint,
            state: state.clone(),
        }
    }
}

impl fmt::Display for NotReadyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled { file, line } => write!(f, "disabled in {}:{line}", file.display()),
            Self::Blocked { rule } => write!(f, "blocked: {rule}"),
            Self::Untrusted { reason } => write!(f, "not trusted: {reason}"),
            Self::Connecting { step, waited } => write!(
                f,
                "still connecting after {} (step: {step})",
                duration_text(*waited)
            ),
            Self::NeedsLogin { reason } => write!(f, "needs a login ({reason})"),
            Self::TokenRefused { reason } => f.write_str(reason),
            Self::Failed { error } => f.write_str(error),
            Self::Stopped => f.write_str("stopped"),
            Self::TimedOut { waited } => write!(f, "not ready within {}", duration_text(*waited)),
            Self::TooManyCallers { limit } => write!(
                f,
                "{limit} callers use sessions of their own, and none is idle"
            ),
        }
    }
}
