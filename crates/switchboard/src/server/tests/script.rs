//! A scripted server, which the task sees as a real one.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{Instant, sleep};

use super::super::backoff::Retry;
use super::super::current_config::CurrentConfig;
use super::super::endpoint::{
    Failure, LiveSession, OpenedSession, ServerEndpoint, ServerProcess, SessionOpener,
    StartedServer,
};
use super::super::launch_store::LaunchStore;
use super::super::stderr::ServerStderr;
use super::super::{ConnectStep, ServerHandle, ServerResources, State, TaskSetup};
use crate::caller::{BoxFuture, CallerCapabilities};
use crate::catalog::{Offerings, ToolDefinition};
use crate::config::{
    Asks, Endpoint, Fingerprint, Protocol, Scope, ServerConfig, Source, StdioEndpoint,
};
use crate::event::Event;
use crate::launch::{Exit, Launcher};
use crate::name::{ServerName, ToolName};
use crate::session::{Era, Hello, OpenFault, OpenOptions, RequestFault, Revision, Session};
use crate::store::{MemoryStore, Store};
use crate::wire::RawJson;

/// The script of one start of the server.
#[derive(Clone)]
pub(super) struct StartScript {
    /// The attempt panics.
    pub(super) panics: bool,
    /// The start fails with this error.
    pub(super) unstartable: Option<(&'static str, Retry)>,
    /// How long the handshake takes.
    pub(super) handshake: Duration,
    /// The fault of the handshake, if it fails.
    pub(super) fault: Option<OpenFault>,
    /// The process ends before the handshake does.
    pub(super) dies: Option<Exit>,
    pub(super) era: Era,
    /// How long each listing takes, and its result.
    pub(super) listing: Duration,
    pub(super) offers: Offerings,
    /// How long the process takes to stop.
    pub(super) stopping: Duration,
    pub(super) stderr: Vec<String>,
    pub(super) asks: bool,
}

impl Default for StartScript {
    fn default() -> Self {
        Self {
            panics: false,
            unstartable: None,
            handshake: Duration::from_millis(10),
            fault: None,
            dies: None,
            era: Era::Modern,
            listing: Duration::from_millis(10),
            offers: offering("one"),
            stopping: Duration::from_millis(5),
            stderr: Vec::new(),
            asks: false,
        }
    }
}

pub(super) const NEVER: Duration = Duration::from_secs(1_000_000);

/// Offerings with one item of this name.
pub(super) fn offering(name: &str) -> Offerings {
    Offerings {
        withheld: vec![(ToolName::new(name), "for the test".to_owned())],
        ..Offerings::default()
    }
}

/// Offerings with one complete tool, which can be stored.
pub(super) fn tool(name: &str) -> Offerings {
    let raw =
        RawJson::from_value(&serde_json::json!({"name": name, "inputSchema": {"type": "object"}}));
    let tool = ToolDefinition::parse(&raw).expect("a good definition");
    Offerings {
        tools: vec![Arc::new(tool)],
        ..Offerings::default()
    }
}

/// An approach that was tried.
type TriedApproach = (Protocol, Option<Era>, Asks);

/// The scripted endpoint, and what was observed of it.
pub(super) struct ScriptedEndpoint {
    /// One for each start; the last one is repeated.
    scripts: Mutex<VecDeque<StartScript>>,
    pub(super) starts: AtomicUsize,
    /// Every approach that was tried.
    pub(super) approaches: Arc<Mutex<Vec<TriedApproach>>>,
    /// Processes that run now, and the most that ran at once.
    alive: Arc<Alive>,
    /// The newest session.
    session: watch::Sender<Option<Arc<ScriptedSession>>>,
}

#[derive(Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One session, controlled by the test.
pub(super) struct ScriptedSession {
    script: StartScript,
    hello: Hello,
    pub(super) listings: AtomicUsize,
    pub(super) offers: Mutex<Result<Offerings, RequestFault>>,
    /// Whether the server has asked a question during a call.
    pub(super) questioned: AtomicBool,
    /// Whether calls are in flight.
    pub(super) busy: watch::Sender<bool>,
    changed: Notify,
    closed: watch::Sender<Option<String>>,
    exit: watch::Sender<Option<Exit>>,
}

impl ScriptedSession {
    fn new(script: StartScript) -> Self {
        let hello = Hello {
            revision: Revision::newest(script.era),
            server_info: None,
            capabilities: RawJson::from_value(&serde_json::json!({})),
            instructions: None,
        };
        Self {
            hello,
            listings: AtomicUsize::new(0),
            offers: Mutex::new(Ok(script.offers.clone())),
            questioned: AtomicBool::new(false),
            busy: watch::Sender::new(false),
            changed: Notify::new(),
            closed: watch::Sender::new(None),
            exit: watch::Sender::new(script.dies),
            script,
        }
    }

    /// Reports changed lists.
    pub(super) fn change(&self) {
        self.changed.notify_one();
    }

    /// Ends the channel.
    pub(super) fn end_channel(&self) {
        self.closed.send_replace(Some("end of output".to_owned()));
    }

    /// Ends the process, but not the channel.
    pub(super) fn exit(&self, exit: Exit) {
        self.exit.send_replace(Some(exit));
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }
}

async fn first_value<T: Clone>(sender: &watch::Sender<Option<T>>) -> T {
    let mut receiver = sender.subscribe();
    let value = receiver
        .wait_for(Option::is_some)
        .await
        .expect("the sender is borrowed");
    value.clone().expect("waited for")
}

impl LiveSession for ScriptedSession {
    fn hello(&self) -> &Hello {
        &self.hello
    }

    fn offerings(&self) -> BoxFuture<'_, Result<Offerings, RequestFault>> {
        Box::pin(async move {
            self.listings.fetch_add(1, Ordering::Relaxed);
            sleep(self.script.listing).await;
            self.offers.lock().expect("no test panics with it").clone()
        })
    }

    fn list_changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        Box::pin(first_value(&self.closed))
    }

    fn close(&self) {
        self.closed.send_replace(Some("closed by us".to_owned()));
    }

    fn asks(&self) -> bool {
        self.script.asks
    }

    fn has_asked(&self) -> bool {
        self.questioned.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        !*self.busy.borrow()
    }

    fn idle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let _ = self.busy.subscribe().wait_for(|busy| !busy).await;
        })
    }

    fn session(self: Arc<Self>) -> Option<Arc<Session>> {
        None
    }
}

struct ScriptedProcess {
    session: Arc<ScriptedSession>,
    alive: Arc<Alive>,
}

impl ServerProcess for ScriptedProcess {
    fn pid(&self) -> u32 {
        42
    }

    fn last_stderr(&self, _: Instant) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { self.session.script.stderr.clone() })
    }

    fn exited(&mut self) -> BoxFuture<'_, Exit> {
        Box::pin(first_value(&self.session.exit))
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { sleep(self.session.script.stopping).await })
    }
}

impl Drop for ScriptedProcess {
    fn drop(&mut self) {
        self.alive.now.fetch_sub(1, Ordering::Relaxed);
    }
}

struct ScriptedOpener {
    session: Arc<ScriptedSession>,
    approaches: Arc<Mutex<Vec<TriedApproach>>>,
}

impl SessionOpener for ScriptedOpener {
    fn open(&self, options: OpenOptions) -> BoxFuture<'_, Result<OpenedSession, OpenFault>> {
        let approach = (options.protocol, options.known_era, options.asks);
        self.approaches
            .lock()
            .expect("no test panics with it")
            .push(approach);
        let session = self.session.clone();
        Box::pin(async move {
            sleep(session.script.handshake).await;
            match session.script.fault.clone() {
                Some(fault) => Err(fault),
                None => Ok(OpenedSession {
                    live_session: session,
                    wire: None,
                }),
            }
        })
    }
}

impl ServerEndpoint for ScriptedEndpoint {
    fn start(&self) -> BoxFuture<'_, Result<StartedServer, Failure>> {
        let script = {
            let mut scripts = self.scripts.lock().expect("no test panics with it");
            let script = scripts.pop_front().expect("a script has a script");
            if scripts.is_empty() {
                scripts.push_back(script.clone());
            }
            script
        };
        self.starts.fetch_add(1, Ordering::Relaxed);
        if script.panics {
            // Prints no message and no backtrace, unlike `panic!`.
            std::panic::resume_unwind(Box::new("for the test"));
        }
        if let Some((fact, retry)) = script.unstartable {
            return Box::pin(async move {
                Err(Failure {
                    fact: fact.to_owned(),
                    retry,
                })
            });
        }
        let now = self.alive.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.alive.most.fetch_max(now, Ordering::Relaxed);
        let session = Arc::new(ScriptedSession::new(script));
        self.session.send_replace(Some(session.clone()));
        let opener = Box::new(ScriptedOpener {
            session: session.clone(),
            approaches: self.approaches.clone(),
        });
        let process = ScriptedProcess {
            session,
            alive: self.alive.clone(),
        };
        let unset = vec![("TOKEN".to_owned(), "env.TOKEN".to_owned())];
        Box::pin(async move {
            Ok(StartedServer {
                process: Some(Box::new(process)),
                opener,
                unset,
                redactor: None,
            })
        })
    }

    fn address(&self) -> String {
        "https://script.example/mcp".to_owned()
    }
}

/// A server's task with its scripted endpoint.
pub(super) struct SupervisedServer {
    pub(super) handle: ServerHandle,
    pub(super) script: Arc<ScriptedEndpoint>,
    pub(super) events: broadcast::Receiver<Event>,
    pub(super) changed: Arc<Notify>,
}

impl SupervisedServer {
    pub(super) fn eager(scripts: impl IntoIterator<Item = StartScript>) -> Self {
        Self::new(connecting(), scripts, Arc::new(MemoryStore::default()))
    }

    pub(super) fn lazy(scripts: impl IntoIterator<Item = StartScript>) -> Self {
        Self::new(State::Idle, scripts, Arc::new(MemoryStore::default()))
    }

    pub(super) fn new(
        initial: State,
        scripts: impl IntoIterator<Item = StartScript>,
        store: Arc<dyn Store>,
    ) -> Self {
        Self::of(|_| {}, initial, scripts, store)
    }

    /// With this entry.
    pub(super) fn of(
        change: impl FnOnce(&mut ServerConfig),
        initial: State,
        scripts: impl IntoIterator<Item = StartScript>,
        store: Arc<dyn Store>,
    ) -> Self {
        let script = Arc::new(ScriptedEndpoint {
            scripts: Mutex::new(scripts.into_iter().collect()),
            starts: AtomicUsize::new(0),
            approaches: Arc::default(),
            alive: Arc::default(),
            session: watch::Sender::new(None),
        });
        let mut config = entry();
        change(&mut config);
        let server = TaskSetup {
            config: CurrentConfig::new(Arc::new(config)),
            ..task_setup(script.clone(), store)
        };
        let (events, changed) = (server.events.subscribe(), server.changed.clone());
        Self {
            handle: ServerHandle::spawn_task(server, initial),
            script,
            events,
            changed,
        }
    }

    pub(super) fn state(&self) -> State {
        self.handle.snapshot().state.clone()
    }

    pub(super) fn starts(&self) -> usize {
        self.script.starts.load(Ordering::Relaxed)
    }

    pub(super) fn alive(&self) -> usize {
        self.script.alive.now.load(Ordering::Relaxed)
    }

    pub(super) fn most_alive(&self) -> usize {
        self.script.alive.most.load(Ordering::Relaxed)
    }

    /// The newest session.
    pub(super) fn session(&self) -> Arc<ScriptedSession> {
        self.script
            .session
            .borrow()
            .clone()
            .expect("the server was started")
    }

    /// Waits for a state.
    pub(super) async fn until(&self, wanted: impl Fn(&State) -> bool) -> State {
        let mut seen = self.handle.snapshot.clone();
        let now = seen
            .wait_for(|now| wanted(&now.state))
            .await
            .expect("the task runs");
        now.state.clone()
    }

    pub(super) async fn until_ready(&self) {
        self.until(|state| matches!(state, State::Ready { .. }))
            .await;
    }

    /// The published states so far, with the steps of connecting.
    pub(super) fn published_states(&mut self) -> Vec<String> {
        let mut states = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::State { state, .. } => states.push(state.to_string()),
                Event::Notice { line, .. } => states.push(format!("notice: {line}")),
                _ => {}
            }
        }
        states
    }

    /// The reasons in the snapshot's history.
    pub(super) fn history(&self) -> Vec<String> {
        self.handle
            .snapshot()
            .history
            .iter()
            .map(|(_, line)| line.clone())
            .collect()
    }
}

pub(super) const LAUNCH: Fingerprint = Fingerprint([3; 32]);

pub(super) fn connecting() -> State {
    State::connecting(ConnectStep::Spawn)
}

/// The setup of a task with this endpoint.
pub(super) fn task_setup(endpoint: Arc<dyn ServerEndpoint>, store: Arc<dyn Store>) -> TaskSetup {
    TaskSetup {
        config: CurrentConfig::new(Arc::new(entry())),
        launch: LAUNCH,
        log: None,
        stderr: ServerStderr::default(),
        endpoint,
        launch_store: LaunchStore::new(store, LAUNCH),
        offers: CallerCapabilities::default(),
        roots: Default::default(),
        sampling_policy: None,
        events: broadcast::Sender::new(1024),
        changed: Arc::new(Notify::new()),
        subscriptions: Default::default(),
        offers_cached: false,
        is_further_connection: false,
        after: None,
    }
}

/// What the servers of a host share, with every default.
pub(super) fn resources() -> ServerResources {
    ServerResources {
        launcher: Launcher::process_groups(),
        environment: Arc::default(),
        #[cfg(feature = "http")]
        http: Default::default(),
        auth: Default::default(),
        store: Arc::new(MemoryStore::default()),
        log_folder: None,
        private_folder: None,
        events: broadcast::Sender::new(64),
        changed: Arc::new(Notify::new()),
        offers: CallerCapabilities::default(),
        roots: Default::default(),
        sampling_policy: None,
        connectors: Default::default(),
        offers_cached: false,
    }
}

/// An entry with every default.
pub(super) fn entry() -> ServerConfig {
    let source = Source::new(Arc::new(PathBuf::from("switchboard.toml")), 3, Scope::User);
    ServerConfig::new(
        ServerName::new("script").expect("a good name"),
        source,
        Endpoint::Stdio(StdioEndpoint::new("scripted", [""; 0])),
    )
}
