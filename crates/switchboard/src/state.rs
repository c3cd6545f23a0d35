//! The states of a server, each with its reason.

use std::fmt;
use std::time::SystemTime;

use crate::hint::Hint;
use crate::revision::Era;

/// The state of a server, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// `enabled = false`.
    Disabled,
    /// A list in `[security]` blocks it.
    Blocked {
        /// The list.
        rule: String,
    },
    /// An entry that waits for a person: a project's that nobody has accepted in its present form, or
    /// one that an edit of a watched file added or enabled.
    Untrusted {
        /// Why it is not trusted.
        reason: String,
    },
    /// Lazy, not needed yet.
    Idle,
    /// An attempt to connect is in progress.
    Connecting {
        /// Since when.
        since: SystemTime,
        /// The current step.
        step: ConnectStep,
    },
    /// The server can be used.
    Ready {
        /// The protocol era.
        era: Era,
        /// The revision of the protocol.
        version: String,
    },
    /// A person must log in.
    NeedsLogin {
        /// The server's URL.
        url: String,
        /// What the server said, or what is missing; safe to show.
        reason: String,
        /// What helps: a login, or a change of the entry.
        hint: Hint,
    },
    /// Failed; will be retried.
    Backoff {
        /// The error.
        error: String,
        /// The number of consecutive failures.
        attempt: u32,
        /// When the next attempt begins.
        retry_at: SystemTime,
    },
    /// Failed; will be retried only when it is used or restarted.
    Failed {
        /// The error.
        error: String,
    },
    /// Stopped by the host.
    Stopped,
}

impl State {
    /// Connecting since now, at this step.
    pub(crate) fn connecting(step: ConnectStep) -> Self {
        Self::Connecting {
            since: SystemTime::now(),
            step,
        }
    }

    /// The state as one word, without its reason.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Blocked { .. } => "blocked",
            Self::Untrusted { .. } => "untrusted",
            Self::Idle => "idle",
            Self::Connecting { .. } => "connecting",
            Self::Ready { .. } => "ready",
            Self::NeedsLogin { .. } => "needs-login",
            Self::Backoff { .. } => "backoff",
            Self::Failed { .. } => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// The steps of connecting to a server. Displayed as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectStep {
    /// Nothing has been done yet.
    Starting,
    /// The previous connection is being closed.
    Stop,
    /// The server that this one replaces is finishing its calls.
    Drain,
    /// The process is being started.
    Spawn,
    /// The URL is being resolved.
    Resolve,
    /// The protocol handshake.
    Handshake,
    /// Tools, prompts and resources are being listed.
    List,
}

impl fmt::Display for ConnectStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Stop => "stop",
            Self::Drain => "drain",
            Self::Spawn => "spawn",
            Self::Resolve => "resolve",
            Self::Handshake => "handshake",
            Self::List => "list",
        })
    }
}

impl fmt::Display for State {
    /// One line, with the reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("disabled"),
            Self::Blocked { rule } => write!(f, "blocked: {rule}"),
            Self::Untrusted { reason } => write!(f, "untrusted: {reason}"),
            Self::Idle => f.write_str("idle"),
            Self::Connecting { step, .. } => write!(f, "connecting: {step}"),
            Self::Ready {
                era: Era::Legacy,
                version,
            } => write!(f, "ready, legacy {version}"),
            Self::Ready {
                era: Era::Modern,
                version,
            } => write!(f, "ready, modern {version}"),
            Self::NeedsLogin { url, reason, .. } if url.is_empty() => {
                write!(f, "needs a login: {reason}")
            }
            Self::NeedsLogin { url, reason, .. } => write!(f, "needs a login at {url}: {reason}"),
            Self::Backoff { error, attempt, .. } => {
                write!(f, "backoff after failure {attempt}: {error}")
            }
            Self::Failed { error } => write!(f, "failed: {error}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
