//! One POST to `/mcp`: its era, and whether the response is a document or an event stream.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};

use super::session::{self, SESSION_HEADER, Session, VERSION_HEADER};
use super::{
    Answers, Questions, Request, Response, Shared, accepted, events, mirror, read_body, refuse,
    refuse_request, respond,
};
use crate::era::{MODERN_VERSION, RequestTerms};
use crate::options::Eras;
use crate::outgoing::{OutgoingBuffer, Replies};
use crate::peer::Peer;
use crate::rpc::{Concern, Fault, Message, Params};

pub(super) async fn answer(shared: &Arc<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or("");
    const JSON: &str = "application/json";
    if !content_type
        .trim_start()
        .get(..JSON.len())
        .is_some_and(|kind| kind.eq_ignore_ascii_case(JSON))
    {
        let fault = Fault::edge(-32000, "the body must be application/json");
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, &fault);
    }
    if !accepts(&headers, "application/json") || !accepts(&headers, "text/event-stream") {
        let fault = Fault::edge(
            -32000,
            "the request must accept application/json and text/event-stream",
        );
        return refuse(StatusCode::NOT_ACCEPTABLE, &fault);
    }
    let body = match read_body(shared, body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let text = body.trim_ascii();
    if text.first() == Some(&b'[') {
        return take_batch(shared, &headers, text);
    }
    let message = match Message::parse(text) {
        Ok(message) => message,
        Err(fault) => return refuse(StatusCode::BAD_REQUEST, &fault),
    };
    let id = message
        .id
        .filter(|_| !message.method.is_empty())
        .map(|id| id.get());
    let Some(id) = id else {
        return take_notification_or_response(shared, &headers, &message);
    };
    let params = match Params::parse(message.params) {
        Ok(params) => params,
        Err(fault) => return refuse_request(StatusCode::BAD_REQUEST, &fault, id),
    };
    if is_modern(shared, &headers, params.meta.is_modern()) {
        return take_modern(shared, &headers, id, &message.method, &params);
    }
    if message.method == "initialize" {
        return begin_session(shared, id, &params);
    }
    match session::of(shared, &headers) {
        Ok((_, session)) => {
            let outlet = OutgoingBuffer::new();
            let replies = Replies::single(&outlet).ending();
            session
                .peer
                .take_request(id, &message.method, &params, &replies);
            finish_legacy(shared, &session, outlet)
        }
        Err(refusal) => refusal,
    }
}

/// Whether `Accept` allows this media type; a missing header allows every type.
pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let family = kind.split('/').next().unwrap_or("");
    let takes = |accepted: &str| {
        accepted == kind || accepted == "*/*" || accepted.strip_suffix("/*") == Some(family)
    };
    !headers.contains_key(header::ACCEPT) || accept_of(headers).any(takes)
}

/// The media types in `Accept`.
fn accept_of(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(|kind| kind.split(';').next().unwrap_or("").trim())
}

fn is_modern(shared: &Shared, headers: &HeaderMap, body_names_revision: bool) -> bool {
    match shared.demo.options.eras {
        Eras::Legacy => false,
        Eras::Modern => true,
        Eras::Both => {
            body_names_revision
                || headers
                    .get(VERSION_HEADER)
                    .is_some_and(|version| version == MODERN_VERSION)
        }
    }
}

fn take_modern(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
    id: &str,
    method: &str,
    params: &Params<'_>,
) -> Response {
    let check = || {
        if method == "initialize" {
            // A modern request cannot begin a session; a legacy one gets our versions in the error.
            let is_modern = params.meta.is_modern();
            return Err(if is_modern {
                Fault::unknown_method(method)
            } else {
                Fault::unsupported_version(&params.protocol_version)
            });
        }
        // A mismatch of header and body is reported before an unsupported revision.
        mirror::check_version(headers, params)?;
        RequestTerms::of(&params.meta, method, None, Eras::Modern)?;
        mirror::check(headers, method, params)
    };
    if let Err(fault) = check() {
        return refuse_request(status_of(Some(fault.concern)), &fault, id);
    }
    let outlet = OutgoingBuffer::new();
    let peer = Arc::new(Peer::new(shared.demo.clone(), outlet.clone()).with_eras(Eras::Modern));
    let concern = peer.take_request(id, method, params, &Replies::single(&outlet).ending());
    if let Some(messages) = outlet.take_whole() {
        return respond_whole(shared, status_of(concern), messages);
    }
    // A modern request ends with its connection.
    let (gone, closing) = (peer.clone(), peer);
    let reader = events::Stream::plain(outlet).read(Vec::new(), None, shared.options.keep_alive);
    reader
        .on_end(move || gone.close())
        .on_closing(shared.closing.subscribe(), move || closing.close())
        .into_response()
}

fn begin_session(shared: &Arc<Shared>, id: &str, params: &Params<'_>) -> Response {
    let unasked = OutgoingBuffer::new();
    let peer = Peer::new(shared.demo.clone(), unasked.clone()).with_eras(Eras::Legacy);
    let peer = Arc::new(peer.with_questions_on_outlet(shared.options.questions == Questions::Get));
    let outlet = OutgoingBuffer::new();
    let fault = peer.take_request(id, "initialize", params, &Replies::single(&outlet).ending());
    let messages = outlet.take_whole().unwrap_or_default();
    let mut response = respond_whole(shared, StatusCode::OK, messages);
    if fault.is_none() {
        shared.demo.add_peer(&peer);
        let (session, _) = shared.sessions.open(Session::new(peer, unasked));
        let value = HeaderValue::from_str(&session).expect("digits are a header value");
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    response
}

/// Handles a notification, or a response to a question of ours.
fn take_notification_or_response(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
    message: &Message<'_>,
) -> Response {
    if is_modern(shared, headers, false) && !headers.contains_key(SESSION_HEADER) {
        if message.method.is_empty() {
            let fault = Fault::invalid_request("responses are not sent in this revision");
            return refuse(StatusCode::BAD_REQUEST, &fault);
        }
        return accepted();
    }
    match session::of(shared, headers) {
        Ok((_, session)) => {
            session.peer.take_notification_or_response(message);
            accepted()
        }
        Err(refusal) => refusal,
    }
}

fn take_batch(shared: &Arc<Shared>, headers: &HeaderMap, text: &[u8]) -> Response {
    if is_modern(shared, headers, false) {
        let fault = Fault::invalid_request("the body must be one message");
        return refuse(StatusCode::BAD_REQUEST, &fault);
    }
    match session::of(shared, headers) {
        Ok((_, session)) => {
            let outlet = OutgoingBuffer::new();
            session.peer.handle_batch_alone(text, &outlet);
            finish_legacy(shared, &session, outlet)
        }
        Err(refusal) => refusal,
    }
}

/// Answers at once if the response is complete, else with a resumable stream: for a legacy client a
/// lost connection does not cancel the call.
fn finish_legacy(shared: &Shared, session: &Arc<Session>, outlet: OutgoingBuffer) -> Response {
    match outlet.take_whole() {
        Some(messages) if messages.is_empty() => accepted(),
        Some(messages) => respond_whole(shared, StatusCode::OK, messages),
        None => {
            let stream = session.open_stream(outlet);
            let beginning = session.beginning(&stream, shared);
            stream
                .read(beginning, None, shared.options.keep_alive)
                .into_response()
        }
    }
}

fn respond_whole(shared: &Shared, status: StatusCode, mut messages: Vec<u8>) -> Response {
    let is_one = memchr::memchr(b'\n', &messages).is_none_or(|end| end + 1 == messages.len());
    if status != StatusCode::OK || (is_one && shared.options.answers == Answers::Json) {
        messages.pop();
        return respond(status, "application/json", messages);
    }
    events::respond_with_whole(&messages)
}

fn status_of(concern: Option<Concern>) -> StatusCode {
    match concern {
        None | Some(Concern::Request) => StatusCode::OK,
        Some(Concern::Message) => StatusCode::BAD_REQUEST,
        Some(Concern::Method) => StatusCode::NOT_FOUND,
    }
}
