//! Events that belong to no call. The queue is bounded: a slow reader loses the oldest events and
//! is told how many.

use crate::name::ServerName;
use crate::secret::Redacted;
use crate::state::State;
use crate::untrusted::Untrusted;

pub use reload_report::{AcceptedChange, PendingChange, ReloadReport};

mod reload_report;

/// The severity of a log message, as in syslog, least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but significant.
    Notice,
    /// A warning.
    Warning,
    /// An error.
    Error,
    /// A component failed.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LogLevel {
    /// Every level, least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The protocol's word for the level.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Parses the protocol's word.
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// The callers whose calls a session has sent since it last had none in flight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionCallers {
    /// No call was sent.
    #[default]
    None,
    /// All these calls were those of this caller.
    One(crate::caller_id::CallerId),
    /// Calls of several callers were sent.
    Several,
}

impl SessionCallers {
    /// Whether all calls were those of this caller.
    pub(crate) fn are_only(&self, caller: &crate::caller_id::CallerId) -> bool {
        matches!(self, Self::One(known) if known == caller)
    }

    /// A call of another caller is sent; `is_idle` if none was in flight.
    pub(crate) fn add(&mut self, caller: &crate::caller_id::CallerId, is_idle: bool) {
        *self = match self {
            Self::One(_) | Self::Several if !is_idle => Self::Several,
            _ => Self::One(caller.clone()),
        };
    }
}

/// Whether an update of a resource is one for a subscription to `subscribed`: it may be of a part of
/// that resource.
pub fn is_update_for(subscribed: &str, updated: &str) -> bool {
    let part = updated.strip_prefix(subscribed);
    part.is_some_and(|part| {
        part.is_empty() || subscribed.ends_with('/') || part.starts_with(['/', '?', '#'])
    })
}

/// An event.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A server changed its state.
    State {
        /// The server.
        server: ServerName,
        /// The new state.
        state: State,
    },
    /// The catalog was replaced.
    Catalog {
        /// The generation of the new catalog.
        generation: u64,
        /// Tools that were added, removed or changed, as `server/tool`.
        changed: Vec<String>,
    },
    /// A server's log message that belongs to no call: 50 at once and 100 a second; the server's log
    /// file has more.
    Log {
        /// The server.
        server: ServerName,
        /// The level that the server stated, safe to show.
        level: String,
        /// The message text.
        text: Redacted,
        /// The params of `notifications/message`, with the entry's secrets redacted.
        params: crate::wire::RawJson,
        /// Who may have caused it.
        callers: SessionCallers,
    },
    /// A subscribed resource changed.
    ResourceUpdated {
        /// The server.
        server: ServerName,
        /// The resource's URI, as the server names it; it may contain a secret of the entry.
        uri: Untrusted,
    },
    /// A person has finished what a server asked for at a page, after the call that asked had ended.
    /// During the call its caller is notified
    /// ([`elicitation_complete`](crate::Caller::elicitation_complete)).
    ElicitationComplete {
        /// The server.
        server: ServerName,
        /// The caller of that call.
        caller: crate::caller_id::CallerId,
        /// The params of `notifications/elicitation/complete`, with the entry's secrets redacted.
        params: crate::wire::RawJson,
    },
    /// A new configuration is in force, as far as it was approved.
    Reloaded(std::sync::Arc<ReloadReport>),
    /// A watched file is invalid; the previous configuration stays in force.
    ConfigBroken {
        /// The errors, one line each, safe to show.
        errors: Vec<String>,
    },
    /// A server's question was declined without asking anybody, within a limit for each server.
    QuestionDeclined {
        /// The server.
        server: ServerName,
        /// Why; one line, safe to show.
        reason: String,
    },
    /// A notice for people; one line, safe to show.
    Notice {
        /// The server that it is about.
        server: Option<ServerName>,
        /// The line.
        line: String,
    },
}

/// A reader of events.
#[derive(Debug)]
pub struct Events(pub(crate) tokio::sync::broadcast::Receiver<Event>);

/// An event, or the number of events that were lost.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NextEvent {
    /// An event.
    Event(Event),
    /// The reader was too slow and lost this many events.
    Lagged(u64),
}

impl Events {
    /// The next event; `None` once the last clone of the [`Host`](crate::Host) was dropped.
    /// [`Host::stop`](crate::Host::stop) alone does not end the events.
    pub async fn next(&mut self) -> Option<NextEvent> {
        use tokio::sync::broadcast::error::RecvError;
        match self.0.recv().await {
            Ok(event) => Some(NextEvent::Event(event)),
            Err(RecvError::Lagged(missed)) => Some(NextEvent::Lagged(missed)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event, without waiting; `None` if there is none yet.
    pub fn try_next(&mut self) -> Option<NextEvent> {
        use tokio::sync::broadcast::error::TryRecvError;
        match self.0.try_recv() {
            Ok(event) => Some(NextEvent::Event(event)),
            Err(TryRecvError::Lagged(missed)) => Some(NextEvent::Lagged(missed)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}
