//! Limits, deadlines, and ends of connections.

use std::time::Duration;

use serde_json::json;
use switchboard_gateway::RefusalReason;
use switchboard_gateway::edge::http::HttpLimits;
use switchboard_gateway::tokens::ClientTokens;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::client::{TestEdge, TestResponse, read_responses, request, short_limits, until};
use super::support::PATIENCE;

fn statuses(responses: &[TestResponse]) -> Vec<u16> {
    responses.iter().map(|response| response.status).collect()
}

/// T20: the limits of a head hold for both readers, also those that are smaller than what the reader
/// of plain requests or hyper would allow by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_the_limits_of_heads_hold_for_both_readers() {
    let limits = HttpLimits {
        max_headers: 12,
        max_head_bytes: 2 << 10,
        ..short_limits()
    };
    let edge = TestEdge::start("", limits).await;
    let session = edge.open_session().await;
    let hyper = edge.hyper_request();
    // Host, Authorization, Content-Type, Accept, Mcp-Session-Id, Connection, Content-Length.
    for (more, status) in [
        ("X: y\r\n".repeat(5), 200),
        ("X: y\r\n".repeat(6), 431),
        (format!("X: {}\r\n", "y".repeat(1 << 10)), 200),
        (format!("X: {}\r\n", "y".repeat(2 << 10)), 431),
    ] {
        let lines = format!("{session}{more}Connection: keep-alive\r\n");
        let post = edge.post("/mcp", &lines, &request(1, "ping", json!({})));
        let plain = edge.send(&post).await;
        assert_eq!(statuses(&plain), [status], "{more}");
        let by_hyper = edge.send(&format!("{hyper}{post}")).await;
        assert_eq!(statuses(&by_hyper), [404, status], "{more}");
    }
}

/// T20: a form that does not come is refused as what it is, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_the_body_of_a_form_that_is_too_slow_is_refused() {
    let edge = TestEdge::start("", short_limits()).await;
    let address = edge.edge.address();
    let head = format!("POST /approvals/1 HTTP/1.1\r\nHost: {address}\r\n");
    let responses = edge
        .send(&format!("{head}Content-Length: 9\r\n\r\nx"))
        .await;
    assert_eq!(statuses(&responses), [408]);
    assert_eq!(edge.refusals.take(), [RefusalReason::TooSlow]);
}

/// Whoever sends TLS to the port of plain HTTP learns at once that this is wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_bytes_that_begin_no_request_are_refused_at_once() {
    let limits = HttpLimits {
        head_timeout: 10 * PATIENCE,
        ..HttpLimits::default()
    };
    let edge = TestEdge::start("", limits).await;
    for beginning in ["\x16\x03\x01\x02", "SSH-2.0-x\r\n", "POST /mcp HTTP/9"] {
        let responses = edge.send(beginning).await;
        assert_eq!(statuses(&responses), [400], "{beginning:?}");
    }
}

/// T20: a request that stops anywhere, with or without the end of the connection, has the same
/// outcome for both readers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_requests_that_stop_early_end_alike_for_both_readers() {
    let edge = TestEdge::start("", short_limits()).await;
    let session = edge.open_session().await;
    let post = edge.post("/mcp", &session, &request(1, "ping", json!({})));
    let head = post.find("\r\n\r\n").unwrap() + 4;
    let hyper = edge.hyper_request();
    for length in [
        0,
        1,
        4,
        20,
        head - 4,
        head - 1,
        head,
        head + 1,
        post.len() - 1,
    ] {
        for is_half_closed in [true, false] {
            let mut outcomes = Vec::new();
            for before in [&*hyper, ""] {
                edge.refusals.take();
                let mut stream = edge.connect().await;
                if !before.is_empty() {
                    stream.write_all(before.as_bytes()).await.unwrap();
                    until(&mut stream, b"\"}}").await;
                }
                let part = &post.as_bytes()[..length];
                stream.write_all(part).await.unwrap();
                if is_half_closed {
                    stream.shutdown().await.unwrap();
                }
                let mut responses = read_responses(&mut stream).await;
                for response in &mut responses {
                    // Hyper closes the connection without this word.
                    response.headers.remove("connection");
                }
                outcomes.push((responses, edge.refusals.take()));
            }
            let name = format!("{length} of {}, {is_half_closed}", post.len());
            assert_eq!(outcomes[0], outcomes[1], "{name}");
        }
    }
}

/// An edge that closes waits for no connection without a whole head and body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_closes_waits_for_no_request_that_was_not_sent_yet() {
    let edge = TestEdge::start("", HttpLimits::default()).await;
    let session = edge.open_session().await;
    let post = edge.post("/mcp", &session, &request(1, "ping", json!({})));
    let hyper = edge.hyper_request();
    let hyper_post = edge.post("/mcp?", &session, &request(1, "ping", json!({})));
    let form = hyper_post.replacen("/mcp?", "/approvals/1", 1);
    let mut connections = Vec::new();
    for before in [String::new(), post.clone(), hyper] {
        let within_body = [&post, &hyper_post, &form].map(|post| &post[..post.len() - 5]);
        for part in ["", &post[..30]].into_iter().chain(within_body) {
            let mut stream = edge.connect().await;
            stream
                .write_all(format!("{before}{part}").as_bytes())
                .await
                .unwrap();
            if !before.is_empty() {
                stream.read_u8().await.unwrap();
            }
            connections.push(stream);
        }
    }
    // What was sent is read by now.
    assert_eq!(statuses(&edge.send(&closing(&edge, &session)).await), [200]);
    let began = Instant::now();
    edge.edge.close().await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

fn closing(edge: &TestEdge, session: &str) -> String {
    let lines = format!("{session}Connection: close\r\n");
    edge.post("/mcp", &lines, &request(1, "ping", json!({})))
}

/// T20: a client that opens sessions without end loses its own, not those of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_a_client_with_many_sessions_ends_none_of_another() {
    let limits = HttpLimits {
        max_sessions: 4,
        ..HttpLimits::default()
    };
    let mut edge = TestEdge::start("", limits).await;
    let mine = edge.open_session().await;
    let tokens = ClientTokens::new(&edge.scratch.path("state"));
    let other = tokens.create("other").unwrap();
    let first = std::mem::replace(&mut edge.token, other);
    let mut others = Vec::new();
    for _ in 0..6 {
        others.push(edge.open_session().await);
    }
    for (index, session) in others.iter().enumerate() {
        let status = if index < 3 { 404 } else { 200 };
        let found = edge.send(&closing(&edge, session)).await;
        assert_eq!(statuses(&found), [status], "{index}");
    }
    edge.token = first;
    assert_eq!(statuses(&edge.send(&closing(&edge, &mine)).await), [200]);
}

/// The oldest session has a stream that its client listens to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_in_use_is_ended_last() {
    let limits = HttpLimits {
        max_sessions: 2,
        ..HttpLimits::default()
    };
    let edge = TestEdge::start("", limits).await;
    let listening = edge.open_session().await;
    let get = edge.get("/mcp", &edge.token, &listening);
    let mut stream = edge.connect().await;
    stream.write_all(get.as_bytes()).await.unwrap();
    stream.read_u8().await.unwrap();
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(edge.open_session().await);
    }
    let found = edge.send(&closing(&edge, &listening)).await;
    assert_eq!(statuses(&found), [200]);
    let found = edge.send(&closing(&edge, &others[0])).await;
    assert_eq!(statuses(&found), [404]);
}

/// T20: neither the connections of one client nor those without a token shut out another client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_many_connections_shut_out_no_other_client() {
    let limits = HttpLimits {
        max_connections: 16,
        ..HttpLimits::default()
    };
    let mut edge = TestEdge::start("", limits).await;
    let session = edge.open_session().await;
    let ping = edge.post("/mcp", &session, &request(1, "ping", json!({})));
    let mut connections = Vec::new();
    let mut refused = loop {
        let mut stream = edge.connect().await;
        stream.write_all(ping.as_bytes()).await.unwrap();
        if stream.read_u8().await.is_ok() && !edge.refusals.take().is_empty() {
            break stream;
        }
        until(&mut stream, b"\"result\":{}}").await;
        connections.push(stream);
    };
    // The connection that opened the session may have been counted still.
    assert!((3..=4).contains(&connections.len()));
    let mut answer = String::new();
    refused.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("too many connections"), "{answer}");

    // Begun requests without a token; the first ones are closed.
    let mut nameless = Vec::new();
    for _ in 0..40 {
        let mut stream = edge.connect().await;
        stream
            .write_all(b"POST /healthz HTTP/1.1\r\n")
            .await
            .unwrap();
        nameless.push(stream);
    }
    assert_eq!(nameless[0].read(&mut [0]).await.unwrap_or(0), 0);
    let tokens = ClientTokens::new(&edge.scratch.path("state"));
    let first = std::mem::replace(&mut edge.token, tokens.create("other").unwrap());
    let others = edge.open_session().await;
    assert_eq!(statuses(&edge.send(&closing(&edge, &others)).await), [200]);

    // Those of the first client go on; without one of them there is room for another.
    edge.token = first;
    connections[0].write_all(ping.as_bytes()).await.unwrap();
    until(&mut connections[0], b"\"result\":{}}").await;
    drop(connections);
    let ping = closing(&edge, &session);
    while statuses(&edge.send(&ping).await) != [200] {
        let refusals = edge.refusals.take();
        assert_eq!(refusals, [RefusalReason::TooManyConnections]);
    }
}
