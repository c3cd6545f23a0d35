//! Where a server stands, and what others see of it at one moment.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::catalog::Offerings;
use crate::name::ToolName;
use crate::session::{Era, OddityLog, Session};

/// Where a server stands, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// `enabled = false`.
    Disabled,
    /// A list in `[security]` keeps it from running.
    Blocked {
        /// Which.
        rule: String,
    },
    /// A project's entry that nobody has accepted, or that changed since.
    Untrusted {
        /// What is known.
        reason: String,
    },
    /// Lazy, not needed yet.
    Idle,
    /// Under way.
    Connecting {
        /// Since when.
        since: SystemTime,
        /// The current step.
        step: ConnectStep,
    },
    /// Usable.
    Ready {
        /// Which era it speaks.
        era: Era,
        /// Which revision.
        version: String,
    },
    /// A person must log in.
    NeedsLogin {
        /// Where.
        url: String,
        /// What the server said, or what is missing; safe to show.
        reason: String,
    },
    /// Failed, and will be tried again.
    Backoff {
        /// Why.
        error: String,
        /// How often in a row.
        attempt: u32,
        /// When.
        retry_at: SystemTime,
    },
    /// Failed, and will be tried again only when used or told.
    Failed {
        /// Why.
        error: String,
    },
    /// Ended by us.
    Stopped,
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

/// What others see of a server at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Where it stands.
    pub state: State,
    /// The live connection, while Ready.
    pub session: Option<Arc<Session>>,
    /// What the present connection, or the last one, runs over, where that had to be found out.
    pub wire: Option<Wire>,
    /// What it offers, or offered last time.
    pub offerings: Arc<Offerings>,
    /// The offerings are those of last time, not of a live session.
    pub cached: bool,
    /// Of the running process.
    pub pid: Option<u32>,
    /// When the process was started, or the connection begun.
    pub started: Option<SystemTime>,
    /// How often it was started again.
    pub restarts: u32,
    /// Variables referred to and not set: (variable, field).
    pub unset: Vec<(String, String)>,
    /// How long each step of the last start took.
    pub steps: Vec<(ConnectStep, Duration)>,
    /// The last state changes with their reasons, newest last, at most 50 (P9).
    pub history: Vec<(SystemTime, String)>,
    /// What was odd about the present connection, or the last one: it tells why a server failed
    /// before it had a session.
    pub oddities: OddityLog,
    /// How the last connection ended: exit status and the last of stderr, safe to show.
    pub last_exit: Option<String>,
    /// A package runner may be installing the server, for the first time.
    pub is_first_start: bool,
    /// Why the last attempt failed and how many in a row did, until one works or somebody starts
    /// it anew.
    pub(super) failure: Option<(String, u32)>,
    /// Attempts to connect that came to an end, good or bad.
    pub(super) attempts_ended: u64,
    /// How often the server was listed again.
    pub(super) listings: u64,
    /// The catalog of last time is still being read.
    pub(super) loading_cached: bool,
    /// The tools that were found to need the other era than that of this connection.
    pub(super) other_era_tools: Arc<BTreeSet<ToolName>>,
}

impl Snapshot {
    /// The state as it is shown: a server that is being tried again has failed until it is
    /// connected (S2-36).
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

    /// It is usable, or an attempt has shown that it is not, or none is under way: what it offers
    /// later comes late.
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
    /// One line, as the history records it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("disabled"),
            Self::Blocked { rule } => write!(f, "blocked: {rule}"),
            Self::Untrusted { reason } => write!(f, "untrusted: {reason}"),
            Self::Idle => f.write_str("idle"),
            Self::Connecting { .. } => f.write_str("connecting"),
            Self::Ready {
                era: Era::Legacy,
                version,
            } => write!(f, "ready, legacy {version}"),
            Self::Ready {
                era: Era::Modern,
                version,
            } => write!(f, "ready, modern {version}"),
            Self::NeedsLogin { url, reason } if url.is_empty() => {
                write!(f, "needs a login: {reason}")
            }
            Self::NeedsLogin { url, reason } => write!(f, "needs a login at {url}: {reason}"),
            Self::Backoff { error, attempt, .. } => {
                write!(f, "backoff after failure {attempt}: {error}")
            }
            Self::Failed { error } => write!(f, "failed: {error}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
