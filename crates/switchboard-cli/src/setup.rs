//! From the command line's options to a running host: files, trust, store, launcher, and the end of
//! it all.

use std::sync::Arc;

use switchboard::auth::{AuthContext, MemoryVault, SystemVault, Vault};
use switchboard::caller::{Offers, Root};
use switchboard::config::{
    self, Config, Endpoint, Environment, ProjectPermissions, Scope, ServerConfig,
};
use switchboard::launch::{Containment, Launcher};
use switchboard::name::ServerName;
use switchboard::secret::Secret;
use switchboard::store::{FileStore, MemoryStore, Shelf, Store};
use switchboard::trust::{self, TrustState};
use switchboard::untrusted::Untrusted;
use switchboard::{Host, HostBuilder};

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::paths::{self, Paths};
use crate::view::server::escaped;
use crate::{
    hints, interrupt, logging, notices, output, roots, suggestion, unread_configs, working_folder,
};

/// What to do where nothing is configured.
const NO_SERVER: &str = "no server is configured: `switchboard status` shows how to begin, `switchboard demo` needs nothing";

/// Everything that is known before a server starts.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) paths: Paths,
    pub(crate) environment: Environment,
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    /// How much of what is to be told the command's own answer tells.
    pub(crate) scope: OutputScope,
    /// What servers are told where they ask for folders.
    roots: Option<Vec<Root>>,
    pub(crate) json: bool,
}

/// What a command's answer tells by itself, so that it is not told twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputScope {
    /// What was asked for.
    Result,
    /// How servers stand, untrusted ones too.
    ServerStates,
    /// Everything that is found.
    AllFindings,
}

impl Setup {
    /// Reads files and state. Nothing starts.
    pub(crate) fn read(options: &Options) -> Result<Self, Failure> {
        Self::read_for(options, OutputScope::Result)
    }

    /// The same, for a command whose answer tells more.
    pub(crate) fn read_for(options: &Options, scope: OutputScope) -> Result<Self, Failure> {
        if options.json || scope == OutputScope::AllFindings {
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
            json: options.json,
        };
        if options.verbosity() > 0 {
            logging::redact(setup.secrets());
        }
        Ok(setup)
    }

    /// Every value that must not show: as written, and as expanded where the entry is trusted.
    fn secrets(&self) -> Vec<Secret> {
        let mut secrets = Vec::new();
        for server in self.config.servers.values() {
            match &server.endpoint {
                Endpoint::Http(http) => {
                    secrets.extend(http.headers.values().cloned());
                    secrets.extend(
                        [&http.auth.bearer_token, &http.auth.client_secret]
                            .into_iter()
                            .flatten()
                            .cloned(),
                    );
                    if trust::trust_state(server, &self.environment, &*self.store)
                        == TrustState::Trusted
                    {
                        let resolved = config::resolve_url(http, &self.environment);
                        secrets.extend(resolved.into_iter().flat_map(|resolved| resolved.secrets));
                    }
                }
                Endpoint::Stdio(stdio) => {
                    secrets.extend(stdio.env.values().cloned());
                    if trust::trust_state(server, &self.environment, &*self.store)
                        == TrustState::Trusted
                    {
                        let launch =
                            config::resolve_launch(stdio, &server.source.folder, &self.environment);
                        secrets.extend(launch.into_iter().flat_map(|launch| launch.secrets));
                    }
                }
                Endpoint::Invalid(_) => {}
            }
        }
        secrets
    }

    /// What logins work with: tokens are kept where this machine keeps such.
    pub(crate) fn auth(&self) -> AuthContext {
        AuthContext {
            vault: open_vault(&self.paths),
            ..AuthContext::default()
        }
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
                    NO_SERVER.to_owned()
                } else {
                    format!(
                        "{}configured are: {}",
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

    /// The same, refused unless a person has accepted it.
    pub(crate) fn trusted_entry(&self, name: &str) -> Result<&Arc<ServerConfig>, Failure> {
        let entry = self.entry(name)?;
        let what = match trust::trust_state(entry, &self.environment, &*self.store) {
            TrustState::Trusted => return Ok(entry),
            TrustState::New => "is not trusted yet",
            TrustState::Changed { .. } => "has changed since it was trusted",
        };
        let file = Untrusted::new(entry.source.file.display().to_string());
        Err(Failure::new(
            Code::Denied,
            format!(
                "server \"{name}\": its entry in {} {what}",
                file.for_terminal_line()
            ),
        )
        .server(name)
        .hint(format!(
            "look at it with {}",
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

    /// The servers to start so that the tools of this one have their names.
    pub(crate) fn needed_to_name(&self, name: &ServerName) -> Vec<ServerName> {
        self.config
            .servers
            .get(name)
            .map_or_else(Vec::new, |server| self.config.needed_to_name(server))
    }

    /// Starts the host, does the work, stops the host.
    pub(crate) fn run(
        self,
        only: Option<Vec<ServerName>>,
        work: impl AsyncFnOnce(&Host, &Paths) -> Result<u8, Failure>,
    ) -> Result<u8, Failure> {
        self.print_startup_notices(only.as_deref());
        let private_folder = working_folder::private_folder(&self, only.as_deref())?;
        self.print_permission_notices();
        block_on(async move {
            let auth = self.auth();
            let Self {
                paths,
                environment,
                config,
                store,
                scope,
                roots,
                ..
            } = self;
            // A server may always ask: without a terminal it is told no, with a line on stderr.
            let offers = Offers {
                elicit_form: true,
                elicit_url: true,
                ..Offers::default()
            };
            let mut builder = HostBuilder::new(config)
                .environment(environment)
                .auth(auth)
                .store(store)
                .launcher(launcher())
                .log_folder(paths.state.clone())
                .offers(offers);
            if let Some(folder) = private_folder {
                builder = builder.private_folder(folder);
            }
            if let Some(roots) = roots {
                builder = builder.roots(roots);
            }
            if let Some(only) = only {
                builder = builder.start_only(only);
            }
            let host = builder.start().await?;
            let work = work(&host, &paths);
            match scope {
                OutputScope::AllFindings => interrupt::run_with_host(&host, work).await,
                _ => interrupt::run_with_host(&host, notices::with_notices(&host, work)).await,
            }
        })
    }

    /// One line where nothing is configured, or where a server waits for trust; not where the
    /// answer on the same screen tells it.
    fn print_startup_notices(&self, only: Option<&[ServerName]>) {
        let covers_states = self.scope != OutputScope::Result;
        if self.config.servers.is_empty() {
            if !covers_states {
                output::notice(NO_SERVER);
            }
        } else if let Some(line) = self
            .untrusted_servers_notice(only)
            .filter(|_| !covers_states || output::stdout_columns().is_none())
        {
            match self.scope {
                // Its notices become part of the report; whoever reads the report elsewhere is told
                // here as well.
                OutputScope::AllFindings if !self.json => output::line_on_stderr(&line),
                _ => output::notice(&line),
            }
        }
    }

    /// Whether the permissions of a project's file can matter by now: one of its servers is
    /// trusted; or, where it has none, one of the project's, or the project has none at all.
    pub(crate) fn is_in_effect(&self, project: &ProjectPermissions) -> bool {
        let is_trusted = |server: &&Arc<ServerConfig>| {
            trust::trust_state(server, &self.environment, &*self.store) == TrustState::Trusted
        };
        let of_project = || {
            self.config
                .servers
                .values()
                .filter(|server| server.source.scope == Scope::Project)
        };
        let of_file = || of_project().filter(|server| server.source.file == project.file);
        match of_file().next() {
            Some(_) => of_file().any(|server| is_trusted(&server)),
            None => of_project().next().is_none() || of_project().any(|server| is_trusted(&server)),
        }
    }

    /// One line for each project file whose own permissions do not count: once, until they change.
    fn print_permission_notices(&self) {
        // With `--json` a notice may never be seen.
        for project in self
            .config
            .project_permissions
            .iter()
            .filter(|_| !self.json)
        {
            let counts =
                trust::permissions_trust_state(project, &*self.store) == TrustState::Trusted;
            if !counts
                && self.is_in_effect(project)
                && trust::is_first_mention(project, &*self.store)
            {
                let file = project.file.display().to_string();
                output::notice(&format!(
                    "{} would let tools run without asking; that does not count until you accept it with `switchboard trust`",
                    Untrusted::new(file).for_terminal_line()
                ));
            }
        }
    }

    /// One line that names `switchboard trust`, if any of these servers waits for it.
    fn untrusted_servers_notice(&self, only: Option<&[ServerName]>) -> Option<String> {
        let waiting: Vec<_> = trust::waiting(&self.config, &self.environment, &*self.store)
            .into_iter()
            .filter(|(server, _)| only.is_none_or(|only| only.contains(&server.name)))
            .map(|(server, _)| format!("\"{}\"", server.name))
            .collect();
        match waiting.as_slice() {
            [] => None,
            [one] => Some(format!(
                "server {one} of this project is not trusted and was not started; look at it with `switchboard trust`"
            )),
            many => Some(format!(
                "servers {} of this project are not trusted and were not started; look at them with `switchboard trust`",
                many.join(", ")
            )),
        }
    }
}

/// Runs async work to its end.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::Usage, format!("no runtime: {error}")))?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}

/// The launcher process, or what can be done without one.
pub(crate) fn launcher() -> Launcher {
    let started = std::env::current_exe().and_then(Launcher::start);
    started.unwrap_or_else(|error| {
        output::notice(&format!(
            "no launcher process ({error}): servers are kept by process groups, and a grandchild may outlive a kill -9"
        ));
        Launcher::process_groups()
    })
}

/// What `status` and `doctor` say about how children are kept.
pub(crate) fn describe_containment(containment: Containment) -> &'static str {
    match containment {
        Containment::Launcher => "launcher (nothing outlives us)",
        Containment::ProcessGroups => {
            "process groups only (a grandchild that leaves its group can survive a kill -9)"
        }
    }
}

/// The store in the state folder; where that cannot be used, one that forgets, said aloud.
pub(crate) fn open_store(paths: &Paths, scope: OutputScope) -> Arc<dyn Store> {
    match FileStore::open(&paths.state) {
        Ok(store) => {
            report_damaged_files(&store, scope);
            Arc::new(store)
        }
        Err(error) => {
            output::notice(&format!(
                "answers are remembered for this run only: {error}"
            ));
            Arc::new(MemoryStore::default())
        }
    }
}

/// A damaged file is reported by the command that finds it, and by those that show how things stand
/// until a person removes it (F31).
fn report_damaged_files(store: &FileStore, scope: OutputScope) {
    let before = store.damaged();
    let shelves = [
        Shelf::Grants,
        Shelf::Pins,
        Shelf::Trust,
        Shelf::Folders,
        Shelf::Permissions,
    ];
    for shelf in
        shelves
            .into_iter()
            .chain([Shelf::Eras, Shelf::Wires, Shelf::Logins, Shelf::Notices])
    {
        // Reading sets a damaged file aside; what else is wrong with it is told where it is needed.
        let _ = store.all(shelf);
    }
    let found = store
        .damaged()
        .into_iter()
        .filter(|file| scope != OutputScope::Result || !before.contains(file));
    for file in found {
        output::notice(&format!(
            "a damaged file of the state folder was set aside as {}; what it remembered must be given again; remove it to be told no more",
            escaped(&file.display().to_string())
        ));
    }
}

/// The keyring or the file; where neither can be used, a vault that forgets, said aloud.
fn open_vault(paths: &Paths) -> Arc<dyn Vault> {
    match SystemVault::open(&paths.state, paths::vault_choice()) {
        Ok(vault) => Arc::new(vault),
        Err(error) => {
            output::notice(&error.to_string());
            Arc::new(MemoryVault::default())
        }
    }
}
