//! A server that is given by its URL: resolves it, finds the wire and the era it speaks, and
//! remembers what worked.
//!
//! Owns the order of wires within one attempt. Leaves the eras to the session's handshake and
//! everything on the wire to the transports.

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;
use url::Url;

use super::{Begun, Failure, Opened, Opening, Reach};
use crate::auth::{self, AuthContext, Credentials};
use crate::caller::BoxFuture;
use crate::config::{Environment, HttpEndpoint, ResolvedUrl, resolve_url};
use crate::secret::Redactor;
use crate::server::backoff::Retry;
use crate::server::connect::Approach;
use crate::server::state::Wire;
use crate::server::stderr::ServerStderr;
use crate::server::{Means, ServerConfig};
use crate::session::{OpenFault, OpenOptions, Session};
use crate::store::Store;
use crate::transport::http::{HttpConnector, HttpStack, HttpTarget};
use crate::transport::sse::SseConnector;
use crate::transport::{ConnectFault, Connector};
use known::Wires;
use plan::{Known, Plan, Step};

mod known;
mod plan;

/// The HTTP stack that all servers of a host share, made when the first of them connects: a host
/// without any pays nothing for it.
#[derive(Debug, Clone, Default)]
pub struct SharedStack(Arc<OnceLock<Result<HttpStack, ConnectFault>>>);

impl SharedStack {
    fn get(&self, environment: &Environment) -> Result<HttpStack, ConnectFault> {
        self.0.get_or_init(|| HttpStack::new(environment)).clone()
    }
}

/// The way to a URL.
pub(super) struct ByUrl {
    config: Arc<ServerConfig>,
    endpoint: HttpEndpoint,
    environment: Arc<Environment>,
    stack: SharedStack,
    store: Arc<dyn Store>,
    /// Holds no line of a server without a process, but what keeps its secrets out of what is
    /// told.
    stderr: ServerStderr,
    auth: AuthContext,
    /// Shared by all connections, so that one refreshed token serves them all.
    credentials: OnceLock<Arc<dyn Credentials>>,
}

impl ByUrl {
    pub(super) fn new(
        config: Arc<ServerConfig>,
        endpoint: HttpEndpoint,
        means: &Means,
        stderr: ServerStderr,
    ) -> Self {
        Self {
            config,
            endpoint,
            environment: means.environment.clone(),
            stack: means.http.clone(),
            store: means.store.clone(),
            stderr,
            auth: means.auth.clone(),
            credentials: OnceLock::new(),
        }
    }

    fn resolve(&self) -> Result<Begun, Failure> {
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
        let wires = Wires::new(self.store.clone(), &url);
        let target = HttpTarget {
            url,
            headers,
            credentials,
            max_message_bytes: self.config.max_message_bytes,
        };
        let sse_below = self.config.dialect.profile().sse_below;
        let plan = Plan {
            wire: self.endpoint.wire,
            protocol: self.config.protocol,
            sse_below,
        };
        let opening = Box::new(ByWire {
            stack,
            target,
            wires,
            plan,
        });
        Ok(Begun {
            process: None,
            opening,
            unset,
            redactor: Some(redactor),
        })
    }

    /// What this server's requests are authorized with.
    fn credentials(&self, resolved: &ResolvedUrl) -> Arc<dyn Credentials> {
        self.credentials
            .get_or_init(|| auth::for_server(&self.config, resolved, &self.environment, &self.auth))
            .clone()
    }
}

impl Reach for ByUrl {
    fn begin(&self) -> BoxFuture<'_, Result<Begun, Failure>> {
        let begun = self.resolve();
        Box::pin(async move { begun })
    }

    fn first_step(&self) -> &'static str {
        "resolve"
    }

    /// All approaches are tried in one opening: there is nothing to start afresh.
    fn after(&self, _: Approach, _: &OpenFault) -> Option<Approach> {
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

/// A URL without what may be secret in it.
fn bare(mut url: Url) -> String {
    // Fails only for a URL that can have neither.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// One attempt at a URL.
struct ByWire {
    stack: HttpStack,
    target: HttpTarget,
    wires: Wires,
    plan: Plan,
}

impl Opening for ByWire {
    fn open(&self, options: OpenOptions) -> BoxFuture<'_, Result<Opened, OpenFault>> {
        Box::pin(self.find(options))
    }
}

impl ByWire {
    /// Tries one wire after the other, within the options' time.
    async fn find(&self, options: OpenOptions) -> Result<Opened, OpenFault> {
        let deadline = Instant::now() + options.connect_timeout;
        let known = self.wires.known().await;
        let mut step = self
            .plan
            .first(self.plan.with_era(known, options.known_era));
        let mut given_up = GivenUp::default();
        loop {
            let fault = match self.attempt(step, &options, deadline).await {
                Ok(session) => {
                    let found = Known {
                        wire: step.wire,
                        era: session.hello().era(),
                    };
                    if known != Some(found) && self.plan.tells_era(found) {
                        self.wires.keep(found).await;
                    }
                    return Ok(Opened {
                        link: session,
                        wire: Some(step.wire),
                    });
                }
                Err(fault) => fault,
            };
            let Some(next) = self.plan.after(step, &fault) else {
                return Err(given_up.and(fault));
            };
            match (fault, step.wire, next.wire) {
                (OpenFault::WrongWire(said), Wire::Http, Wire::Sse) => {
                    given_up.streamable = Some(said)
                }
                (fault, Wire::Sse, Wire::Sse) => given_up.sse = Some(fault.to_string()),
                _ => {}
            }
            step = next;
        }
    }

    async fn attempt(
        &self,
        step: Step,
        options: &OpenOptions,
        deadline: Instant,
    ) -> Result<Arc<Session>, OpenFault> {
        let left = deadline.saturating_duration_since(Instant::now());
        // What is remembered may hang; then there must be time left to find out anew.
        let connect_timeout = if step.remembered { left * 2 / 3 } else { left };
        let options = OpenOptions {
            protocol: step.protocol,
            known_era: step.known_era,
            connect_timeout,
            ..options.clone()
        };
        let connector: Box<dyn Connector> = match step.wire {
            Wire::Http => Box::new(HttpConnector::new(self.stack.clone(), self.target.clone())),
            Wire::Sse => {
                let mut target = self.target.clone();
                if step.below {
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

/// What was tried without success before the last attempt, in the server's words.
#[derive(Default)]
struct GivenUp {
    streamable: Option<String>,
    /// HTTP+SSE at the URL itself.
    sse: Option<String>,
}

impl GivenUp {
    /// Where all ways failed, all are told.
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
