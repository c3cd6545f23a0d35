//! What differs between kinds of servers: a process, a URL, a library user's transport.
//!
//! The task uses four traits: [`ServerEndpoint`] starts a server, [`ServerProcess`] is its process
//! if it has one, [`SessionOpener`] opens a session with it, [`LiveSession`] is that session.

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

use super::backoff::Retry;
use super::connect::Approach;
use super::stderr::ServerStderr;
use super::{ConnectStep, DetectedTransport};
use super::{ServerConfig, ServerResources};
use crate::catalog::Offerings;
use crate::config::Endpoint;
use crate::future::BoxFuture;
use crate::launch::Exit;
use crate::secret::Redactor;
use crate::session::{Hello, OpenFault, OpenOptions, RequestFault, Session};
use crate::transport::{Connector, Credentials};

mod process;
#[cfg(feature = "http")]
mod url;

use process::ProcessEndpoint;
pub use process::private_working_folder;

#[cfg(feature = "http")]
pub(crate) use url::SharedStack;

/// The credentials of all connections to one server, so that they use one login and show its page
/// once. Set when the first one is opened; only servers with a URL have them.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedCredentials(
    #[cfg_attr(not(feature = "http"), allow(dead_code))] Arc<OnceLock<Arc<dyn Credentials>>>,
);

impl SharedCredentials {
    #[cfg(feature = "oauth")]
    pub(super) fn forget(&self) {
        if let Some(credentials) = self.0.get() {
            credentials.forget();
        }
    }
}

/// The endpoint of an entry. A new kind of endpoint is one more arm here.
pub(super) fn endpoint_for(
    config: &Arc<ServerConfig>,
    resources: &ServerResources,
    stderr: &ServerStderr,
    credentials: &SharedCredentials,
) -> Arc<dyn ServerEndpoint> {
    #[cfg(not(feature = "http"))]
    let _ = credentials;
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
            credentials.clone(),
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

    /// How to open a session with a newly started server after `fault`; `None` if nothing is left
    /// to try.
    fn next_approach(&self, approach: Approach, fault: &OpenFault) -> Option<Approach> {
        approach.after(fault)
    }

    /// The server's address, for a login; safe to show. Empty for a server without one.
    fn address(&self) -> String {
        String::new()
    }
}

/// A server that was started.
pub(super) struct StartedServer {
    pub(super) process: Option<Box<dyn ServerProcess>>,
    /// Owns the process's stdin, so it must be dropped before the process is stopped.
    pub(super) opener: Box<dyn SessionOpener>,
    /// References to unset variables: (variable, field).
    pub(super) unset: Vec<(String, String)>,
    /// Redacts the entry's secrets in the server's errors.
    pub(super) redactor: Option<Redactor>,
}

/// Opens sessions with a server that was started.
pub(super) trait SessionOpener: Send + Sync {
    /// Connects and performs the handshake, within the options' time limit.
    fn open(&self, options: OpenOptions) -> BoxFuture<'_, Result<OpenedSession, OpenFault>>;
}

/// A session, and the transport that was found to work if there was a choice.
pub(super) struct OpenedSession {
    pub(super) live_session: Arc<dyn LiveSession>,
    pub(super) wire: Option<DetectedTransport>,
}

/// Opens sessions over one given transport.
struct ConnectorOpener(Arc<dyn Connector>);

impl SessionOpener for ConnectorOpener {
    fn open(&self, options: OpenOptions) -> BoxFuture<'_, Result<OpenedSession, OpenFault>> {
        Box::pin(async move {
            let session = Session::open(&*self.0, options).await?;
            Ok(OpenedSession {
                live_session: session,
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

    /// The last lines of stderr, safe to show. Waits for output that the process wrote before it
    /// ended, at most until `until`: other processes may keep its stderr open.
    fn last_stderr(&self, until: Instant) -> BoxFuture<'_, Vec<String>>;

    /// Waits until the process has ended. Cancel-safe; may be called again.
    fn exited(&mut self) -> BoxFuture<'_, Exit>;

    /// Stops the process and all its descendants, within the 3.5 s of any [`StopTiming`]. The
    /// channel must be closed.
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
    fn flushed(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn asks(&self) -> bool;

    /// Whether the server has asked a question during a call.
    fn has_asked(&self) -> bool;

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

    fn flushed(&self) -> BoxFuture<'static, ()> {
        self.close_gracefully()
    }

    fn asks(&self) -> bool {
        self.asks()
    }

    fn has_asked(&self) -> bool {
        self.has_asked()
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
