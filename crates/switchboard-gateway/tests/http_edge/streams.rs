//! Event streams.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_gateway::ApprovalQueue;
use switchboard_gateway::edge::http::HttpLimits;
use switchboard_gateway::tokens::ClientTokens;
use switchboard_testkit::{Chaos, Scratch, Step, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::client::{TestEdge, request, short_limits, until};
use super::support::{PATIENCE, demo};

/// T19: streams that were open when a token was revoked end, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t19_open_streams_end_when_their_token_is_revoked() {
    let edge = TestEdge::start("", HttpLimits::default()).await;
    let tokens = ClientTokens::new(&edge.scratch.path("state"));
    let other = tokens.create("other").unwrap();
    let session = edge.open_session().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    let listen = request(1, "subscriptions/listen", listen);
    let modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
    let mut revoked = Vec::new();
    for bytes in [
        edge.get("/mcp", &edge.token, &session),
        edge.get("/sse", &edge.token, ""),
        edge.post("/mcp", modern, &listen),
    ] {
        revoked.push(open_stream(&edge, &bytes).await);
    }
    let mut open = open_stream(&edge, &edge.get("/sse", &other, "")).await;
    tokens.revoke("tester").unwrap();
    for stream in &mut revoked {
        assert_eq!(until(stream, b"0\r\n\r\n").await, b"0\r\n\r\n");
    }
    // The other client's stream goes on.
    let comment = b"3\r\n:\n\n\r\n";
    assert_eq!(until(&mut open, comment).await, comment);
}

/// The end of a subscription is a result: without it, a client would connect again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_closes_ends_a_subscription_with_its_result() {
    let edge = TestEdge::start("", HttpLimits::default()).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    let listen = request(7, "subscriptions/listen", listen);
    let modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
    let mut stream = open_stream(&edge, &edge.post("/mcp", modern, &listen)).await;
    let closing = edge.edge.close();
    let (_, rest) = tokio::join!(closing, until(&mut stream, b"0\r\n\r\n"));
    let rest = String::from_utf8(rest).unwrap();
    assert!(rest.contains("\"id\":7,\"result\":"), "{rest}");
}

/// A stream whose first event was read.
async fn open_stream(edge: &TestEdge, bytes: &str) -> TcpStream {
    let mut stream = edge.connect().await;
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let read = until(&mut stream, b"\n\n\r\n").await;
    assert!(
        read.starts_with(b"HTTP/1.1 200 "),
        "{:?}",
        String::from_utf8_lossy(&read)
    );
    stream
}

/// An event of a megabyte arrives whole. Of many such events a session stores only the last ones for a
/// client that resumes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_large_events_arrive_and_those_that_are_stored_are_bounded() {
    const BYTES: usize = 1 << 20;
    const CALLS: u64 = 20;
    let edge = TestEdge::start(&demo_tables(), HttpLimits::default()).await;
    let session = edge.open_session().await;
    let closing = format!("{session}Connection: close\r\n");
    // The response to a batch is a stream in any case. A plain request, so hyper takes no part.
    let post = edge.post("/mcp", &session, &format!("[{}]", big(BYTES)));
    let mut stream = edge.connect().await;
    for _ in 0..CALLS {
        stream.write_all(post.as_bytes()).await.unwrap();
        let read = until(&mut stream, b"\r\n0\r\n\r\n").await;
        assert!(read.len() > BYTES, "{} bytes came", read.len());
    }
    let resume = |number: u64| {
        edge.get(
            "/mcp",
            &edge.token,
            &format!("{closing}Last-Event-ID: {number}-0\r\n"),
        )
    };
    let first = edge.send(&resume(1)).await;
    assert_eq!(first[0].status, 400, "{}", first[0].body);
    let last = edge.send(&resume(CALLS)).await;
    let data = last[0]
        .body
        .lines()
        .find_map(|line| line.strip_prefix("data: "));
    let message: Value = serde_json::from_str(data.unwrap()).unwrap();
    let text = message["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text.len(), BYTES);
}

/// F35: a client that does not read is disconnected, whichever reader its request reached, and whether
/// its response is a document or a stream. So an edge that closes does not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_an_edge_that_closes_waits_for_no_client_that_does_not_read() {
    const BYTES: usize = 16 << 20;
    let edge = TestEdge::start(&demo_tables(), short_limits()).await;
    let session = edge.open_session().await;
    let mut connections = Vec::new();
    for body in [big(BYTES), format!("[{}]", big(BYTES))] {
        for before in [String::new(), edge.hyper_request()] {
            let mut stream = edge.connect().await;
            if !before.is_empty() {
                stream.write_all(before.as_bytes()).await.unwrap();
                until(&mut stream, b"\"}}").await;
            }
            let post = edge.post("/mcp", &session, &body);
            stream.write_all(post.as_bytes()).await.unwrap();
            // The response has begun.
            stream.read_u8().await.unwrap();
            connections.push(stream);
        }
    }
    let began = Instant::now();
    edge.edge.close().await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
}

/// The response takes so long that it is a stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_of_a_tasks_result_ends_with_its_response() {
    let edge = TestEdge::start(&demo_tables(), HttpLimits::default()).await;
    let lines = format!("{}Connection: close\r\n", edge.open_session().await);
    let errand = json!({
        "name": "mcp__demo__errand", "arguments": {"seconds": 3, "steps": 1}, "task": {},
    });
    let call = edge.post("/mcp", &lines, &request(1, "tools/call", errand));
    let created: Value = serde_json::from_str(&edge.send(&call).await[0].body).unwrap();
    let task = &created["result"]["task"]["taskId"];
    let wait = request(2, "tasks/result", json!({"taskId": task}));
    let ended = edge.send(&edge.post("/mcp", &lines, &wait)).await;
    assert_eq!(ended[0].headers["content-type"], "text/event-stream");
    assert!(ended[0].body.contains("\"id\":2"), "{}", ended[0].body);
}

fn demo_tables() -> String {
    "[permissions]\nallow = [\"*\"]\n".to_owned() + &demo("demo", "legacy", "")
}

/// A call whose result has so many bytes.
fn big(bytes: usize) -> String {
    let params = json!({"name": "mcp__demo__big", "arguments": {"bytes": bytes}});
    request(1, "tools/call", params)
}

/// T19: a client whose token was revoked gets no result any more, in either era.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t19_the_stream_of_a_call_ends_when_its_token_is_revoked() {
    let scratch = Scratch::new();
    let go = scratch.path("go");
    let steps = vec![
        Step::Progress(1.0),
        Step::WaitFile(go.clone()),
        Step::text("a secret"),
    ];
    let entry = Chaos::new().tool("t", steps).entry("s").render();
    let tables = format!("[permissions]\nallow = [\"*\"]\n{entry}");
    let edge = TestEdge::start(&tables, HttpLimits::default()).await;
    let session = edge.open_session().await;
    let call = |more: Value| {
        let mut params = json!({"name": "mcp__s__t", "_meta": {"progressToken": "p"}});
        for (key, value) in more.as_object().unwrap() {
            params["_meta"][key] = value.clone();
        }
        request(1, "tools/call", params)
    };
    let legacy = edge.post("/mcp", &session, &call(json!({})));
    let version = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let lines =
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: mcp__s__t\r\n";
    let modern = edge.post("/mcp", lines, &call(version));
    let mut streams = Vec::new();
    for call in [legacy, modern] {
        let mut stream = edge.connect().await;
        stream.write_all(call.as_bytes()).await.unwrap();
        // The first piece of a legacy stream has no message.
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains("notifications/progress") {
            assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
        }
        streams.push(stream);
    }
    let tokens = ClientTokens::new(&edge.scratch.path("state"));
    tokens.revoke("tester").unwrap();
    let ping = edge.post(
        "/mcp",
        "Connection: close\r\n",
        &request(1, "ping", json!({})),
    );
    while edge.send(&ping).await[0].status != 401 {}
    std::fs::write(go, "").unwrap();
    for mut stream in streams {
        let mut rest = String::new();
        let mut piece = [0; 4096];
        while !rest.ends_with("0\r\n\r\n") {
            let count = stream.read(&mut piece).await.unwrap();
            assert_ne!(count, 0, "{rest}");
            rest.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        assert!(!rest.contains("a secret"), "{rest}");
    }
}

/// The end of a session cancels also a call that has no stream yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_call_is_cancelled_when_its_session_is_deleted() {
    let approvals = Arc::new(ApprovalQueue::default());
    let entry = Chaos::new().tool("t", Step::text("ok")).entry("s").render();
    let edge = TestEdge::start_with_approvals(&entry, approvals.clone()).await;
    let session = edge.open_session().await;
    let lines = format!("{session}Connection: close\r\n");
    let call = request(1, "tools/call", json!({"name": "mcp__s__t"}));
    let mut stream = edge.connect().await;
    let call = edge.post("/mcp", &session, &call);
    stream.write_all(call.as_bytes()).await.unwrap();
    assert!(wait_until(PATIENCE, || !approvals.waiting().is_empty()));
    let delete = edge
        .get("/mcp", &edge.token, &lines)
        .replacen("GET", "DELETE", 1);
    assert_eq!(edge.send(&delete).await[0].status, 200);
    // Without a response to the call, there is no stream.
    let answer = until(&mut stream, b"\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 202"));
    assert!(approvals.waiting().is_empty());
}
