//! What a host is made of, and its start.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast};

use crate::auth::{AuthContext, Opener, Vault};
use crate::builtin::{HostTool, HostTools, RegisteredTools};
use crate::call::SamplingOverseer;
use crate::caller::{
    Approval, ApprovalRequest, Callbacks, Caller, ElicitAnswer, Elicitation, Offers, Root,
};
use crate::config::{Config, ConfigErrors, Diagnostic, Dialect, Environment, RuleText, Source};
use crate::event::Events;
use crate::host::{Host, HostReference, HostState, Roster, initial_state};
use crate::launch::Launcher;
use crate::name::ServerName;
use crate::server::{Connectors, ServerHandle, ServerResources};
use crate::session::Roots;
use crate::store::{MemoryStore, Store};
use crate::transport::Connector;

pub use open::launcher_main;
pub use server::Server;

mod open;
pub(crate) mod resource_tools;
mod server;

/// How long the start may wait for cached catalogs.
const CACHE_TIMEOUT: Duration = Duration::from_secs(2);

/// Events that a slow reader may fall behind by.
const EVENTS: usize = 1024;

/// What a host is made of. [`Host::builder`] and [`HostBuilder::open`] begin with this process's
/// environment, [`HostBuilder::new`] with nothing.
#[derive(Debug)]
pub struct HostBuilder {
    config: Config,
    environment: Environment,
    store: Arc<dyn Store>,
    auth: AuthContext,
    launcher: Launcher,
    log_folder: Option<PathBuf>,
    private_folder: Option<PathBuf>,
    /// Who makes calls that name no caller, where it is a type of the program's own.
    caller: Option<SharedCaller>,
    /// The same as closures, where it is not.
    callbacks: Callbacks,
    /// What legacy sessions advertise; `None`: what the caller offers.
    offers: Option<Offers>,
    roots: Option<Vec<Root>>,
    only: Option<Vec<ServerName>>,
    tools: HostTools,
    connectors: Connectors,
    offers_cached: bool,
    /// What is wrong with the servers and rules that were given in code.
    errors: Vec<Diagnostic>,
}

/// A caller, as a host keeps it.
struct SharedCaller(Arc<dyn Caller>);

impl std::fmt::Debug for SharedCaller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Caller({:?})", self.0.id())
    }
}

impl HostBuilder {
    /// A host of these servers that reads nothing by itself: no variables, nothing remembered, no
    /// logs, no questions, process groups.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            environment: Environment::default(),
            store: Arc::new(MemoryStore::default()),
            auth: AuthContext::default(),
            launcher: Launcher::process_groups(),
            log_folder: None,
            private_folder: None,
            caller: None,
            callbacks: Callbacks::new("host"),
            offers: None,
            roots: None,
            only: None,
            tools: HostTools::default(),
            connectors: Connectors::default(),
            offers_cached: false,
            errors: Vec::new(),
        }
    }

    /// With this server. It replaces one of the same name.
    pub fn server(mut self, server: Server) -> Self {
        match server.into_config() {
            Ok(server) => {
                self.config
                    .servers
                    .insert(server.name.clone(), Arc::new(server));
            }
            Err((field, message)) => self.errors.push(Diagnostic {
                file: code_file(),
                line: 0,
                column: 0,
                field,
                message,
            }),
        }
        self
    }

    /// With a rule that lets tools run without asking: `server/tool`, a glob for each part, or
    /// `server`. A deny or ask rule comes first.
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.config.permissions.allow.push(rule_in_code(rule));
        self.has_rules()
    }

    /// With a rule by which the caller is asked about each call, whatever was answered before.
    pub fn ask(mut self, rule: impl Into<String>) -> Self {
        self.config.permissions.ask.push(rule_in_code(rule));
        self.has_rules()
    }

    /// With a rule that no call passes.
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.config.permissions.deny.push(rule_in_code(rule));
        self.has_rules()
    }

    fn has_rules(mut self) -> Self {
        self.config.permissions.configured = true;
        self
    }

    /// With whoever makes the calls that name no caller of their own. Servers are told that what
    /// this caller [offers](Caller::offers) may be asked.
    pub fn caller(mut self, caller: impl Caller + 'static) -> Self {
        self.caller = Some(SharedCaller(Arc::new(caller)));
        self
    }

    /// With an answer to the gate's questions, for calls that name no caller of their own.
    /// [`caller`](Self::caller) comes first.
    pub fn on_approval<F, R>(mut self, approve: F) -> Self
    where
        F: Fn(ApprovalRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Approval> + Send + 'static,
    {
        self.callbacks = self.callbacks.on_approval(approve);
        self
    }

    /// With an answer to what servers ask during calls that name no caller of their own.
    /// [`caller`](Self::caller) comes first.
    pub fn on_elicitation<F, R>(mut self, elicit: F) -> Self
    where
        F: Fn(Elicitation) -> R + Send + Sync + 'static,
        R: Future<Output = ElicitAnswer> + Send + 'static,
    {
        self.callbacks = self.callbacks.on_elicitation(elicit);
        self
    }

    /// The servers, rules and names so far, to be changed.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// With a tool of this program's own: on offer beside the servers' tools, behind the same gate,
    /// under its own name. A server's tool of that name gets another, or is withheld.
    pub fn tool(mut self, tool: impl HostTool + 'static) -> Self {
        self.tools.tools.push(Arc::new(tool));
        self
    }

    /// With several.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn HostTool>>) -> Self {
        self.tools.tools.extend(tools);
        self
    }

    /// With `ListMcpResources` and `ReadMcpResource`, by which a model reaches the servers'
    /// resources. Where a server of an agent-code file is configured, they are on offer anyway.
    pub fn resource_tools(mut self) -> Self {
        self.tools.resource_tools = true;
        self
    }

    /// With this program's own transport to a server, instead of the endpoint of its entry. All
    /// else of the entry applies, and so does the gate. A name that no entry has is an error of
    /// [`start`](Self::start).
    pub fn connector(mut self, server: &str, connector: Arc<dyn Connector>) -> Self {
        self.connectors.insert(server, connector);
        self
    }

    /// With these variables: what references expand to, and what servers inherit.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// With this store for what is remembered between runs.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// With this vault for tokens.
    pub fn vault(mut self, vault: Arc<dyn Vault>) -> Self {
        self.auth.vault = vault;
        self
    }

    /// Shows a login page through `opener` whenever a server asks for a login. The request that was
    /// rejected waits for the login, within its own deadline, and is then sent again. A server
    /// causes at most three logins in ten minutes. Without this, such a server is in state
    /// `NeedsLogin` until [`Host::login`].
    pub fn logins(mut self, opener: Arc<dyn Opener>) -> Self {
        self.auth.logins = Some(opener);
        self
    }

    /// With this launcher.
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.launcher = launcher;
        self
    }

    /// With what the callers of single calls can answer: servers of the legacy era are told of it
    /// when they are connected. Where this is not set, it is what [`caller`](Self::caller) offers.
    pub fn offers(mut self, offers: Offers) -> Self {
        self.offers = Some(offers);
        self
    }

    /// With this way to log in to servers that have a URL: where tokens are kept, and who is sent
    /// to login pages.
    pub fn auth(mut self, auth: AuthContext) -> Self {
        self.auth = auth;
        self
    }

    /// With a log file for each server in this folder.
    pub fn log_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.log_folder = Some(folder.into());
        self
    }

    /// Servers of the user's own files that name no working folder run below this one, each in a
    /// folder of its own; else in this process's folder.
    pub fn private_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.private_folder = Some(folder.into());
        self
    }

    /// Only these servers start with the host; the others when they are used.
    pub fn start_only(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.only = Some(servers.into_iter().collect());
        self
    }

    /// With these folders for servers to ask for; [`Host::set_roots`] changes them.
    pub fn roots(mut self, roots: Vec<Root>) -> Self {
        self.roots = Some(roots);
        self
    }

    /// Servers offer what they offered last time until they are connected: a call of it waits for
    /// its server.
    pub fn offer_cached(mut self) -> Self {
        self.offers_cached = true;
        self
    }

    /// Starts the host. Servers connect in parallel afterwards; nothing here waits for them.
    pub async fn start(self) -> Result<Host, ConfigErrors> {
        if !self.errors.is_empty() {
            return Err(ConfigErrors(self.errors));
        }
        self.connectors.check(&self.config)?;
        let reference = HostReference::default();
        let own = RegisteredTools::read(self.tools, resource_tools::tools(&reference))?;
        let gate = Roster::gate_of(&self.config, &own, &*self.store)?;
        // Subscribed before any event is sent; `Host::notices` returns the notices among them.
        let (events, early) = broadcast::channel(EVENTS);
        let changed = Arc::new(Notify::new());
        let caller = match self.caller {
            Some(SharedCaller(caller)) => caller,
            None => Arc::new(self.callbacks),
        };
        let offers = self.offers.unwrap_or_else(|| caller.offers());
        let resources = ServerResources {
            launcher: self.launcher,
            environment: Arc::new(self.environment),
            #[cfg(feature = "http")]
            http: Default::default(),
            auth: self.auth,
            store: self.store,
            log_folder: self.log_folder.map(Arc::new),
            private_folder: self.private_folder.map(Arc::new),
            events,
            changed: changed.clone(),
            offers,
            roots: Roots::new(self.roots),
            overseer: Some(Arc::new(SamplingOverseer(reference.clone()))),
            connectors: Arc::new(self.connectors),
            offers_cached: self.offers_cached,
        };
        let servers: Vec<ServerHandle> = (self.config.servers.values())
            .map(|server| {
                let initial = initial_state(server, &self.config, self.only.as_deref(), &resources);
                ServerHandle::start(server.clone(), resources.clone(), initial)
            })
            .collect();
        let roster = Roster::new(1, Arc::new(self.config), servers, gate);
        let state = HostState::new(roster, resources, own, caller, self.only);
        if self.offers_cached {
            let servers = state.roster().servers.clone();
            let read = async {
                for server in servers.iter() {
                    server.cache_read().await;
                }
            };
            // A slow store must not delay the start further.
            let _ = tokio::time::timeout(CACHE_TIMEOUT, read).await;
        }
        let state = state.begin(Events(early));
        reference.set(&state);
        state.watch(changed);
        Ok(Host(state))
    }
}

/// A rule as an embedder's code spells it: as the native file does.
fn rule_in_code(rule: impl Into<String>) -> RuleText {
    RuleText {
        text: rule.into(),
        client: None,
        dialect: Dialect::Native,
        file: code_file(),
        line: 0,
    }
}

/// What diagnostics name where no file is meant.
fn code_file() -> Arc<PathBuf> {
    Source::code().file
}
