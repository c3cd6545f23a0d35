//! One live connection to a server, in either protocol era.
//!
//! Opening consumes a connector and returns the session, so a call before the handshake cannot be
//! expressed. The session owns request ids, pending requests, the handshake, lists, calls with
//! deadlines, and the server's questions. Restarting is left to [`crate::server`].
//!
//! | file | what it does |
//! |---|---|
//! | `options`, `fault` | options of sessions and calls, and their errors |
//! | `handshake`, `capabilities` | finds the era; what the host declares |
//! | `legacy`, `modern` | what differs between the eras; `EraSession` here is the one dispatch |
//! | `in_flight` | a caller's request while it is in flight, and its deadlines |
//! | `caller_queue` | serialises callers where nothing shows which call a question belongs to |
//! | `peer` | sends requests and waits for their responses |
//! | `pending` | requests that wait for a response, and the timer that ends the late ones |
//! | `receiver`, `notifications` | dispatch messages from the server |
//! | `event_limit` | limits the messages that become events |
//! | `retry` | when a request is sent a second time |
//! | `result_kind` | complete results, tasks, results that require input |
//! | `lists`, `cache` | lists page by page; lists and resources that may be cached |
//! | `operations`, `subscriptions` | completions; subscriptions and the log level; the status |
//! | `elicitation`, `sampling`, `roots` | the questions of a server, in either era |
//! | `tasks` | calls that become tasks, in either era |

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::cache::CacheHint;
use self::fault::RequestResult;
use self::in_flight::InFlightCall;
use self::legacy::LegacyHalf;
use self::modern::ModernHalf;
use self::peer::{OutboundRequest, ParamField, Peer};
use self::receiver::{Receiver, TaskGuard};
use self::roots::RootChanges;
use crate::caller::{BoxFuture, Caller, ForwardedParams};
use crate::catalog::Offerings;
use crate::config::Timeouts;
use crate::gate::Permit;
use crate::transport::Connector;
use crate::untrusted::quoted;
use crate::wire::{RawJson, TOOLS_CALL};

mod cache;
mod caller_queue;
mod capabilities;
mod elicitation;
mod event_limit;
mod fault;
mod handshake;
mod in_flight;
mod legacy;
mod lists;
mod modern;
mod notifications;
mod operations;
mod options;
mod peer;
mod pending;
mod receiver;
mod result_kind;
mod retry;
mod roots;
mod sampling;
mod subscriptions;
mod tasks;
#[cfg(test)]
mod tests;

pub(crate) use self::cache::Cache;
pub use self::fault::{OpenFault, RequestFault, TaskFault};
pub(crate) use self::in_flight::{CallClock, PermittedCall};
pub use self::operations::CompletionTarget;
pub(crate) use self::options::CallOptions;
pub use self::options::{DeviationCounter, Hello, OpenOptions, ProtocolDeviations};
pub use self::roots::Roots;
pub(crate) use self::sampling::{SamplingPolicy, ServerSamplingPolicy};
pub(crate) use self::subscriptions::Subscriptions;
pub use crate::revision::{Era, Revision};

/// One live connection.
pub struct Session {
    peer: Peer,
    hello: Hello,
    era: EraSession,
    /// Ends requests that exceed their deadline.
    _timer: TaskGuard,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("hello", &self.hello)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, finds the era and performs the handshake.
    pub async fn open(
        connector: &dyn Connector,
        options: OpenOptions,
    ) -> Result<Arc<Self>, OpenFault> {
        let root_changes = options.roots.changes();
        let receiver = Receiver::new(options);
        let transport = connector
            .connect(receiver.clone())
            .await
            .map_err(|fault| OpenFault::Channel(fault.0))?;
        receiver
            .transport
            .set(Arc::downgrade(&transport))
            .expect("a receiver is connected once");
        let peer = Peer {
            receiver,
            transport,
        };
        let hello = handshake::handshake(&peer).await.map_err(|fault| {
            let violation = peer.receiver.violation.get().cloned();
            violation.map_or(fault, OpenFault::ProtocolViolation)
        })?;
        peer.transport.negotiated(hello.revision);
        peer.receiver.options.cache.session_began();
        let era = EraSession::start(&peer, &hello, root_changes);
        let timer = pending::start_timer(&peer.receiver);
        Ok(Arc::new(Self {
            peer,
            hello,
            era,
            _timer: timer,
        }))
    }

    /// What the server declared in the handshake.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Lists all that the server offers. A list that fails is a fault in the result; only a lost
    /// connection is an error.
    pub async fn offerings(&self) -> Result<Offerings, RequestFault> {
        lists::offerings(self).await
    }

    /// Drops the cached tool list and causes a new listing, as if the server had reported a change.
    pub(crate) fn invalidate_tool_list(&self) {
        self.peer.receiver.lists_changed(&["tools/list"]);
    }

    /// Waits for the server to report that a list changed (coalesced: many become one).
    pub async fn list_changed(&self) {
        self.peer.receiver.list_changed.notified().await;
    }

    /// Waits for the end of the session; the reason is one line, safe to show. Cancel-safe; returns
    /// at once if the session has already ended.
    pub async fn closed(&self) -> String {
        self.peer.receiver.end_reason().await
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.peer.receiver.is_ended.load(Ordering::Acquire)
    }

    /// Makes the call that the permit is for, and consumes the permit. There is no other way to
    /// send a `tools/call`. The fault is boxed: results are moved through
    /// several futures, and would be as large as the fault.
    // Inlined: the future would be copied twice on its way to its caller. Not an `async fn`, which
    // cannot be inlined so.
    #[allow(clippy::manual_async_fn)]
    #[inline(always)]
    pub(crate) fn call(
        &self,
        PermittedCall(call): PermittedCall,
    ) -> impl Future<Output = Result<RawJson, Box<RequestFault>>> + Send {
        async move {
            let permit = call.permit().ok_or_else(RequestFault::no_permit)?;
            let _in_flight = self.peer.receiver.in_flight.begin();
            let mut sent = match &self.era {
                EraSession::Legacy(session) => session.send_call(&self.peer, permit, &call)?,
                EraSession::Modern(_) => None,
            };
            // Polled where it is: awaiting it by value would copy it.
            let fault = match &mut sent {
                Some(response) => match response.await {
                    Ok(result) => return legacy::check_complete(result),
                    Err(fault) => Some(fault),
                },
                None => None,
            };
            drop(sent);
            // Boxed: rare on a legacy session, and it would make every call's future larger.
            Ok(Box::pin(self.finish_call(permit, &call, fault)).await?)
        }
    }

    async fn finish_call(
        &self,
        permit: &Permit,
        call: &Arc<InFlightCall>,
        fault: Option<Box<RequestFault>>,
    ) -> RequestResult {
        let peer = &self.peer;
        match &self.era {
            EraSession::Legacy(session) => session.finish_call(peer, permit, call, fault).await,
            EraSession::Modern(session) => session.call_tool(peer, permit, call).await,
        }
    }

    /// Reads a resource, or returns a cached result that is still fresh.
    pub async fn read(
        &self,
        uri: &str,
        caller: &Arc<dyn Caller>,
        timeouts: Timeouts,
    ) -> Result<RawJson, RequestFault> {
        let OpenOptions { server, cache, .. } = &self.peer.receiver.options;
        let call = InFlightCall::of_other(server, caller, timeouts);
        let ticket = cache.ticket();
        // Only a read of the URI alone is cached: the result may depend on every other param.
        let has_only_uri = caller.forwarded().is_none_or(ForwardedParams::is_empty);
        let may_cache = self.era.caches_results() && has_only_uri;
        if may_cache && let Some(cached) = cache.read(uri, call.caller_id()) {
            return Ok(cached);
        }
        let uri_json = peer::json_string(uri);
        let fields: [ParamField<'_>; 1] = [("uri", &uri_json)];
        let result = self
            .send(&call, "resources/read", Some(uri), &fields)
            .await?;
        if may_cache && !call.gave_input.load(Ordering::Relaxed) {
            cache.store_read(ticket, uri, call.caller_id(), &result);
        }
        Ok(result)
    }

    /// Gets a prompt. `arguments` is a JSON object of strings.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: &RawJson,
        caller: &Arc<dyn Caller>,
        timeouts: Timeouts,
    ) -> Result<RawJson, RequestFault> {
        let server = &self.peer.receiver.options.server;
        let call = InFlightCall::of_other(server, caller, timeouts);
        let name_json = peer::json_string(name);
        let fields: [ParamField<'_>; 2] =
            [("name", &name_json), ("arguments", arguments.as_bytes())];
        self.send(&call, "prompts/get", Some(name), &fields).await
    }

    /// Forwards a client's request, whose params are the caller's [`forwarded`](Caller::forwarded)
    /// ones, and returns its result. Cannot call a tool: that needs a [`Permit`].
    pub async fn forward(
        &self,
        method: &str,
        name: Option<&str>,
        caller: &Arc<dyn Caller>,
        timeouts: Timeouts,
    ) -> Result<RawJson, RequestFault> {
        if method == TOOLS_CALL {
            return Err(RequestFault::no_permit());
        }
        // It is written into the message without escapes, and a server would read escapes in it.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_/.$-".contains(&byte);
        if method.is_empty() || !method.bytes().all(is_plain) {
            let fact = format!("{} is not the name of a method", quoted(method));
            return Err(RequestFault::NotSent(fact));
        }
        let server = &self.peer.receiver.options.server;
        let call = InFlightCall::of_other(server, caller, timeouts);
        self.send(&call, method, name, &[]).await
    }

    async fn send(
        &self,
        call: &Arc<InFlightCall>,
        method: &str,
        name: Option<&str>,
        fields: &[ParamField<'_>],
    ) -> RequestResult {
        let request = OutboundRequest {
            name,
            forwards_params: true,
            ..self.era.request(method, fields)
        };
        let _in_flight = self.peer.receiver.in_flight.begin();
        self.era.send_request(&self.peer, call, &request).await
    }

    /// Ends the session: pending requests fail, the server sees the end of its input.
    pub fn close(&self) {
        drop(self.close_gracefully());
    }

    /// Like [`close`](Self::close). The future waits until the transport has sent its last
    /// messages.
    pub(crate) fn close_gracefully(&self) -> BoxFuture<'static, ()> {
        self.peer.receiver.end("it was closed");
        self.peer.transport.close()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}

/// The half of a session that depends on its era.
enum EraSession {
    Legacy(LegacyHalf),
    Modern(ModernHalf),
}

impl EraSession {
    /// Starts the background tasks of a session of this era.
    fn start(peer: &Peer, hello: &Hello, roots: Option<RootChanges>) -> Self {
        match hello.era() {
            Era::Legacy => Self::Legacy(legacy::start(peer, hello, roots)),
            Era::Modern => Self::Modern(modern::start(peer, hello)),
        }
    }

    /// A request that belongs to no caller.
    fn request<'a>(&self, method: &'a str, fields: &'a [ParamField<'a>]) -> OutboundRequest<'a> {
        match self {
            Self::Legacy(_) => legacy::request(method, fields),
            Self::Modern(session) => modern::request(session.revision, method, fields),
        }
    }

    /// Sends a caller's request and completes the exchange that its era requires, up to the final
    /// result.
    async fn send_request(
        &self,
        peer: &Peer,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
    ) -> RequestResult {
        match self {
            Self::Legacy(session) => session.send_request(peer, call, request).await,
            Self::Modern(session) => session.send_request(peer, call, request).await,
        }
    }

    /// Refuses the result of a request that belongs to no caller if it is not complete.
    fn check_complete(&self, result: &RawJson) -> Result<(), RequestFault> {
        match self {
            // The legacy era has no other results.
            Self::Legacy(_) => Ok(()),
            Self::Modern(_) => result_kind::check_complete(result),
        }
    }

    /// Whether results may be cached: only modern servers say for how long.
    fn caches_results(&self) -> bool {
        matches!(self, Self::Modern(_))
    }

    /// Whether tool arguments are repeated in headers.
    fn sends_headers(&self, peer: &Peer) -> bool {
        matches!(self, Self::Modern(_)) && peer.transport.properties().sends_headers
    }

    /// How long a page of a list is fresh.
    fn list_lifetime(&self, page: &RawJson) -> Duration {
        match self {
            Self::Legacy(_) => Duration::ZERO,
            Self::Modern(_) => CacheHint::of(page).ttl,
        }
    }

    /// Whether the server reports every change of a list that it declares as changing. A modern
    /// server does so only while a stream is open.
    fn reports_every_change(&self) -> bool {
        matches!(self, Self::Legacy(_))
    }

    /// Whether each subscription is a request of its own. A modern server gets all in one.
    fn subscribes_one_by_one(&self) -> bool {
        matches!(self, Self::Legacy(_))
    }

    /// Whether the server confirms the log level. A modern one gets it with each request.
    fn confirms_log_level(&self) -> bool {
        matches!(self, Self::Legacy(_))
    }
}
