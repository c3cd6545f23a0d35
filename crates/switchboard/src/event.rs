//! What happened that belongs to no call. Bounded; a slow reader loses the oldest and is told how
//! many.

use crate::name::ServerName;
use crate::secret::Redacted;
use crate::state::State;
use crate::untrusted::Untrusted;

pub use reload_report::{PendingChange, ReloadReport};

mod reload_report;

/// How grave a log message is, as syslog has it, the least grave first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// Ordinary.
    Info,
    /// Ordinary, but of note.
    Notice,
    /// Something is odd.
    Warning,
    /// Something failed.
    Error,
    /// A part failed.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// Every level, the least grave first.
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

    /// The protocol's word for it.
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

    /// The level of this word.
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// One happening.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A server moved from one state to another.
    State {
        /// Which.
        server: ServerName,
        /// The new state.
        state: State,
    },
    /// The catalog was replaced.
    Catalog {
        /// Its generation.
        generation: u64,
        /// Tools that came, went or changed, as `server/tool`.
        changed: Vec<String>,
    },
    /// A server's log message that belongs to no call.
    Log {
        /// Which.
        server: ServerName,
        /// The level it gave, safe to show.
        level: String,
        /// Its words.
        text: Redacted,
        /// The params of `notifications/message`, as they came but for secrets of the entry.
        params: crate::wire::RawJson,
    },
    /// A resource that was subscribed to changed.
    ResourceUpdated {
        /// Whose.
        server: ServerName,
        /// Which, as the server names it; it may hold a secret where the entry does.
        uri: Untrusted,
    },
    /// Another configuration holds, as far as a person has said so.
    Reloaded(std::sync::Arc<ReloadReport>),
    /// A file that is watched cannot be used; the configuration from before stays.
    ConfigBroken {
        /// What is wrong with it, one line each, safe to show.
        errors: Vec<String>,
    },
    /// Something a person should know; one line, safe to show.
    Notice {
        /// About which server.
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
    /// It happened.
    Event(Event),
    /// The reader was too slow: this many are gone.
    Gap(u64),
}

impl Events {
    /// The next event; `None` once the host has stopped.
    pub async fn next(&mut self) -> Option<NextEvent> {
        use tokio::sync::broadcast::error::RecvError;
        match self.0.recv().await {
            Ok(event) => Some(NextEvent::Event(event)),
            Err(RecvError::Lagged(missed)) => Some(NextEvent::Gap(missed)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event that has happened already; `None` where that was all.
    pub fn happened(&mut self) -> Option<NextEvent> {
        use tokio::sync::broadcast::error::TryRecvError;
        match self.0.try_recv() {
            Ok(event) => Some(NextEvent::Event(event)),
            Err(TryRecvError::Lagged(missed)) => Some(NextEvent::Gap(missed)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}
