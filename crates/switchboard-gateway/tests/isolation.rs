//! T21: what belongs to one client reaches no other.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::{all_capabilities, client, demo, gateway, stop};
use switchboard_gateway::audit::AuditLog;
use switchboard_gateway::{Gateway, Operations};
use switchboard_testkit::{Chaos, Scratch, Step};
use tokio::task::JoinSet;

use crate::support::TestClient;

const ALLOW: &str = "[permissions]\nallow = [\"*\"]\n";

const UPDATED: &str = "notifications/resources/updated";

/// The result of `initialize` of a server that logs and has resources.
const HELLO: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}"#;

/// How many calls all clients make together; `SWITCHBOARD_ISOLATION_CALLS` makes it more.
fn calls() -> usize {
    let wanted = std::env::var("SWITCHBOARD_ISOLATION_CALLS").ok();
    wanted
        .and_then(|wanted| wanted.parse().ok())
        .unwrap_or(4_000)
}

/// T21: 200 clients of both eras, all using id 0, on two servers: each gets its own answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t21_two_hundred_clients_with_the_same_id_get_their_own_answers() {
    const CLIENTS: usize = 200;
    let scratch = Scratch::new();
    let tables = format!(
        "{ALLOW}{}{}",
        demo("old", "legacy", ""),
        demo("new", "modern", "")
    );
    let gateway = gateway(&scratch, &tables).await;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let gateway = gateway.clone();
        clients.spawn(async move {
            // All under one principal: the connection alone tells them apart.
            let mut client = client(&gateway, number % 2 == 1, "same").await;
            for call in 0..calls() / CLIENTS {
                let nonce = format!("{number}-{call}");
                let tool = ["mcp__old__echo", "mcp__new__echo"][call % 2];
                let text = client.call(0, tool, json!({"message": nonce})).await;
                assert_eq!(text, nonce);
            }
            let is_own = |question: &Value| question["method"] == "roots/list";
            assert!(client.questions.iter().all(is_own), "nobody asks");
        });
    }
    clients.join_all().await;
    stop(gateway).await;
}

/// T21: 100 clients on one server that asks, in each combination of eras: each question comes to
/// the client whose call caused it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t21_each_question_of_a_server_reaches_the_client_that_caused_it() {
    for era in ["legacy", "modern"] {
        let scratch = Scratch::new();
        let more = "asks = \"yes\"\ncall_timeout = \"60s\"";
        let gateway = gateway(&scratch, &format!("{ALLOW}{}", demo("demo", era, more))).await;
        let mut clients = JoinSet::new();
        for number in 0..100 {
            let gateway = gateway.clone();
            clients.spawn(async move {
                let mut client = client(&gateway, number % 2 == 1, "same").await;
                let subject = format!("thing-{number}");
                let arguments = json!({"subject": subject});
                let text = client.call(0, "mcp__demo__confirm", arguments).await;
                assert_eq!(text, format!("accepted: {subject} would be erased now"));
                let elicitations: Vec<_> = (client.questions.iter())
                    .filter(|question| question["method"] == "elicitation/create")
                    .collect();
                assert_eq!(elicitations.len(), 1, "{elicitations:?}");
                let message = &elicitations[0]["params"]["message"];
                assert_eq!(message, &format!("Really erase {subject}?"));
            });
        }
        clients.join_all().await;
        stop(gateway).await;
    }
}

/// T21: a state that one client was given is refused from another, and from the same client with
/// another request; the call still waits for its own client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t21_a_state_of_another_client_or_request_is_refused() {
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", demo("demo", "legacy", ""))).await;
    let mut ada = TestClient::modern(&gateway, "ada", all_capabilities());
    let mut bob = TestClient::modern(&gateway, "bob", all_capabilities());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": all_capabilities(),
    });
    let confirm = |subject: &str| json!({"name": "mcp__demo__confirm", "arguments": {"subject": subject}, "_meta": meta});
    let request =
        |params| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    ada.send(request(confirm("it"))).await;
    let asked = ada.next().await["result"].clone();
    let retry = |subject: &str| {
        let mut params = confirm(subject);
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = json!({});
        for (key, question) in asked["inputRequests"].as_object().unwrap() {
            params["inputResponses"][key] = support::answer(question);
        }
        request(params)
    };
    bob.send(retry("it")).await;
    assert_eq!(bob.next().await["error"]["code"], -32602);
    ada.send(retry("something else")).await;
    assert_eq!(ada.next().await["error"]["code"], -32602);
    ada.send(retry("it")).await;
    let text = ada.next().await["result"]["content"][0]["text"].clone();
    assert_eq!(text, "accepted: it would be erased now");
    ada.send(retry("it")).await;
    assert_eq!(ada.next().await["error"]["code"], -32602, "it was used");
    stop(gateway).await;
}

/// T21: a legacy server may log after its response, and the message names no call. It comes to
/// nobody once two clients have used the server, whoever has a call in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t21_a_log_after_a_response_reaches_no_other_client() {
    for tool in ["mcp__logs__slow", "mcp__other__slow"] {
        let scratch = Scratch::new();
        let [log, started, release] = ["log", "started", "release"].map(|name| scratch.path(name));
        let message = r#"{"level":"error","data":"ada-nonce"}"#;
        let late = vec![
            Step::wait_file(&started),
            Step::text("hello"),
            Step::wait_file(&log),
            Step::notify("notifications/message", Some(message)),
            Step::notify(UPDATED, Some(r#"{"uri":"x://r"}"#)),
        ];
        let slow = vec![
            Step::touch(&started),
            Step::wait_file(&release),
            Step::text("done"),
        ];
        let logs = Chaos::new()
            .on("initialize", Step::result(HELLO))
            .on(
                "resources/list",
                Step::result(r#"{"resources":[{"uri":"x://r","name":"r"}]}"#),
            )
            .on("resources/subscribe", Step::result("{}"))
            .tool("late", late)
            .tool("slow", slow.clone());
        let other = Chaos::new().tool("slow", slow);
        let servers = [logs.entry("logs").render(), other.entry("other").render()].concat();
        let gateway = gateway(&scratch, &format!("{ALLOW}{servers}")).await;
        let mut ada = client(&gateway, false, "ada").await;
        let mut bob = TestClient::legacy(&gateway, "bob", json!({})).await;
        let subscribed = bob.request(1, "resources/subscribe", json!({"uri": "x://r"}));
        assert_eq!(subscribed.await["result"], json!({}));
        let late = json!({"name": "mcp__logs__late", "arguments": {}});
        ada.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": late}))
            .await;
        let params = json!({"name": tool, "arguments": {}});
        bob.send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}))
            .await;
        // Ada's call ends once Bob's is in flight.
        let answer = loop {
            let seen = ada.next().await;
            if seen["id"] == 1 {
                break seen;
            }
        };
        assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
        std::fs::write(&log, "").unwrap();
        // The server sent this after the log.
        let seen = bob.next().await;
        assert_eq!(seen["method"], UPDATED, "{tool}: {seen}");
        std::fs::write(&release, "").unwrap();
        let seen = bob.next().await;
        assert_eq!(
            seen["result"]["content"][0]["text"], "done",
            "{tool}: {seen}"
        );
        stop(gateway).await;
    }
}

/// T21: a second `_meta` could carry the progress token of another client's call to the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t21_a_call_with_two_members_of_one_name_is_refused_and_does_not_run() {
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", demo("demo", "legacy", ""))).await;
    let mut client = TestClient::legacy(&gateway, "ada", json!({})).await;
    let params = r#"{"name":"mcp__demo__echo","_meta":{},"_meta":{"progressToken":1},"arguments":{"message":"hi"}}"#;
    let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    client.send_raw(&request).await;
    let expected = json!({"jsonrpc": "2.0", "id": 1, "error": {
        "code": -32602, "message": "params must not have two members of one name",
    }});
    assert_eq!(client.next().await, expected);
    stop(gateway).await;
}

/// T21, T36: a question is answered by the client that was asked, under the id that it was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t21_t36_a_question_is_answered_by_no_other_client_and_under_no_other_id() {
    let scratch = Scratch::new();
    let tables = format!("{ALLOW}{}", demo("demo", "legacy", "asks = \"yes\""));
    let host = support::host(&scratch, &tables).await;
    let operations = Operations::new(host.clone(), AuditLog::in_memory(), Vec::new());
    let gateway = Gateway::new(host, operations.settings());
    let answer = |id: &str, result: &Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    // Another client of the same principal and one of another, then the one that is asked last.
    let mut ids = Vec::new();
    for name in ["same", "other", "same"] {
        let capabilities = json!({"elicitation": {"form": {}}});
        let mut client = TestClient::legacy(&gateway, name, capabilities).await;
        let params = json!({"name": "mcp__demo__confirm", "arguments": {"subject": name}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        client.send(call).await;
        let question = client.next().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let id = question["id"].as_str().unwrap().to_owned();
        let accepted = support::answer(&question);
        if ids.len() < 2 {
            client.send(answer(&id, &accepted)).await;
            let response = client.next().await;
            assert!(response.to_string().contains("accepted"), "{response}");
            ids.push(id);
            continue;
        }
        let altered = id.replace("v1", "v2");
        let foreign = [&*ids[0], &*ids[1], &*altered, "switchboard-0", "0"];
        for id in foreign {
            client.send(answer(id, &accepted)).await;
        }
        client
            .send(answer(&id, &json!({"action": "decline"})))
            .await;
        let response = client.next().await;
        assert!(!response.to_string().contains("accepted"), "{response}");
        let refusals = operations.audit().recent(99);
        let is_refusal = |line: &&String| line.contains("\"unknown_question\"");
        assert_eq!(refusals.iter().filter(is_refusal).count(), foreign.len());
    }
    stop(gateway).await;
}
