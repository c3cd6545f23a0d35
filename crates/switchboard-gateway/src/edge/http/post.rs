//! One POST to `/mcp`: a message of either era. The answer is one JSON document if only the response
//! is sent, and an event stream otherwise.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use memchr::memmem;
use serde::Deserialize;
use switchboard::RawJson;
use switchboard::wire::{self, Incoming};

use super::attached_request::AttachedRequest;
use super::connection::HttpExchange;
use super::events::EventStream;
use super::mirror::VERSION_HEADER;
use super::sessions::{self, HttpSession, SESSION_HEADER};
use super::{HttpBody, response};
use crate::client_session::{ClientSession, Received};
use crate::deferred::DeferredRequest;
use crate::dispatch::ReceivedRequest;
use crate::outbound::OutboundQueue;
use crate::params::{ReadParams, RequestParams};
use crate::reply::{self, ErrorReply};

/// A request without any message after this time gets an event stream, which can send comments and
/// be resumed.
const STREAM_AFTER: Duration = Duration::from_secs(2);

/// The first revision without sessions. Revisions are dates, so later ones compare as greater.
const FIRST_MODERN: &str = "2026-07-28";

/// Answers a message of a request whose content was checked.
pub(super) async fn handle(exchange: &HttpExchange<'_>, body: Bytes) -> Response<HttpBody> {
    let is_batch = body.trim_ascii_start().first() == Some(&b'[');
    if is_batch {
        return match sessions::of_request(exchange) {
            Ok(session) => batch(exchange, &session, &body),
            Err(refusal) => refusal,
        };
    }
    match read_message(&body) {
        Some(Incoming::Request { id, method, params }) => {
            let params = RequestParams::read(params.as_ref());
            let request = ReceivedRequest {
                id,
                method,
                params,
                arrived: exchange.arrived,
                arrival: exchange.arrival(),
            };
            answer(exchange, request).await
        }
        Some(message) => accept(exchange, message),
        None => invalid(&body),
    }
}

/// Reads the one message of a body.
fn read_message(body: &Bytes) -> Option<Incoming> {
    let text = std::str::from_utf8(body).ok()?;
    let keep = |part: &str| RawJson::share(body, part);
    let mut read = None;
    wire::parse(text, &keep, &mut |message| read = Some(message)).ok()?;
    read
}

/// Answers a request of either era.
async fn answer(exchange: &HttpExchange<'_>, request: ReceivedRequest<'_>) -> Response<HttpBody> {
    let names_version = names_version(&request.params);
    if request.method == "initialize" && !names_version {
        return initialize(exchange, request).await;
    }
    if names_version || is_modern_version(exchange.headers) {
        return modern(exchange, request).await;
    }
    match sessions::of_request(exchange) {
        Ok(session) => in_session(exchange, &session, request).await,
        Err(refusal) => refusal,
    }
}

/// Whether a message says in its body that it is modern.
fn names_version(params: &ReadParams) -> bool {
    params
        .as_ref()
        .is_ok_and(|params| params.meta().version.is_some())
}

/// A notification, or a response of a client.
fn accept(exchange: &HttpExchange<'_>, message: Incoming) -> Response<HttpBody> {
    let is_modern = is_modern_version(exchange.headers);
    match &message {
        // The notifications of older revisions mean nothing without a session.
        Incoming::Notification { params, .. }
            if is_modern || names_version(&RequestParams::read(params.as_ref())) =>
        {
            return response::accepted();
        }
        Incoming::Notification { .. } => {}
        _ if is_modern && !exchange.headers.contains_key(&SESSION_HEADER) => {
            let message = "clients do not send responses in this revision";
            return response::invalid_request(StatusCode::BAD_REQUEST, message);
        }
        _ => {}
    }
    match sessions::of_request(exchange) {
        Ok(session) => {
            let (client, outbound) = (&session.client, &session.outbound);
            client.incoming(message, outbound, exchange.arrival());
            response::accepted()
        }
        Err(refusal) => refusal,
    }
}

/// Refuses a request whose body or response would have another type than those of the protocol.
pub(super) fn check_content(headers: &HeaderMap) -> Result<(), Response<HttpBody>> {
    const JSON: &str = "application/json";
    let content_type = headers.get(CONTENT_TYPE);
    let essence = content_type.map(|kind| until(kind.as_bytes(), b';').trim_ascii());
    if !essence.is_some_and(|kind| kind.eq_ignore_ascii_case(JSON.as_bytes())) {
        return Err(response::edge_error(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be application/json",
        ));
    }
    if !accepts(headers, JSON) || !accepts(headers, "text/event-stream") {
        return Err(response::edge_error(
            StatusCode::NOT_ACCEPTABLE,
            "the request must accept application/json and text/event-stream",
        ));
    }
    Ok(())
}

/// Whether a client accepts this media type; without `Accept` it accepts any.
pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let family = kind.split('/').next().unwrap_or("").as_bytes();
    let is_accepted = |accepted: &[u8]| {
        let accepted = until(accepted, b';').trim_ascii();
        accepted.eq_ignore_ascii_case(kind.as_bytes())
            || accepted == b"*/*"
            || accepted.strip_suffix(b"/*") == Some(family)
    };
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    let says_nothing = values.peek().is_none();
    let mut kinds = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    says_nothing || kinds.any(is_accepted)
}

/// What stands before the first of these bytes.
fn until(text: &[u8], end: u8) -> &[u8] {
    let end = text.iter().position(|byte| *byte == end);
    &text[..end.unwrap_or(text.len())]
}

/// Whether the header names a revision without sessions.
pub(super) fn is_modern_version(headers: &HeaderMap) -> bool {
    let version = headers.get(&VERSION_HEADER);
    version.is_some_and(|version| version.as_bytes() >= FIRST_MODERN.as_bytes())
}

fn invalid(body: &[u8]) -> Response<HttpBody> {
    response::error(StatusCode::BAD_REQUEST, &ErrorReply::of_unreadable(body))
}

/// A request of a modern client. It ends with its connection.
async fn modern(exchange: &HttpExchange<'_>, request: ReceivedRequest<'_>) -> Response<HttpBody> {
    let refuse = |status: StatusCode, fault: &ErrorReply| {
        response::json(status, reply::error(Some(&request.id), fault))
    };
    let method = &*request.method;
    let checked = request
        .params
        .as_ref()
        .map_err(|fault| ErrorReply::invalid_params(*fault))
        .and_then(|params| check_headers(exchange, method, params));
    if let Err(fault) = checked {
        return refuse(StatusCode::BAD_REQUEST, &fault);
    }
    if method == "initialize" {
        let fault = ErrorReply::new(reply::METHOD_NOT_FOUND, "this revision has no initialize");
        return refuse(StatusCode::NOT_FOUND, &fault);
    }
    let gateway = &exchange.state.gateway;
    let (outbound, mut queue) = gateway.outbound();
    let (principal, selection) = (exchange.principal.clone(), exchange.selection.clone());
    let client = gateway.connect_for_request(principal, selection);
    let mut attached = attach(exchange, client.begin(request, &outbound));
    drop(outbound);
    let next = exchange.drain_at_closing(&client, attached.next_message(&mut queue));
    let first = match exchange.until_stream(next).await {
        Some(None) => return response::accepted(),
        Some(Some(message)) if reply::is_response(&message) => {
            return response::json(status_of(&message), message);
        }
        first => first.flatten(),
    };
    let stream = EventStream::new(None, queue);
    let mut beginning = Vec::new();
    if let Some(message) = first {
        stream.append(&mut beginning, &message);
    }
    let reader = stream.read(beginning, None);
    let reader = reader.ends_with(
        exchange
            .end_conditions()
            .draining_with(client.begin_draining_later()),
    );
    response::events(reader.on_end(move || drop(client)))
}

/// Compares the headers of a modern request with its body; those of a call's arguments, where the
/// tool is known.
fn check_headers(
    exchange: &HttpExchange<'_>,
    method: &str,
    params: &RequestParams,
) -> Result<(), ErrorReply> {
    let headers = exchange.headers;
    params.check_headers(headers, method)?;
    if method != "tools/call" {
        return Ok(());
    }
    let name = params.text("name").unwrap_or_default();
    let catalog = exchange.state.gateway.host().catalog();
    let tool = catalog.resolve(&exchange.selection.tool_name(name));
    tool.map_or(Ok(()), |tool| {
        params.check_argument_headers(headers, &tool.definition)
    })
}

/// The status of a modern response: errors about the message itself are errors of HTTP too.
fn status_of(response: &[u8]) -> StatusCode {
    #[derive(Deserialize)]
    struct ErrorResponse {
        #[serde(default)]
        error: Option<ErrorCode>,
    }
    #[derive(Deserialize)]
    struct ErrorCode {
        code: i64,
    }
    // Long responses are results, so they are not parsed for an error.
    let beginning = &response[..response.len().min(400)];
    let is_error = memmem::find(beginning, b"\"error\":").is_some();
    let parsed = is_error.then(|| serde_json::from_slice::<ErrorResponse>(response).ok());
    match parsed.flatten().and_then(|parsed| parsed.error) {
        Some(ErrorCode { code: -32601 }) => StatusCode::NOT_FOUND,
        Some(ErrorCode {
            code: -32700 | -32600 | -32099..=-32020,
        }) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

impl HttpExchange<'_> {
    /// The output of `work`, unless the request must become an event stream before.
    async fn until_stream<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let deadline = self.arrived + STREAM_AFTER;
        self.connection.timer.timeout_at(deadline, work).await
    }

    /// The output of `work`. If the edge closes meanwhile, the client can answer nothing any more.
    async fn drain_at_closing<T>(
        &self,
        client: &ClientSession,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let output = work.as_mut().poll(context);
            // The connection wakes its task when that changes.
            if output.is_pending() && self.state.is_closing() {
                client.begin_draining();
            }
            output
        })
        .await
    }
}

fn attach<'c>(
    exchange: &HttpExchange<'c>,
    request: Option<DeferredRequest>,
) -> AttachedRequest<'c> {
    AttachedRequest::new(&exchange.connection.request_room, request)
}

/// `initialize` opens a session.
async fn initialize(
    exchange: &HttpExchange<'_>,
    request: ReceivedRequest<'_>,
) -> Response<HttpBody> {
    let state = exchange.state;
    let session = state.new_session(&exchange.principal, &exchange.selection, true);
    let (outbound, mut queue) = state.gateway.outbound();
    let mut attached = attach(exchange, session.client.begin(request, &outbound));
    drop(outbound);
    let Some(message) = attached.next_message(&mut queue).await else {
        return response::accepted();
    };
    let mut response = response::json(StatusCode::OK, message);
    if session.client.handshake().is_some() {
        let id = state.open_session(&session);
        let value = HeaderValue::from_str(&id).expect("a sealed text is ASCII");
        let name = SESSION_HEADER.clone();
        response.headers_mut().insert(name, value);
    }
    response
}

/// A request of a legacy client. A lost connection does not cancel it.
async fn in_session(
    exchange: &HttpExchange<'_>,
    session: &Arc<HttpSession>,
    request: ReceivedRequest<'_>,
) -> Response<HttpBody> {
    let (outbound, mut queue) = session.client.outbound();
    let mut attached = attach(exchange, session.client.begin(request, &outbound));
    drop(outbound);
    // If the connection is lost meanwhile, so is the response: the client has no event's id yet to
    // resume after.
    let next = attached.next_message(&mut queue);
    match exchange.until_stream(next).await {
        // The request was cancelled, so there is no response.
        Some(None) => response::accepted(),
        Some(Some(message)) if reply::is_response(&message) => {
            response::json(StatusCode::OK, message)
        }
        first => stream(exchange, session, queue, first.flatten()),
    }
}

/// Messages of a legacy client together, as 2025-03-26 has them. Each request has a task of its own.
fn batch(
    exchange: &HttpExchange<'_>,
    session: &Arc<HttpSession>,
    body: &Bytes,
) -> Response<HttpBody> {
    let (outbound, queue) = session.client.outbound();
    match session.client.receive(body, &outbound) {
        Received::Accepted => response::accepted(),
        Received::Invalid => invalid(body),
        Received::Request => stream(exchange, session, queue, None),
    }
}

/// The response as events, which a client can resume.
fn stream(
    exchange: &HttpExchange<'_>,
    session: &HttpSession,
    queue: OutboundQueue,
    first: Option<Bytes>,
) -> Response<HttpBody> {
    let stream = session.open_stream(queue);
    let mut beginning = session.beginning(&stream);
    if let Some(message) = first {
        stream.append(&mut beginning, &message);
    }
    // When the edge closes, the calls end by themselves.
    let end = exchange.end_conditions().draining_with(|| {});
    response::events(stream.read(beginning, None).ends_with(end))
}
