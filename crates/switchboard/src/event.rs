//! What happened that belongs to no call. Bounded; a slow reader loses the oldest and is told how many.

use crate::name::ServerName;
use crate::untrusted::Untrusted;

/// One happening.
#[derive(Debug, Clone)]
pub enum Event {
    /// A server moved from one state to another.
    State {
        /// Which.
        server: ServerName,
        /// The new state.
        state: crate::server::State,
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
        /// The level it gave.
        level: String,
        /// Its words.
        text: Untrusted,
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
pub enum Next {
    /// It happened.
    Event(Event),
    /// The reader was too slow: this many are gone.
    Gap(u64),
}

impl Events {
    /// The next event; `None` once the host has stopped.
    pub async fn next(&mut self) -> Option<Next> {
        use tokio::sync::broadcast::error::RecvError;
        match self.0.recv().await {
            Ok(event) => Some(Next::Event(event)),
            Err(RecvError::Lagged(missed)) => Some(Next::Gap(missed)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event that has happened already; `None` where that was all.
    pub fn happened(&mut self) -> Option<Next> {
        use tokio::sync::broadcast::error::TryRecvError;
        match self.0.try_recv() {
            Ok(event) => Some(Next::Event(event)),
            Err(TryRecvError::Lagged(missed)) => Some(Next::Gap(missed)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}
