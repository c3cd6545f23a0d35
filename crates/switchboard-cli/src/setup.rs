//! From the options to a running host: configuration files, trust, store, launcher, and the
//! shutdown.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard::auth::AuthContext;
use switchboard::caller::{CallerCapabilities, Root};
use switchboard::config::{self, Config, Environment, ProjectPermissions, Scope, ServerConfig};
use switchboard::launch::{self, Containment, Launcher};
use switchboard::name::ServerName;
use switchboard::secret::Redactor;
use switchboard::store::Store;
use switchboard::trust::{self, TrustState};
use switchboard::untrusted::Untrusted;
use switchboard::{Host, HostBuilder};
use switchboard_agent::builtin_tools::Denylist;
use tokio::sync::{Notify, watch};

use crate::arguments::Options;
use crate::config_secrets::ConfigSecrets;
use crate::failure::{Code, Failure};
use crate::paths::{self, Paths};
use crate::view::server::escaped;
use crate::{
    agent_tools, hints, interrupt, logging, notices, output, roots, suggestion, unread_configs,
};

pub(crate) use storage::{open_lasting_store, open_lasting_vault, open_store, open_vault};

mod startup_notices;
mod storage;

/// A service keeps code in memory that it has run this recently.
const RELEASE_INTERVAL: Duration = Duration::from_secs(10);

/// Everything that is known before a server starts.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) paths: Paths,
    pub(crate) environment: Environment,
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    /// What the command's own output covers, so that notices do not repeat it.
    pub(crate) scope: OutputScope,
    /// The roots that are offered to servers; `None` if no folder was given.
    roots: Option<Vec<Root>>,
    /// The client capabilities that are declared to servers.
    offers: CallerCapabilities,
    /// Whether the cached offers of a server are used until it is connected.
    offers_cached: bool,
    /// The folders that the built-in tools may use; empty without built-in tools.
    pub(crate) workspace: Vec<PathBuf>,
    /// The commands that the built-in Bash never runs.
    pub(crate) denylist: Denylist,
    pub(crate) json: bool,
}

/// What a command's own output covers, so that notices do not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputScope {
    /// The result of the command only.
    Result,
    /// The state of all servers, untrusted ones too.
    ServerStates,
    /// All findings, notices included.
    AllFindings,
    /// A conversation, which shows states on request and treats Ctrl-C itself.
    Conversation,
}

impl Setup {
    /// Reads configuration files and the store. Starts nothing.
    pub(crate) fn read(options: &Options) -> Result<Self, Failure> {
        Self::read_for(options, OutputScope::Result)
    }

    /// The same, for a command whose output covers more than its result.
    pub(crate) fn read_for(options: &Options, scope: OutputScope) -> Result<Self, Failure> {
        if scope == OutputScope::AllFindings {
            output::hold_notices();
        }
        let roots = roots::from_options(&options.root)?;
        let paths = Paths::find()?;
        let files = paths.config_files(options);
        let config = config::load(&files)?;
        for file in &files {
            tracing::debug!("{}: read", escaped(&file.path.display().to_string()));
        }
        if options.config.is_empty() {
            paths
                .project_notices()
                .iter()
                .for_each(|line| output::notice(line));
        }
        for warning in &config.warnings {
            output::notice(&format!(
                "warning: {}",
                Untrusted::new(warning.to_string()).for_terminal_line()
            ));
        }
        hints::set_rules_file(options, &paths, &config);
        let store = open_store(&paths, scope);
        if options.config.is_empty() {
            unread_configs::report(&paths, &*store);
        }
        let setup = Self {
            paths,
            environment: paths::environment(),
            config,
            store,
            scope,
            roots,
            // Offered even without a terminal: then each question is declined, with a line on stderr.
            offers: CallerCapabilities {
                elicit_form: true,
                elicit_url: true,
                ..CallerCapabilities::default()
            },
            workspace: Vec::new(),
            denylist: Denylist::default(),
            offers_cached: false,
            json: options.json,
        };
        if options.verbosity() > 0 {
            logging::redact(setup.secrets().of(&setup.config));
        }
        Ok(setup)
    }

    /// Declares every capability that a client of the gateway may have. A question that the client of
    /// a call cannot answer is declined.
    pub(crate) fn offer_capabilities_of_clients(&mut self) {
        self.offers.sampling = true;
        self.offers.sampling_tools = true;
        self.roots.get_or_insert_default();
        self.offers_cached = true;
    }

    /// Removes every value that must not be logged.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new(self.secrets().of(&self.config))
    }

    /// Finds the values that must not be logged.
    pub(crate) fn secrets(&self) -> ConfigSecrets {
        ConfigSecrets {
            environment: self.environment.clone(),
            store: self.store.clone(),
        }
    }

    /// Declares sampling, which the conversation's model answers.
    pub(crate) fn offer_sampling(&mut self) {
        self.offers.sampling = true;
    }

    /// The entry of a server that was named on the command line.
    pub(crate) fn entry(&self, name: &str) -> Result<&Arc<ServerConfig>, Failure> {
        self.config
            .servers
            .values()
            .find(|server| server.name.as_str() == name)
            .ok_or_else(|| {
                let known: Vec<_> = self.config.servers.keys().map(ServerName::as_str).collect();
                let hint = if known.is_empty() {
                    no_server_notice()
                } else {
                    format!(
                        "{}configured servers: {}",
                        suggestion::did_you_mean(name, known.iter().copied()),
                        known.join(", ")
                    )
                };
                Failure::new(
                    Code::Usage,
                    format!("no server \"{}\"", Untrusted::new(name).for_terminal_line()),
                )
                .hint(hint)
            })
    }

    /// The entry of a server; an error unless it is trusted.
    pub(crate) fn trusted_entry(&self, name: &str) -> Result<&Arc<ServerConfig>, Failure> {
        let entry = self.entry(name)?;
        let fact = match trust::trust_state(entry, &self.environment, &*self.store) {
            TrustState::Trusted => return Ok(entry),
            TrustState::New => "is not trusted yet",
            TrustState::Changed { .. } => "has changed since it was trusted",
        };
        let file = Untrusted::new(entry.source.file.display().to_string());
        Err(Failure::new(
            Code::Denied,
            format!(
                "server \"{name}\": its entry in {} {fact}",
                file.for_terminal_line()
            ),
        )
        .server(name)
        .hint(format!(
            "review it with {}",
            hints::command(&["trust", name])
        )))
    }

    /// The servers to start for a command that may name one.
    pub(crate) fn servers_to_start(
        &self,
        name: Option<&str>,
    ) -> Result<Option<Vec<ServerName>>, Failure> {
        name.map(|name| Ok(vec![self.trusted_entry(name)?.name.clone()]))
            .transpose()
    }

    /// The servers to start so that the exposed names of this server's tools are known.
    pub(crate) fn needed_to_name(&self, name: &ServerName) -> Vec<ServerName> {
        self.config
            .servers
            .get(name)
            .map_or_else(Vec::new, |server| self.config.needed_to_name(server))
    }

    /// Starts the host, runs the work, stops the host.
    pub(crate) fn run(
        self,
        only: Option<Vec<ServerName>>,
        work: impl AsyncFnOnce(&Host, &Paths) -> Result<u8, Failure>,
    ) -> Result<u8, Failure> {
        let scope = self.scope;
        let private_folder = self.print_notices(only.as_deref())?;
        block_on(async move {
            let (host, paths) = self.start(only, private_folder).await?;
            let work = work(&host, &paths);
            match scope {
                OutputScope::AllFindings => interrupt::run_with_host(&host, work).await,
                OutputScope::Conversation => {
                    interrupt::run_conversation(&host, notices::with_notices(&host, work)).await
                }
                _ => interrupt::run_with_host(&host, notices::with_notices(&host, work)).await,
            }
        })
    }

    /// Starts the host with these servers (`None`: all), runs a service, stops the host. A signal asks
    /// the service to end; SIGHUP is passed to it.
    pub(crate) fn run_service(
        self,
        only: Option<Vec<ServerName>>,
        service: impl AsyncFnOnce(&Host, &Paths, watch::Receiver<bool>, &Notify) -> Result<u8, Failure>,
    ) -> Result<u8, Failure> {
        let private_folder = self.print_notices(None)?;
        block_on(async move {
            let (host, paths) = self.start(only, private_folder).await?;
            let (closing, is_closing) = watch::channel(false);
            let hang_up = Notify::new();
            let service = service(&host, &paths, is_closing, &hang_up);
            let service = notices::with_notices(&host, service);
            tokio::select! {
                outcome = interrupt::run_service(&host, closing, &hang_up, service) => outcome,
                outcome = release_code() => outcome,
            }
        })
    }

    async fn start(
        self,
        only: Option<Vec<ServerName>>,
        private_folder: Option<PathBuf>,
    ) -> Result<(Host, Paths), Failure> {
        let auth = AuthContext::with_vault(open_vault(&self.paths));
        let Self {
            paths,
            environment,
            config,
            store,
            roots,
            offers,
            offers_cached,
            workspace,
            denylist,
            ..
        } = self;
        let launcher = launcher();
        let tools = agent_tools::build(
            &workspace,
            &paths,
            &config,
            &environment,
            &launcher,
            &denylist,
        )?;
        let mut builder = HostBuilder::new(config)
            .environment(environment)
            .auth(auth)
            .store(store)
            .launcher(launcher)
            .tools(tools)
            .log_folder(paths.state.clone())
            .capabilities(offers);
        if let Some(folder) = private_folder {
            builder = builder.private_folder(folder);
        }
        if !workspace.is_empty() {
            builder = builder.resource_tools();
        }
        if offers_cached {
            builder = builder.offer_cached();
        }
        if let Some(roots) = roots {
            builder = builder.roots(roots);
        }
        if let Some(only) = only {
            builder = builder.start_only(only);
        }
        Ok((builder.start().await?, paths))
    }

    /// Whether the permissions of a project's file can have an effect: one of its servers is
    /// trusted; or it has no servers and one of the project's is trusted; or the project has no
    /// servers.
    pub(crate) fn is_in_effect(&self, project: &ProjectPermissions) -> bool {
        let of_project = || {
            self.config
                .servers
                .values()
                .filter(|server| server.source.scope == Scope::Project)
        };
        let of_file = || of_project().filter(|server| server.source.file == project.file);
        match of_file().next() {
            Some(_) => of_file().any(|server| self.is_trusted(server)),
            None => {
                of_project().next().is_none() || of_project().any(|server| self.is_trusted(server))
            }
        }
    }

    fn is_trusted(&self, server: &ServerConfig) -> bool {
        trust::trust_state(server, &self.environment, &*self.store) == TrustState::Trusted
    }
}

/// The notice for a configuration without servers.
pub(crate) fn no_server_notice() -> String {
    format!(
        "no server is configured: {} shows how to add one, `switchboard demo` needs none",
        hints::command(&["status"])
    )
}

/// Runs a future to its end on a new runtime.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_threads())
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                Code::Usage,
                format!("cannot start the async runtime: {error}"),
            )
        })?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}

/// Releases again and again the code that a service has run, for ever.
async fn release_code<T>() -> T {
    loop {
        tokio::time::sleep(RELEASE_INTERVAL).await;
        launch::release_code();
    }
}

/// Two, because the work mostly waits. One on a single core, where two threads would only add a
/// switch between them to each message of a gateway.
fn worker_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(2))
}

/// The launcher process, or process groups if it cannot be started.
pub(crate) fn launcher() -> Launcher {
    let started = std::env::current_exe().and_then(Launcher::start);
    started.unwrap_or_else(|error| {
        output::notice(&format!(
            "cannot start the launcher process ({error}): servers run in process groups, and a grandchild may survive kill -9"
        ));
        Launcher::process_groups()
    })
}

/// How child processes are supervised, for `status` and `doctor`.
pub(crate) fn describe_containment(containment: Containment) -> &'static str {
    match containment {
        Containment::Launcher => "launcher process (no child outlives switchboard)",
        Containment::ProcessGroups => {
            "process groups only (a grandchild that leaves its group can survive kill -9)"
        }
    }
}
