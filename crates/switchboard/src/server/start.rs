//! Starts the task of a server, from its entry or with a library user's transport.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::{Notify, broadcast, mpsc};

use super::backoff::Backoff;
use super::caller_sessions::CallerSessions;
use super::connection_factory::ConnectionFactory;
use super::current_config::CurrentConfig;
use super::endpoint::{ServerEndpoint, SharedCredentials};
use super::launch_store::{LaunchProfile, LaunchStore};
use super::other_era::OtherEra;
use super::status_publisher::StatusPublisher;
use super::store_writes::StoreWrites;
use super::task::{Phase, ServerTask};
use super::{ServerHandle, ServerMemory, ServerResources, ServerStderr, State};
use crate::caller::CallerCapabilities;
use crate::config::{Fingerprint, ServerConfig};
use crate::event::Event;
use crate::future::BoxFuture;
use crate::panics::catch_panic;
use crate::secret::Redactor;
use crate::session::{
    Cache, DeviationCounter, OpenOptions, Roots, SamplingPolicy, ServerSamplingPolicy,
    Subscriptions,
};
use crate::store::{LogFile, StoreTable};

/// Capacity of the command channel. When it is full, senders wait.
const COMMAND_CAPACITY: usize = 16;

impl ServerHandle {
    /// Starts the task. With `Connecting` the server connects at once; `Idle`, `Disabled`,
    /// `Blocked` and `Untrusted` start nothing. An idle server shows its cached catalog until it is
    /// used.
    pub(crate) fn start(
        config: Arc<ServerConfig>,
        resources: ServerResources,
        initial: State,
    ) -> Self {
        Self::start_after(config, resources, initial, None)
    }

    /// Like [`start`](Self::start), but starts nothing before `after` has completed.
    pub(crate) fn start_after(
        config: Arc<ServerConfig>,
        resources: ServerResources,
        initial: State,
        after: Option<BoxFuture<'static, ()>>,
    ) -> Self {
        let changed = resources.changed.clone();
        let factory = ConnectionFactory {
            connector: resources.connectors.of(&config.name),
            log: open_log(&config, &resources, &initial),
            subscriptions: Subscriptions::default(),
            credentials: SharedCredentials::default(),
            config: CurrentConfig::new(config),
            resources,
        };
        let server = TaskSetup {
            changed,
            is_further_connection: false,
            after,
            ..factory.task_setup()
        };
        Self {
            caller_sessions: CallerSessions::new(&factory),
            other_era: OtherEra::new(&factory),
            credentials: factory.credentials,
            ..Self::spawn_task(server, initial)
        }
    }

    /// Spawns the task. The handles own it: it ends when the last one is dropped.
    pub(super) fn spawn_task(setup: TaskSetup, initial: State) -> Self {
        let options = setup.open_options();
        let entry = setup.config.get();
        let is_shared_connection = !setup.is_further_connection;
        let offers_cached = match initial {
            State::Idle => true,
            State::Connecting { .. } => setup.offers_cached && is_shared_connection,
            _ => false,
        };
        let TaskSetup {
            config,
            launch,
            log,
            stderr,
            endpoint,
            launch_store,
            events,
            changed,
            after,
            subscriptions,
            ..
        } = setup;
        let memory = Arc::new(ServerMemory {
            config: config.clone(),
            subscriptions,
            launch_store: launch_store.clone(),
        });
        let phase = initial_phase(&initial, after);
        let (commands, received_commands) = mpsc::channel(COMMAND_CAPACITY);
        // Only the shared connection publishes states: its state is the server's.
        let events = if is_shared_connection {
            events
        } else {
            broadcast::Sender::new(1)
        };
        let (status, snapshot) =
            StatusPublisher::new(entry.name.clone(), initial, log, events, changed);
        let worked = Arc::new(AtomicBool::new(false));
        let mut store_writes = StoreWrites::default();
        if offers_cached {
            status.update_quietly(|snapshot| snapshot.loading_cached = true);
            store_writes.add(
                StoreTable::Catalogs,
                load_cached(status.clone(), launch_store.clone()),
            );
        }
        let task = ServerTask {
            config,
            endpoint,
            status,
            launch_store,
            options,
            commands: received_commands,
            worked: worked.clone(),
            phase,
            backoff: Backoff::default(),
            profile: LaunchProfile::default(),
            is_profile_current: false,
            store_writes,
            restarting: Vec::new(),
        };
        tokio::spawn(run_supervised(task));
        Self {
            config: entry,
            launch,
            stderr,
            commands,
            snapshot,
            worked,
            caller_sessions: None,
            other_era: None,
            credentials: SharedCredentials::default(),
            in_flight: Arc::default(),
            memory,
        }
    }
}

/// The first phase of a server in this state; `after` completes when the servers that it replaces
/// have ended.
fn initial_phase(state: &State, after: Option<BoxFuture<'static, ()>>) -> Phase {
    let now = tokio::time::Instant::now();
    match (state, after) {
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
    }
}

/// Runs the task; a panic in it becomes the server's failure.
async fn run_supervised(task: ServerTask) {
    let status = task.status.clone();
    if let Err(panicked) = catch_panic(task.run()).await {
        // The panic dropped the session and the process.
        status.set_state(
            State::Failed {
                error: panicked.to_string(),
            },
            "its task ended",
            |snapshot| {
                (snapshot.session, snapshot.pid, snapshot.loading_cached) = (None, None, false);
            },
        );
    }
}

/// The parts that a task is created from.
pub(super) struct TaskSetup {
    pub(super) config: CurrentConfig,
    pub(super) launch: Fingerprint,
    pub(super) log: Option<LogFile>,
    pub(super) stderr: ServerStderr,
    pub(super) endpoint: Arc<dyn ServerEndpoint>,
    pub(super) launch_store: LaunchStore,
    pub(super) offers: CallerCapabilities,
    pub(super) roots: Roots,
    pub(super) sampling_policy: Option<Arc<dyn SamplingPolicy>>,
    pub(super) events: broadcast::Sender<Event>,
    pub(super) changed: Arc<Notify>,
    /// Subscriptions and log level, shared by all connections to the server.
    pub(super) subscriptions: Subscriptions,
    /// Whether this is not the shared connection but a caller's own or the one of the other era.
    pub(super) is_further_connection: bool,
    /// Whether the server offers its cached catalog until it is connected.
    pub(super) offers_cached: bool,
    /// Completes when the servers that this one replaces have ended.
    pub(super) after: Option<BoxFuture<'static, ()>>,
}

impl TaskSetup {
    pub(super) fn new(
        config: CurrentConfig,
        resources: &ServerResources,
        endpoint: Arc<dyn ServerEndpoint>,
    ) -> Self {
        let launch = config.get().fingerprint();
        Self {
            config,
            launch,
            log: None,
            stderr: ServerStderr::default(),
            endpoint,
            launch_store: LaunchStore::new(resources.store.clone(), launch),
            offers: resources.offers,
            roots: resources.roots.clone(),
            sampling_policy: resources.sampling_policy.clone(),
            events: resources.events.clone(),
            changed: resources.changed.clone(),
            subscriptions: Subscriptions::default(),
            is_further_connection: false,
            offers_cached: resources.offers_cached,
            after: None,
        }
    }

    /// The options that every session of the task is opened with.
    pub(super) fn open_options(&self) -> OpenOptions {
        let config = self.config.get();
        OpenOptions {
            server: config.name.clone(),
            protocol: config.protocol,
            known_era: None,
            asks: config.asks,
            offers: self.offers,
            roots: self.roots.clone(),
            sampling_policy: (self.sampling_policy.clone()).map(|policy| ServerSamplingPolicy {
                policy,
                launch: self.launch,
            }),
            connect_timeout: config.timeouts.connect,
            max_message_bytes: config.max_message_bytes,
            events: Some(self.events.clone()),
            deviations: DeviationCounter::default(),
            log: self.log.clone(),
            subscriptions: self.subscriptions.clone(),
            cache: Cache::default(),
            // Set once the launch is resolved.
            redactor: Redactor::default(),
        }
    }
}

/// Opens the log of a server that may run. An error is logged, and the server runs without a log.
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

/// Publishes the cached catalog, unless an attempt to connect has ended first.
async fn load_cached(status: Arc<StatusPublisher>, launch_store: LaunchStore) {
    let (remembered, profile) =
        tokio::join!(launch_store.clone().offerings(), launch_store.profile());
    status.update(|snapshot| {
        snapshot.loading_cached = false;
        snapshot.was_unlisted = profile.was_unlisted;
        if let (Some(offerings), 0) = (remembered, snapshot.attempts_ended) {
            snapshot.offerings = Arc::new(offerings);
            snapshot.cached = true;
        }
    });
}
