//! Tests of event streams: broken and resumed ones, trickling ones, and the standalone stream of a
//! legacy server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard::config::{Protocol, Timeouts};
use switchboard::session::{RequestFault, Session};
use switchboard::transport::TransportFault;

use crate::support::*;

/// Requests a resource, sends `first` as the stream of the response, and ends it.
async fn broken(session: &Arc<Session>, peer: &mut Peer, first: &str) -> (Reading, Value) {
    let reading = read(session, "a:b");
    let id = answer_in_part(peer, first).await;
    (reading, id)
}

async fn answer_in_part(peer: &mut Peer, first: &str) -> Value {
    let asked = peer.expect("resources/read").await;
    let id = asked.body["id"].clone();
    asked.stream();
    asked.send(first);
    asked.close();
    id
}

fn lost(peer: &Peer) -> Result<Value, RequestFault> {
    let fact = format!(
        "127.0.0.1:{} ended the stream without a response",
        peer.port
    );
    Err(RequestFault::Transport(TransportFault::Lost(fact)))
}

#[tokio::test]
async fn f25_a_broken_legacy_stream_is_resumed_after_the_servers_delay() {
    let (session, mut peer) = legacy(Some("s-1")).await;
    let begun = Instant::now();
    let (reading, id) = broken(&session, &mut peer, "id: e-1\nretry: 300\ndata:\n\n").await;
    let again = peer.expect_line("GET /mcp").await;
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    assert_eq!(
        (
            again.header("last-event-id"),
            again.header("mcp-session-id")
        ),
        (Some("e-1"), Some("s-1"))
    );
    again.stream();
    again.event_result(Some("e-2"), &id, contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));
}

/// A stream that is resumed without an event id would be the standalone stream.
#[tokio::test]
async fn f25_a_stream_is_resumed_only_after_an_event_id_that_a_header_can_carry() {
    let (session, mut peer) = legacy(None).await;
    let (reading, id) = broken(&session, &mut peer, "id: \u{e9}-1\nretry: 100\ndata:\n\n").await;
    let again = peer.expect_line("GET /mcp").await;
    assert_eq!(again.header("last-event-id"), Some("\u{e9}-1"));
    again.stream();
    again.event_result(None, &id, contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));

    let (reading, _) = broken(&session, &mut peer, "id: \u{1}\nretry: 100\ndata:\n\n").await;
    assert_eq!(outcome(reading).await, lost(&peer));
}

/// A question is answered however many requests are in flight: one of them waits for the answer.
#[tokio::test]
async fn s3_14_an_answer_does_not_wait_for_requests_in_flight() {
    let (session, mut peer) = legacy(None).await;
    let readings: Vec<Reading> = (0..300).map(|_| read(&session, "a:b")).collect();
    let mut under_way = Vec::new();
    for _ in 0..256 {
        let asked = peer.expect("resources/read").await;
        asked.stream();
        under_way.push(asked);
    }
    let params = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    under_way[7].event(
        None,
        &json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}),
    );
    let answer = peer.next().await;
    assert_eq!(
        answer.body,
        json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept", "content": {}}})
    );
    readings.iter().for_each(Reading::abort);
}

/// Event ids matter only when a stream is resumed: repeated ids before that are no duplicates.
#[tokio::test]
async fn f25_events_with_a_repeated_id_are_all_handled_while_the_stream_lasts() {
    let (session, mut peer) = legacy(None).await;
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hm"}});
    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    asked.stream();
    asked.event(Some("0"), &log);
    asked.event_result(Some("0"), &asked.body["id"], contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));
}

#[tokio::test]
async fn f25_a_resumed_stream_delivers_no_event_twice() {
    let (session, mut peer) = legacy(None).await;
    let log = |text: &str| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": text}});
    let first = format!(
        "id: 1\nretry: 100\ndata: {}\n\nid: 2\ndata: {}\n\nid: 3\ndata: {}",
        log("one"),
        log("two"),
        log("half")
    );
    let caller = Agreeable::default();
    let reading = read_as(&session, "a:b", Timeouts::default(), caller.clone());
    let id = answer_in_part(&mut peer, &first).await;
    let again = peer.expect_line("GET /mcp").await;
    assert_eq!(again.header("last-event-id"), Some("2"));
    again.stream();
    again.event(Some("2"), &log("two"));
    again.event(Some("3"), &log("three"));
    again.event_result(Some("4"), &id, contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));
    assert_eq!(*caller.0.lock().unwrap(), ["one", "two", "three"]);
}

#[tokio::test]
async fn f25_without_an_event_to_resume_after_the_request_is_lost() {
    let (session, mut peer) = legacy(None).await;
    let (reading, _) = broken(&session, &mut peer, "data: {\"jsonrpc\"").await;
    assert_eq!(outcome(reading).await, lost(&peer));
}

#[tokio::test]
async fn f25_a_modern_stream_is_never_resumed() {
    let (session, mut peer) = modern().await;
    let (reading, _) = broken(&session, &mut peer, "id: 1\nretry: 0\ndata:\n\n").await;
    assert_eq!(outcome(reading).await, lost(&peer));
    peer.expect_nothing();
}

#[tokio::test]
async fn f25_a_server_that_is_busy_when_a_stream_is_resumed_is_asked_again() {
    let (session, mut peer) = legacy(None).await;
    let (reading, id) = broken(&session, &mut peer, "id: 1\nretry: 100\ndata:\n\n").await;
    peer.expect_line("GET /mcp").await.status(503, "");
    let again = peer.expect_line("GET /mcp").await;
    again.stream();
    again.event_result(Some("2"), &id, contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));
}

#[tokio::test]
async fn f25_a_stream_that_cannot_be_resumed_is_lost() {
    let (session, mut peer) = legacy(None).await;
    let (reading, _) = broken(&session, &mut peer, "id: 1\nretry: 100\ndata:\n\n").await;
    peer.expect_line("GET /mcp").await.status(405, "");
    assert_eq!(outcome(reading).await, lost(&peer));
}

#[tokio::test]
async fn f26_a_stream_that_ends_at_once_is_reopened_with_backoff() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    peer.handshake(None).await;
    let _session = opening.await.unwrap().unwrap();
    let mut times = Vec::new();
    for _ in 0..3 {
        let asked = peer.expect_line("GET /mcp").await;
        times.push(Instant::now());
        asked.stream();
        asked.send("retry: 0\n\n");
        asked.close();
    }
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        pauses[0] >= Duration::from_millis(200) && pauses[1] >= Duration::from_millis(400),
        "{pauses:?}"
    );
}

#[tokio::test]
async fn t29_a_trickling_stream_does_not_delay_a_call_past_its_deadline() {
    let (session, mut peer) = modern().await;
    let after = Duration::from_millis(300);
    let reading = read_within(
        &session,
        "a:b",
        Timeouts {
            call: after,
            ..Timeouts::default()
        },
    );
    let mut asked = peer.expect("resources/read").await;
    asked.stream();
    let trickle = async {
        for byte in ": and on it goes, without end".chars().cycle() {
            asked.send(&byte.to_string());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        outcome = outcome(reading) => assert_eq!(outcome, Err(RequestFault::Timeout { after, total: false })),
        () = trickle => unreachable!("it trickles without end"),
    }
    asked.closed().await;
}

#[tokio::test]
async fn f26_keep_alives_do_not_delay_a_call_past_its_deadline() {
    let (session, mut peer) = legacy(None).await;
    let after = Duration::from_millis(300);
    let reading = read_within(
        &session,
        "a:b",
        Timeouts {
            call: after,
            ..Timeouts::default()
        },
    );
    let mut asked = peer.expect("resources/read").await;
    asked.stream();
    let alive = async {
        loop {
            asked.send(": alive\n\n");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        outcome = outcome(reading) => assert_eq!(outcome, Err(RequestFault::Timeout { after, total: false })),
        () = alive => {}
    }
    peer.expect("notifications/cancelled").await.status(202, "");
    asked.closed().await;
}

#[tokio::test]
async fn f21_a_server_without_a_standalone_stream_is_not_retried() {
    for status in [405, 404, 400] {
        let mut peer = Peer::start().await;
        let opening = open(target(&peer.url()), Protocol::Legacy);
        peer.handshake(Some("s-1")).await;
        let session = opening.await.unwrap().unwrap();
        peer.expect_line("GET /mcp").await.status(status, "no");
        for _ in 0..2 {
            let reading = read(&session, "a:b");
            peer.expect("resources/read").await.json(contents("hi"));
            assert_eq!(outcome(reading).await, seen("hi"), "after {status}");
            // Longer than a stream that failed would take to be opened again.
            tokio::time::pause();
            tokio::time::sleep(Duration::from_secs(60)).await;
            tokio::time::resume();
        }
        peer.expect_nothing();
    }
}

#[tokio::test]
async fn f21_a_standalone_stream_is_read_and_resumed() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    peer.handshake(None).await;
    let session = opening.await.unwrap().unwrap();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let asked = peer.expect_line("GET /mcp").await;
    assert_eq!(asked.header("last-event-id"), None);
    asked.stream();
    asked.event(Some("g-1"), &changed);
    session.list_changed().await;
    asked.send("retry: 100\n\n");
    asked.close();
    let asked = peer.expect_line("GET /mcp").await;
    assert_eq!(asked.header("last-event-id"), Some("g-1"));
    asked.stream();
    asked.event(Some("g-2"), &changed);
    session.list_changed().await;
}

/// F21: changes during a gap are unknown, unless the server can replay them.
#[tokio::test]
async fn f21_a_stream_reopened_without_an_event_id_causes_a_listing() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    peer.handshake(None).await;
    let session = opening.await.unwrap().unwrap();
    let asked = peer.expect_line("GET /mcp").await;
    asked.stream();
    asked.send("retry: 100\n\n");
    asked.close();
    let asked = peer.expect_line("GET /mcp").await;
    assert_eq!(asked.header("last-event-id"), None);
    asked.stream();
    tokio::time::timeout(TIMEOUT, session.list_changed())
        .await
        .expect("it is listed again");
}

/// F21: a failing server is not one without a stream; it is retried with backoff.
#[tokio::test]
async fn f21_a_failed_stream_is_opened_again() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    peer.handshake(None).await;
    let session = opening.await.unwrap().unwrap();
    for _ in 0..2 {
        peer.expect_line("GET /mcp")
            .await
            .status_with(500, "Retry-After: 0\r\n", "oops");
    }
    let asked = peer.expect_line("GET /mcp").await;
    asked.stream();
    asked.send("retry: 100\n\n");
    // Changes until now may have been missed.
    session.list_changed().await;
    asked.close();
    peer.expect_line("GET /mcp").await.status(500, "oops");
    peer.expect_line("GET /mcp").await.stream();
    session.list_changed().await;
}

#[tokio::test]
async fn s3_14_a_question_on_the_stream_of_a_request_is_answered_for_that_request() {
    let (session, mut peer) = legacy(None).await;
    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    let id = asked.body["id"].clone();
    asked.stream();
    let params =
        json!({"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}});
    asked.event(
        None,
        &json!({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": params}),
    );
    let answer = peer.expect_line("POST /mcp").await;
    assert_eq!(
        answer.body,
        json!({"jsonrpc": "2.0", "id": "q-1", "result": {"action": "accept", "content": {}}})
    );
    answer.status(202, "");
    asked.event_result(None, &id, contents("hi"));
    assert_eq!(outcome(reading).await, seen("hi"));
}

#[tokio::test]
async fn a_session_that_is_dropped_leaves_no_stream_behind() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    peer.handshake(None).await;
    let session = opening.await.unwrap().unwrap();
    let mut shared = peer.expect_line("GET /mcp").await;
    shared.stream();
    let reading = read(&session, "a:b");
    let mut asked = peer.expect("resources/read").await;
    asked.stream();
    session.close();
    drop(session);
    assert_eq!(
        outcome(reading).await,
        Err(RequestFault::Closed("it was closed".to_owned()))
    );
    asked.closed().await;
    shared.closed().await;
}

/// Once the stream is silent, the paused clock advances to the timeout.
#[tokio::test]
async fn f26_a_silent_stream_is_reopened() {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    peer.handshake(None).await;
    let session = opening.await.unwrap().unwrap();
    let mut asked = peer.expect_line("GET /mcp").await;
    asked.stream();
    asked.event(
        Some("g-1"),
        &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
    );
    session.list_changed().await;
    tokio::time::pause();
    let silent_since = tokio::time::Instant::now();
    asked.closed_eventually().await;
    // It was silent for a moment before the clock was paused.
    let silent_for = silent_since.elapsed().as_secs();
    assert!((290..=300).contains(&silent_for), "{silent_for}");
    tokio::time::resume();
    let asked = peer.expect_line("GET /mcp").await;
    assert_eq!(asked.header("last-event-id"), Some("g-1"));
}
