//! Keeps one configured server alive: one task owns its process, session, state and backoff. Others hold a [`ServerHandle`].

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, broadcast, mpsc, watch};

use crate::caller::Offers;
use crate::catalog::Offerings;
use crate::config::{Environment, Fingerprint, ServerConfig};
use crate::event::Event;
use crate::launch::{Launcher, StderrTail};
use crate::session::{Era, Session};
use crate::store::Store;
use crate::untrusted::Untrusted;

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
        /// What is being done.
        step: &'static str,
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

/// What others see of a server at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Where it stands.
    pub state: State,
    /// The live connection, while Ready.
    pub session: Option<Arc<Session>>,
    /// What it offers, or offered last time.
    pub offerings: Arc<Offerings>,
    /// The offerings come from the store, not from a live session.
    pub cached: bool,
    /// Of the running process.
    pub pid: Option<u32>,
    /// When the process was started.
    pub started: Option<SystemTime>,
    /// How often it was started again.
    pub restarts: u32,
    /// Variables referred to and not set: (variable, field).
    pub unset: Vec<(String, String)>,
    /// How long each step of the last start took.
    pub steps: Vec<(&'static str, Duration)>,
    /// The last state changes with their reasons, newest last, at most 50 (P9).
    pub history: Vec<(SystemTime, String)>,
}

/// What a server task works with.
#[derive(Clone)]
pub struct Means {
    /// Starts processes.
    pub launcher: Launcher,
    /// What references expand to.
    pub environment: Arc<Environment>,
    /// Remembers eras and catalogs.
    pub store: Arc<dyn Store>,
    /// Where the server's log file goes; `None` writes none.
    pub log_folder: Option<Arc<std::path::PathBuf>>,
    /// Happenings.
    pub events: broadcast::Sender<Event>,
    /// Rung whenever a snapshot changed; the host rebuilds its catalog.
    pub changed: Arc<Notify>,
    /// What legacy sessions advertise.
    pub offers: Offers,
    /// The folders a legacy server may ask for.
    pub roots: Option<Vec<String>>,
}

/// The holder's end of a server task. The task ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    /// The entry.
    pub config: Arc<ServerConfig>,
    /// What its grants are bound to.
    pub launch: Fingerprint,
    /// The last of its stderr.
    pub stderr: StderrTail,
    commands: mpsc::Sender<Command>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
}

/// What a holder may tell the task.
#[derive(Debug)]
enum Command {}

/// Why a server cannot be used now: a sentence with the server's name, the fact and what to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("server \"{server}\": {fact}")]
pub struct NotReady {
    /// Which.
    pub server: crate::name::ServerName,
    /// What happened, and what to try.
    pub fact: String,
    /// Its state.
    pub state: State,
}

impl ServerHandle {
    /// Starts the task. `initial` is `Connecting` for an eager server; `Idle`, `Disabled`, `Blocked`, `Untrusted` start nothing.
    pub fn start(config: Arc<ServerConfig>, means: Means, initial: State) -> Self {
        let _ = (config, means, initial);
        todo!()
    }

    /// How it stands now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// A live session, waking an idle or failed server and waiting up to `wait` for it.
    pub async fn ready(&self, wait: Duration) -> Result<Arc<Session>, NotReady> {
        let _ = (wait, &self.commands);
        todo!()
    }

    /// Waits until the server is neither connecting nor about to.
    pub async fn settled(&self) {
        todo!()
    }

    /// Tells the task that the server did useful work: the count of failures starts anew.
    pub fn worked(&self) {
        todo!()
    }

    /// Ends the process and starts it again.
    pub async fn restart(&self) {
        todo!()
    }

    /// Ends the process within the stop timing.
    pub async fn stop(&self) {
        todo!()
    }
}

#[allow(unused_imports)]
use Untrusted as _;
