//! What differs between kinds of servers: a process, a URL, a library user's transport.
//!
//! The task sees four traits: [`ServerEndpoint`] starts a server, [`ServerProcess`] is its process
//! if it has one, [`SessionOpener`] opens a session with it, [`LiveSession`] is that session.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::backoff::Retry;
use super::connect::Approach;
use super::stderr::ServerStderr;
use super::{ConnectStep, Wire};
use super::{ServerConfig, ServerResources};
use crate::catalog::Offerings;
use crate::config::{
    Endpoint, Environment, LaunchFault, ResolvedLaunch, Scope, StdioEndpoint, StopMethod,
    resolve_launch,
};
use crate::future::BoxFuture;
use crate::launch::{Child, Command, Exit, Launcher, StopTiming};
use crate::name::ServerName;
use crate::secret::Redactor;
use crate::session::{Hello, OpenFault, OpenOptions, RequestFault, Session};
use crate::store;
use crate::transport::Connector;
use crate::transport::stdio::StdioConnector;

/// A server with a URL.
#[cfg(feature = "http")]
mod url;

#[cfg(feature = "http")]
pub(crate) use url::SharedStack;

/// How many lines of stderr an error quotes.
const QUOTED_STDERR_LINES: usize = 5;

/// The endpoint of an entry. A new kind of endpoint is one more arm here.
pub(super) fn endpoint_for(
    config: &Arc<ServerConfig>,
    resources: &ServerResources,
    stderr: &ServerStderr,
) -> Arc<dyn ServerEndpoint> {
    match &config.endpoint {
        Endpoint::Stdio(endpoint) => Arc::new(ProcessEndpoint {
            config: config.clone(),
            endpoint: endpoint.clone(),
            environment: resources.environment.clone(),
            launcher: resources.launcher.clone(),
            private_folder: resources.private_folder.clone(),
            stderr: stderr.clone(),
        }),
        #[cfg(feature = "http")]
        Endpoint::Http(endpoint) => Arc::new(url::UrlEndpoint::new(
            config.clone(),
            endpoint.clone(),
            resources,
            stderr.clone(),
        )),
        #[cfg(not(feature = "http"))]
        Endpoint::Http(_) => Arc::new(UnusableEndpoint(
            "this build has no HTTP; use one with the feature `http`, or give a `command`"
                .to_owned(),
        )),
        Endpoint::Invalid(fault) => Arc::new(UnusableEndpoint(fault.to_string())),
    }
}

/// Starts a server and opens sessions with it.
pub(super) trait ServerEndpoint: Send + Sync {
    /// Starts what must run before a session can be opened.
    fn start(&self) -> BoxFuture<'_, Result<StartedServer, Failure>>;

    /// The first step of connecting.
    fn first_step(&self) -> ConnectStep {
        ConnectStep::Spawn
    }

    /// How to open a session with a newly started server after `fault`, if there is another way.
    fn next_approach(&self, approach: Approach, fault: &OpenFault) -> Option<Approach> {
        approach.after(fault)
    }

    /// Its address, for a login; safe to show. Empty for a server without one.
    fn address(&self) -> String {
        String::new()
    }
}

/// A server that was started.
pub(super) struct StartedServer {
    pub(super) process: Option<Box<dyn ServerProcess>>,
    /// Has the process's stdin, so it must be dropped before the process is stopped.
    pub(super) opener: Box<dyn SessionOpener>,
    /// References to variables that are not set: (variable, field).
    pub(super) unset: Vec<(String, String)>,
    /// Redacts the entry's secrets in the server's errors.
    pub(super) redactor: Option<Redactor>,
}

/// Opens sessions with a server that was started.
pub(super) trait SessionOpener: Send + Sync {
    /// Connects and performs the handshake, within the options' time limit.
    fn open(&self, options: OpenOptions) -> BoxFuture<'_, Result<OpenedSession, OpenFault>>;
}

/// A session, and the transport that was found to work, if there was a choice.
pub(super) struct OpenedSession {
    pub(super) link: Arc<dyn LiveSession>,
    pub(super) wire: Option<Wire>,
}

/// Opens sessions over one given transport.
struct ConnectorOpener(Arc<dyn Connector>);

impl SessionOpener for ConnectorOpener {
    fn open(&self, options: OpenOptions) -> BoxFuture<'_, Result<OpenedSession, OpenFault>> {
        Box::pin(async move {
            let session = Session::open(&*self.0, options).await?;
            Ok(OpenedSession {
                link: session,
                wire: None,
            })
        })
    }
}

/// Why an attempt failed, and when to retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The fact, safe to show.
    pub(super) fact: String,
    pub(super) retry: Retry,
}

/// The process of a server.
pub(super) trait ServerProcess: Send {
    fn pid(&self) -> u32;

    /// The last lines of its stderr, safe to show. Output that it wrote before it ended is waited
    /// for, but only `until` then: other processes may keep its stderr open.
    fn last_stderr(&self, until: Instant) -> BoxFuture<'_, Vec<String>>;

    /// Waits until it has ended. Cancel-safe, and may be called again.
    fn exited(&mut self) -> BoxFuture<'_, Exit>;

    /// Stops it and all its descendants, within the 3.5 s of any [`StopTiming`]. The channel must
    /// be closed.
    fn stop(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// A live session, as the task uses it.
pub(super) trait LiveSession: Send + Sync {
    fn hello(&self) -> &Hello;
    fn offerings(&self) -> BoxFuture<'_, Result<Offerings, RequestFault>>;
    fn list_changed(&self) -> BoxFuture<'_, ()>;
    fn closed(&self) -> BoxFuture<'_, String>;
    fn close(&self);

    /// Waits until a closed session has sent its last messages.
    fn farewell(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn asks(&self) -> bool;

    /// Whether the server has asked something during a call.
    fn was_questioned(&self) -> bool;

    /// Whether no call is in flight.
    fn is_idle(&self) -> bool;

    /// Waits until no call is in flight. Cancel-safe.
    fn idle(&self) -> BoxFuture<'_, ()>;

    /// The session that calls use; `None` in tests.
    fn session(self: Arc<Self>) -> Option<Arc<Session>>;
}

impl LiveSession for Session {
    fn hello(&self) -> &Hello {
        self.hello()
    }

    fn offerings(&self) -> BoxFuture<'_, Result<Offerings, RequestFault>> {
        Box::pin(self.offerings())
    }

    fn list_changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.list_changed())
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        Box::pin(self.closed())
    }

    fn close(&self) {
        self.close();
    }

    fn farewell(&self) -> BoxFuture<'static, ()> {
        self.close_gracefully()
    }

    fn asks(&self) -> bool {
        self.asks()
    }

    fn was_questioned(&self) -> bool {
        self.was_questioned()
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn idle(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.idle())
    }

    fn session(self: Arc<Self>) -> Option<Arc<Session>> {
        Some(self)
    }
}

/// A child process with its standard streams as transport.
struct ProcessEndpoint {
    config: Arc<ServerConfig>,
    endpoint: StdioEndpoint,
    environment: Arc<Environment>,
    launcher: Launcher,
    /// The parent of the folders of user-scope servers without `cwd`; `None` runs them in this
    /// process's folder.
    private_folder: Option<Arc<PathBuf>>,
    stderr: ServerStderr,
}

impl ServerEndpoint for ProcessEndpoint {
    fn start(&self) -> BoxFuture<'_, Result<StartedServer, Failure>> {
        Box::pin(self.spawn())
    }
}

impl ProcessEndpoint {
    async fn spawn(&self) -> Result<StartedServer, Failure> {
        let launch = self.resolve().map_err(|fact| Failure {
            fact,
            retry: Retry::OnUse,
        })?;
        let mut child = match self.launcher.spawn(&command(&launch)).await {
            Ok(child) => child,
            Err(error) => return Err(spawn_failure(&launch, &error)),
        };
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Failure {
                fact: "its process came without standard streams".to_owned(),
                retry: Retry::Soon,
            });
        };
        let redactor = Redactor::new(launch.secrets);
        self.stderr.drain(redactor.clone(), stderr);
        let connector = StdioConnector::new(stdin, stdout, self.config.max_message_bytes);
        Ok(StartedServer {
            process: Some(Box::new(SpawnedProcess {
                child,
                stderr: self.stderr.clone(),
                stop: stop_timing(&self.config),
            })),
            opener: Box::new(ConnectorOpener(Arc::new(connector))),
            unset: launch.unset,
            redactor: Some(redactor),
        })
    }
}

impl ProcessEndpoint {
    /// Resolves the launch, with the working folder of an entry that names none.
    fn resolve(&self) -> Result<ResolvedLaunch, String> {
        let private = self
            .private_folder
            .as_ref()
            .filter(|_| self.config.source.scope == Scope::User);
        let launch = match private {
            // Nothing in the current folder may run, so relative paths are resolved against a
            // private folder.
            Some(private)
                if self
                    .config
                    .dialect
                    .profile()
                    .user_paths_start_at_current_folder =>
            {
                resolve_launch(&self.endpoint, private, &self.environment)
                    .map_err(|fault| fault.not_accepted_below(private))
            }
            _ => resolve_launch(
                &self.endpoint,
                &self.config.source.folder,
                &self.environment,
            ),
        };
        let mut launch = launch.map_err(|fault| fault.to_string())?;
        if launch.cwd.is_none() {
            launch.cwd = match (self.config.source.scope, private) {
                (Scope::Project, _) => Some((*self.config.source.folder).clone()),
                (_, Some(private)) => Some(own_folder(private, &self.config)?),
                _ => None,
            };
            // An inherited PWD names the folder of this process.
            launch.env.retain(|(name, _)| {
                launch.cwd.is_none() || name != "PWD" || self.endpoint.env.contains_key(name)
            });
        }
        Ok(launch)
    }
}

fn command(launch: &ResolvedLaunch) -> Command {
    let variables = launch.env.iter();
    let command = Command::new(&launch.program)
        .arg0(&launch.argv0)
        .args(&launch.args)
        .envs(variables.map(|(name, value)| (name, value.expose())));
    match &launch.cwd {
        Some(folder) => command.current_dir(folder),
        None => command,
    }
}

/// Where a server of the user's own runs that names no folder, below the host's private folder.
pub fn private_working_folder(private: &Path, server: &ServerName) -> PathBuf {
    private.join(format!("{server}.cwd"))
}

/// A folder for this server alone, created if it is missing.
fn own_folder(private: &Path, config: &ServerConfig) -> Result<PathBuf, String> {
    let folder = private_working_folder(private, &config.name);
    match store::make_private_folder(private).and_then(|()| store::make_private_folder(&folder)) {
        Ok(()) => Ok(folder),
        Err(error) => Err(format!(
            "no private folder to run it in: {}: {error}",
            folder.display()
        )),
    }
}

/// The program was found just before, so the system's error is as good as the search's.
fn spawn_failure(launch: &ResolvedLaunch, error: &io::Error) -> Failure {
    let (fact, retry) = match error.kind() {
        io::ErrorKind::NotFound => (
            LaunchFault::NoSuchProgram {
                command: launch.argv0.clone(),
            }
            .to_string(),
            Retry::OnUse,
        ),
        io::ErrorKind::PermissionDenied => (
            LaunchFault::NotExecutable {
                path: launch.program.clone(),
            }
            .to_string(),
            Retry::OnUse,
        ),
        _ => (
            format!("{:?} could not be started: {error}", launch.program),
            Retry::Soon,
        ),
    };
    Failure {
        fact: Redactor::new(launch.secrets.iter().cloned())
            .redact(&fact)
            .into_owned(),
        retry,
    }
}

struct SpawnedProcess {
    child: Child,
    /// Emptied by each spawn; secrets of the launch are redacted in it.
    stderr: ServerStderr,
    stop: StopTiming,
}

/// As the entry's dialect specifies.
fn stop_timing(config: &ServerConfig) -> StopTiming {
    match config.dialect.profile().stop {
        StopMethod::CloseFirst => StopTiming::default(),
        StopMethod::Terminate => StopTiming {
            term: Duration::ZERO,
            ..StopTiming::default()
        },
    }
}

impl ServerProcess for SpawnedProcess {
    fn pid(&self) -> u32 {
        self.child.pid
    }

    fn last_stderr(&self, until: Instant) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            let _ = timeout_at(until, self.stderr.drained()).await;
            self.stderr
                .last_lines(QUOTED_STDERR_LINES)
                .iter()
                .map(|line| line.for_terminal_line().to_string())
                .collect()
        })
    }

    fn exited(&mut self) -> BoxFuture<'_, Exit> {
        Box::pin(self.child.exited())
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.child.stop(self.stop).await;
        })
    }
}

/// A library user's transport: nothing is started.
pub(super) struct ConnectorEndpoint(pub(super) Arc<dyn Connector>);

impl ServerEndpoint for ConnectorEndpoint {
    fn start(&self) -> BoxFuture<'_, Result<StartedServer, Failure>> {
        let opener = Box::new(ConnectorOpener(self.0.clone()));
        Box::pin(async move {
            Ok(StartedServer {
                process: None,
                opener,
                unset: Vec::new(),
                redactor: None,
            })
        })
    }
}

/// An entry with an invalid or unsupported endpoint, and why.
struct UnusableEndpoint(String);

impl ServerEndpoint for UnusableEndpoint {
    fn start(&self) -> BoxFuture<'_, Result<StartedServer, Failure>> {
        let fact = self.0.clone();
        Box::pin(async move {
            Err(Failure {
                fact,
                retry: Retry::OnRequest,
            })
        })
    }
}
