//! The responses of the protocol's paths. A refusal has a JSON-RPC error with a sentence.

use bytes::Bytes;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ALLOW,
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, VARY, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Response, StatusCode};

use super::HttpBody;
use super::events::EventReader;
use crate::refusal::RefusalReason;
use crate::reply::{self, ErrorReply};

/// The code of errors that only this edge has: their meaning is the HTTP status.
const EDGE_ERROR: i64 = -32000;

/// A session that does not exist.
const UNKNOWN_SESSION: i64 = -32001;

/// The methods of `/mcp`.
pub(super) const METHODS: &str = "GET, POST, DELETE";

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

/// Lets a web page of this origin read the response.
pub(super) fn readable_by(
    mut response: Response<HttpBody>,
    origin: &HeaderValue,
) -> Response<HttpBody> {
    let headers = response.headers_mut();
    let allowed = headers.entry(ACCESS_CONTROL_ALLOW_ORIGIN);
    allowed.or_insert_with(|| origin.clone());
    let exposed = HeaderValue::from_static("Mcp-Session-Id");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}

/// The answer to a browser that asks whether a web page may send a request. Nothing runs before the
/// request itself, with its token.
pub(super) fn preflight(request: &HeaderMap) -> Response<HttpBody> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static(METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    // Those of a modern call's arguments have any names.
    if let Some(names) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
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
        RefusalReason::TooManyConnections => {
            let message = "this client has too many connections to the gateway; close some";
            let mut response = edge_error(StatusCode::SERVICE_UNAVAILABLE, message);
            let headers = response.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
            return response;
        }
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
