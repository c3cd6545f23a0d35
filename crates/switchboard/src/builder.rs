//! Configures and starts a host.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast};

use crate::auth::{AuthContext, Opener, Vault};
use crate::call::GateSamplingPolicy;
use crate::caller::{
    Approval, ApprovalRequest, Callbacks, Caller, CallerCapabilities, ElicitAnswer, Elicitation,
    Root,
};
use crate::config::{Config, ConfigErrors, Diagnostic, Environment};
use crate::event::Events;
use crate::host::{
    Host, HostReference, HostState, Roster, SettingsInCode, initial_state, rule_in_code,
};
use crate::host_tools::{HostTool, HostTools, RegisteredTools};
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

/// How long the start waits for cached catalogs.
const CACHE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many events a slow reader may fall behind.
const EVENT_CAPACITY: usize = 1024;

/// Configures a host. [`Host::builder`] and [`HostBuilder::open`] start with this process's
/// environment, [`HostBuilder::new`] with an empty one.
#[derive(Debug)]
pub struct HostBuilder {
    config: Config,
    in_code: SettingsInCode,
    environment: Environment,
    store: Arc<dyn Store>,
    auth: AuthContext,
    launcher: Launcher,
    log_folder: Option<PathBuf>,
    private_folder: Option<PathBuf>,
    /// The default caller, if the program has its own type.
    caller: Option<SharedCaller>,
    /// The default caller as closures, otherwise.
    callbacks: Callbacks,
    /// The capabilities that legacy sessions advertise; `None`: those of the default caller.
    offers: Option<CallerCapabilities>,
    roots: Option<Vec<Root>>,
    only: Option<Vec<ServerName>>,
    tools: HostTools,
    connectors: Connectors,
    offers_cached: bool,
    /// Errors in the servers and rules that were configured in code.
    errors: Vec<Diagnostic>,
}

/// Wraps a caller, for `Debug`.
struct SharedCaller(Arc<dyn Caller>);

impl std::fmt::Debug for SharedCaller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Caller({:?})", self.0.id())
    }
}

impl HostBuilder {
    /// Starts from a configuration and nothing else: no environment variables, no store, no logs,
    /// no approvals, and process groups instead of a launcher process.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            in_code: SettingsInCode::default(),
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

    /// Adds a server; replaces one of the same name, also in each configuration that is loaded
    /// later.
    pub fn server(mut self, server: Server) -> Self {
        match server.into_config() {
            Ok(server) => self.in_code.servers.push(Arc::new(server)),
            Err((field, message)) => self.errors.push(Diagnostic::in_code(field, message)),
        }
        self
    }

    /// Adds a rule that lets tools run without asking: `server/tool` with a glob for each part, or
    /// `server`. Deny and ask rules take precedence. Reloads keep the rules that are added in code.
    ///
    /// As soon as there is a rule of any kind, calls that no rule allows are asked about, also those
    /// of servers whose dialect needs no permissions.
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.in_code.allow.push(rule_in_code(rule));
        self
    }

    /// Adds a rule that asks the caller about each call, whatever was answered before. What
    /// [`allow`](Self::allow) says about other calls applies here too.
    pub fn ask(mut self, rule: impl Into<String>) -> Self {
        self.in_code.ask.push(rule_in_code(rule));
        self
    }

    /// Adds a rule that denies calls. What [`allow`](Self::allow) says about other calls applies
    /// here too.
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.in_code.deny.push(rule_in_code(rule));
        self
    }

    /// Sets the default caller, for calls that name none. Servers are told the capabilities that
    /// this caller [offers](Caller::capabilities).
    pub fn caller(mut self, caller: Arc<dyn Caller>) -> Self {
        self.caller = Some(SharedCaller(caller));
        self
    }

    /// Sets the closure that answers the gate's questions, for calls that name no caller.
    /// [`caller`](Self::caller) takes precedence.
    pub fn on_approval<F, R>(mut self, approve: F) -> Self
    where
        F: Fn(ApprovalRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Approval> + Send + 'static,
    {
        self.callbacks = self.callbacks.on_approval(approve);
        self
    }

    /// Sets the closure that answers servers' questions, during calls that name no caller.
    /// [`caller`](Self::caller) takes precedence.
    pub fn on_elicitation<F, R>(mut self, elicit: F) -> Self
    where
        F: Fn(Elicitation) -> R + Send + Sync + 'static,
        R: Future<Output = ElicitAnswer> + Send + 'static,
    {
        self.callbacks = self.callbacks.on_elicitation(elicit);
        self
    }

    /// The configuration without the servers and rules that are added in code, for changes. A
    /// reload replaces it.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// Adds a host tool: offered along with the servers' tools, behind the same gate, under its own
    /// name. A server's tool of that name gets another, or is withheld.
    pub fn tool(mut self, tool: impl HostTool + 'static) -> Self {
        self.tools.tools.push(Arc::new(tool));
        self
    }

    /// Adds several host tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn HostTool>>) -> Self {
        self.tools.tools.extend(tools);
        self
    }

    /// Adds the host tools `ListMcpResources` and `ReadMcpResource`, which give a model the
    /// servers' resources. If a server of an agent-code file is configured, they are offered
    /// anyway.
    pub fn resource_tools(mut self) -> Self {
        self.tools.resource_tools = true;
        self
    }

    /// Sets this program's own transport to a server, instead of the endpoint of its entry.
    /// Everything else in the entry applies, and so does the gate. A name without an entry is an
    /// error of [`start`](Self::start).
    pub fn connector(mut self, server: &str, connector: Arc<dyn Connector>) -> Self {
        self.connectors.insert(server, connector);
        self
    }

    /// Sets the environment variables that references expand to and servers inherit.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the store for what is remembered between runs.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// Sets the vault for tokens.
    pub fn vault(mut self, vault: Arc<dyn Vault>) -> Self {
        self.auth.vault = vault;
        self
    }

    /// Shows a login page through `opener` whenever a server requires a login. The rejected request
    /// waits for the login, within its own deadline, and is then sent again. A server can trigger
    /// at most three logins in ten minutes. Without this, such a server is in state `NeedsLogin`
    /// until [`Host::login`].
    pub fn logins(mut self, opener: Arc<dyn Opener>) -> Self {
        self.auth.logins = Some(opener);
        self
    }

    /// Sets the launcher of child processes.
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.launcher = launcher;
        self
    }

    /// Sets the capabilities that legacy servers are told when they are connected, for programs
    /// whose calls name their own callers. The default is what [`caller`](Self::caller) offers.
    pub fn capabilities(mut self, offers: CallerCapabilities) -> Self {
        self.offers = Some(offers);
        self
    }

    /// Sets how to log in to servers with a URL: where tokens are stored, and who shows login pages.
    /// Replaces what [`vault`](Self::vault) and [`logins`](Self::logins) have set.
    pub fn auth(mut self, auth: AuthContext) -> Self {
        self.auth = auth;
        self
    }

    /// Writes a log file for each server to this folder.
    pub fn log_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.log_folder = Some(folder.into());
        self
    }

    /// Sets the parent of the working folders of user-scope servers without `cwd`. Without it they
    /// run in this process's working folder.
    pub fn private_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.private_folder = Some(folder.into());
        self
    }

    /// Starts only these servers with the host; the others start when they are used.
    pub fn start_only(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.only = Some(servers.into_iter().collect());
        self
    }

    /// Sets the roots that servers may ask for; [`Host::set_roots`] changes them.
    pub fn roots(mut self, roots: Vec<Root>) -> Self {
        self.roots = Some(roots);
        self
    }

    /// Offers the cached catalog of each server until it is connected; a call then waits for its
    /// server.
    pub fn offer_cached(mut self) -> Self {
        self.offers_cached = true;
        self
    }

    /// Starts the host. Servers connect in parallel afterwards; this does not wait for them.
    pub async fn start(mut self) -> Result<Host, ConfigErrors> {
        if !self.errors.is_empty() {
            return Err(ConfigErrors(self.errors));
        }
        self.in_code.add_to(&mut self.config);
        self.connectors.check(&self.config)?;
        let reference = HostReference::default();
        let own = RegisteredTools::read(self.tools, resource_tools::tools(&reference))?;
        let gate = Roster::gate_of(&self.config, &own, &*self.store)?;
        // Subscribed before any event is sent; `Host::notices` returns the notices among them.
        let (events, early) = broadcast::channel(EVENT_CAPACITY);
        let changed = Arc::new(Notify::new());
        let caller = match self.caller {
            Some(SharedCaller(caller)) => caller,
            None => Arc::new(self.callbacks),
        };
        let offers = self.offers.unwrap_or_else(|| caller.capabilities());
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
            sampling_policy: Some(Arc::new(GateSamplingPolicy(reference.clone()))),
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
        let state = HostState::new(roster, resources, own, caller, self.only, self.in_code);
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
        state.spawn_rebuilder(changed);
        Ok(Host(state))
    }
}
