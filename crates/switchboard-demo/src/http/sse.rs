//! HTTP+SSE, the transport of 2024-11-05: one event stream from the server, a POST for each message
//! to it.

use std::sync::Arc;

use hyper::StatusCode;

use super::session::Session;
use super::{Request, Response, Shared, events, read_body, refuse, respond};
use crate::options::Eras;
use crate::outgoing::OutgoingBuffer;
use crate::peer::Peer;
use crate::rpc::Fault;

/// The path for messages, before the session's id.
const ENDPOINT: &str = "/message?sessionId=";

/// A GET: opens a session that lasts as long as its connection.
pub(super) fn open(shared: &Arc<Shared>) -> Response {
    let outlet = OutgoingBuffer::new();
    let peer = Arc::new(Peer::new(shared.demo.clone(), outlet.clone()).with_eras(Eras::Legacy));
    shared.demo.add_peer(&peer);
    let stream = events::Stream::plain(outlet.clone());
    let (id, _) = shared
        .streams
        .open(Session::on_stream(peer, outlet, stream.clone()));
    let beginning = format!("event: endpoint\ndata: {ENDPOINT}{id}\n\n").into_bytes();
    let owner = shared.clone();
    let reader = stream.read(beginning, None, shared.options.keep_alive);
    reader
        .on_end(move || _ = owner.streams.close(&id))
        .into_response()
}

/// A POST: one message. Responses go to the stream.
pub(super) async fn post(shared: &Arc<Shared>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or("");
    let id = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("sessionId="));
    let Some(session) = id.and_then(|id| shared.streams.find(id)) else {
        return refuse(
            StatusCode::NOT_FOUND,
            &Fault::edge(
                -32001,
                "there is no such session; open one with a GET of /sse",
            ),
        );
    };
    let body = match read_body(shared, request.into_body()).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let outlet = session.outlet();
    outlet.has_room().await;
    session.peer.handle(&body, outlet);
    respond(StatusCode::ACCEPTED, "text/plain", "Accepted")
}
