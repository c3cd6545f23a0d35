//! Keeps one configured server alive: one task owns its process, session, state and backoff. Others
//! hold a `ServerHandle`.
//!
//! The files, from the outside in:
//! - `start`: starts the task, with what all servers of a host share (`resources`).
//! - `snapshot`: what others see. `status_publisher` changes it, `messages` words it, `dialect_status`
//!   words it as the dialect's own program does.
//! - `task`: the server's task. `backoff` decides when to retry, `keep_policy` whether to keep a
//!   server that offers nothing.
//! - `lease`: what a request holds of the server while it is in flight.
//! - `connect`: one attempt to connect. `endpoint` is what differs between a process, a URL and a
//!   library user's transport (`connectors`); `stderr` is the process's output.
//! - `connection`: a live connection. `list_refresh` lists again after a change.
//! - `launch_store`: what is remembered between runs. `store_writes` writes it, the newest last.
//! - `caller_sessions`, `other_era`, `connection_factory`: further connections to the same server.
//!   `current_config` is the entry that all of them use.
//! - `era` and `switching`: which protocol era a server's handlers need.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::auth::NeedsLogin;
use crate::catalog::ToolDefinition;
use crate::config::{Fingerprint, ServerConfig, Start};
use crate::event::LogLevel;
use crate::future::BoxFuture;
use crate::session::{Session, Subscriptions};
pub use crate::state::{ConnectStep, State};

pub(crate) use connectors::Connectors;
pub use dialect_status::DialectStatus;
#[cfg(feature = "http")]
pub(crate) use endpoint::SharedStack;
pub use endpoint::private_working_folder;
pub use launch_store::remembered_offerings;
pub use not_ready::{NotReady, NotReadyReason};
pub use other_era::SecondConnection;
pub use snapshot::{DetectedTransport, Snapshot};
pub use stderr::ServerStderr;

pub(crate) use era::EraEvidence;
pub(crate) use switching::EraRefusal;

use caller_sessions::CallerSessions;
use current_config::CurrentConfig;
use endpoint::SharedCredentials;
use launch_store::LaunchStore;
pub(crate) use lease::{CallerSession, InFlightCount};
use other_era::OtherEra;
pub(crate) use resources::ServerResources;
use start::TaskSetup;
use task::TaskCommand;

mod backoff;
mod caller_sessions;
mod connect;
mod connection;
mod connection_factory;
mod connectors;
mod current_config;
mod dialect_status;
mod endpoint;
mod era;
mod keep_policy;
mod launch_store;
mod lease;
mod list_refresh;
mod messages;
mod not_ready;
mod other_era;
mod resources;
mod snapshot;
mod start;
mod status_publisher;
mod stderr;
mod store_writes;
mod switching;
mod task;
#[cfg(test)]
mod tests;

/// How long a failed call waits to learn how its server ended.
const END_REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// A handle to a server's task. The task ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    /// The server's configuration entry.
    pub config: Arc<ServerConfig>,
    /// The launch fingerprint: grants are bound to it.
    pub launch: Fingerprint,
    /// What the server wrote to stderr.
    pub stderr: ServerStderr,
    commands: mpsc::Sender<TaskCommand>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    /// Set after a successful response; the task reads it when a connection ends.
    worked: Arc<AtomicBool>,
    /// The callers' own sessions, if the entry has `session = "per-caller"`.
    caller_sessions: Option<Arc<CallerSessions>>,
    /// The second connection, of the other era, where one is possible.
    other_era: Option<Arc<OtherEra>>,
    #[cfg_attr(not(feature = "oauth"), allow(dead_code))]
    credentials: SharedCredentials,
    /// Requests in flight. Shared by all handles of one task.
    pub(crate) in_flight: Arc<InFlightCount>,
    /// What outlives a session. Shared by all handles of one task.
    memory: Arc<ServerMemory>,
}

/// What outlives the sessions of a server.
#[derive(Debug)]
struct ServerMemory {
    /// Shared with the connections of callers and that of the other era.
    config: CurrentConfig,
    subscriptions: Subscriptions,
    launch_store: LaunchStore,
}

impl ServerHandle {
    /// The current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Sets the minimum log level of the server's sessions in the legacy era, where a request cannot
    /// name its own: of the current one and of all later ones. Starts nothing.
    /// [`Host::set_log_level`](crate::Host::set_log_level) takes precedence.
    pub fn set_legacy_log_level(&self, level: LogLevel) {
        self.memory.subscriptions.set_legacy_level(level);
    }

    /// Subscribes the server's current session and all later ones to a resource, without waiting for
    /// the server. Starts nothing. False if too many resources are subscribed to.
    pub fn subscribe_unconfirmed(&self, uri: &str) -> bool {
        self.memory.subscriptions.add(uri).is_ok()
    }

    /// Ends a subscription to a resource, without waiting for the server. Starts nothing.
    pub fn end_subscription(&self, uri: &str) {
        self.memory.subscriptions.remove(uri);
    }

    /// Remembers that the server could not be listed in time, for
    /// [`Snapshot::was_unlisted`] of later runs.
    pub async fn remember_unlisted(&self) {
        self.memory.launch_store.clone().store_unlisted().await;
    }

    /// A live session. Starts an idle or failed server and waits for it, up to `wait` and at most
    /// until the current attempt, or the next one, has ended.
    pub async fn ready(&self, wait: Duration) -> Result<Arc<Session>, NotReady> {
        if let Some(session) = &self.snapshot.borrow().session
            && !session.is_closed()
        {
            return Ok(session.clone());
        }
        let snapshot = Box::pin(self.usable(wait)).await?;
        snapshot
            .session
            .clone()
            .ok_or_else(|| self.not_ready(&snapshot.state, wait))
    }

    /// Starts the server if needed and waits until it is ready or has failed.
    async fn usable(&self, wait: Duration) -> Result<Arc<Snapshot>, NotReady> {
        let mut seen = self.snapshot.clone();
        let attempts_before = seen.borrow().attempts_ended;
        let waited = timeout(wait, async {
            self.send(TaskCommand::Wake).await;
            let decided = seen.wait_for(|now| match now.state {
                State::Ready { .. } => !now.has_lost_session(),
                State::Connecting { .. } => false,
                State::Backoff { .. } => now.attempts_ended > attempts_before,
                _ => true,
            });
            // An error means that the task has ended; its last snapshot says why.
            let _ = decided.await;
        });
        let _ = waited.await;
        let snapshot = self.snapshot();
        match &snapshot.state {
            State::Ready { .. } => Ok(snapshot),
            state => Err(self.not_ready(state, wait)),
        }
    }

    /// Whether waiting for the server may add tools: it is connecting, or was not started. The
    /// cached catalog of a lazy server counts as complete.
    pub fn may_offer_more(&self) -> bool {
        self.may_offer_more_than(&self.snapshot.borrow())
    }

    /// Whether the server's tools are known, or it does not run, so that the exposed names of later
    /// servers are final.
    pub(crate) fn is_settled_at(&self, snapshot: &Snapshot) -> bool {
        snapshot.is_settled()
            && (snapshot.attempts_ended > 0 || !self.may_offer_more_than(snapshot))
    }

    /// Whether the server was tried and is not connected, or must not be started.
    pub(crate) fn is_down(&self) -> bool {
        !matches!(
            self.snapshot.borrow().state,
            State::Ready { .. } | State::Connecting { .. } | State::Idle
        )
    }

    fn may_offer_more_than(&self, snapshot: &Snapshot) -> bool {
        match snapshot.state {
            State::Connecting { .. } => true,
            State::Idle => !(snapshot.cached && self.config.start == Start::Lazy),
            _ => false,
        }
    }

    /// Waits until no first attempt is in progress: the server is ready, or an attempt has failed.
    pub async fn wait_until_settled(&self) {
        // A server that is being retried has already failed.
        let under_way =
            |now: &Snapshot| matches!(now.state, State::Connecting { .. }) && now.failure.is_none();
        let settled = |now: &Arc<Snapshot>| !under_way(now) && !now.loading_cached;
        // An error means that the task has ended, so nothing is in progress.
        let _ = self.snapshot.clone().wait_for(settled).await;
    }

    /// Waits until the server's cached catalog, if it has one, has been read.
    pub async fn cache_read(&self) {
        // An error means that the task has ended.
        let _ = (self.snapshot.clone())
            .wait_for(|now| !now.loading_cached)
            .await;
    }

    /// Lists the server's tools again, and waits up to `wait` for that.
    pub(crate) async fn relist(&self, wait: Duration) {
        let mut seen = self.snapshot.clone();
        let before = seen.borrow().listings;
        let Some(session) = seen.borrow().session.clone() else {
            return;
        };
        session.invalidate_tool_list();
        // On a timeout or a lost connection the previous list stays.
        let _ = timeout(
            wait,
            seen.wait_for(|now| now.listings > before || now.session.is_none()),
        )
        .await;
    }

    /// The tool of the same name and definition hash that the server offers now, whether or not the
    /// catalog exposes it.
    pub(crate) fn definition(&self, tool: &ToolDefinition) -> Option<Arc<ToolDefinition>> {
        let offerings = &self.snapshot.borrow().offerings;
        offerings
            .tools
            .iter()
            .find(|offered| offered.name == tool.name && offered.hash == tool.hash)
            .cloned()
    }

    /// How the connection that a call has just lost ended: exit status and last stderr. Waits at
    /// most `END_REASON_TIMEOUT` for the task to publish it.
    pub(crate) async fn connection_end(&self) -> Option<String> {
        let mut seen = self.snapshot.clone();
        let is_ready = |now: &Snapshot| matches!(now.state, State::Ready { .. });
        // With a new live session, the snapshot no longer describes the lost connection.
        let is_again = |now: &Snapshot| now.session.is_some() && !now.has_lost_session();
        let known = seen.wait_for(|now| !is_ready(now) || is_again(now));
        match timeout(END_REASON_TIMEOUT, known).await {
            Ok(Ok(now)) if !is_ready(&now) => now.last_exit.clone(),
            _ => None,
        }
    }

    /// Reports that a call failed because a login is needed, with a reason that is safe to show.
    /// Returns when the server's state has changed.
    pub(crate) async fn needs_login(&self, needed: NeedsLogin) {
        self.send(|done| TaskCommand::NeedsLogin(needed, done))
            .await;
    }

    /// Stops the server and starts it again. Returns when the new start begins;
    /// [`wait_until_settled`](Self::wait_until_settled) waits until it is ready.
    pub async fn restart(&self) {
        self.end_further_connections();
        self.send(TaskCommand::Restart).await;
    }

    /// Closes the connection, or stops connecting, with this reason, until the server is restarted or
    /// its entry changes. Returns when the server's state has changed.
    pub async fn close(&self, reason: String) {
        self.end_further_connections();
        self.send(|done| TaskCommand::Close(reason, done)).await;
    }

    /// Ends the callers' own sessions and the connection of the other era.
    fn end_further_connections(&self) {
        if let Some(caller_sessions) = &self.caller_sessions {
            caller_sessions.end_all();
        }
        if let Some(other_era) = &self.other_era {
            other_era.end();
        }
    }

    /// The login was revoked: no connection uses its token any more.
    #[cfg(feature = "oauth")]
    pub(crate) fn forget_login(&self) {
        self.credentials.forget();
    }

    /// Replaces the entry of a server whose launch stays the same. Calls use the new entry at once,
    /// connecting and listing use it from the next time on, over each of the server's connections.
    pub(crate) fn update_config(&self, config: Arc<ServerConfig>) -> Self {
        self.memory.config.set(config.clone());
        Self {
            config,
            ..self.clone()
        }
    }

    /// Whether the server's task has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.commands.is_closed()
    }

    /// Stops the server once its calls have ended, each by its own deadline. No new calls begin.
    pub(crate) async fn retire(self) {
        self.in_flight.close();
        self.in_flight.drained().await;
        self.stop().await;
    }

    /// Stops the server permanently, within the stop timing.
    pub async fn stop(&self) {
        let shared = async {
            // An error means that the task is ending.
            let _ = self.commands.send(TaskCommand::Stop).await;
            let mut seen = self.snapshot.clone();
            while seen.changed().await.is_ok() {}
        };
        // Boxed because of the recursion: further connections are handles too, which have no
        // further connections themselves.
        let own: BoxFuture<'_, ()> = Box::pin(async {
            if let Some(caller_sessions) = &self.caller_sessions {
                caller_sessions.stop().await;
            }
        });
        let other_era = async {
            if let Some(other_era) = &self.other_era {
                other_era.stop().await;
            }
        };
        tokio::join!(shared, own, other_era);
    }

    /// Sends a command and waits until it was handled or the task has ended.
    async fn send(&self, command: impl FnOnce(oneshot::Sender<()>) -> TaskCommand) {
        let (done, answer) = oneshot::channel();
        if self.commands.send(command(done)).await.is_ok() {
            let _ = answer.await;
        }
    }

    fn not_ready(&self, state: &State, waited: Duration) -> NotReady {
        NotReady::new(&self.config, state, waited)
    }
}
