//! Tests of what each era sends, and that its responses arrive as JSON and as events.

use serde_json::json;
use switchboard::config::Protocol;

use crate::support::*;

#[tokio::test]
async fn every_legacy_message_after_the_first_carries_the_session_id() {
    let mut peer = Peer::start().await;
    let opening = open(
        target_with(
            &peer.url(),
            &[
                ("X-Key", "k"),
                ("Content-Type", "application/json; charset=utf-8"),
            ],
        ),
        Protocol::Legacy,
    );
    let asked = peer.expect("initialize").await;
    assert_eq!(
        asked.header("accept"),
        Some("application/json, text/event-stream")
    );
    assert_eq!(
        asked.header("content-type"),
        Some("application/json; charset=utf-8")
    );
    assert_eq!(asked.header("x-key"), Some("k"));
    assert_eq!(
        (
            asked.header("mcp-protocol-version"),
            asked.header("mcp-session-id"),
            asked.header("mcp-method")
        ),
        (None, None, None)
    );
    let result = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "peer", "version": "1"}});
    asked.json_with("Mcp-Session-Id: s-1\r\n", result);

    let asked = peer.expect("notifications/initialized").await;
    let of_session = (Some("2025-06-18"), Some("s-1"));
    assert_eq!(
        (
            asked.header("mcp-protocol-version"),
            asked.header("mcp-session-id")
        ),
        of_session
    );
    asked.status(202, "");
    let session = opening.await.unwrap().unwrap();
    let asked = peer.expect_line("GET /mcp").await;
    assert_eq!(
        (
            asked.header("mcp-protocol-version"),
            asked.header("mcp-session-id")
        ),
        of_session
    );
    assert_eq!(
        (asked.header("accept"), asked.header("content-type")),
        (Some("text/event-stream"), None)
    );
    asked.status(405, "");

    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    assert_eq!(
        (
            asked.header("mcp-protocol-version"),
            asked.header("mcp-session-id")
        ),
        of_session
    );
    asked.json(contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));

    session.close();
    let asked = peer.expect_line("DELETE /mcp").await;
    assert_eq!(
        (
            asked.header("mcp-protocol-version"),
            asked.header("mcp-session-id")
        ),
        of_session
    );
    asked.status(405, "");
}

#[tokio::test]
async fn a_modern_message_repeats_its_method_and_name_in_headers() {
    let (session, mut peer) = modern().await;
    let reading = read(&session, "file:///ä b");
    let asked = peer.expect("resources/read").await;
    assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(asked.header("mcp-method"), Some("resources/read"));
    assert_eq!(
        asked.header("mcp-name"),
        Some("=?base64?ZmlsZTovLy/DpCBi?=")
    );
    assert_eq!(asked.header("mcp-session-id"), None);
    let id = asked.body["id"].clone();
    asked.stream();
    asked.send(": on its way\n\n");
    asked.event_result(None, &id, contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));
}

#[tokio::test]
async fn no_message_overtakes_the_end_of_the_handshake() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    let asked = peer.expect("initialize").await;
    asked.json(json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "peer", "version": "1"}}));
    let initialized = peer.expect("notifications/initialized").await;
    let session = opening.await.unwrap().unwrap();
    let reading = read(&session, "a:b");
    // Once no task can proceed, the paused clock advances: anything that would overtake has arrived
    // by then.
    tokio::time::pause();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    tokio::time::resume();
    peer.expect_nothing();
    initialized.status(202, "");
    for _ in 0..2 {
        let asked = peer.next().await;
        match asked.line.as_str() {
            "GET /mcp" => asked.status(405, ""),
            _ => asked.json(contents("hi")),
        }
    }
    assert_eq!(outcome(reading).await, seen("hi"));
}

#[tokio::test]
async fn an_unknown_server_is_probed_for_its_era() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Auto);
    peer.expect("server/discover")
        .await
        .status(400, "Bad Request: no session");
    peer.handshake_without_stream(Some("s-1")).await;
    let session = opening.await.unwrap().unwrap();
    assert_eq!(session.hello().revision.as_str(), "2025-11-25");
}
