//! A server that does what a script says, seen by the task as it sees a real one.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{Instant, sleep};

use super::super::backoff::Retry;
use super::super::endpoint::{
    Failure, LiveSession, OpenedSession, ServerEndpoint, ServerProcess, SessionOpener,
    StartedServer,
};
use super::super::launch_store::LaunchStore;
use super::super::stderr::ServerStderr;
use super::super::{ConnectStep, ServerHandle, State, TaskSetup};
use crate::caller::{BoxFuture, Offers};
use crate::catalog::{Offerings, ToolDefinition};
use crate::config::{
    Asks, Endpoint, Fingerprint, Protocol, Scope, ServerConfig, Source, StdioEndpoint,
};
use crate::event::Event;
use crate::launch::Exit;
use crate::name::{ServerName, ToolName};
use crate::session::{Era, Hello, OpenFault, OpenOptions, RequestFault, Revision, Session};
use crate::store::{MemoryStore, Store};
use crate::wire::RawJson;

/// What one start of the server does.
#[derive(Clone)]
pub(super) struct Play {
    /// The attempt panics.
    pub(super) panics: bool,
    /// Nothing starts, because of this.
    pub(super) unstartable: Option<(&'static str, Retry)>,
    /// How long the handshake takes.
    pub(super) handshake: Duration,
    /// How it ends, if not well.
    pub(super) fault: Option<OpenFault>,
    /// The process ends by itself before the handshake does.
    pub(super) dies: Option<Exit>,
    pub(super) era: Era,
    /// How long each listing takes, and what it shows.
    pub(super) listing: Duration,
    pub(super) offers: Offerings,
    /// How long the process takes to stop.
    pub(super) stopping: Duration,
    pub(super) stderr: Vec<String>,
    pub(super) asks: bool,
}

impl Default for Play {
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

/// Offerings that can be told from others by one name.
pub(super) fn offering(name: &str) -> Offerings {
    Offerings {
        withheld: vec![(ToolName::new(name), "for the test".to_owned())],
        ..Offerings::default()
    }
}

/// A tool that can be remembered.
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
type Tried = (Protocol, Option<Era>, Asks);

/// The script, and what was seen of its performance.
pub(super) struct Script {
    /// One for each start; the last one is played again and again.
    plays: Mutex<VecDeque<Play>>,
    pub(super) starts: AtomicUsize,
    /// Every approach that was tried.
    pub(super) approaches: Arc<Mutex<Vec<Tried>>>,
    /// Processes that run now, and the most that ever did.
    alive: Arc<Alive>,
    /// The newest connection.
    stage: watch::Sender<Option<Arc<Stage>>>,
}

#[derive(Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One connection, as the test moves it.
pub(super) struct Stage {
    play: Play,
    hello: Hello,
    pub(super) listings: AtomicUsize,
    pub(super) offers: Mutex<Result<Offerings, RequestFault>>,
    /// The server has asked something during a call.
    pub(super) questioned: AtomicBool,
    /// Calls are under way.
    pub(super) busy: watch::Sender<bool>,
    changed: Notify,
    closed: watch::Sender<Option<String>>,
    exit: watch::Sender<Option<Exit>>,
}

impl Stage {
    fn new(play: Play) -> Self {
        let hello = Hello {
            revision: Revision::newest(play.era),
            server_info: None,
            capabilities: RawJson::from_value(&serde_json::json!({})),
            instructions: None,
        };
        Self {
            hello,
            listings: AtomicUsize::new(0),
            offers: Mutex::new(Ok(play.offers.clone())),
            questioned: AtomicBool::new(false),
            busy: watch::Sender::new(false),
            changed: Notify::new(),
            closed: watch::Sender::new(None),
            exit: watch::Sender::new(play.dies),
            play,
        }
    }

    /// The server says that its lists changed.
    pub(super) fn change(&self) {
        self.changed.notify_one();
    }

    /// The channel ends.
    pub(super) fn hang_up(&self) {
        self.closed.send_replace(Some("end of output".to_owned()));
    }

    /// The process ends; the channel need not.
    pub(super) fn exit(&self, exit: Exit) {
        self.exit.send_replace(Some(exit));
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }
}

async fn told<T: Clone>(sender: &watch::Sender<Option<T>>) -> T {
    let mut receiver = sender.subscribe();
    let told = receiver
        .wait_for(Option::is_some)
        .await
        .expect("the sender is borrowed");
    told.clone().expect("waited for")
}

impl LiveSession for Stage {
    fn hello(&self) -> &Hello {
        &self.hello
    }

    fn offerings(&self) -> BoxFuture<'_, Result<Offerings, RequestFault>> {
        Box::pin(async move {
            self.listings.fetch_add(1, Ordering::Relaxed);
            sleep(self.play.listing).await;
            self.offers.lock().expect("no test panics with it").clone()
        })
    }

    fn list_changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        Box::pin(told(&self.closed))
    }

    fn close(&self) {
        self.closed.send_replace(Some("closed by us".to_owned()));
    }

    fn asks(&self) -> bool {
        self.play.asks
    }

    fn was_questioned(&self) -> bool {
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

struct Actor {
    stage: Arc<Stage>,
    alive: Arc<Alive>,
}

impl ServerProcess for Actor {
    fn pid(&self) -> u32 {
        42
    }

    fn last_stderr(&self, _: Instant) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { self.stage.play.stderr.clone() })
    }

    fn exited(&mut self) -> BoxFuture<'_, Exit> {
        Box::pin(told(&self.stage.exit))
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { sleep(self.stage.play.stopping).await })
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.alive.now.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Entrance {
    stage: Arc<Stage>,
    approaches: Arc<Mutex<Vec<Tried>>>,
}

impl SessionOpener for Entrance {
    fn open(&self, options: OpenOptions) -> BoxFuture<'_, Result<OpenedSession, OpenFault>> {
        let approach = (options.protocol, options.known_era, options.asks);
        self.approaches
            .lock()
            .expect("no test panics with it")
            .push(approach);
        let stage = self.stage.clone();
        Box::pin(async move {
            sleep(stage.play.handshake).await;
            match stage.play.fault.clone() {
                Some(fault) => Err(fault),
                None => Ok(OpenedSession {
                    link: stage,
                    wire: None,
                }),
            }
        })
    }
}

impl ServerEndpoint for Script {
    fn start(&self) -> BoxFuture<'_, Result<StartedServer, Failure>> {
        let play = {
            let mut plays = self.plays.lock().expect("no test panics with it");
            let play = plays.pop_front().expect("a script has a play");
            if plays.is_empty() {
                plays.push_back(play.clone());
            }
            play
        };
        self.starts.fetch_add(1, Ordering::Relaxed);
        if play.panics {
            // Without the message and the backtrace that a panic prints.
            std::panic::resume_unwind(Box::new("for the test"));
        }
        if let Some((fact, retry)) = play.unstartable {
            return Box::pin(async move {
                Err(Failure {
                    fact: fact.to_owned(),
                    retry,
                })
            });
        }
        let now = self.alive.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.alive.most.fetch_max(now, Ordering::Relaxed);
        let stage = Arc::new(Stage::new(play));
        self.stage.send_replace(Some(stage.clone()));
        let opener = Box::new(Entrance {
            stage: stage.clone(),
            approaches: self.approaches.clone(),
        });
        let process = Actor {
            stage,
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
        "https://play.example/mcp".to_owned()
    }
}

/// A supervised scripted server.
pub(super) struct Rig {
    pub(super) handle: ServerHandle,
    pub(super) script: Arc<Script>,
    pub(super) events: broadcast::Receiver<Event>,
    pub(super) changed: Arc<Notify>,
}

impl Rig {
    pub(super) fn eager(plays: impl IntoIterator<Item = Play>) -> Self {
        Self::new(connecting(), plays, Arc::new(MemoryStore::default()))
    }

    pub(super) fn lazy(plays: impl IntoIterator<Item = Play>) -> Self {
        Self::new(State::Idle, plays, Arc::new(MemoryStore::default()))
    }

    pub(super) fn new(
        initial: State,
        plays: impl IntoIterator<Item = Play>,
        store: Arc<dyn Store>,
    ) -> Self {
        Self::of(|_| {}, initial, plays, store)
    }

    /// With an entry that says more.
    pub(super) fn of(
        change: impl FnOnce(&mut ServerConfig),
        initial: State,
        plays: impl IntoIterator<Item = Play>,
        store: Arc<dyn Store>,
    ) -> Self {
        let script = Arc::new(Script {
            plays: Mutex::new(plays.into_iter().collect()),
            starts: AtomicUsize::new(0),
            approaches: Arc::default(),
            alive: Arc::default(),
            stage: watch::Sender::new(None),
        });
        let mut config = entry();
        change(&mut config);
        let server = TaskSetup {
            config: Arc::new(config),
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

    /// The newest connection.
    pub(super) fn stage(&self) -> Arc<Stage> {
        self.script
            .stage
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

    /// Every state that was told so far, in words, with the steps of connecting.
    pub(super) fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::State { state, .. } => told.push(state.to_string()),
                Event::Notice { line, .. } => told.push(format!("notice: {line}")),
                _ => {}
            }
        }
        told
    }

    /// The reasons on record.
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
    State::Connecting {
        since: std::time::SystemTime::now(),
        step: ConnectStep::Spawn,
    }
}

/// A server that is reached this way.
pub(super) fn task_setup(endpoint: Arc<dyn ServerEndpoint>, store: Arc<dyn Store>) -> TaskSetup {
    TaskSetup {
        config: Arc::new(entry()),
        launch: LAUNCH,
        log: None,
        stderr: ServerStderr::default(),
        endpoint,
        launch_store: LaunchStore::new(store, LAUNCH),
        offers: Offers::default(),
        roots: Default::default(),
        overseer: None,
        events: broadcast::Sender::new(1024),
        changed: Arc::new(Notify::new()),
        subscriptions: Default::default(),
        offers_cached: false,
        is_further_connection: false,
        after: None,
    }
}

/// An entry with every default.
pub(super) fn entry() -> ServerConfig {
    let source = Source::new(Arc::new(PathBuf::from("switchboard.toml")), 3, Scope::User);
    ServerConfig::new(
        ServerName::new("play").expect("a good name"),
        source,
        Endpoint::Stdio(StdioEndpoint::new("scripted", [""; 0])),
    )
}
