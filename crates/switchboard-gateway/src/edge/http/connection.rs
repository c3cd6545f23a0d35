//! One connection: limits on heads and bodies, then each request to its route.
//!
//! A connection begins with `plain`, which serves what nearly all requests are. The first request
//! that is anything else is hyper's, and so is the rest of the connection.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::ACCESS_CONTROL_REQUEST_METHOD;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use switchboard::ServerName;
use switchboard::sync::lock;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::admission::CheckedToken;
use super::attached_request::RequestRoom;
use super::connections::ConnectionPlace;
use super::events::EndConditions;
use super::sessions::OpenedSessionId;
use super::stall::{Rewound, WriteDeadline};
use super::timer::ConnectionTimer;
use super::{
    HttpBody, HttpState, RouteRequest, closed, plain, post, response, server_card, sessions, sse,
};
use crate::path_segment;
use crate::principal::Principal;
use crate::refusal::{Refusal, RefusalReason};
use crate::settings::ServerSelection;
use crate::spans::Arrival;

/// What the requests of one connection share: there is one at a time, and most are alike.
pub(super) struct ServedConnection {
    pub(super) peer: SocketAddr,
    place: ConnectionPlace,
    pub(super) timer: ConnectionTimer,
    checked_token: Mutex<Option<CheckedToken>>,
    pub(super) opened_session: Mutex<Option<OpenedSessionId>>,
    pub(super) request_room: RequestRoom,
    /// The edge closes: the request that is served now is the last.
    pub(super) is_closing: AtomicBool,
    /// How many bytes were read.
    read_count: Arc<AtomicU64>,
    /// A body was refused: what hyper reports at the end of the connection is the same fault.
    has_refused_body: AtomicBool,
    /// The bytes read when the last request was handled: an idle connection has read no more.
    handled_count: AtomicU64,
}

/// Which head of a connection a request has: requests with the same number have the same headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeadNumber(u64);

impl HeadNumber {
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Hyper's buffer cannot be smaller.
const MIN_BUFFER_BYTES: usize = 8 << 10;

/// The bytes of a connection.
pub(super) type ClientStream = WriteDeadline<TcpStream>;

/// Serves one connection to its end.
pub(super) async fn serve(
    state: &Arc<HttpState>,
    place: ConnectionPlace,
    stream: TcpStream,
    peer: SocketAddr,
) {
    // A response is one small packet, which must not wait for another.
    let _ = stream.set_nodelay(true);
    let limits = &state.limits;
    let connection = ServedConnection {
        peer,
        place,
        timer: ConnectionTimer::new(limits.head_timeout),
        checked_token: Mutex::default(),
        opened_session: Mutex::default(),
        request_room: RequestRoom::default(),
        is_closing: AtomicBool::new(false),
        read_count: Arc::default(),
        has_refused_body: AtomicBool::new(false),
        handled_count: AtomicU64::new(0),
    };
    let read_count = connection.read_count.clone();
    let meter = state.gateway.outbound_meter().clone();
    let mut stream = WriteDeadline::new(stream, limits.write_timeout, read_count, meter);
    let serving = plain::serve(state, &connection, &mut stream);
    let next = connection.until_closing(state, serving).await;
    // Boxed, because the state of hyper's connection would be part of every connection.
    if let Some(read) = next {
        Box::pin(serve_any(state, &connection, Rewound::new(read, stream))).await;
    }
}

/// Serves requests of any kind.
async fn serve_any(
    state: &Arc<HttpState>,
    connection: &ServedConnection,
    stream: Rewound<ClientStream>,
) {
    let limits = &state.limits;
    let service = service_fn(async |request: Request<Incoming>| {
        // Other pages are for operators and collectors.
        let page = ServedTransport::of_path(request.uri().path())
            .and_then(|_| state.admission.allowed_page(request.headers()).cloned());
        let mut response = respond(state, connection, request).await;
        if let Some(page) = page {
            response = response::readable_by(response, &page);
        }
        connection.mark_handled();
        Ok::<_, Infallible>(response::with_content_type(response))
    });
    let serving = http1::Builder::new()
        .timer(connection.timer.clone())
        .header_read_timeout(limits.head_timeout)
        .max_headers(limits.max_headers)
        .max_header_size(limits.max_head_bytes)
        .max_buf_size(limits.max_head_bytes.max(MIN_BUFFER_BYTES))
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    let mut closing = state.closing.clone();
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        () = closed(&mut closing) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    let Err(error) = ended else { return };
    let peer = connection.peer;
    let reason = if error.is_parse_too_large() {
        RefusalReason::OversizedHeaders
    } else if error.is_timeout() {
        if connection.is_idle() {
            return;
        }
        RefusalReason::TooSlow
    } else if error.is_parse() && !connection.has_refused_body.load(Ordering::Relaxed) {
        RefusalReason::MalformedRequest
    } else {
        tracing::debug!("a connection of {peer} ended: {error}");
        return;
    };
    state.refused(reason, peer, None, "");
}

impl ServedConnection {
    /// The client whose token a request carries.
    pub(super) fn authenticate(
        &self,
        state: &HttpState,
        headers: &HeaderMap,
        head_number: Option<HeadNumber>,
        now: Instant,
    ) -> Result<Principal, RefusalReason> {
        let mut checked = lock(&self.checked_token);
        state
            .admission
            .authenticate(headers, head_number, now, &mut checked, &self.place)
    }

    /// Runs `serving`, and marks the connection when the edge closes.
    async fn until_closing<T>(&self, state: &HttpState, serving: impl Future<Output = T>) -> T {
        let mut serving = pin!(serving);
        let mut receiver = state.closing.clone();
        let mut closed = pin!(closed(&mut receiver));
        let mut is_registered = false;
        poll_fn(|context| {
            if let Poll::Ready(output) = serving.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            // Polled once, which is enough for it to wake this task: each poll takes 230 instructions.
            let is_due = !is_registered || state.is_closing();
            is_registered = true;
            if !is_due || self.is_closing.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            ready!(closed.as_mut().poll(context));
            self.is_closing.store(true, Ordering::Relaxed);
            serving.as_mut().poll(context)
        })
        .await
    }

    fn mark_handled(&self) {
        let read_count = self.read_count.load(Ordering::Relaxed);
        self.handled_count.store(read_count, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.handled_count.load(Ordering::Relaxed) == self.read_count.load(Ordering::Relaxed)
    }
}

/// Answers a request.
async fn respond(
    state: &Arc<HttpState>,
    connection: &ServedConnection,
    request: Request<Incoming>,
) -> Response<HttpBody> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let checked = match server_card::is_public(state, path) {
        true => state.admission.check_host(&parts.headers),
        false => state.admission.check_source(&parts.headers),
    };
    if let Err(reason) = checked.and_then(|()| state.admission.check_target(&parts.uri)) {
        state.refused(reason, connection.peer, None, path);
        return response::refused(reason);
    }
    if let Some(server) = server_card::server_of_path(path) {
        return server_card::respond(state, connection, &parts, server);
    }
    let Some((transport, rest)) = ServedTransport::of_path(path) else {
        return mounted(state, connection, parts, body).await;
    };
    let is_preflight = parts.method == Method::OPTIONS
        && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && state.admission.allowed_page(&parts.headers).is_some();
    if is_preflight {
        return response::preflight(&parts.headers);
    }
    match admit(state, connection, &parts, rest) {
        Ok(exchange) => route(exchange, transport, &parts, body).await,
        Err(refusal) => refusal,
    }
}

/// The request, if it is from a known client, and for all servers or for one that there is. The error
/// is the response.
fn admit<'a>(
    state: &'a Arc<HttpState>,
    connection: &'a ServedConnection,
    parts: &'a Parts,
    server: &str,
) -> Result<HttpExchange<'a>, Response<HttpBody>> {
    let (headers, path, peer) = (&parts.headers, parts.uri.path(), connection.peer);
    let arrived = Instant::now();
    let principal = connection
        .authenticate(state, headers, None, arrived)
        .map_err(|reason| {
            state.refused(reason, peer, None, path);
            response::refused(reason)
        })?;
    let selection = state.selection(server).ok_or_else(|| {
        state.refused(RefusalReason::UnknownServer, peer, Some(&principal), path);
        let status = state.gateway.command(&["status"]);
        response::not_found(&format!("no server has this name; see {status}"))
    })?;
    Ok(HttpExchange {
        state,
        connection,
        principal,
        selection,
        headers,
        head_number: None,
        path,
        arrived,
    })
}

/// Answers a request of a client, by its transport and method.
async fn route(
    exchange: HttpExchange<'_>,
    transport: ServedTransport,
    parts: &Parts,
    body: Incoming,
) -> Response<HttpBody> {
    match (transport, &parts.method) {
        (ServedTransport::Streamable, &Method::POST) => post_message(exchange, body).await,
        (ServedTransport::Streamable, &Method::GET) => sessions::listen(&exchange),
        (ServedTransport::Streamable, &Method::DELETE) => sessions::end(&exchange),
        (ServedTransport::Streamable, _) => response::method_not_allowed(response::METHODS),
        (ServedTransport::Sse, &Method::GET) => sse::open(&exchange),
        (ServedTransport::Sse, _) => response::method_not_allowed("GET"),
        (ServedTransport::SseMessage, &Method::POST) => {
            sse::post(&exchange, parts.uri.query().unwrap_or(""), body).await
        }
        (ServedTransport::SseMessage, _) => response::method_not_allowed("POST"),
    }
}

async fn post_message(mut exchange: HttpExchange<'_>, body: Incoming) -> Response<HttpBody> {
    if let Err(refusal) = post::check_content(exchange.headers) {
        exchange.refused(RefusalReason::WrongMediaType);
        return refusal;
    }
    match exchange.read_body(body).await {
        Ok(body) => {
            exchange.arrived = Instant::now();
            post::handle(&exchange, body).await
        }
        Err(refusal) => refusal,
    }
}

/// The transports of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServedTransport {
    Streamable,
    Sse,
    SseMessage,
}

impl ServedTransport {
    /// The transport of a path, and what follows it: nothing, or the name of a server.
    pub(super) fn of_path(path: &str) -> Option<(Self, &str)> {
        if path == sse::MESSAGE_PATH {
            return Some((Self::SseMessage, ""));
        }
        let prefixes = [("/mcp", Self::Streamable), ("/sse", Self::Sse)];
        prefixes.into_iter().find_map(|(prefix, transport)| {
            let rest = path.strip_prefix(prefix)?;
            match rest.strip_prefix('/') {
                Some(name) => Some((transport, name)),
                None => rest.is_empty().then_some((transport, "")),
            }
        })
    }
}

/// A request of an authenticated client.
pub(super) struct HttpExchange<'a> {
    pub(super) state: &'a Arc<HttpState>,
    pub(super) connection: &'a ServedConnection,
    pub(super) principal: Principal,
    pub(super) selection: ServerSelection,
    pub(super) headers: &'a HeaderMap,
    pub(super) head_number: Option<HeadNumber>,
    pub(super) path: &'a str,
    /// When all of it was there.
    pub(super) arrived: Instant,
}

impl HttpExchange<'_> {
    /// How its message arrived.
    pub(super) fn arrival(&self) -> Arrival<'_> {
        Arrival::http(self.headers, self.connection.peer)
    }

    /// What ends an open-ended stream that the request opens.
    pub(super) fn end_conditions(&self) -> EndConditions {
        let state = self.state.clone();
        let mut token = lock(&self.connection.checked_token).clone();
        let is_valid = move |token: &mut CheckedToken| state.admission.is_still_valid(token);
        EndConditions::new(self.state.closing.clone(), move || {
            token.as_mut().is_some_and(&is_valid)
        })
    }

    /// Reports that the request is refused.
    pub(super) fn refused(&self, reason: RefusalReason) {
        let principal = Some(&self.principal);
        let peer = self.connection.peer;
        self.state.refused(reason, peer, principal, self.path);
    }

    /// The body of the request; the error is the response.
    pub(super) async fn read_body(&self, body: Incoming) -> Result<Bytes, Response<HttpBody>> {
        let limit = self.state.limits.max_body_bytes;
        let read = self.connection.read_body(self.state, body, limit).await;
        read.map_err(|fault| self.refuse_body(fault))
    }

    /// The response to a request whose body could not be read.
    pub(super) fn refuse_body(&self, fault: BodyFault) -> Response<HttpBody> {
        let limit = self.state.limits.max_body_bytes;
        let (principal, path) = (Some(&self.principal), self.path);
        self.connection
            .refuse_body(self.state, fault, limit, principal, path)
    }
}

impl ServedConnection {
    async fn read_body(
        &self,
        state: &HttpState,
        mut body: Incoming,
        limit: usize,
    ) -> Result<Bytes, BodyFault> {
        let reading = read_body(&mut body, limit, &state.closing);
        let timeout = state.limits.body_timeout;
        let read = self.timer.timeout(timeout, reading).await;
        read.unwrap_or(Err(BodyFault::TooSlow))
    }

    fn refuse_body(
        &self,
        state: &HttpState,
        fault: BodyFault,
        limit: usize,
        principal: Option<&Principal>,
        path: &str,
    ) -> Response<HttpBody> {
        self.has_refused_body.store(true, Ordering::Relaxed);
        let (reason, response) = fault.refusal(limit, state.limits.body_timeout);
        if let Some(reason) = reason {
            state.refused(reason, self.peer, principal, path);
        }
        response
    }
}

/// Why a body could not be read.
pub(super) enum BodyFault {
    TooLarge,
    TooSlow,
    /// It ended early, or is not encoded as its head says.
    Broken,
    /// The edge closed before all of it was there.
    Closing,
}

impl BodyFault {
    /// The reason for the audit log, unless the fault is ours, and the response.
    fn refusal(
        self,
        max_bytes: usize,
        timeout: Duration,
    ) -> (Option<RefusalReason>, Response<HttpBody>) {
        let (reason, status, message) = match self {
            Self::TooLarge => (
                Some(RefusalReason::OversizedBody),
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body has more than {max_bytes} bytes"),
            ),
            Self::TooSlow => (
                Some(RefusalReason::TooSlow),
                StatusCode::REQUEST_TIMEOUT,
                format!("the body took longer than {timeout:?}"),
            ),
            Self::Broken => (
                Some(RefusalReason::MalformedRequest),
                StatusCode::BAD_REQUEST,
                "the body cannot be read".to_owned(),
            ),
            Self::Closing => (
                None,
                StatusCode::SERVICE_UNAVAILABLE,
                "the gateway is stopping; nothing was run".to_owned(),
            ),
        };
        (reason, response::invalid_request(status, &message))
    }
}

/// Reads a body until the edge closes.
async fn read_body(
    body: &mut Incoming,
    limit: usize,
    closing: &watch::Receiver<bool>,
) -> Result<Bytes, BodyFault> {
    let mut closing = closing.clone();
    tokio::select! {
        biased;
        read = read_whole_body(body, limit) => read,
        () = closed(&mut closing) => Err(BodyFault::Closing),
    }
}

async fn read_whole_body(body: &mut Incoming, limit: usize) -> Result<Bytes, BodyFault> {
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyFault::TooLarge);
    }
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyFault::Broken)?;
        // Trailers say nothing here.
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        if joined.len() + piece.len() > limit {
            return Err(BodyFault::TooLarge);
        }
        // Most bodies are one piece, which is used as it is.
        if joined.is_empty() && body.is_end_stream() {
            return Ok(piece);
        }
        joined.extend_from_slice(&piece);
    }
    Ok(joined.freeze())
}

/// A route outside of the protocol.
async fn mounted(
    state: &HttpState,
    connection: &ServedConnection,
    parts: Parts,
    body: Incoming,
) -> Response<HttpBody> {
    /// No page needs a form larger than this.
    const MAX_FORM_BYTES: usize = 64 << 10;
    let path = parts.uri.path().to_owned();
    let body = match connection.read_body(state, body, MAX_FORM_BYTES).await {
        Ok(body) => body,
        Err(fault) => {
            return connection.refuse_body(state, fault, MAX_FORM_BYTES, None, &path);
        }
    };
    let principal = connection.authenticate(state, &parts.headers, None, Instant::now());
    let known = principal.as_ref().ok().cloned();
    let request = RouteRequest {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body,
        principal,
        closing: state.closing.clone(),
    };
    let Some(response) = state.routes.respond(request).await else {
        return response::not_found("not found; the MCP endpoint is /mcp");
    };
    if let Some(reason) = response.extensions().get::<RefusalReason>() {
        state.refused(*reason, connection.peer, known.as_ref(), &path);
    }
    response
}

impl HttpState {
    /// Whether the edge closes.
    pub(super) fn is_closing(&self) -> bool {
        !matches!(self.closing.has_changed(), Ok(false))
    }

    /// The servers that the rest of a path names; `None` if there is no such server.
    pub(super) fn selection(&self, name: &str) -> Option<ServerSelection> {
        if name.is_empty() {
            return Some(self.selection.clone());
        }
        let name = path_segment::decode(name)?;
        if ServerName::RESERVED.contains(&&*name) {
            return None;
        }
        let server = self.gateway.host().server(&name)?;
        let name: ServerName = server.config.name.clone();
        Some(ServerSelection::One(name))
    }

    pub(super) fn refused(
        &self,
        reason: RefusalReason,
        peer: SocketAddr,
        principal: Option<&Principal>,
        path: &str,
    ) {
        self.gateway.recorder().request_refused(&Refusal {
            reason,
            peer: Some(peer),
            principal: principal.cloned(),
            path: path.chars().take(200).collect(),
        });
    }
}
