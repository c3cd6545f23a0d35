//! A server's published state at one moment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::catalog::Offerings;
use crate::name::ToolName;
use crate::session::{DeviationCounter, Session};
use crate::state::{ConnectStep, State};

/// The transport that was found to work for a server with a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DetectedTransport {
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE.
    Sse,
}

/// A server's published state at one moment. Replaced as a whole, never changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// The server's state.
    pub state: State,
    /// The live connection, while Ready.
    pub session: Option<Arc<Session>>,
    /// The transport of the current or last connection, where it had to be found out.
    pub wire: Option<DetectedTransport>,
    /// What the server offers, or offered when it was last connected.
    pub offerings: Arc<Offerings>,
    /// Whether the offerings come from the cache or an earlier session.
    pub cached: bool,
    /// The running process.
    pub pid: Option<u32>,
    /// When the process was started or the connection opened.
    pub started: Option<SystemTime>,
    /// How often it was restarted.
    pub restarts: u32,
    /// References to unset variables: (variable, field).
    pub unset: Vec<(String, String)>,
    /// How long each step of the last start took.
    pub steps: Vec<(ConnectStep, Duration)>,
    /// The last state changes with their reasons, oldest first, at most 50.
    pub history: Vec<(SystemTime, String)>,
    /// Deviations from the protocol in the current or last connection. They also explain failures
    /// before there was a session.
    pub deviations: DeviationCounter,
    /// How the last connection ended: exit status and last stderr, safe to show.
    pub last_exit: Option<String>,
    /// Whether this is the server's first start: a package runner may be installing it.
    pub is_first_start: bool,
    /// Whether the server could not be listed in time in an earlier run
    /// ([`ServerHandle::remember_unlisted`](super::ServerHandle::remember_unlisted)).
    pub was_unlisted: bool,
    /// The last failure and the number of consecutive ones. Cleared by a success or a restart.
    pub(super) failure: Option<(String, u32)>,
    /// The number of attempts to connect that have ended, successful or not.
    pub(super) attempts_ended: u64,
    /// The number of times the server was listed again.
    pub(super) listings: u64,
    /// Whether the cached catalog is still being read.
    pub(super) loading_cached: bool,
    /// The tools that need the other era than this connection's.
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

    /// Whether the first attempt to connect has ended, or none is in progress.
    pub fn is_settled(&self) -> bool {
        self.attempts_ended > 0
            || !matches!(self.state, State::Connecting { .. }) && !self.loading_cached
    }

    /// Whether the cached catalog is still being read.
    pub fn is_loading_cached(&self) -> bool {
        self.loading_cached
    }

    /// Whether the session has ended and the task has not published that yet.
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
            deviations: DeviationCounter::default(),
            last_exit: None,
            is_first_start: false,
            was_unlisted: false,
            failure: None,
            attempts_ended: 0,
            listings: 0,
            loading_cached: false,
            other_era_tools: Arc::default(),
        }
    }
}
