//! A server with a URL: resolves the URL, finds its transport and era, and remembers what worked.
//!
//! Owns the order in which transports are tried. The session's handshake finds the era.

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;
use url::Url;

use super::{
    Failure, OpenedSession, ServerEndpoint, SessionOpener, SharedCredentials, StartedServer,
};
use crate::auth::{self, AuthContext, Credentials};
use crate::config::{Environment, HttpEndpoint, ResolvedUrl, resolve_url};
use crate::future::BoxFuture;
use crate::secret::Redactor;
use crate::server::backoff::Retry;
use crate::server::connect::Approach;
use crate::server::stderr::ServerStderr;
use crate::server::{ConnectStep, DetectedTransport};
use crate::server::{ServerConfig, ServerResources};
use crate::session::{OpenFault, OpenOptions, Session};
use crate::store::Store;
use crate::transport::http::{HttpConnector, HttpStack, HttpTarget};
use crate::transport::sse::SseConnector;
use crate::transport::{ConnectFault, Connector};
use plan::{KnownWire, WireAttempt, WirePlan};
use remembered::RememberedWires;

mod plan;
mod remembered;

/// The HTTP stack of all servers of a host, created when the first URL server connects.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedStack(Arc<OnceLock<Result<HttpStack, ConnectFault>>>);

impl SharedStack {
    fn get(&self, environment: &Environment) -> Result<HttpStack, ConnectFault> {
        self.0.get_or_init(|| HttpStack::new(environment)).clone()
    }
}

/// The endpoint of a server with a URL.
pub(super) struct UrlEndpoint {
    config: Arc<ServerConfig>,
    endpoint: HttpEndpoint,
    environment: Arc<Environment>,
    stack: SharedStack,
    store: Arc<dyn Store>,
    /// Has no lines without a process, but redacts texts about the server.
    stderr: ServerStderr,
    auth: AuthContext,
    credentials: SharedCredentials,
}

impl UrlEndpoint {
    pub(super) fn new(
        config: Arc<ServerConfig>,
        endpoint: HttpEndpoint,
        resources: &ServerResources,
        stderr: ServerStderr,
        credentials: SharedCredentials,
    ) -> Self {
        Self {
            config,
            endpoint,
            environment: resources.environment.clone(),
            stack: resources.http.clone(),
            store: resources.store.clone(),
            stderr,
            auth: resources.auth.clone(),
            credentials,
        }
    }

    fn resolve(&self) -> Result<StartedServer, Failure> {
        let never = |fact: String| Failure {
            fact,
            retry: Retry::OnUse,
        };
        let resolved = resolve_url(&self.endpoint, &self.environment)
            .map_err(|fault| never(fault.to_string()))?;
        let stack = self
            .stack
            .get(&self.environment)
            .map_err(|fault| never(fault.0))?;
        let credentials = self.credentials(&resolved);
        let ResolvedUrl {
            url,
            headers,
            unset,
            secrets,
            auth: _,
        } = resolved;
        let redactor = Redactor::new(secrets).and_live(credentials.secrets());
        self.stderr.redact_with(redactor.clone());
        let wires = RememberedWires::new(self.store.clone(), &url);
        let target = HttpTarget {
            url,
            headers,
            credentials,
            max_message_bytes: self.config.max_message_bytes,
        };
        let sse_path_fallback = self.config.dialect.profile().sse_path_fallback;
        let plan = WirePlan {
            wire: self.endpoint.wire,
            protocol: self.config.protocol,
            sse_path_fallback,
        };
        let opener = Box::new(WireProbe {
            stack,
            target,
            wires,
            plan,
        });
        Ok(StartedServer {
            process: None,
            opener,
            unset,
            redactor: Some(redactor),
        })
    }

    /// The credentials for this server's requests.
    fn credentials(&self, resolved: &ResolvedUrl) -> Arc<dyn Credentials> {
        (self.credentials.0)
            .get_or_init(|| auth::for_server(&self.config, resolved, &self.environment, &self.auth))
            .clone()
    }
}

impl ServerEndpoint for UrlEndpoint {
    fn start(&self) -> BoxFuture<'_, Result<StartedServer, Failure>> {
        let started = self.resolve();
        Box::pin(async move { started })
    }

    fn first_step(&self) -> ConnectStep {
        ConnectStep::Resolve
    }

    /// Always `None`: one `open` tries every approach, since there is no process to start again.
    fn next_approach(&self, _: Approach, _: &OpenFault) -> Option<Approach> {
        None
    }

    fn address(&self) -> String {
        match resolve_url(&self.endpoint, &self.environment) {
            Ok(ResolvedUrl { url, secrets, .. }) => {
                Redactor::new(secrets).redact(&bare(url)).into_owned()
            }
            Err(_) => String::new(),
        }
    }
}

/// The URL without the parts that may contain a secret.
fn bare(mut url: Url) -> String {
    // Fails only for URLs that cannot have credentials.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// One attempt to connect to a URL.
struct WireProbe {
    stack: HttpStack,
    target: HttpTarget,
    wires: RememberedWires,
    plan: WirePlan,
}

impl SessionOpener for WireProbe {
    fn open(&self, options: OpenOptions) -> BoxFuture<'_, Result<OpenedSession, OpenFault>> {
        Box::pin(self.find(options))
    }
}

impl WireProbe {
    /// Tries the transports in order, within the options' time limit.
    async fn find(&self, options: OpenOptions) -> Result<OpenedSession, OpenFault> {
        let deadline = Instant::now() + options.connect_timeout;
        let known = self.wires.known().await;
        let mut attempt = self
            .plan
            .first(self.plan.with_era(known, options.known_era));
        let mut given_up = FailedWires::default();
        loop {
            let fault = match self.open_wire(attempt, &options, deadline).await {
                Ok(session) => {
                    let found = KnownWire {
                        wire: attempt.wire,
                        era: session.hello().era(),
                    };
                    if known != Some(found) && self.plan.is_era_from_server(found) {
                        self.wires.store(found).await;
                    }
                    return Ok(OpenedSession {
                        live_session: session,
                        wire: Some(attempt.wire),
                    });
                }
                Err(fault) => fault,
            };
            let Some(next) = self.plan.after(attempt, &fault) else {
                return Err(given_up.and(fault));
            };
            match (fault, attempt.wire, next.wire) {
                (
                    OpenFault::WrongTransport(said),
                    DetectedTransport::Http,
                    DetectedTransport::Sse,
                ) => given_up.streamable = Some(said),
                (fault, DetectedTransport::Sse, DetectedTransport::Sse) => {
                    given_up.sse = Some(fault.to_string())
                }
                _ => {}
            }
            attempt = next;
        }
    }

    async fn open_wire(
        &self,
        attempt: WireAttempt,
        options: &OpenOptions,
        deadline: Instant,
    ) -> Result<Arc<Session>, OpenFault> {
        let left = deadline.saturating_duration_since(Instant::now());
        // The remembered transport may hang; then there must be time left to try the others.
        let connect_timeout = if attempt.remembered {
            left * 2 / 3
        } else {
            left
        };
        let options = OpenOptions {
            protocol: attempt.protocol,
            known_era: attempt.known_era,
            connect_timeout,
            ..options.clone()
        };
        let connector: Box<dyn Connector> = match attempt.wire {
            DetectedTransport::Http => {
                Box::new(HttpConnector::new(self.stack.clone(), self.target.clone()))
            }
            DetectedTransport::Sse => {
                let mut target = self.target.clone();
                if attempt.at_sse_path {
                    let path = format!("{}/sse", target.url.path().trim_end_matches('/'));
                    target.url.set_path(&path);
                }
                Box::new(SseConnector::new(self.stack.clone(), target))
            }
        };
        match tokio::time::timeout(connect_timeout, Session::open(&*connector, options)).await {
            Ok(opened) => opened,
            Err(_) => Err(OpenFault::Timeout(connect_timeout)),
        }
    }
}

/// The errors of the transports that were tried before the last one.
#[derive(Default)]
struct FailedWires {
    streamable: Option<String>,
    /// The error of HTTP+SSE at the URL itself.
    sse: Option<String>,
}

impl FailedWires {
    /// Adds the earlier errors to `fault`, so that the message names all transports that failed.
    fn and(self, fault: OpenFault) -> OpenFault {
        let all = match (self, &fault) {
            (_, OpenFault::NeedsLogin(_) | OpenFault::Timeout(_)) => return fault,
            (
                Self {
                    streamable: None,
                    sse: None,
                },
                _,
            ) => return fault,
            (
                Self {
                    streamable: Some(refusal),
                    ..
                },
                _,
            ) => {
                format!("it speaks neither Streamable HTTP ({refusal}) nor HTTP+SSE ({fault})")
            }
            (
                Self {
                    sse: Some(refusal), ..
                },
                _,
            ) => {
                format!(
                    "it has an HTTP+SSE stream neither at its URL ({refusal}) nor at /sse under it ({fault})"
                )
            }
        };
        OpenFault::Refused(all)
    }
}
