//! A server that is a child process, with its standard streams as transport.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{ConnectorOpener, Failure, ServerEndpoint, ServerProcess, StartedServer};
use crate::config::{
    Environment, LaunchFault, ResolvedLaunch, Scope, ServerConfig, StdioEndpoint, StopMethod,
    resolve_launch,
};
use crate::future::BoxFuture;
use crate::launch::{Child, Command, Exit, Launcher, StopTiming};
use crate::name::ServerName;
use crate::secret::Redactor;
use crate::server::ServerStderr;
use crate::server::backoff::Retry;
use crate::store;
use crate::transport::stdio::StdioConnector;

/// How many lines of stderr an error quotes.
const QUOTED_STDERR_LINES: usize = 5;

/// A child process with its standard streams as transport.
pub(super) struct ProcessEndpoint {
    pub(super) config: Arc<ServerConfig>,
    pub(super) endpoint: StdioEndpoint,
    pub(super) environment: Arc<Environment>,
    pub(super) launcher: Launcher,
    /// The parent of the working folders of user-scope servers without `cwd`; `None` runs them in
    /// this process's working folder.
    pub(super) private_folder: Option<Arc<PathBuf>>,
    pub(super) stderr: ServerStderr,
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
                fact: "its process was started without standard streams".to_owned(),
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
    /// Resolves the launch, and the working folder of an entry without `cwd`.
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
            // An inherited PWD names this process's folder.
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

/// The working folder of a user-scope server without `cwd`, below the host's private folder.
pub fn private_working_folder(private: &Path, server: &ServerName) -> PathBuf {
    private.join(format!("{server}.cwd"))
}

/// Creates the private working folder of this server if it is missing.
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
    /// Cleared by each spawn; secrets of the launch are redacted in it.
    stderr: ServerStderr,
    stop: StopTiming,
}

/// The stop timing of the entry's dialect.
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
