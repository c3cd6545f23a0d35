//! Tests of legacy sessions: renewed when the server lost them, ended when closed; and of
//! cancellation in each era.

use serde_json::json;
use switchboard::HostBuilder;
use switchboard::config::{Config, Endpoint, HttpEndpoint, Protocol, ServerConfig, Source};
use switchboard::name::ServerName;
use switchboard::session::RequestFault;
use switchboard::transport::TransportFault;

use crate::support::*;

/// An entry for a legacy server at this peer.
fn legacy_entry(peer: &Peer) -> ServerConfig {
    let endpoint = Endpoint::Http(HttpEndpoint::new(peer.url()));
    let entry = ServerConfig::new(ServerName::new("peer").unwrap(), Source::code(), endpoint);
    ServerConfig {
        protocol: Protocol::Legacy,
        ..entry
    }
}

/// Performs the handshake of a session.
async fn handshake(peer: &mut Peer) {
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "peer", "version": "1"}});
    peer.expect("initialize")
        .await
        .json_with("Mcp-Session-Id: s-1\r\n", result);
    peer.expect("notifications/initialized")
        .await
        .status(202, "");
}

/// A server may never end the body of a response that nobody needs.
#[tokio::test]
async fn messages_are_sent_once_the_server_has_accepted_the_end_of_the_handshake() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "peer", "version": "1"}});
    peer.expect("initialize").await.json(result);
    let initialized = peer.expect("notifications/initialized").await;
    initialized.send("HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\n");
    peer.expect_line("GET /mcp").await.status(405, "");
    let session = opening.await.unwrap().unwrap();
    let reading = read(&session, "a:b");
    peer.expect("resources/read").await.json(contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));
    initialized.close();
}

#[tokio::test]
async fn f20_a_lost_session_is_renewed_once_for_all_requests_that_noticed() {
    let (session, mut peer) = legacy(Some("s-1")).await;
    let readings = [read(&session, "a:1"), read(&session, "a:2")];
    for asked in [
        peer.expect("resources/read").await,
        peer.expect("resources/read").await,
    ] {
        assert_eq!(asked.header("mcp-session-id"), Some("s-1"));
        asked.status(404, "");
    }
    let asked = peer.expect("initialize").await;
    assert_eq!(
        (
            asked.header("mcp-session-id"),
            asked.header("mcp-protocol-version")
        ),
        (None, None)
    );
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "peer", "version": "2"}});
    asked.json_with("Mcp-Session-Id: s-2\r\n", result);
    let asked = peer.expect("notifications/initialized").await;
    assert_eq!(asked.header("mcp-session-id"), Some("s-2"));
    asked.status(202, "");
    let mut lines = Vec::new();
    for _ in 0..3 {
        let asked = peer.next().await;
        assert_eq!(asked.header("mcp-session-id"), Some("s-2"));
        lines.push(asked.line.clone());
        match asked.line.as_str() {
            "GET /mcp" => asked.status(405, ""),
            _ => asked.json(contents("hi")),
        }
    }
    lines.sort();
    assert_eq!(lines, ["GET /mcp", "POST /mcp", "POST /mcp"]);
    for reading in readings {
        assert_eq!(outcome(reading).await, seen("hi"));
    }
    // The lists may have changed.
    session.list_changed().await;
}

#[tokio::test]
async fn f20_f25_a_broken_stream_is_not_resumed_in_another_session() {
    let (session, mut peer) = legacy(Some("s-1")).await;
    let reading = read(&session, "a:1");
    let streaming = peer.expect("resources/read").await;
    streaming.stream();
    streaming.send("id: e-1\nretry: 100\ndata:\n\n");
    let other = read(&session, "a:2");
    peer.expect("resources/read").await.status(404, "");
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "peer", "version": "2"}});
    peer.expect("initialize")
        .await
        .json_with("Mcp-Session-Id: s-2\r\n", result);
    peer.expect("notifications/initialized")
        .await
        .status(202, "");
    for _ in 0..2 {
        let asked = peer.next().await;
        match asked.line.as_str() {
            "GET /mcp" => asked.status(405, ""),
            _ => asked.json(contents("hi")),
        }
    }
    assert_eq!(outcome(other).await, seen("hi"));

    streaming.close();
    let resumed = peer.expect_line("GET /mcp").await;
    assert_eq!(
        (
            resumed.header("last-event-id"),
            resumed.header("mcp-session-id")
        ),
        (Some("e-1"), Some("s-1"))
    );
    resumed.status(404, "");
    let fact = format!(
        "127.0.0.1:{} ended the stream without a response",
        peer.port
    );
    let lost = RequestFault::Transport(TransportFault::Lost(fact));
    assert_eq!(outcome(reading).await, Err(lost));
}

/// The request that noticed may be cancelled before the renewal is complete: it is completed all
/// the same, for the next request.
#[tokio::test]
async fn f20_a_session_is_renewed_even_if_the_request_that_noticed_is_cancelled() {
    let (session, mut peer) = legacy(Some("s-1")).await;
    let closed = read(&session, "a:1");
    peer.expect("resources/read").await.status(404, "");
    let beginning = peer.expect("initialize").await;
    closed.abort();
    peer.expect("notifications/cancelled").await.status(202, "");
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "peer", "version": "2"}});
    beginning.json_with("Mcp-Session-Id: s-2\r\n", result);
    peer.expect("notifications/initialized")
        .await
        .status(202, "");
    peer.expect_line("GET /mcp").await.status(405, "");
    let reading = read(&session, "a:2");
    let asked = peer.expect("resources/read").await;
    assert_eq!(
        (asked.header("mcp-session-id"), &asked.body["params"]["uri"]),
        (Some("s-2"), &json!("a:2"))
    );
    asked.json(contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));
}

/// A session that only listens sends no request that could notice.
#[tokio::test]
async fn f20_a_session_lost_while_only_listening_is_renewed() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    peer.handshake(Some("s-1")).await;
    let session = opening.await.unwrap().unwrap();
    let stream = peer.expect_line("GET /mcp").await;
    stream.stream();
    stream.send("retry: 100\n\n");
    stream.close();
    let again = peer.expect_line("GET /mcp").await;
    assert_eq!(again.header("mcp-session-id"), Some("s-1"));
    again.status(404, "");
    peer.handshake(Some("s-2")).await;
    assert_eq!(
        peer.expect_line("GET /mcp").await.header("mcp-session-id"),
        Some("s-2")
    );
    session.list_changed().await;
}

#[tokio::test]
async fn f20_a_request_is_repeated_at_most_once() {
    let (session, mut peer) = legacy(Some("s-1")).await;
    let reading = read(&session, "a:b");
    peer.expect("resources/read").await.status(404, "");
    peer.handshake(Some("s-2")).await;
    for _ in 0..2 {
        peer.next().await.status(404, "");
    }
    let closed = TransportFault::Status {
        status: 404,
        detail: String::new(),
        retry_after: None,
        error: None,
    };
    assert_eq!(outcome(reading).await, Err(RequestFault::Transport(closed)));
}

#[tokio::test]
async fn f20_a_session_that_cannot_be_renewed_has_ended() {
    let (session, mut peer) = legacy(Some("s-1")).await;
    let reading = read(&session, "a:b");
    peer.expect("resources/read").await.status(404, "");
    peer.expect("initialize").await.status(500, "down");
    let reason =
        "the server dropped the session, and a new one could not be established: HTTP 500: down";
    assert_eq!(session.closed().await, reason);
    assert_eq!(
        outcome(reading).await,
        Err(RequestFault::Closed(reason.to_owned()))
    );
}

/// As the servers of several SDKs answer, in their own words.
#[tokio::test]
async fn f20_a_session_that_the_server_forgot_with_400_is_renewed() {
    let error = |id: &str, code: i64, message: &str| {
        let error = json!({"code": code, "message": message});
        json!({"jsonrpc": "2.0", "id": serde_json::from_str::<serde_json::Value>(id).unwrap(), "error": error}).to_string()
    };
    for body in [
        "Invalid session ID".to_owned(),
        error("null", -32000, "Bad Request: No valid session ID provided"),
        error(
            "\"server-error\"",
            -32600,
            "Bad Request: No valid session ID provided",
        ),
    ] {
        let (session, mut peer) = legacy(Some("s-1")).await;
        let reading = read(&session, "a:b");
        peer.expect("resources/read").await.status(400, &body);
        peer.handshake(Some("s-2")).await;
        loop {
            let asked = peer.next().await;
            assert_eq!(asked.header("mcp-session-id"), Some("s-2"), "{body}");
            match asked.line.as_str() {
                "GET /mcp" => asked.status(405, ""),
                _ => break asked.json(contents("hi")),
            }
        }
        assert_eq!(outcome(reading).await, seen("hi"), "{body}");
    }
}

/// The request itself was rejected.
#[tokio::test]
async fn another_400_renews_no_session() {
    let (session, mut peer) = legacy(Some("s-1")).await;
    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    let error = json!({"code": -32602, "message": "unknown session of the archive"});
    let body = json!({"jsonrpc": "2.0", "id": asked.body["id"], "error": error}).to_string();
    asked.status(400, &body);
    let refused = outcome(reading).await.unwrap_err();
    assert!(
        matches!(refused, RequestFault::ErrorResponse { code: -32602, .. }),
        "{refused}"
    );
    peer.expect_nothing();
}

#[tokio::test]
async fn f20_without_a_session_id_nothing_is_renewed() {
    let (session, mut peer) = legacy(None).await;
    let reading = read(&session, "a:b");
    peer.expect("resources/read").await.status(404, "");
    let closed = TransportFault::Status {
        status: 404,
        detail: String::new(),
        retry_after: None,
        error: None,
    };
    assert_eq!(outcome(reading).await, Err(RequestFault::Transport(closed)));
    peer.expect_nothing();
}

#[tokio::test]
async fn a_404_for_an_unknown_method_is_a_response() {
    let (session, mut peer) = legacy(Some("s-1")).await;
    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    let body = json!({"jsonrpc": "2.0", "id": asked.body["id"], "error": {"code": -32601, "message": "no"}}).to_string();
    asked.status_with(404, "Content-Type: application/json\r\n", &body);
    assert_eq!(
        outcome(reading).await,
        Err(RequestFault::ErrorResponse {
            code: -32601,
            message: "no".to_owned(),
            data: None
        })
    );
}

#[tokio::test]
async fn t15_an_invalid_session_id_is_refused() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "peer", "version": "1"}});
    peer.expect("initialize")
        .await
        .json_with("Mcp-Session-Id: a b\r\n", result);
    let fault = opening.await.unwrap().unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the server assigned a session id with invalid characters"
    );
}

#[tokio::test]
async fn p2_a_modern_request_is_cancelled_by_closing_its_stream() {
    let (session, mut peer) = modern().await;
    let reading = read(&session, "a:b");
    let mut asked = peer.expect("resources/read").await;
    asked.stream();
    asked.send(": working\n\n");
    reading.abort();
    asked.closed().await;
    // Anything else would have arrived before this.
    let reading = read(&session, "a:c");
    let next = peer.expect("resources/read").await;
    assert_eq!(next.body["params"]["uri"], "a:c");
    next.json(contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));
}

#[tokio::test]
async fn p2_a_legacy_request_is_cancelled_by_a_notification() {
    let (session, mut peer) = legacy(None).await;
    let reading = read(&session, "a:b");
    let mut asked = peer.expect("resources/read").await;
    asked.stream();
    reading.abort();
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled.body["params"]["requestId"], asked.body["id"]);
    cancelled.status(202, "");
    asked.closed().await;
}

/// F28: the cancellation of a call is sent just before the session is closed and dropped.
#[tokio::test]
async fn f28_a_cancellation_before_the_end_of_a_session_is_sent() {
    let (session, mut peer) = legacy(Some("s-1")).await;
    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    reading.abort();
    assert!(reading.await.unwrap_err().is_cancelled());
    session.close();
    drop(session);
    peer.expect("notifications/cancelled").await.status(202, "");
    peer.expect_line("DELETE /mcp").await.status(200, "");
    drop(asked);
}

/// The same for a session that was opened and turned out to be unusable.
#[tokio::test]
async fn the_session_of_a_server_that_could_not_be_listed_is_ended() {
    let mut peer = Peer::start().await;
    let entry = legacy_entry(&peer);
    let host = HostBuilder::new([entry].into_iter().collect::<Config>())
        .start()
        .await
        .unwrap();
    handshake(&mut peer).await;
    for _ in 0..2 {
        let asked = peer.next().await;
        match asked.line.as_str() {
            "GET /mcp" => asked.status(405, ""),
            _ => asked.status(500, "no"),
        }
    }
    let asked = peer.expect_line("DELETE /mcp").await;
    let mut stopping = tokio::spawn(async move { host.stop().await });
    let early = tokio::time::timeout(std::time::Duration::from_millis(300), &mut stopping).await;
    assert!(early.is_err(), "it is over before the server was told");
    asked.status(200, "");
    tokio::time::timeout(TIMEOUT, stopping)
        .await
        .expect("it stops")
        .unwrap();
}

/// A program that exits right after it stopped its servers leaves no session behind.
#[tokio::test]
async fn the_session_of_a_stopped_server_is_ended() {
    let mut peer = Peer::start().await;
    let entry = legacy_entry(&peer);
    let starting = tokio::spawn(async move {
        let host = HostBuilder::new([entry].into_iter().collect::<Config>())
            .start()
            .await
            .unwrap();
        assert!(host.wait_until_settled(TIMEOUT).await);
        host
    });
    handshake(&mut peer).await;
    for _ in 0..2 {
        let asked = peer.next().await;
        match asked.line.as_str() {
            "GET /mcp" => asked.status(405, ""),
            _ => asked.json(json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})),
        }
    }
    let host = starting.await.unwrap();
    let stopping = tokio::spawn(async move { host.stop().await });
    let asked = peer.expect_line("DELETE /mcp").await;
    assert!(!stopping.is_finished());
    asked.status(200, "");
    tokio::time::timeout(TIMEOUT, stopping)
        .await
        .expect("it stops")
        .unwrap();
}
