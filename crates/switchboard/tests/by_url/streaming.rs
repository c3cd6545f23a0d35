//! Tests of HTTP+SSE: where messages are posted, in which order, and the end of the stream.

use std::sync::Arc;
use std::time::Duration;

use switchboard::auth::NoCredentials;
use switchboard::call::CallError;
use switchboard::caller::{Caller, CallerCapabilities};
use switchboard::config::{
    Endpoint, Environment, HttpTransportKind, Protocol, ServerConfig, Timeouts,
};
use switchboard::name::ServerName;
use switchboard::server::State;
use switchboard::session::{OpenOptions, RequestFault, Session};
use switchboard::store::{MemoryStore, Store};
use switchboard::transport::http::{HttpStack, HttpTarget};
use switchboard::transport::sse::SseConnector;
use switchboard_host_testkit::TestCaller;

use crate::peer::{Kind, Peer};
use crate::support::{TIMEOUT, call, entry, error, found, server, start};

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

fn sse(peer: &Peer) -> ServerConfig {
    let mut entry = entry(&peer.url());
    let Endpoint::Http(endpoint) = &mut entry.endpoint else {
        unreachable!()
    };
    endpoint.wire = HttpTransportKind::Sse;
    entry
}

/// A session over HTTP+SSE, with forms offered.
async fn opened(peer: &Peer) -> Arc<Session> {
    let target = HttpTarget {
        url: peer.url().parse().unwrap(),
        headers: Vec::new(),
        credentials: Arc::new(NoCredentials),
        max_message_bytes: 1 << 20,
    };
    let connector = SseConnector::new(HttpStack::new(&Environment::new([])).unwrap(), target);
    let mut options = OpenOptions::new(ServerName::new("peer").unwrap());
    options.protocol = Protocol::Legacy;
    options.offers.elicit_form = true;
    Session::open(&connector, options).await.unwrap()
}

/// The entry's headers are sent with the GET and with every POST; responses come over the stream.
#[tokio::test]
async fn every_request_carries_the_headers_of_the_entry() {
    let peer = Peer::start(Kind::Sse(404)).await;
    let host = start(sse(&peer), &store()).await;
    found(&host);
    host.stop().await;
    let seen = peer.seen();
    let lines: Vec<_> = seen
        .iter()
        .map(|seen| seen.line.split("?session=").next().unwrap_or_default())
        .collect();
    assert_eq!(
        lines[..3],
        ["GET /mcp", "POST /messages", "POST /messages"],
        "{seen:?}"
    );
    for seen in seen.iter().filter(|seen| !seen.headers.is_empty()) {
        assert_eq!(
            seen.headers.get("x-key").map(String::as_str),
            Some("the-key-of-the-entry"),
            "{}",
            seen.line
        );
    }
}

/// No message overtakes `notifications/initialized`, however long the server takes to accept it.
#[tokio::test]
async fn no_message_is_sent_before_the_handshake_is_complete() {
    let peer = Peer::start(Kind::Sse(404)).await;
    peer.take_initialized_slowly(Duration::from_millis(100));
    let host = start(sse(&peer), &store()).await;
    found(&host);
    host.stop().await;
    let seen = peer.seen();
    let place = |wanted: &str| {
        seen.iter()
            .position(|seen| seen.line.ends_with(wanted))
            .unwrap_or_else(|| panic!("{wanted}: {seen:?}"))
    };
    assert!(
        place("initialized is taken") < place("tools/list"),
        "{seen:?}"
    );
}

/// T22: messages and their credentials are sent only within the origin of the stream.
#[tokio::test]
async fn t22_an_endpoint_of_another_origin_is_refused() {
    let peer = Peer::start(Kind::SseAt("http://127.0.0.1:9/messages")).await;
    let host = start(sse(&peer), &store()).await;
    assert_eq!(
        error(&host),
        "its `endpoint` event names another origin, \"http://127.0.0.1:9\"; nothing was sent there"
    );
    host.stop().await;
    assert!(
        peer.seen().iter().all(|seen| seen.line == "GET /mcp"),
        "{:?}",
        peer.seen()
    );
}

/// F25: a peer that vanished (no power, a cable pulled) never ends the stream; it is detected all
/// the same, in paused time.
#[tokio::test]
async fn f25_a_vanished_peer_is_detected_in_bounded_time() {
    let peer = Peer::start(Kind::Sse(404)).await;
    let session = opened(&peer).await;
    let begun = tokio::time::Instant::now();
    peer.become_kind(Kind::Hangs);
    tokio::time::pause();
    let reason = session.closed().await;
    assert_eq!(
        reason,
        "the server does not respond: 2 consecutive pings got no response"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(3 * 60),
        "after {:?}",
        begun.elapsed()
    );
}

/// S3-14: a server that answers a POST only with its response holds as many as the limit allows;
/// its questions are answered all the same, without a deadlock.
#[tokio::test]
async fn s3_14_answers_never_wait_for_the_calls_that_asked() {
    let peer = Peer::start(Kind::SseThatAsks).await;
    let session = opened(&peer).await;
    let forms = CallerCapabilities {
        elicit_form: true,
        ..CallerCapabilities::default()
    };
    let caller: Arc<dyn Caller> = TestCaller::new("tester").capabilities(forms).arc();
    let mut readings = tokio::task::JoinSet::new();
    for number in 0..300 {
        let (session, caller) = (session.clone(), caller.clone());
        readings.spawn(async move {
            session
                .read(&format!("a:{number}"), &caller, Timeouts::default())
                .await
        });
    }
    let all = tokio::time::timeout(TIMEOUT, readings.join_all())
        .await
        .expect("they do not wait for each other");
    assert_eq!(all.into_iter().filter(Result::is_ok).count(), 300);
}

/// F25: the end of the stream fails the calls in flight, which are not repeated; the server is
/// connected again.
#[tokio::test]
async fn f25_a_stream_that_ends_fails_its_calls_and_is_opened_again() {
    let peer = Peer::start(Kind::Sse(404)).await;
    let host = start(sse(&peer), &store()).await;
    let session = server(&host).snapshot().session.clone().unwrap();
    let calling = tokio::spawn({
        let host = host.clone();
        async move { call(&host).await }
    });
    let posted = format!(
        "{} tools/call",
        peer.seen()[1].line.trim_end_matches(" initialize")
    );
    tokio::time::timeout(TIMEOUT, peer.until_seen(&posted))
        .await
        .unwrap();
    peer.disconnect();
    let error = calling.await.unwrap().unwrap_err();
    let CallError::Request {
        fault: RequestFault::Closed(_),
        ..
    } = &error
    else {
        panic!("{error}")
    };
    session.closed().await;

    server(&host).ready(TIMEOUT).await.unwrap();
    assert!(matches!(
        server(&host).snapshot().state,
        State::Ready { .. }
    ));
    host.stop().await;
    let calls = peer
        .seen()
        .iter()
        .filter(|seen| seen.line.ends_with("tools/call"))
        .count();
    assert_eq!(calls, 1, "a call that may have run was sent again");
}
