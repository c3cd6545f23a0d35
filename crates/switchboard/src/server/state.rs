//! The state of a server, and the snapshot of it that others see.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::catalog::Offerings;
use crate::hint::Hint;
use crate::name::ToolName;
use crate::session::{Era, OddityLog, Session};

/// The state of a server, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// `enabled = false`.
    Disabled,
    /// A list in `[security]` blocks it.
    Blocked {
        /// Which list.
        rule: String,
    },
    /// A project's entry that nobody has accepted, or that has changed since.
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
    /// It can be used.
    Ready {
        /// Its protocol era.
        era: Era,
        /// The revision of the protocol.
        version: String,
    },
    /// A person must log in.
    NeedsLogin {
        /// Its URL.
        url: String,
        /// What the server said, or what is missing; safe to show.
        reason: String,
        /// What helps: a login, or a change of its entry.
        hint: Hint,
    },
    /// Failed, and will be tried again.
    Backoff {
        /// Why.
        error: String,
        /// How many attempts in a row have failed.
        attempt: u32,
        /// When the next attempt begins.
        retry_at: SystemTime,
    },
    /// Failed, and will be tried again only when it is used or restarted.
    Failed {
        /// Why.
        error: String,
    },
    /// We stopped it.
    Stopped,
}

impl State {
    /// One word for it, without its reason.
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
    /// The connection before this one is being ended.
    Stop,
    /// The server that this one replaces is finishing its calls.
    Drain,
    /// Its process is being started.
    Spawn,
    /// Its URL is being resolved.
    Resolve,
    /// The protocol handshake.
    Handshake,
    /// Its tools, prompts and resources are being listed.
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

/// The transport that was found to work for a server with a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE.
    Sse,
}

/// A server at one moment. Replaced as a whole, never changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its state.
    pub state: State,
    /// The live connection, while Ready.
    pub session: Option<Arc<Session>>,
    /// The transport of the current or last connection, where it had to be found out.
    pub wire: Option<Wire>,
    /// What it offers, or offered when it was last connected.
    pub offerings: Arc<Offerings>,
    /// The offerings come from the cache or a former session.
    pub cached: bool,
    /// The running process.
    pub pid: Option<u32>,
    /// When the process was started or the connection opened.
    pub started: Option<SystemTime>,
    /// How often it was restarted.
    pub restarts: u32,
    /// Variables referred to and not set: (variable, field).
    pub unset: Vec<(String, String)>,
    /// How long each step of the last start took.
    pub steps: Vec<(ConnectStep, Duration)>,
    /// The last state changes with their reasons, newest last, at most 50.
    pub history: Vec<(SystemTime, String)>,
    /// What was unusual about the current or last connection. Explains failures before there was a
    /// session.
    pub oddities: OddityLog,
    /// How the last connection ended: exit status and last stderr, safe to show.
    pub last_exit: Option<String>,
    /// Its first start: a package runner may be installing it.
    pub is_first_start: bool,
    /// Why the last attempt failed and how many in a row have. Cleared by a success or a restart.
    pub(super) failure: Option<(String, u32)>,
    /// Attempts to connect that have ended, successful or not.
    pub(super) attempts_ended: u64,
    /// How often the server was listed again.
    pub(super) listings: u64,
    /// The cached catalog is being read.
    pub(super) loading_cached: bool,
    /// Tools that need the other era than this connection's.
    pub(super) other_era_tools: Arc<BTreeSet<ToolName>>,
}

impl Snapshot {
    /// The state to show: a server that is being retried is shown as failed until it is connected.
    pub fn shown_state(&self) -> State {
        match (&self.state, &self.failure) {
            (State::Connecting { since, .. }, Some((error, attempt))) => State::Backoff {
                error: error.clone(),
                attempt: *attempt,
                retry_at: *since,
            },
            (state, _) => state.clone(),
        }
    }

    /// Whether its first attempt has ended, or none is in progress.
    pub fn is_settled(&self) -> bool {
        self.attempts_ended > 0
            || !matches!(self.state, State::Connecting { .. }) && !self.loading_cached
    }

    /// Its session has ended, and the task has not said so yet.
    pub(super) fn has_lost_session(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.is_closed())
    }

    pub(super) fn empty(state: State) -> Self {
        Self {
            state,
            session: None,
            wire: None,
            offerings: Arc::default(),
            cached: false,
            pid: None,
            started: None,
            restarts: 0,
            unset: Vec::new(),
            steps: Vec::new(),
            history: Vec::new(),
            oddities: OddityLog::default(),
            last_exit: None,
            is_first_start: false,
            failure: None,
            attempts_ended: 0,
            listings: 0,
            loading_cached: false,
            other_era_tools: Arc::default(),
        }
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
