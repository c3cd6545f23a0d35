//! Streamable HTTP of 2026-07-28: every request by itself, its headers checked against its body.
#![allow(clippy::unwrap_used)]

mod web;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use switchboard_demo::http::{Answers, HttpOptions};
use switchboard_demo::options::Eras;
use web::{MODERN, Web, modern, request};

fn called(id: u64, tool: &str, arguments: Value) -> Value {
    modern(
        id,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
}

#[tokio::test]
async fn a_request_is_answered_by_itself_and_a_session_id_is_ignored() {
    for (eras, answers) in [(Eras::Both, Answers::Json), (Eras::Modern, Answers::Sse)] {
        let web = Web::with(
            eras,
            HttpOptions {
                answers,
                ..HttpOptions::default()
            },
        )
        .await;
        let reply = web
            .modern(
                &[("mcp-session-id", "whatever")],
                &called(1, "echo", json!({"message": "hi"})),
            )
            .await;
        assert_eq!((reply.status, reply.header("mcp-session-id")), (200, ""));
        match answers {
            Answers::Json => assert_eq!(reply.json()["result"]["content"][0]["text"], "hi"),
            Answers::Sse => {
                assert!(
                    reply.text.starts_with("event: message\ndata: {")
                        && reply.text.ends_with("}\n\n"),
                    "{reply:?}"
                )
            }
        }
    }
}

#[tokio::test]
async fn headers_and_body_must_agree() {
    let web = Web::start(HttpOptions::default()).await;
    let echo = called(1, "echo", json!({"message": "hi"}));
    let read = modern(1, "resources/read", json!({"uri": "demo://text"}));
    let route = called(
        1,
        "route",
        json!({"region": "zürich", "priority": 42, "express": null}),
    );
    let region = ("mcp-param-region", "=?base64?esO8cmljaA==?=");
    let priority = ("mcp-param-priority", "42.0");
    for (message, headers, status) in [
        (&echo, &[][..], 200),
        (&echo, &[("mcp-name", "=?base64?ZWNobw==?=")], 200),
        (&echo, &[("mcp-param-unknown", "x")], 200),
        (&echo, &[("mcp-protocol-version", "")], 400),
        (&echo, &[("mcp-protocol-version", "2025-11-25")], 400),
        (&echo, &[("mcp-method", "")], 400),
        (&echo, &[("mcp-method", "Tools/Call")], 400),
        (&echo, &[("mcp-name", "")], 400),
        (&echo, &[("mcp-name", "add")], 400),
        (&echo, &[("mcp-name", "=?base64?ZWNobw?=")], 400),
        (&read, &[], 200),
        (&read, &[("mcp-name", "demo://counter")], 400),
        (&route, &[region, priority], 200),
        (&route, &[region], 400),
        (&route, &[region, ("mcp-param-priority", "43")], 400),
        (&route, &[("mcp-param-region", "zurich"), priority], 400),
        (
            &route,
            &[region, priority, ("mcp-param-express", "true")],
            400,
        ),
    ] {
        let reply = web.modern(headers, message).await;
        let code = if status == 200 { 0 } else { -32020 };
        assert_eq!(
            reply.refusal(),
            (status, code, json!(1)),
            "{headers:?} {message}"
        );
    }
}

#[tokio::test]
async fn each_fault_has_its_status() {
    let web = Web::start(HttpOptions::default()).await;
    let mut old = called(1, "echo", json!({"message": "hi"}));
    old["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    let mut bare = called(1, "echo", json!({"message": "hi"}));
    bare["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN});
    for (message, headers, status, code) in [
        (
            old.clone(),
            &[("mcp-protocol-version", "2999-01-01")][..],
            400,
            -32022,
        ),
        (old, &[], 400, -32020),
        (bare, &[], 400, -32602),
        (request(json!(1), "tools/list", json!({})), &[], 400, -32602),
        (called(1, "ask_url", json!({})), &[], 400, -32021),
        (called(1, "no_such_tool", json!({})), &[], 200, -32602),
        (modern(1, "no/such", json!({})), &[], 404, -32601),
        (modern(1, "ping", json!({})), &[], 404, -32601),
        (
            modern(1, "initialize", json!({"protocolVersion": MODERN})),
            &[],
            404,
            -32601,
        ),
    ] {
        assert_eq!(
            web.modern(headers, &message).await.refusal(),
            (status, code, json!(1)),
            "{message}"
        );
    }
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/whatever"});
    assert_eq!(web.modern(&[], &notification).await.status, 202);
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    assert_eq!(
        web.modern(&[], &response).await.refusal(),
        (400, -32600, Value::Null)
    );
}

#[tokio::test]
async fn a_question_is_a_result_and_its_answer_another_request() {
    let web = Web::start(HttpOptions::default()).await;
    let mut message = called(1, "confirm", json!({"subject": "it"}));
    let asking = web.modern(&[], &message).await.json()["result"].clone();
    assert_eq!(asking["resultType"], "input_required");
    assert_eq!(
        asking["inputRequests"]["question_1"]["method"],
        "elicitation/create"
    );
    message["params"]["requestState"] = asking["requestState"].clone();
    message["params"]["inputResponses"] =
        json!({"question_1": {"action": "accept", "content": {"yes": true}}});
    let done = web.modern(&[], &message).await.json();
    assert_eq!(
        done["result"]["content"][0]["text"],
        "accepted: it would be erased now"
    );
}

#[tokio::test]
async fn progress_comes_before_the_answer_and_events_have_no_ids() {
    let web = Web::start(HttpOptions::default()).await;
    let mut message = called(1, "slow", json!({"seconds": 0.01, "steps": 1}));
    message["params"]["_meta"]["progressToken"] = json!("t");
    let mut events = web.modern_stream(&message).await;
    let (id, progress) = events.message().await;
    assert_eq!(
        (id, progress["params"]["progressToken"].as_str()),
        (None, Some("t"))
    );
    let (id, answer) = events.message().await;
    assert_eq!(
        (id, answer["result"]["resultType"].as_str()),
        (None, Some("complete"))
    );
    assert!(events.has_ended().await);
}

#[tokio::test]
async fn a_listener_gets_what_it_asked_for_and_a_result_when_the_server_stops() {
    let web = Web::start(HttpOptions::default()).await;
    let wanted = json!({"notifications": {"resourceSubscriptions": ["demo://counter"]}});
    let mut events = web
        .modern_stream(&modern(7, "subscriptions/listen", wanted))
        .await;
    let key = "io.modelcontextprotocol/subscriptionId";
    let (_, acknowledged) = events.message().await;
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    web.modern(&[], &called(8, "toggle_tool", json!({}))).await;
    web.modern(&[], &called(9, "count_up", json!({}))).await;
    let updated = json!({
        "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "demo://counter", "_meta": {key: 7}},
    });
    assert_eq!(events.message().await.1, updated);
    drop(web.edge);
    let (_, last) = events.message().await;
    assert_eq!(
        (&last["id"], &last["result"]["_meta"][key]),
        (&json!(7), &json!(7))
    );
    assert!(events.has_ended().await);
}

/// Uses the real program, which logs cancelled calls on stderr.
#[tokio::test]
async fn a_closed_stream_is_a_cancellation() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_switchboard-demo"))
        .args(["--http", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let line = |from: &mut dyn BufRead| {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let address = line(&mut BufReader::new(child.stdout.take().unwrap()));
    let web = Web::start(HttpOptions::default()).await;
    let message = called(3, "slow", json!({"seconds": 3000}));
    let headers = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "slow"),
    ];
    let response = web
        .send(
            reqwest::Method::POST,
            &format!("http://{address}/mcp"),
            &headers,
            Some(message.to_string()),
        )
        .await;
    assert_eq!(response.status(), 200);
    drop(response);
    let said = tokio::task::spawn_blocking({
        let stderr = child.stderr.take().unwrap();
        move || line(&mut BufReader::new(stderr))
    });
    let said = said.await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(said, "slow: call 3 cancelled: the connection ended");
}
