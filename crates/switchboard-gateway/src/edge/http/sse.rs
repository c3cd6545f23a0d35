//! HTTP+SSE, the transport of 2024-11-05: one event stream from the gateway, a POST for each message
//! to it.

use hyper::body::Incoming;
use hyper::{Response, StatusCode};

use super::connection::HttpExchange;
use super::{HttpBody, response};
use crate::client_session::Received;
use crate::refusal::RefusalReason;

/// Where messages are posted.
pub(super) const MESSAGE_PATH: &str = "/message";

const SESSION_PARAMETER: &str = "sessionId=";

/// A GET opens a session that lasts as long as its connection.
pub(super) fn open(exchange: &HttpExchange<'_>) -> Response<HttpBody> {
    let state = exchange.state.clone();
    let session = state.new_session(&exchange.principal, &exchange.selection, false);
    let id = state.open_session(&session);
    let endpoint = format!("event: endpoint\ndata: {MESSAGE_PATH}?{SESSION_PARAMETER}{id}\n\n");
    let reader = session.general.read(endpoint.into_bytes(), None);
    let number = session.number();
    let reader = reader.on_end(move || state.sessions.close(number));
    response::events(reader.ends_with(exchange.end_conditions()))
}

/// A POST carries one message. Its response goes to the stream.
pub(super) async fn post(
    exchange: &HttpExchange<'_>,
    query: &str,
    body: Incoming,
) -> Response<HttpBody> {
    let id = query
        .split('&')
        .find_map(|pair| pair.strip_prefix(SESSION_PARAMETER));
    let session = id.and_then(|id| exchange.find_session_of_client(id));
    let Some(session) = session else {
        exchange.refused(RefusalReason::UnknownSession);
        return response::unknown_session();
    };
    let body = match exchange.read_body(body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let arrival = exchange.arrival();
    let received = (session.client).receive_from(&body, &session.outbound, arrival);
    match received {
        Received::Request | Received::Accepted => response::accepted(),
        Received::Invalid => {
            let message = "the body is not a JSON-RPC 2.0 message";
            response::invalid_request(StatusCode::BAD_REQUEST, message)
        }
    }
}
