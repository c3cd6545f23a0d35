//! Requests of modern clients, which have no session.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_gateway::ApprovalQueue;
use switchboard_gateway::edge::http::HttpLimits;
use switchboard_testkit::{Chaos, Record, Scratch, Step, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::client::{TestEdge, request, until};
use super::support::{PATIENCE, TestClient, all_capabilities, demo, gateway, stop};

const ALLOW: &str = "[permissions]\nallow = [\"*\"]\n";

/// The lines and the body of a modern call.
fn call(id: u64, tool: &str) -> (String, String) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = request(id, "tools/call", json!({"name": tool, "_meta": meta}));
    let lines = format!(
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n\
         Connection: close\r\n"
    );
    (lines, body)
}

/// Their headers are compared with their body only in a POST of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modern_requests_are_refused_in_a_session() {
    let edge = TestEdge::start("", HttpLimits::default()).await;
    let lines = format!("{}Connection: close\r\n", edge.open_session().await);
    let (_, body) = call(1, "t");
    let response = edge
        .send(&edge.post("/mcp", &lines, &format!("[{body}]")))
        .await;
    assert!(response[0].body.contains("\"code\":-32600"), "{response:?}");

    let mut stream = edge.connect().await;
    let open = edge.get("/sse", &edge.token, "");
    stream.write_all(open.as_bytes()).await.unwrap();
    let endpoint = String::from_utf8(until(&mut stream, b"\n\n\r\n").await).unwrap();
    let path = endpoint
        .lines()
        .find_map(|line| line.strip_prefix("data: "));
    let post = edge.post(path.unwrap(), "Connection: close\r\n", &body);
    assert_eq!(edge.send(&post).await[0].status, 202);
    let event = String::from_utf8(until(&mut stream, b"\n\n\r\n").await).unwrap();
    assert!(event.contains("\"code\":-32600"), "{event}");
}

/// Each request is a client of its own, but no server process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_client_without_a_session_share_the_callers_own_server_process() {
    let server = Chaos::new().tool("inspect", Step::Inspect);
    let entry = server.entry("s").set("session", "per-caller").render();
    let tables = format!("[permissions]\nallow = [\"*\"]\n{entry}");
    let edge = TestEdge::start(&tables, HttpLimits::default()).await;
    let mut processes = Vec::new();
    for id in 1..=2 {
        let (lines, body) = call(id, "mcp__s__inspect");
        let response = edge.send(&edge.post("/mcp", &lines, &body)).await;
        let response: Value = serde_json::from_str(&response[0].body).unwrap();
        let text = response["result"]["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{response}"));
        let inspected: Value = serde_json::from_str(text).unwrap();
        processes.push(inspected["pid"].clone());
    }
    assert_eq!(processes[0], processes[1]);
}

/// Each request is a client of its own, but a legacy server is not asked for two levels because of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_level_of_modern_requests_is_asked_for_once() {
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    let server = Chaos::new()
        .on("initialize", Step::result(r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#))
        .on("logging/setLevel", Step::result("{}"))
        .tool("t", Step::text("ok"))
        .record(&record);
    let tables = format!("{ALLOW}{}", server.entry("s").render());
    let edge = TestEdge::start(&tables, HttpLimits::default()).await;
    let session = edge.open_session().await;
    let set = request(1, "logging/setLevel", json!({"level": "error"}));
    let set = edge.post("/mcp", &format!("{session}Connection: close\r\n"), &set);
    assert_eq!(edge.send(&set).await[0].status, 200);
    let levels = || Record::read(&record).with_method("logging/setLevel").len();
    assert!(wait_until(PATIENCE, || levels() == 1));
    for id in 1..=3 {
        let (lines, body) = call(id, "mcp__s__t");
        let level =
            "\"io.modelcontextprotocol/logLevel\":\"debug\",\"io.modelcontextprotocol/protocolV";
        let body = body.replace("\"io.modelcontextprotocol/protocolV", level);
        let response = edge.send(&edge.post("/mcp", &lines, &body)).await;
        assert_eq!(response[0].status, 200, "{response:?}");
        assert!(wait_until(PATIENCE, || levels() == 2));
    }
    let calls = Record::read(&record).with_method("tools/call").len();
    assert_eq!((calls, levels()), (3, 2));
}

/// A gateway that stops asks nobody any more. The second call has a stream already, because its client
/// gets progress; the third is served by hyper.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_call_is_denied_at_once_when_the_edge_closes() {
    let server = Chaos::new().tool("t", Step::text("ok"));
    let approvals = Arc::new(ApprovalQueue::default());
    let edge = TestEdge::start_with_approvals(&server.entry("s").render(), approvals.clone()).await;
    let mut streams = Vec::new();
    for (id, meta, before) in [
        (1, "", String::new()),
        (2, "\"_meta\":{\"progressToken\":\"p\",", String::new()),
        (3, "", edge.hyper_request()),
    ] {
        let (lines, mut body) = call(id, "mcp__s__t");
        if !meta.is_empty() {
            body = body.replace("\"_meta\":{", meta);
        }
        // Each call has other arguments, so that each has an approval of its own.
        body = body.replacen(
            "\"params\":{",
            &format!("\"params\":{{\"arguments\":{{\"n\":{id}}},"),
            1,
        );
        let mut stream = edge.connect().await;
        let request = before + &edge.post("/mcp", &lines, &body);
        stream.write_all(request.as_bytes()).await.unwrap();
        let is_waiting = || approvals.waiting().len() == streams.len() + 1;
        assert!(wait_until(PATIENCE, is_waiting), "call {id}");
        streams.push(stream);
    }
    until(&mut streams[1], b"\n\n\r\n").await;
    // Much less than calls may take.
    let closed = timeout(Duration::from_secs(5), edge.edge.close()).await;
    assert!(closed.is_ok(), "the edge waits for an approval");
    for mut stream in streams {
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.contains("the gateway is stopping"), "{response}");
    }
}

/// The state of the second gateway's call passes through the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_client_answers_a_question_through_two_gateways() {
    let tables = format!("{ALLOW}{}", demo("demo", "legacy", ""));
    let second = TestEdge::start(&tables, HttpLimits::default()).await;
    let (address, token) = (second.edge.address(), &second.token);
    let entry = format!(
        "[servers.up]\nurl = \"http://{address}/mcp/demo\"\nheaders = {{ Authorization = \"Bearer {token}\" }}\n"
    );
    let first = gateway(&second.scratch, &format!("{ALLOW}{entry}")).await;
    let mut client = TestClient::modern(&first, "ada", all_capabilities());
    let text = client.call(1, "mcp__up__ask_twice", json!({})).await;
    assert_eq!(text, "pleased to meet you, Ada");
    stop(first).await;
}
