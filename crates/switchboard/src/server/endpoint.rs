//! How a server is reached: what must be started and which channel leads to it, for each kind of
//! endpoint.
//!
//! The task sees a server through four small traits: [`ServerEndpoint`] starts it, [`ServerProcess`] is what was
//! started, [`SessionOpener`] is the way to a session with it, [`LiveSession`] is that session. A server without
//! a process (a URL, a library user's own transport) differs nowhere else.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::backoff::Retry;
use super::connect::Approach;
use super::state::{ConnectStep, Wire};
use super::stderr::ServerStderr;
use super::{ServerConfig, ServerResources};
use crate::caller::BoxFuture;
use crate::catalog::Offerings;
use crate::config::{
    Endpoint, Environment, LaunchFault, ResolvedLaunch, Scope, StdioEndpoint, StopMethod,
    resolve_launch,
};
use crate::launch::{Child, Command, Exit, Launcher, StopTiming};
use crate::name::ServerName;
use crate::secret::Redactor;
use crate::session::{Hello, OpenFault, OpenOptions, RequestFault, Session};
use crate::store;
use crate::transport::Connector;
use crate::transport::stdio::StdioConnector;

/// A URL, over whichever wire it speaks.
#[cfg(feature = "http")]
mod url;

#[cfg(feature = "http")]
pub use url::SharedStack;

/// How many lines of stderr an error quotes.
const QUOTED_STDERR_LINES: usize = 5;

/// The way to the server of an entry. A new kind of endpoint is one more arm here.
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
    /// Starts what must run before anything can be said.
    fn start(&self) -> BoxFuture<'_, Result<StartedServer, Failure>>;

    /// The first step of connecting.
    fn first_step(&self) -> ConnectStep {
        ConnectStep::Spawn
    }

    /// How to open on a fresh start after `fault`, if there is another way.
    fn next_approach(&self, approach: Approach, fault: &OpenFault) -> Option<Approach> {
        approach.after(fault)
    }

    /// Where it is, for who must log in there: safe to show, empty for a server that has no
    /// address.
    fn address(&self) -> String {
        String::new()
    }
}

/// A server that was started, and the way to it.
pub(super) struct StartedServer {
    pub(super) process: Option<Box<dyn ServerProcess>>,
    /// Holds the process's stdin, so it must be gone before the process is stopped.
    pub(super) opener: Box<dyn SessionOpener>,
    /// References to variables that are not set: (variable, field).
    pub(super) unset: Vec<(String, String)>,
    /// Keeps the entry's secrets out of what the server says when it fails.
    pub(super) redactor: Option<Redactor>,
}

/// The way to a session with a server that was started.
pub(super) trait SessionOpener: Send + Sync {
    /// Connects and shakes hands, within the options' time.
    fn open(&self, options: OpenOptions) -> BoxFuture<'_, Result<OpenedSession, OpenFault>>;
}

/// A session, and what it was found to run over where there was a choice.
pub(super) struct OpenedSession {
    pub(super) link: Arc<dyn LiveSession>,
    pub(super) wire: Option<Wire>,
}

/// One channel, without a choice.
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

/// Why an attempt failed, and whether another may go better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The fact, safe to show.
    pub(super) fact: String,
    pub(super) retry: Retry,
}

/// A process of ours.
pub(super) trait ServerProcess: Send {
    fn pid(&self) -> u32;

    /// The last lines of its stderr, safe to show. What it wrote before it ended may still be on
    /// its way: that is waited for, but only `until` then, since other processes may hold its
    /// stderr.
    fn last_stderr(&self, until: Instant) -> BoxFuture<'_, Vec<String>>;

    /// Waits for its end. Cancel-safe, and may be called again.
    fn exited(&mut self) -> BoxFuture<'_, Exit>;

    /// Ends it and all its descendants, in the 3.5 s that any [`StopTiming`] takes. The channel
    /// must be closed.
    fn stop(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// A live session, as far as keeping it alive goes.
pub(super) trait LiveSession: Send + Sync {
    fn hello(&self) -> &Hello;
    fn offerings(&self) -> BoxFuture<'_, Result<Offerings, RequestFault>>;
    fn list_changed(&self) -> BoxFuture<'_, ()>;
    fn closed(&self) -> BoxFuture<'_, String>;
    fn close(&self);

    /// Waits until a closed session has said its last words.
    fn farewell(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn asks(&self) -> bool;

    /// Whether the server has asked something during a call.
    fn was_questioned(&self) -> bool;

    /// Whether no call is under way.
    fn is_idle(&self) -> bool;

    /// Waits until no call is under way. Cancel-safe.
    fn idle(&self) -> BoxFuture<'_, ()>;

    /// What calls are made on.
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

/// A child process that speaks over its standard streams.
struct ProcessEndpoint {
    config: Arc<ServerConfig>,
    endpoint: StdioEndpoint,
    environment: Arc<Environment>,
    launcher: Launcher,
    /// Where the user's own servers run that name no folder; `None`: in this process's.
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
    /// The launch, in the folder that the entry names or that is meant where it names none.
    fn resolve(&self) -> Result<ResolvedLaunch, String> {
        let private = self
            .private_folder
            .as_ref()
            .filter(|_| self.config.source.scope == Scope::User);
        let launch = match private {
            // Nothing of the current folder may run: relative paths that would start there lead
            // nowhere.
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
            // What is inherited names the folder of this process.
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

/// A folder for this server alone, made where it is missing.
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

/// The program was there a moment ago, so what the system says is worth as much as what was found
/// then.
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
    /// Begun anew by each spawn, and free of the launch's secrets.
    stderr: ServerStderr,
    stop: StopTiming,
}

/// As the document of the entry's file has it.
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

/// A library user's own transport: nothing to start.
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

/// An endpoint that cannot be reached, and why.
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
