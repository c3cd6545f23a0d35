//! Keeps one configured server alive: one task owns its process, session, state and backoff. Others
//! hold a `ServerHandle`.
//!
//! The files, from the outside in:
//! - `state`: what others see. `status_publisher` changes it, `messages` words it, `dialect_status`
//!   words it as the dialect's own program does.
//! - `task`: the server's task. `backoff` decides when to retry, `keep_policy` whether to keep a
//!   server that offers nothing, `in_flight_count` when a replaced server may end.
//! - `connect`: one attempt to connect. `endpoint` is what differs between a process, a URL and a
//!   library user's transport (`connectors`); `stderr` is the process's output.
//! - `connection`: a live connection. `list_refresh` lists again after a change.
//! - `launch_store`: what is remembered between runs. `store_writes` writes it in order.
//! - `caller_sessions`, `other_era`, `connection_factory`: further connections to the same server.
//! - `era` and `switching`: which protocol era a server's handlers need.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::auth::{AuthContext, NeedsLogin};
use crate::caller::Offers;
use crate::catalog::ToolDefinition;
use crate::config::{Environment, Fingerprint, ServerConfig, Start};
use crate::event::Event;
use crate::future::BoxFuture;
use crate::launch::Launcher;
use crate::panics::catch_panic;
use crate::secret::Redactor;
use crate::session::{Cache, OddityLog, OpenOptions, Overseer, Roots, Session, Subscriptions};
pub use crate::state::{ConnectStep, State};
use crate::store::{LogFile, Store};
use crate::transport::Connector;

pub(crate) use caller_sessions::CallerSession;
pub(crate) use connectors::Connectors;
pub use dialect_status::DialectStatus;
#[cfg(feature = "http")]
pub(crate) use endpoint::SharedStack;
pub use endpoint::private_working_folder;
pub use launch_store::remembered_offerings;
pub use not_ready::{NotReady, NotReadyReason};
pub use other_era::SecondConnection;
pub use snapshot::{Snapshot, Wire};
pub use stderr::ServerStderr;

pub(crate) use era::EraEvidence;
pub(crate) use switching::EraRefusal;

use backoff::Backoff;
use caller_sessions::CallerSessions;
use connection_factory::ConnectionFactory;
use endpoint::{ConnectorEndpoint, ServerEndpoint};
pub(crate) use in_flight_count::InFlightCount;
use launch_store::{LaunchProfile, LaunchStore};
use other_era::OtherEra;
use status_publisher::StatusPublisher;
use store_writes::StoreWrites;
use task::{Phase, ServerTask, TaskCommand};

mod backoff;
mod caller_sessions;
mod connect;
mod connection;
mod connection_factory;
mod connectors;
mod dialect_status;
mod endpoint;
mod era;
mod in_flight_count;
mod keep_policy;
mod launch_store;
mod list_refresh;
mod messages;
mod not_ready;
mod other_era;
mod snapshot;
mod status_publisher;
mod stderr;
mod store_writes;
mod switching;
mod task;
#[cfg(test)]
mod tests;

/// Commands that wait for a busy task. When the queue is full, senders wait.
const COMMANDS: usize = 16;

/// How long a failed call waits to learn how its server ended.
const END_REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// What all server tasks of a host share.
#[derive(Debug, Clone)]
pub(crate) struct ServerResources {
    /// Starts processes.
    pub launcher: Launcher,
    /// The variables that references expand to.
    pub environment: Arc<Environment>,
    /// The HTTP stack of all URL servers.
    #[cfg(feature = "http")]
    pub http: SharedStack,
    /// For logins to URL servers.
    pub auth: AuthContext,
    /// Remembers eras, wires and catalogs.
    pub store: Arc<dyn Store>,
    /// Where the server's log file goes; `None` writes none.
    pub log_folder: Option<Arc<std::path::PathBuf>>,
    /// The parent of the folders in which user-scope servers without `cwd` run; `None` runs them in
    /// this process's folder.
    pub private_folder: Option<Arc<std::path::PathBuf>>,
    /// Receives what happens.
    pub events: broadcast::Sender<Event>,
    /// Notified when a snapshot changed; the host then rebuilds its catalog.
    pub changed: Arc<Notify>,
    /// The client capabilities that legacy sessions advertise.
    pub offers: Offers,
    /// The roots that a server may ask for.
    pub roots: Roots,
    /// Answers a server's sampling requests.
    pub overseer: Option<Arc<dyn Overseer>>,
    /// The library user's own transports.
    pub connectors: Arc<Connectors>,
    /// Whether a server offers what it offered last time until it is connected.
    pub offers_cached: bool,
}

/// A handle of a server's task. The task ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    /// Its configuration entry.
    pub config: Arc<ServerConfig>,
    /// The launch fingerprint: grants are bound to it.
    pub launch: Fingerprint,
    /// What it wrote to stderr.
    pub stderr: ServerStderr,
    commands: mpsc::Sender<TaskCommand>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    /// Set after a successful response; the task reads it when a connection ends.
    worked: Arc<AtomicBool>,
    /// The callers' own sessions, if the entry has `session = "per-caller"`.
    caller_sessions: Option<Arc<CallerSessions>>,
    /// The second connection, of the other era, where one is possible.
    other_era: Option<Arc<OtherEra>>,
    /// Requests in flight. Shared by all handles of one task.
    pub(crate) in_flight: Arc<InFlightCount>,
}

impl ServerHandle {
    /// Starts the task. With `Connecting` it connects at once; `Idle`, `Disabled`, `Blocked` and
    /// `Untrusted` start nothing. An idle server shows its cached catalog until it is used.
    pub(crate) fn start(
        config: Arc<ServerConfig>,
        resources: ServerResources,
        initial: State,
    ) -> Self {
        Self::start_after(config, resources, initial, None)
    }

    /// The same, but nothing is started before `after` has completed.
    pub(crate) fn start_after(
        config: Arc<ServerConfig>,
        resources: ServerResources,
        initial: State,
        after: Option<BoxFuture<'static, ()>>,
    ) -> Self {
        match resources.connectors.of(&config.name) {
            Some(connector) => {
                Self::start_with_connector(config, resources, initial, after, connector)
            }
            None => Self::start_from_entry(config, resources, initial, after),
        }
    }

    fn start_from_entry(
        config: Arc<ServerConfig>,
        resources: ServerResources,
        initial: State,
        after: Option<BoxFuture<'static, ()>>,
    ) -> Self {
        let log = open_log(&config, &resources, &initial);
        let stderr = ServerStderr::new(log.clone(), config.dialect.profile().drops_info_lines);
        let endpoint = endpoint::endpoint_for(&config, &resources, &stderr);
        let subscriptions = Subscriptions::default();
        let factory = ConnectionFactory {
            config: config.clone(),
            resources: resources.clone(),
            connector: None,
            log: log.clone(),
            subscriptions: subscriptions.clone(),
        };
        let server = TaskSetup {
            log,
            stderr,
            subscriptions,
            after,
            ..TaskSetup::new(config, &resources, endpoint)
        };
        Self {
            caller_sessions: CallerSessions::new(&factory),
            other_era: OtherEra::new(&factory),
            ..Self::spawn_task(server, initial)
        }
    }

    /// With the library user's transport instead of the entry's endpoint.
    fn start_with_connector(
        config: Arc<ServerConfig>,
        resources: ServerResources,
        initial: State,
        after: Option<BoxFuture<'static, ()>>,
        connector: Arc<dyn Connector>,
    ) -> Self {
        let log = open_log(&config, &resources, &initial);
        let subscriptions = Subscriptions::default();
        let factory = ConnectionFactory {
            config: config.clone(),
            resources: resources.clone(),
            connector: Some(connector.clone()),
            log: log.clone(),
            subscriptions: subscriptions.clone(),
        };
        let endpoint = Arc::new(ConnectorEndpoint(connector));
        let server = TaskSetup {
            log,
            subscriptions,
            after,
            ..TaskSetup::new(config, &resources, endpoint)
        };
        Self {
            caller_sessions: CallerSessions::new(&factory),
            other_era: OtherEra::new(&factory),
            ..Self::spawn_task(server, initial)
        }
    }

    fn spawn_task(server: TaskSetup, initial: State) -> Self {
        let TaskSetup {
            config,
            launch,
            log,
            stderr,
            endpoint,
            launch_store,
            offers,
            roots,
            overseer,
            events,
            changed,
            subscriptions,
            is_further_connection,
            offers_cached,
            after,
        } = server;
        let now = tokio::time::Instant::now();
        let idle = matches!(initial, State::Idle);
        let phase = match (&initial, after) {
            (State::Connecting { .. }, None) => Phase::Waiting(now),
            (State::Connecting { .. }, Some(stopping)) => Phase::Stopping {
                stopping,
                then: Some(now),
            },
            (State::Idle, Some(stopping)) => Phase::Stopping {
                stopping,
                then: None,
            },
            _ => Phase::Idle,
        };
        let (commands, heard) = mpsc::channel(COMMANDS);
        let logs = events.clone();
        // A further connection publishes no states: a server's state is that of its shared
        // connection.
        let events = if is_further_connection {
            broadcast::Sender::new(1)
        } else {
            events
        };
        let (status, snapshot) =
            StatusPublisher::new(config.name.clone(), initial, log.clone(), events, changed);
        let worked = Arc::new(AtomicBool::new(false));
        let mut store_writes = StoreWrites::default();
        let is_connecting = matches!(snapshot.borrow().state, State::Connecting { .. });
        if idle || is_connecting && offers_cached && !is_further_connection {
            status.update_quietly(|snapshot| snapshot.loading_cached = true);
            store_writes.add(load_cached(status.clone(), launch_store.clone()));
        }
        let options = OpenOptions {
            server: config.name.clone(),
            protocol: config.protocol,
            known_era: None,
            asks: config.asks,
            sharing: config.session,
            offers,
            roots,
            overseer,
            connect_timeout: config.timeouts.connect,
            max_message_bytes: config.max_message_bytes,
            events: Some(logs),
            oddities: OddityLog::default(),
            log,
            subscriptions,
            cache: Cache::default(),
            // Known once the launch is resolved.
            redactor: Redactor::default(),
        };
        let task = ServerTask {
            config: config.clone(),
            endpoint,
            status,
            launch_store,
            options,
            commands: heard,
            worked: worked.clone(),
            phase,
            backoff: Backoff::default(),
            profile: LaunchProfile::default(),
            is_profile_current: false,
            store_writes,
            restarting: Vec::new(),
        };
        // The handles own the task: it ends when the last one is dropped.
        tokio::spawn(async move {
            let status = task.status.clone();
            if let Err(panicked) = catch_panic(task.run()).await {
                // Its session and process were dropped with it.
                status.set_state(
                    State::Failed {
                        error: panicked.to_string(),
                    },
                    "its task ended",
                    |snapshot| {
                        (snapshot.session, snapshot.pid, snapshot.loading_cached) =
                            (None, None, false);
                    },
                );
            }
        });
        Self {
            config,
            launch,
            stderr,
            commands,
            snapshot,
            worked,
            caller_sessions: None,
            other_era: None,
            in_flight: Arc::default(),
        }
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// A live session. Starts an idle or failed server and waits for it, up to `wait` and at most
    /// until the current attempt, or the next one, has ended.
    pub async fn ready(&self, wait: Duration) -> Result<Arc<Session>, NotReady> {
        // Between the end of a session and the task's notice of it, the snapshot still has it.
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

    /// Whether waiting for it may bring further tools: it is connecting, or was not started. The
    /// cached catalog of a lazy server is good enough.
    pub fn may_offer_more(&self) -> bool {
        self.may_offer_more_than(&self.snapshot.borrow())
    }

    /// Whether its tools are known, or it does not run, so that names of later servers are final.
    pub(crate) fn is_settled_at(&self, snapshot: &Snapshot) -> bool {
        snapshot.is_settled()
            && (snapshot.attempts_ended > 0 || !self.may_offer_more_than(snapshot))
    }

    fn may_offer_more_than(&self, snapshot: &Snapshot) -> bool {
        match snapshot.state {
            State::Connecting { .. } => true,
            State::Idle => !(snapshot.cached && self.config.start == Start::Lazy),
            _ => false,
        }
    }

    /// Waits until no first attempt is in progress: the server is ready, or an attempt has failed.
    pub async fn settled(&self) {
        // A server that is being retried has already failed.
        let under_way =
            |now: &Snapshot| matches!(now.state, State::Connecting { .. }) && now.failure.is_none();
        let settled = |now: &Arc<Snapshot>| !under_way(now) && !now.loading_cached;
        // An error means that the task has ended, so nothing is in progress.
        let _ = self.snapshot.clone().wait_for(settled).await;
    }

    /// Waits until its cached catalog was read, if it is.
    pub(crate) async fn cache_read(&self) {
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
        session.distrust_tools();
        // On a timeout or a lost connection the known list stays.
        let _ = timeout(
            wait,
            seen.wait_for(|now| now.listings > before || now.session.is_none()),
        )
        .await;
    }

    /// The same definition as it offers it now, whatever the catalog exposes.
    pub(crate) fn definition(&self, tool: &ToolDefinition) -> Option<Arc<ToolDefinition>> {
        let offerings = &self.snapshot.borrow().offerings;
        offerings
            .tools
            .iter()
            .find(|offered| offered.name == tool.name && offered.hash == tool.hash)
            .cloned()
    }

    /// Records a successful response: the count of failures starts again. Cheap enough for every
    /// call.
    pub(crate) fn record_success(&self) {
        // Most calls find it set: reading first keeps threads from contending for the cache line.
        if !self.worked.load(Ordering::Relaxed) {
            self.worked.store(true, Ordering::Relaxed);
        }
    }

    /// How the connection that a call has just lost ended: exit status and last stderr. Waits at
    /// most 150 ms.
    pub(crate) async fn connection_end(&self) -> Option<String> {
        let mut seen = self.snapshot.clone();
        let is_ready = |now: &Snapshot| matches!(now.state, State::Ready { .. });
        // A server with a live session has another one by now.
        let is_again = |now: &Snapshot| now.session.is_some() && !now.has_lost_session();
        let known = seen.wait_for(|now| !is_ready(now) || is_again(now));
        match timeout(END_REASON_TIMEOUT, known).await {
            Ok(Ok(now)) if !is_ready(&now) => now.last_exit.clone(),
            _ => None,
        }
    }

    /// Reports that a call failed for lack of a login, with a reason that is safe to show. Returns
    /// when the server's state has changed.
    pub(crate) async fn needs_login(&self, needed: NeedsLogin) {
        self.send(|done| TaskCommand::NeedsLogin(needed, done))
            .await;
    }

    /// Stops the process and starts it again. Returns when the new one is being started;
    /// [`settled`](Self::settled) waits until it is ready.
    pub async fn restart(&self) {
        if let Some(caller_sessions) = &self.caller_sessions {
            caller_sessions.end_all();
        }
        if let Some(other_era) = &self.other_era {
            other_era.end();
        }
        self.send(TaskCommand::Restart).await;
    }

    /// Replaces the entry of a server whose launch stays the same. Calls use the new entry at once,
    /// connecting and listing from the next time on.
    pub(crate) async fn update_config(&self, config: Arc<ServerConfig>) -> Self {
        // An error means that the task is ending already.
        let _ = self
            .commands
            .send(TaskCommand::UpdateConfig(config.clone()))
            .await;
        Self {
            config,
            ..self.clone()
        }
    }

    /// Whether its task has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.commands.is_closed()
    }

    /// Stops it once its calls have ended, each by its own deadline. No new calls begin.
    pub(crate) async fn retire(self) {
        self.in_flight.close();
        self.in_flight.drained().await;
        self.stop().await;
    }

    /// Stops the process within the stop timing, for good.
    pub async fn stop(&self) {
        let shared = async {
            // An error means that the task is ending already.
            let _ = self.commands.send(TaskCommand::Stop).await;
            let mut seen = self.snapshot.clone();
            while seen.changed().await.is_ok() {}
        };
        // Boxed, because this is recursive: further connections are handles too. They have no
        // further connections themselves, so the recursion ends.
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

/// What a task is created from.
struct TaskSetup {
    config: Arc<ServerConfig>,
    launch: Fingerprint,
    log: Option<LogFile>,
    stderr: ServerStderr,
    endpoint: Arc<dyn ServerEndpoint>,
    launch_store: LaunchStore,
    offers: Offers,
    roots: Roots,
    overseer: Option<Arc<dyn Overseer>>,
    events: broadcast::Sender<Event>,
    changed: Arc<Notify>,
    /// Subscriptions and log level, shared by all connections to the server.
    subscriptions: Subscriptions,
    /// It is not the shared connection: a caller's own, or the one of the other era.
    is_further_connection: bool,
    /// It offers what it offered last time until it is connected.
    offers_cached: bool,
    /// Completes when the servers that this one replaces have ended.
    after: Option<BoxFuture<'static, ()>>,
}

impl TaskSetup {
    fn new(
        config: Arc<ServerConfig>,
        resources: &ServerResources,
        endpoint: Arc<dyn ServerEndpoint>,
    ) -> Self {
        let launch = config.fingerprint();
        Self {
            config,
            launch,
            log: None,
            stderr: ServerStderr::default(),
            endpoint,
            launch_store: LaunchStore::new(resources.store.clone(), launch),
            offers: resources.offers,
            roots: resources.roots.clone(),
            overseer: resources.overseer.clone(),
            events: resources.events.clone(),
            changed: resources.changed.clone(),
            subscriptions: Subscriptions::default(),
            is_further_connection: false,
            offers_cached: resources.offers_cached,
            after: None,
        }
    }
}

/// The state of a server that is being started.
fn connecting_now() -> State {
    State::Connecting {
        since: std::time::SystemTime::now(),
        step: ConnectStep::Starting,
    }
}

/// Opens the log of a server that may run. An error is only logged: the server runs without.
fn open_log(
    config: &ServerConfig,
    resources: &ServerResources,
    initial: &State,
) -> Option<LogFile> {
    if !matches!(initial, State::Idle | State::Connecting { .. }) {
        return None;
    }
    let opened = LogFile::open(resources.log_folder.as_deref()?, &config.name);
    opened
        .inspect_err(|error| {
            tracing::warn!("server \"{}\" runs without a log: {error}", config.name)
        })
        .ok()
}

/// Publishes the cached catalog, unless an attempt to connect ended first.
async fn load_cached(status: Arc<StatusPublisher>, launch_store: LaunchStore) {
    let remembered = launch_store.offerings().await;
    status.update(|snapshot| {
        snapshot.loading_cached = false;
        if let (Some(offerings), 0) = (remembered, snapshot.attempts_ended) {
            snapshot.offerings = Arc::new(offerings);
            snapshot.cached = true;
        }
    });
}
