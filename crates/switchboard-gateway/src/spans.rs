//! OpenTelemetry spans: one for each request of a client (kind server), and its child for the request
//! to the server (kind client).
//!
//! Without the feature `otel`, `spans/off.rs` replaces this file, with the same names and no effect.
//! With it, and without a variable that asks for traces, a span costs one branch.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use hyper::HeaderMap;
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer as _,
    TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use switchboard::RawJson;
use switchboard::call::CallError;
use switchboard::caller::ForwardedParams;
use switchboard::config::Endpoint;
use switchboard::revision::Revision;
use switchboard::server::ServerHandle;
use switchboard::session::RequestFault;
use switchboard::sync::lock;
use switchboard::wire::RequestId;
use url::Url;

use crate::params::RequestParams;

pub use names::{SPAN_ATTRIBUTES, SpanAttribute};

/// To a collector.
mod export;
/// The table of all attributes.
mod names;
/// W3C trace context.
mod propagation;

/// Longer names and ids of clients are cut in attributes.
const MAX_TEXT: usize = 200;

/// Where spans go; by default nowhere. Clones share it.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<ActiveTraces>>);

struct ActiveTraces {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
}

impl Traces {
    /// As the `OTEL_*` variables of the process say: no traces unless a variable asks for them. A
    /// variable that is not valid is logged, and there are no traces. Must be called in a runtime,
    /// which sends the spans.
    pub fn from_environment() -> Self {
        match export::provider() {
            Ok(provider) => Self(provider.map(|provider| {
                let tracer = provider.tracer(crate::SERVER_NAME);
                Arc::new(ActiveTraces { tracer, provider })
            })),
            Err(fault) => {
                tracing::warn!("no traces are sent: {fault}");
                Self(None)
            }
        }
    }

    /// Sends the spans that wait, within this time. Later spans are lost.
    pub async fn close(&self, within: Duration) {
        let Some(active) = self.0.clone() else {
            return;
        };
        // Shutting down blocks. The exporter has logged any failure.
        let closing = move || active.provider.shutdown_with_timeout(within);
        let _ = tokio::task::spawn_blocking(closing).await;
    }

    /// Whether there are spans.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the span of a client's request.
    pub(crate) fn server_span<'a>(&self, start: impl FnOnce() -> RequestStart<'a>) -> ServerSpan {
        ServerSpan(self.0.as_ref().map(|active| {
            let span = start().begin(active);
            let outcome = None;
            Box::new(OpenSpan { span, outcome })
        }))
    }

    /// Prepares the span of the request to a server.
    pub(crate) fn client_span(&self, parent: &ServerSpan, method: &str) -> ClientSpan {
        let (Some(active), Some(parent)) = (&self.0, &parent.0) else {
            return ClientSpan::default();
        };
        ClientSpan(Some(Box::new(PreparedSpan {
            traces: active.clone(),
            parent: parent.span.span_context().clone(),
            method: method.to_owned(),
            begun: OnceLock::new(),
        })))
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Traces").field(&self.is_on()).finish()
    }
}

/// How a message reached the gateway.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrival<'a> {
    http: Option<(&'a HeaderMap, SocketAddr)>,
}

impl<'a> Arrival<'a> {
    /// Over HTTP.
    pub(crate) fn http(headers: &'a HeaderMap, peer: SocketAddr) -> Self {
        let http = Some((headers, peer));
        Self { http }
    }
}

/// A request, when its span begins.
pub(crate) struct RequestStart<'a> {
    pub(crate) method: &'a str,
    pub(crate) id: &'a RequestId,
    pub(crate) params: &'a RequestParams,
    /// What a legacy client agreed on.
    pub(crate) legacy_revision: Option<Revision>,
    pub(crate) arrival: Arrival<'a>,
}

impl RequestStart<'_> {
    fn begin(&self, active: &ActiveTraces) -> Span {
        let mut attributes = Vec::with_capacity(12);
        let target = match self.method {
            "tools/call" | "prompts/get" => self.params.text("name"),
            _ => None,
        };
        let name = add_subject(&mut attributes, self.method, target.as_deref());
        let modern = self.params.meta().version.as_deref();
        let legacy = self.legacy_revision.map(Revision::as_str);
        if let Some(version) = modern.or(legacy) {
            attributes.push(KeyValue::new(names::PROTOCOL_VERSION, cut(version)));
        }
        attributes.push(KeyValue::new(names::REQUEST_ID, shown_id(self.id)));
        let mut builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
        if let Some((headers, peer)) = self.arrival.http {
            attributes.push(KeyValue::new(names::TRANSPORT, "tcp"));
            attributes.push(KeyValue::new(names::PROTOCOL_NAME, "http"));
            attributes.push(KeyValue::new(names::CLIENT_ADDRESS, peer.ip().to_string()));
            if let Some(session) = headers.get("mcp-session-id").filter(|_| modern.is_none()) {
                let digest = blake3::hash(session.as_bytes()).to_hex();
                attributes.push(KeyValue::new(names::SESSION, digest[..16].to_owned()));
            }
            builder.links =
                propagation::of_headers(headers).map(|linked| vec![Link::with_context(linked)]);
        } else {
            attributes.push(KeyValue::new(names::TRANSPORT, "pipe"));
        }
        let parent = propagation::parent(self.params.meta());
        let builder = builder.with_attributes(attributes);
        active.tracer.build_with_context(builder, &parent)
    }
}

/// The span of one client's request. It ends when it is dropped; without a response, it was
/// cancelled.
#[derive(Default)]
pub(crate) struct ServerSpan(Option<Box<OpenSpan>>);

/// A span that has not ended. Boxed, because its owner, the responder, is moved often.
struct OpenSpan {
    span: Span,
    outcome: Option<SpanOutcome>,
}

impl ServerSpan {
    /// Sets the outcome of a request whose response is a result although it failed.
    pub(crate) fn set_outcome(&mut self, outcome: SpanOutcome) {
        if let Some(open) = &mut self.0 {
            open.outcome = Some(outcome);
        }
    }

    /// The response is a result.
    pub(crate) fn answered(&mut self) {
        if let Some(open) = &mut self.0 {
            open.outcome.get_or_insert_default();
        }
    }

    /// The response is an error of this code.
    pub(crate) fn refused(&mut self, code: i64) {
        self.set_outcome(SpanOutcome(Some(SpanError::Code(code))));
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        let outcome = outcome.unwrap_or_else(SpanOutcome::cancelled);
        outcome.end(&mut self.span);
    }
}

impl fmt::Debug for ServerSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerSpan")
            .field(&self.0.is_some())
            .finish()
    }
}

/// The span of the request to a server. It begins when the request is first sent; a call that is
/// refused before has none.
#[derive(Default)]
pub(crate) struct ClientSpan(Option<Box<PreparedSpan>>);

struct PreparedSpan {
    traces: Arc<ActiveTraces>,
    parent: SpanContext,
    method: String,
    begun: OnceLock<BegunSpan>,
}

struct BegunSpan {
    /// The params that name this span as the parent of what the server does.
    forwarded: ForwardedParams,
    /// `None` once it has ended.
    span: Mutex<Option<Span>>,
}

impl ClientSpan {
    /// The client's params for the server. Called right before the request is sent; the first call
    /// begins the span.
    pub(crate) fn forwarded<'a>(&'a self, own: &'a ForwardedParams) -> &'a ForwardedParams {
        match &self.0 {
            None => own,
            Some(prepared) => &prepared.begun.get_or_init(|| prepared.begin(own)).forwarded,
        }
    }

    /// Ends the span. `server` finds the server; `target` is the server's own name of a tool or
    /// prompt.
    pub(crate) fn end(
        &self,
        outcome: &SpanOutcome,
        target: Option<&str>,
        server: impl FnOnce() -> Option<ServerHandle>,
    ) {
        let Some(prepared) = &self.0 else { return };
        let begun = prepared.begun.get();
        let Some(mut span) = begun.and_then(|begun| lock(&begun.span).take()) else {
            return;
        };
        if span.is_recording() {
            let mut attributes = Vec::with_capacity(10);
            span.update_name(add_subject(&mut attributes, &prepared.method, target));
            if let Some(server) = server() {
                add_server(&mut attributes, &server);
            }
            span.set_attributes(attributes);
        }
        outcome.end(&mut span);
    }
}

impl PreparedSpan {
    fn begin(&self, own: &ForwardedParams) -> BegunSpan {
        let builder = SpanBuilder::from_name(self.method.clone()).with_kind(SpanKind::Client);
        let parent = Context::new().with_remote_span_context(self.parent.clone());
        let span = self.traces.tracer.build_with_context(builder, &parent);
        BegunSpan {
            forwarded: match span.span_context().is_valid() {
                true => propagation::with_parent(own, span.span_context()),
                // The exporter was shut down: the gateway ends.
                false => own.clone(),
            },
            span: Mutex::new(Some(span)),
        }
    }
}

/// The outcome of a request: a result, or why there is none.
#[derive(Debug, Default)]
pub(crate) struct SpanOutcome(Option<SpanError>);

#[derive(Debug)]
enum SpanError {
    /// A result with `isError`.
    Tool,
    /// A JSON-RPC error.
    Code(i64),
    /// Anything else.
    Other(&'static str),
}

impl SpanOutcome {
    pub(crate) fn of(answer: &Result<RawJson, CallError>, is_tool_error: bool) -> Self {
        Self(match answer {
            Ok(_) => is_tool_error.then_some(SpanError::Tool),
            Err(error) => Some(SpanError::of(error)),
        })
    }

    pub(crate) fn cancelled() -> Self {
        Self(Some(SpanError::Other("cancelled")))
    }

    /// Ends a span with this outcome. The words of an error stay out: they may quote arguments.
    fn end(&self, span: &mut Span) {
        if let Some(error) = self.0.as_ref().filter(|_| span.is_recording()) {
            let kind = match error {
                SpanError::Tool => "tool_error".into(),
                SpanError::Code(code) => Cow::from(code.to_string()),
                SpanError::Other(kind) => Cow::from(*kind),
            };
            if let SpanError::Code(_) = error {
                span.set_attribute(KeyValue::new(names::STATUS_CODE, kind.clone()));
            }
            span.set_attribute(KeyValue::new(names::ERROR, kind));
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

impl SpanError {
    fn of(error: &CallError) -> Self {
        Self::Other(match error {
            CallError::Unresolved { .. } | CallError::UnknownServer { .. } => "unresolved",
            CallError::Replaced { .. } | CallError::DefinitionChanged { .. } => "changed",
            CallError::InvalidArguments { .. } => "invalid_arguments",
            CallError::Denied { .. } => "denied",
            CallError::NotReady(_) => "not_ready",
            CallError::Request { fault, .. } => match fault {
                RequestFault::ErrorResponse { code, .. } => return Self::Code(*code),
                RequestFault::Timeout { .. } | RequestFault::QueueTimeout { .. } => "timeout",
                RequestFault::Closed(_) => "connection_closed",
                RequestFault::Transport(_) => "transport",
                RequestFault::TooLarge { .. } | RequestFault::Invalid(_) => "invalid_response",
                RequestFault::NotSent(_) | RequestFault::NotSupported(_) => "not_supported",
                _ => "failed",
            },
            _ => "failed",
        })
    }
}

/// Adds method and target; returns the name of the span. A resource's URI is not part of the name:
/// there are too many.
fn add_subject(attributes: &mut Vec<KeyValue>, method: &str, target: Option<&str>) -> String {
    let (method, target) = (cut(method), target.map(cut));
    let name = match &target {
        Some(target) => format!("{method} {target}"),
        None => method.clone(),
    };
    if method == "tools/call" {
        attributes.push(KeyValue::new(names::OPERATION, "execute_tool"));
    }
    if let Some(target) = target {
        let key = match method.as_str() {
            "prompts/get" => names::PROMPT,
            _ => names::TOOL,
        };
        attributes.push(KeyValue::new(key, target));
    }
    attributes.push(KeyValue::new(names::METHOD, method));
    name
}

fn add_server(attributes: &mut Vec<KeyValue>, server: &ServerHandle) {
    let config = &server.config;
    attributes.push(KeyValue::new(names::SERVER_NAME, config.name.to_string()));
    let session = server.snapshot().session.clone();
    if let Some(session) = session {
        let revision = session.hello().revision.as_str();
        attributes.push(KeyValue::new(names::PROTOCOL_VERSION, revision));
    }
    match &config.endpoint {
        Endpoint::Stdio(_) => attributes.push(KeyValue::new(names::TRANSPORT, "pipe")),
        Endpoint::Http(http) => {
            attributes.push(KeyValue::new(names::TRANSPORT, "tcp"));
            attributes.push(KeyValue::new(names::PROTOCOL_NAME, "http"));
            // A URL with a variable in its host does not parse.
            let url = Url::parse(&http.url).ok();
            let host = url.as_ref().and_then(Url::host_str);
            if let Some(host) = host.filter(|host| !host.contains(['$', '{', '%'])) {
                attributes.push(KeyValue::new(names::SERVER_ADDRESS, host.to_owned()));
                let port = url.as_ref().and_then(Url::port_or_known_default);
                attributes
                    .extend(port.map(|port| KeyValue::new(names::SERVER_PORT, i64::from(port))));
            }
        }
        Endpoint::Invalid(_) => {}
    }
}

/// The id as text; one that is a string without its quotes.
fn shown_id(id: &RequestId) -> String {
    match id {
        RequestId::Number(number) => number.to_string(),
        RequestId::Other(raw) => match raw.decode::<String>() {
            Ok(text) => cut(&text),
            Err(_) => cut(raw.as_str()),
        },
    }
}

/// A text of a client, not longer than attributes may be.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}
