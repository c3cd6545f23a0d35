//! Requests of modern clients, which have no session.

use serde_json::{Value, json};
use switchboard_gateway::edge::http::HttpLimits;
use switchboard_testkit::{Chaos, Step};
use tokio::io::AsyncWriteExt;

use super::client::{TestEdge, request, until};
use super::support::{TestClient, all_capabilities, demo, gateway, stop};

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
