//! One connection: limits on heads and bodies, then each request to its route.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use switchboard::ServerName;
use switchboard::sync::lock;
use tokio::net::TcpStream;

use super::admission::CheckedToken;
use super::sessions::OpenedSessionId;
use super::stall::WriteDeadline;
use super::timer::ConnectionTimer;
use super::{HttpBody, HttpState, RouteRequest, closed, post, response, sessions, sse};
use crate::principal::Principal;
use crate::refusal::{Refusal, RefusalReason};
use crate::settings::ServerSelection;
use crate::spans::Arrival;

/// What the requests of one connection share: there is one at a time, and most are alike.
pub(super) struct ServedConnection {
    pub(super) peer: SocketAddr,
    pub(super) timer: ConnectionTimer,
    pub(super) checked_token: Mutex<Option<CheckedToken>>,
    pub(super) opened_session: Mutex<Option<OpenedSessionId>>,
    /// How many bytes were read.
    read_count: Arc<AtomicU64>,
    /// The bytes read when the last request was handled: an idle connection has read no more.
    handled_count: AtomicU64,
}

/// Serves one connection to its end.
pub(super) async fn serve(state: &Arc<HttpState>, stream: TcpStream, peer: SocketAddr) {
    // A response is one small packet, which must not wait for another.
    let _ = stream.set_nodelay(true);
    let limits = &state.limits;
    let shared = ServedConnection {
        peer,
        timer: ConnectionTimer::new(limits.head_timeout),
        checked_token: Mutex::default(),
        opened_session: Mutex::default(),
        read_count: Arc::default(),
        handled_count: AtomicU64::new(0),
    };
    let read_count = shared.read_count.clone();
    let stream = WriteDeadline::new(stream, limits.write_timeout, read_count);
    let service = service_fn(async |request: Request<Incoming>| {
        let response = respond(state, &shared, request).await;
        shared.mark_handled();
        Ok::<_, Infallible>(response)
    });
    let connection = http1::Builder::new()
        .timer(shared.timer.clone())
        .header_read_timeout(limits.head_timeout)
        .max_headers(limits.max_headers)
        .max_buf_size(limits.max_head_bytes)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut closing = state.closing.clone();
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = closed(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    let Err(error) = ended else { return };
    let reason = if error.is_parse_too_large() {
        RefusalReason::OversizedHeaders
    } else if error.is_timeout() {
        if shared.is_idle() {
            return;
        }
        RefusalReason::TooSlow
    } else {
        tracing::debug!("a connection of {peer} ended: {error}");
        return;
    };
    state.refused(reason, peer, None, "");
}

impl ServedConnection {
    fn mark_handled(&self) {
        let read_count = self.read_count.load(Ordering::Relaxed);
        self.handled_count.store(read_count, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.handled_count.load(Ordering::Relaxed) == self.read_count.load(Ordering::Relaxed)
    }
}

/// Routes a request.
async fn respond(
    state: &Arc<HttpState>,
    connection: &ServedConnection,
    request: Request<Incoming>,
) -> Response<HttpBody> {
    let peer = connection.peer;
    let path = request.uri().path();
    if let Err(reason) = state.admission.check_source(request.headers()) {
        state.refused(reason, peer, None, path);
        return response::refused(reason);
    }
    let Some((transport, rest)) = ServedTransport::of_path(path) else {
        return mounted(state, connection, request).await;
    };
    let authenticated = {
        let mut checked = lock(&connection.checked_token);
        state
            .admission
            .authenticate(request.headers(), &mut checked)
    };
    let principal = match authenticated {
        Ok(principal) => principal,
        Err(reason) => {
            state.refused(reason, peer, None, path);
            return response::refused(reason);
        }
    };
    let Some(selection) = state.selection(rest) else {
        return response::not_found("no server has this name; see `switchboard status`");
    };
    let exchange = HttpExchange {
        state,
        connection,
        principal,
        selection,
        request,
    };
    match (transport, exchange.request.method()) {
        (ServedTransport::Streamable, &Method::POST) => post::handle(exchange).await,
        (ServedTransport::Streamable, &Method::GET) => sessions::listen(&exchange),
        (ServedTransport::Streamable, &Method::DELETE) => sessions::end(&exchange),
        (ServedTransport::Streamable, _) => response::method_not_allowed("GET, POST, DELETE"),
        (ServedTransport::Sse, &Method::GET) => sse::open(&exchange),
        (ServedTransport::Sse, _) => response::method_not_allowed("GET"),
        (ServedTransport::SseMessage, &Method::POST) => sse::post(exchange).await,
        (ServedTransport::SseMessage, _) => response::method_not_allowed("POST"),
    }
}

/// Reserved names after `/mcp/`: servers with such a name are offered under `/mcp` only.
pub const RESERVED_NAMES: [&str; 1] = ["server-card"];

/// The transports of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServedTransport {
    Streamable,
    Sse,
    SseMessage,
}

impl ServedTransport {
    /// The transport of a path, and what follows it: nothing, or the name of a server.
    fn of_path(path: &str) -> Option<(Self, &str)> {
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
    pub(super) request: Request<Incoming>,
}

impl HttpExchange<'_> {
    pub(super) fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    /// How its message arrived.
    pub(super) fn arrival(&self) -> Arrival<'_> {
        Arrival::http(self.request.headers(), self.connection.peer)
    }

    /// Reports that the request is refused.
    pub(super) fn refused(&self, reason: RefusalReason) {
        let principal = Some(&self.principal);
        let path = self.request.uri().path();
        let peer = self.connection.peer;
        self.state.refused(reason, peer, principal, path);
    }

    /// The body of the request; the error is the response.
    pub(super) async fn read_body(&mut self) -> Result<Bytes, Response<HttpBody>> {
        let limits = &self.state.limits;
        let reading = read_body(self.request.body_mut(), limits.max_body_bytes);
        let timer = &self.connection.timer;
        let read = timer.timeout(limits.body_timeout, reading).await;
        read.unwrap_or(Err(BodyFault::TooSlow)).map_err(|fault| {
            let (reason, status, message) = match fault {
                BodyFault::TooLarge => (
                    RefusalReason::OversizedBody,
                    StatusCode::PAYLOAD_TOO_LARGE,
                    format!("the body has more than {} bytes", limits.max_body_bytes),
                ),
                BodyFault::TooSlow => (
                    RefusalReason::TooSlow,
                    StatusCode::REQUEST_TIMEOUT,
                    format!("the body took longer than {:?}", limits.body_timeout),
                ),
                BodyFault::Broken => {
                    let message = "the body cannot be read";
                    return response::invalid_request(StatusCode::BAD_REQUEST, message);
                }
            };
            self.refused(reason);
            response::invalid_request(status, &message)
        })
    }
}

enum BodyFault {
    TooLarge,
    TooSlow,
    Broken,
}

async fn read_body(body: &mut Incoming, limit: usize) -> Result<Bytes, BodyFault> {
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
    mut request: Request<Incoming>,
) -> Response<HttpBody> {
    /// No page needs a form larger than this.
    const MAX_FORM_BYTES: usize = 64 << 10;
    let reading = read_body(request.body_mut(), MAX_FORM_BYTES);
    let timeout = state.limits.body_timeout;
    let Some(Ok(body)) = connection.timer.timeout(timeout, reading).await else {
        let message = "the body is too large or too slow";
        return response::invalid_request(StatusCode::PAYLOAD_TOO_LARGE, message);
    };
    let authenticated = {
        let mut checked = lock(&connection.checked_token);
        state
            .admission
            .authenticate(request.headers(), &mut checked)
    };
    let principal = authenticated.ok();
    let (parts, _) = request.into_parts();
    let request = RouteRequest {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body,
        principal,
        closing: state.closing.clone(),
    };
    let response = state.routes.respond(request).await;
    response.unwrap_or_else(|| response::not_found("nothing is here; the protocol is at /mcp"))
}

impl HttpState {
    /// The servers that a path names; `None` if there is no such server.
    fn selection(&self, name: &str) -> Option<ServerSelection> {
        if name.is_empty() {
            return Some(self.selection.clone());
        }
        if RESERVED_NAMES.contains(&name) {
            return None;
        }
        let server = self.gateway.host().server(name)?;
        let name: ServerName = server.config.name.clone();
        Some(ServerSelection::One(name))
    }

    fn refused(
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
