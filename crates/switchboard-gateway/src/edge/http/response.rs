//! The responses of the protocol's paths. A refusal has a JSON-RPC error with a sentence.

use bytes::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

use super::HttpBody;
use super::events::EventReader;
use crate::refusal::RefusalReason;
use crate::reply::{self, ErrorReply};

/// The code of errors that only this edge has: their meaning is the HTTP status.
const EDGE_ERROR: i64 = -32000;

/// A session that does not exist.
const UNKNOWN_SESSION: i64 = -32001;

pub(super) fn json(status: StatusCode, message: Bytes) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::json(message));
    *response.status_mut() = status;
    response
}

/// Puts the type of the body among the headers, unless they have another.
pub(super) fn with_content_type(mut response: Response<HttpBody>) -> Response<HttpBody> {
    if let Some(kind) = response.body().content_type() {
        let header = response.headers_mut().entry(CONTENT_TYPE);
        header.or_insert(HeaderValue::from_static(kind));
    }
    response
}

pub(super) fn events(reader: EventReader) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::events(reader));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // A proxy would hold events back otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

pub(super) fn accepted() -> Response<HttpBody> {
    empty(StatusCode::ACCEPTED)
}

pub(super) fn empty(status: StatusCode) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// An error that belongs to no request.
pub(super) fn error(status: StatusCode, error: &ErrorReply) -> Response<HttpBody> {
    json(status, reply::error(None, error))
}

pub(super) fn edge_error(status: StatusCode, message: &str) -> Response<HttpBody> {
    error(status, &ErrorReply::new(EDGE_ERROR, message))
}

pub(super) fn invalid_request(status: StatusCode, message: &str) -> Response<HttpBody> {
    error(status, &ErrorReply::new(reply::INVALID_REQUEST, message))
}

pub(super) fn not_found(message: &str) -> Response<HttpBody> {
    edge_error(StatusCode::NOT_FOUND, message)
}

pub(super) fn method_not_allowed(allowed: &'static str) -> Response<HttpBody> {
    let message = format!("this path supports only {allowed}");
    let mut response = edge_error(StatusCode::METHOD_NOT_ALLOWED, &message);
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// An unknown session is 404, so that a client starts a new one. With 401 it would look for a login.
pub(super) fn unknown_session() -> Response<HttpBody> {
    let message = "there is no such session; send initialize first";
    let fault = ErrorReply::new(UNKNOWN_SESSION, message);
    error(StatusCode::NOT_FOUND, &fault)
}

/// A request that was not admitted.
pub(super) fn refused(reason: RefusalReason) -> Response<HttpBody> {
    let (challenge, message) = match reason {
        RefusalReason::MissingToken => (
            r#"Bearer realm="switchboard""#,
            "a client's token is required: create one with `switchboard token new NAME`, and send it as `Authorization: Bearer TOKEN`",
        ),
        RefusalReason::WrongToken => (
            r#"Bearer realm="switchboard", error="invalid_token""#,
            "this token is unknown or was revoked: `switchboard token list` names the clients that have one, `switchboard token new NAME` makes one",
        ),
        RefusalReason::ForeignOrigin => {
            return edge_error(
                StatusCode::FORBIDDEN,
                "web pages of this origin may not use the gateway; allow one with `serve --allow-origin`",
            );
        }
        _ => {
            return edge_error(
                StatusCode::FORBIDDEN,
                "the gateway does not have this host name; add one with `serve --allow-host`",
            );
        }
    };
    let mut response = edge_error(StatusCode::UNAUTHORIZED, message);
    let headers = response.headers_mut();
    headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}
