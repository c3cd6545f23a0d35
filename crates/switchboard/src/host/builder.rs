//! What a host is made of, and its start: what may not run is found out before anything is spawned.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, broadcast};

use super::remember::PinWriter;
use super::{Host, Roster, Shared};
use crate::auth::{AuthMeans, Opener, Vault};
use crate::builtin::{Own, OwnTool, OwnTools};
use crate::call::Overseeing;
use crate::caller::{Offers, Root};
use crate::config::{Config, ConfigErrors, Endpoint, Environment, ServerConfig, Start};
use crate::event::{Event, Events, Next};
use crate::gate::Grants;
use crate::launch::Launcher;
use crate::name::ServerName;
use crate::reload::Reloading;
use crate::schema::Validators;
use crate::server::{Connectors, Means, ServerHandle, State};
use crate::session::Roots;
use crate::store::{MemoryStore, Shelf, Store};
use crate::transport::Connector;
use crate::trust::{self, Standing};

/// Events that a slow reader may fall behind by.
const EVENTS: usize = 1024;

/// What a host is made of.
#[derive(Debug)]
pub struct HostBuilder {
    /// What the files say.
    pub config: Config,
    /// What references expand to.
    pub environment: Environment,
    /// What is remembered. A [`crate::store::MemoryStore`] forgets at the end.
    pub store: Arc<dyn Store>,
    /// What logins to URL servers work with: where tokens are kept, and who is sent to login
    /// pages.
    pub auth: AuthMeans,
    /// Starts processes.
    pub launcher: Launcher,
    /// Where servers' logs go.
    pub log_folder: Option<PathBuf>,
    /// Where servers of the user's own files run that name no working folder, each in a folder of
    /// its own below this one; `None`: in this process's folder.
    pub private_folder: Option<PathBuf>,
    /// What legacy sessions advertise.
    pub offers: Offers,
    /// The folders a server may ask for; `None` offers none, and that is fixed. A modern server is
    /// told those of the caller, if it has some.
    pub roots: Option<Vec<Root>>,
    /// Start only these servers; the others stay idle until used. `None` starts every eager one.
    pub only: Option<Vec<ServerName>>,
    /// Tools that are no server's: on offer beside theirs, behind the same gate.
    pub tools: OwnTools,
    /// Ways of the program's own to some of the servers.
    pub connectors: Connectors,
}

impl HostBuilder {
    /// A host of these servers that reads nothing by itself: no variables, nothing remembered, no
    /// logs, no questions, process groups. Every field can be set before
    /// [`start`](Self::start).
    pub fn new(config: Config) -> Self {
        Self {
            config,
            environment: Environment::default(),
            store: Arc::new(MemoryStore::default()),
            auth: AuthMeans::default(),
            launcher: Launcher::process_groups(),
            log_folder: None,
            private_folder: None,
            offers: Offers::default(),
            roots: None,
            only: None,
            tools: OwnTools::default(),
            connectors: Connectors::default(),
        }
    }

    /// With a tool of this program's own: on offer beside the servers' tools, behind the same gate,
    /// under its own name. A server's tool of that name gets another, or is withheld.
    pub fn tool(mut self, tool: impl OwnTool + 'static) -> Self {
        self.tools.tools.push(Arc::new(tool));
        self
    }

    /// With several.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn OwnTool>>) -> Self {
        self.tools.tools.extend(tools);
        self
    }

    /// With `ListMcpResources` and `ReadMcpResource`, by which a model reaches the servers'
    /// resources. Where a server of an agent-code file is configured, they are on offer anyway.
    pub fn resource_tools(mut self) -> Self {
        self.tools.resource_tools = true;
        self
    }

    /// With a way of this program's own to a server: its entry stands in the configuration like any
    /// other and is gated like any other, but nothing of its endpoint is used. A name that no
    /// entry has is an error of [`start`](Self::start).
    pub fn connector(mut self, server: &str, connector: Arc<dyn Connector>) -> Self {
        self.connectors.insert(server, connector);
        self
    }

    /// With these variables: what references expand to, and what servers inherit.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// With this memory.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// With this place for tokens.
    pub fn vault(mut self, vault: Arc<dyn Vault>) -> Self {
        self.auth.vault = vault;
        self
    }

    /// With somebody who is sent to the login page whenever a server asks for a login: the request
    /// that met it waits, and goes on after it, within its own deadline. A server that is never
    /// content causes three logins in ten minutes and no more. Without this, such a server is
    /// in state `NeedsLogin` until [`Host::login`].
    pub fn logins(mut self, opener: Arc<dyn Opener>) -> Self {
        self.auth.logins = Some(opener);
        self
    }

    /// With this launcher.
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.launcher = launcher;
        self
    }

    /// With what the callers to come can answer.
    pub fn offers(mut self, offers: Offers) -> Self {
        self.offers = offers;
        self
    }

    /// With these folders for servers to ask for; [`Host::set_roots`] changes them.
    pub fn roots(mut self, roots: Vec<Root>) -> Self {
        self.roots = Some(roots);
        self
    }

    /// Starts the host. Servers come up in parallel behind it; nothing waits for them here.
    pub async fn start(self) -> Result<Host, ConfigErrors> {
        self.connectors.check(&self.config)?;
        let own = Own::read(self.tools)?;
        let gate = Roster::gate_of(&self.config, &own, &*self.store)?;
        // This reader is there before anything can happen; what it saw by the end of the start is
        // told by `Host::notices`.
        let (events, early) = broadcast::channel(EVENTS);
        let changed = Arc::new(Notify::new());
        let (roots, overseer) = (Roots::new(self.roots), Arc::new(Overseeing::default()));
        let means = Means {
            launcher: self.launcher,
            environment: Arc::new(self.environment),
            #[cfg(feature = "http")]
            http: Default::default(),
            auth: self.auth,
            store: self.store.clone(),
            log_folder: self.log_folder.map(Arc::new),
            private_folder: self.private_folder.map(Arc::new),
            events: events.clone(),
            changed: changed.clone(),
            offers: self.offers,
            roots,
            overseer: Some(overseer.clone()),
            connectors: Arc::new(self.connectors),
        };
        let servers: Vec<ServerHandle> = (self.config.servers.values())
            .map(|server| {
                let initial = initial_state(server, &self.config, self.only.as_deref(), &means);
                ServerHandle::start(server.clone(), means.clone(), initial)
            })
            .collect();
        let notices = gate
            .warnings()
            .iter()
            .map(|warning| format!("warning: {warning}"))
            .collect();
        let mut shared = Shared {
            roster: ArcSwap::from_pointee(Roster::new(1, Arc::new(self.config), servers, gate)),
            means,
            grants: RwLock::new(remembered_grants(&*self.store, &events)),
            validators: Arc::new(Validators::default()),
            own,
            pins: PinWriter::new(self.store.clone(), events.clone()),
            writes: Default::default(),
            store: self.store,
            events,
            catalog: ArcSwap::default(),
            rebuilding: Mutex::new(()),
            rebuilder: Mutex::new(None),
            only: self.only,
            reloading: Reloading::default(),
            notices,
        };
        shared.rebuild();
        shared.notices.extend(noticed(Events(early)));
        let shared = Arc::new(shared);
        overseer.begin(&shared);
        shared.own.begin(&shared);
        shared.watch(changed);
        Ok(Host(shared))
    }
}

/// What keeps a server from starting, checked before anything is spawned; else whether it starts
/// now or when used.
pub(crate) fn initial_state(
    server: &ServerConfig,
    config: &Config,
    only: Option<&[ServerName]>,
    means: &Means,
) -> State {
    let name = server.name.as_str();
    if !server.enabled {
        return State::Disabled;
    }
    if let Some(rule) = config.security.blocks(&server.name) {
        return State::Blocked {
            rule: rule.to_owned(),
        };
    }
    if let Endpoint::Wrong(fault) = &server.endpoint {
        return State::Failed {
            error: fault.to_string(),
        };
    }
    match trust::standing(server, &means.environment, &*means.store) {
        Standing::Trusted => {}
        Standing::New => {
            return State::Untrusted {
                reason: "nobody has accepted this project's entry".to_owned(),
            };
        }
        Standing::Changed { .. } => {
            return State::Untrusted {
                reason: "the entry changed since it was accepted".to_owned(),
            };
        }
    }
    match (server.start, only) {
        (Start::Eager, None) => State::Connecting {
            since: SystemTime::now(),
            step: "starting",
        },
        (_, Some(wanted)) if wanted.iter().any(|wanted| wanted.as_str() == name) => {
            State::Connecting {
                since: SystemTime::now(),
                step: "starting",
            }
        }
        _ => State::Idle,
    }
}

/// Loads the answers that a person gave for good, and the definitions that were pinned.
fn remembered_grants(store: &dyn Store, events: &broadcast::Sender<Event>) -> Grants {
    let mut grants = Grants::default();
    let mut unreadable = Vec::new();
    match store.all(Shelf::Grants) {
        Ok(items) => unreadable.extend(grants.load(items)),
        Err(fault) => unreadable.push(fault.to_string()),
    }
    match store.all(Shelf::Pins) {
        Ok(items) => unreadable.extend(grants.load_pins(items)),
        Err(fault) => unreadable.push(fault.to_string()),
    }
    for fault in unreadable {
        // Nobody listening is fine: what is not remembered is asked again.
        let _ = events.send(Event::Notice {
            server: None,
            line: format!("a remembered answer cannot be read: {fault}"),
        });
    }
    grants
}

/// The notices among what has happened already.
fn noticed(mut events: Events) -> Vec<String> {
    let mut notices = Vec::new();
    while let Some(next) = events.happened() {
        if let Next::Event(Event::Notice { server, line }) = next {
            notices.push(server.map_or_else(
                || line.clone(),
                |server| format!("server \"{server}\": {line}"),
            ));
        }
    }
    notices
}
