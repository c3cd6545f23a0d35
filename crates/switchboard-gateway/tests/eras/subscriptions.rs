use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_gateway::audit::AuditLog;
use switchboard_gateway::{Gateway, GatewaySettings, Operations};
use switchboard_testkit::{Chaos, Record, Scratch, Step, Steps, wait_until};

use super::ALLOW;
use super::support::{PATIENCE, TestClient, gateway, host, reload, stop};

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

const UPDATED: &str = "notifications/resources/updated";

const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}"#;

/// A server with resources to subscribe to.
fn server(record: &Path) -> Chaos {
    Chaos::new()
        .tool("t", Step::text("ok"))
        .on("initialize", Step::result(INITIALIZE))
        .on("resources/list", Step::result(r#"{"resources":[]}"#))
        .on(
            "resources/templates/list",
            Step::result(r#"{"resourceTemplates":[]}"#),
        )
        .on("resources/subscribe", Step::result("{}"))
        .on("resources/unsubscribe", Step::result("{}"))
        .record(record)
}

/// Answers once the file is there.
fn answer_after(file: &Path, result: &str) -> Steps {
    vec![Step::wait_file(file), Step::result(result)].into()
}

async fn gateway_of(scratch: &Scratch, server: &Chaos, more: &str) -> Gateway {
    let entry = server.entry("s").render();
    gateway(scratch, &format!("{ALLOW}{entry}{more}")).await
}

/// The URIs that the server has a subscription to, as of the messages that it received.
fn subscribed(record: &Path) -> Vec<String> {
    let mut uris = BTreeSet::new();
    for message in Record::read(record).messages() {
        let params = message.params.as_ref().map(|params| params.get());
        let params: Value = serde_json::from_str(params.unwrap_or("{}")).unwrap();
        let uri = params["uri"].as_str().unwrap_or_default().to_owned();
        match message.method.as_deref() {
            Some("resources/subscribe") => drop(uris.insert(uri)),
            Some("resources/unsubscribe") => drop(uris.remove(&uri)),
            _ => {}
        }
    }
    uris.into_iter().collect()
}

/// Opens `subscriptions/listen`; the URIs that are acknowledged.
async fn listen(client: &mut TestClient, id: u64, uris: &[&str]) -> Value {
    let request = json!({
        "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
        "params": {
            "notifications": {"resourceSubscriptions": uris},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    client.send(request).await;
    let acknowledged = client.notification(ACKNOWLEDGED).await;
    acknowledged["params"]["notifications"]["resourceSubscriptions"].clone()
}

async fn cancel(client: &mut TestClient, id: u64) {
    let params = json!({"requestId": id});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    client.send(message).await;
}

/// Waits until a cancelled listener has ended: its id can be used again. What a client is sent with
/// this id are the errors of these requests, and nothing else.
async fn until_ended(client: &mut TestClient, id: u64) {
    const METHOD_NOT_FOUND: i64 = -32601;
    const INVALID_REQUEST: i64 = -32600;
    loop {
        let response = client.request(id, "test/unknown", json!({})).await;
        match response["error"]["code"].as_i64() {
            Some(METHOD_NOT_FOUND) => return,
            Some(INVALID_REQUEST) => {}
            _ => panic!("{response}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_listener_is_sent_nothing_more() {
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, "").await;
    let mut client = TestClient::modern(&gateway, "ada", json!({}));
    listen(&mut client, 1, &[]).await;
    cancel(&mut client, 1).await;
    until_ended(&mut client, 1).await;
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_continue_at_a_server_that_a_reload_replaces() {
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    let server = server(&record);
    let gateway = gateway_of(&scratch, &server, "").await;
    let mut legacy = TestClient::legacy(&gateway, "ada", json!({})).await;
    let params = json!({"uri": "r:a"});
    legacy.request(1, "resources/subscribe", params).await;
    let mut modern = TestClient::modern(&gateway, "bob", json!({}));
    assert_eq!(listen(&mut modern, 1, &["r:b"]).await, json!(["r:b"]));
    let changed = server.entry("s").env("CHANGED", "1").render();
    reload(&gateway, &scratch, &format!("{ALLOW}{changed}")).await;
    let renewed = || Record::read(&record).count("resources/subscribe") == 4;
    assert!(wait_until(PATIENCE, renewed));
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_subscription_is_a_line_of_the_audit_log() {
    let scratch = Scratch::new();
    let entry = server(&scratch.path("seen")).entry("s").render();
    let host = host(&scratch, &format!("{ALLOW}{entry}")).await;
    let operations = Operations::new(host.clone(), AuditLog::in_memory(), Vec::new());
    let gateway = Gateway::new(host, operations.settings());
    let mut legacy = TestClient::legacy(&gateway, "ada", json!({})).await;
    let params = json!({"uri": "r:a"});
    legacy.request(1, "resources/subscribe", params).await;
    let mut modern = TestClient::modern(&gateway, "bob", json!({}));
    listen(&mut modern, 1, &["r:b"]).await;
    let lines = operations.audit().recent(9);
    let lines = lines.iter().rev().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        ["client", "method", "server", "name", "outcome"].map(|key| line[key].clone())
    });
    let expected = [
        ["ada", "resources/subscribe", "s", "r:a", "answered"],
        ["bob", "subscriptions/listen", "s", "r:b", "answered"],
    ];
    assert_eq!(
        lines.collect::<Vec<_>>(),
        expected.map(|line| line.map(Value::from))
    );
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_subscription_is_in_the_audit_log_and_not_among_the_requests_of_clients() {
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    let server = server(&record).on(
        "resources/subscribe",
        answer_after(&scratch.path("never"), "{}"),
    );
    let entry = server.entry("s").render();
    let host = host(&scratch, &format!("{ALLOW}{entry}")).await;
    let operations = Operations::new(host.clone(), AuditLog::in_memory(), Vec::new());
    let gateway = Gateway::new(host, operations.settings());
    let mut client = TestClient::legacy(&gateway, "ada", json!({})).await;
    let params = json!({"uri": "r:a"});
    let method = "resources/subscribe";
    client
        .send(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        .await;
    let is_sent = || Record::read(&record).count(method) == 1;
    assert!(wait_until(PATIENCE, is_sent));
    cancel(&mut client, 1).await;
    until_ended(&mut client, 1).await;
    let line: Value = serde_json::from_str(&operations.audit().recent(1)[0]).unwrap();
    assert_eq!(
        [&line["method"], &line["name"], &line["outcome"]],
        [method, "r:a", "cancelled"]
    );
    let metrics = operations.metrics().text();
    assert!(!metrics.contains(method), "{metrics}");
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_gets_its_result_when_the_gateway_disconnects_its_clients() {
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, "").await;
    let mut client = TestClient::modern(&gateway, "ada", json!({}));
    listen(&mut client, 1, &[]).await;
    stop(gateway).await;
    let response = client.next_raw_response().await;
    assert!(response.contains("\"result\""), "{response}");
}

/// The end of the server that was replaced comes after the reload, and its successor waits for a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_of_a_lazy_server_stay_listed_after_a_reload_that_replaces_it() {
    let lazy = Chaos::new().tool("t", Step::text("ok"));
    let lazy = lazy.entry("lazy").set("start", "lazy");
    let update = Step::notify(UPDATED, Some(r#"{"uri":"r:a"}"#));
    let resources = r#"{"resources":[{"uri":"r:a","name":"a"}]}"#;
    let other = server(Path::new("/dev/null"))
        .on("resources/list", Step::result(resources))
        .tool("update", vec![update, Step::text("ok")]);
    let other = format!("{ALLOW}{}", other.entry("other").render());
    let scratch = Scratch::new();
    let settings = GatewaySettings {
        lost_server_grace: Duration::ZERO,
        ..GatewaySettings::default()
    };
    let host = host(&scratch, &format!("{other}{}", lazy.render())).await;
    let gateway = Gateway::new(host, settings);
    let mut client = TestClient::modern(&gateway, "ada", json!({}));
    assert_eq!(client.call(1, "mcp__lazy__t", json!({})).await, "ok");
    listen(&mut client, 2, &["r:a"]).await;
    let replaced = gateway.host().server("lazy").unwrap();
    let changed = lazy.set("asks", "no").render();
    reload(&gateway, &scratch, &format!("{other}{changed}")).await;
    // Its last event is sent before it has ended, and events are handled in order.
    replaced.stop().await;
    client.call(3, "mcp__other__update", json!({})).await;
    client.notification(UPDATED).await;
    let listed = client.request(4, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(
        tools.iter().any(|tool| tool["name"] == "mcp__lazy__t"),
        "{listed}"
    );
    stop(gateway).await;
}

/// The server names a part of a resource: a client that is subscribed to the whole is notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_of_a_part_of_a_resource_reaches_the_subscribers_of_the_whole() {
    let scratch = Scratch::new();
    let update = Step::notify(UPDATED, Some(r#"{"uri":"r:a/part"}"#));
    let server = server(&scratch.path("seen")).tool("update", vec![update, Step::text("ok")]);
    let gateway = gateway_of(&scratch, &server, "").await;
    let mut legacy = TestClient::legacy(&gateway, "ada", json!({})).await;
    let params = json!({"uri": "r:a"});
    legacy.request(1, "resources/subscribe", params).await;
    let mut modern = TestClient::modern(&gateway, "bob", json!({}));
    listen(&mut modern, 1, &["r:a"]).await;
    let mut other = TestClient::legacy(&gateway, "eve", json!({})).await;
    let params = json!({"uri": "r:b"});
    other.request(1, "resources/subscribe", params).await;
    legacy.call(2, "mcp__s__update", json!({})).await;
    for client in [&mut legacy, &mut modern] {
        let updated = client.notification(UPDATED).await;
        assert_eq!(updated["params"]["uri"], "r:a/part", "{updated}");
    }
    other.request(2, "ping", json!({})).await;
    assert_eq!(other.notifications, [json!(null); 0]);
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_client_that_declares_tasks_may_listen_for_them() {
    const TASKS: &str = "io.modelcontextprotocol/tasks";
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, "").await;
    let params = json!({"notifications": {"taskIds": ["t"]}});
    let mut plain = TestClient::modern(&gateway, "ada", json!({}));
    let refused = plain.request(1, "subscriptions/listen", params.clone());
    let error = refused.await["error"].clone();
    assert_eq!(error["code"], -32021, "{error}");
    let required = json!({"extensions": {TASKS: {}}});
    assert_eq!(error["data"]["requiredCapabilities"], required);
    let declared = json!({"extensions": {TASKS: {}}});
    let mut declaring = TestClient::modern(&gateway, "ada", declared.clone());
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": declared,
    });
    let request =
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    declaring.send(request).await;
    let acknowledged = declaring.notification(ACKNOWLEDGED).await;
    assert_eq!(acknowledged["params"]["notifications"], json!({}));
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_opened_while_another_ends_stays_subscribed() {
    let scratch = Scratch::new();
    let (record, ready) = (scratch.path("seen"), scratch.path("ready"));
    let server = server(&record).on("resources/unsubscribe", answer_after(&ready, "{}"));
    let gateway = gateway_of(&scratch, &server, "").await;
    let mut client = TestClient::modern(&gateway, "ada", json!({}));
    assert_eq!(
        listen(&mut client, 1, &["r:a", "r:b"]).await,
        json!(["r:a", "r:b"])
    );
    cancel(&mut client, 1).await;
    let unsubscribes = || Record::read(&record).count("resources/unsubscribe") == 1;
    assert!(wait_until(PATIENCE, unsubscribes));
    assert_eq!(
        listen(&mut client, 2, &["r:a", "r:b"]).await,
        json!(["r:a", "r:b"])
    );
    std::fs::write(&ready, "").unwrap();
    // The server gets one message after the other, so this is the last.
    assert_eq!(listen(&mut client, 3, &["r:c"]).await, json!(["r:c"]));
    assert_eq!(subscribed(&record), ["r:a", "r:b", "r:c"]);
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_subscription_leaves_none_at_the_server() {
    let scratch = Scratch::new();
    let (record, ready) = (scratch.path("seen"), scratch.path("ready"));
    let server = server(&record).on("resources/subscribe", answer_after(&ready, "{}"));
    let gateway = gateway_of(&scratch, &server, "").await;
    let mut client = TestClient::legacy(&gateway, "ada", json!({})).await;
    let params = json!({"uri": "r:a"});
    let request =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": params});
    client.send(request).await;
    let arrived = || Record::read(&record).count("resources/subscribe") == 1;
    assert!(wait_until(PATIENCE, arrived));
    cancel(&mut client, 1).await;
    client.request(2, "ping", json!({})).await;
    std::fs::write(&ready, "").unwrap();
    assert!(wait_until(PATIENCE, || subscribed(&record).is_empty()));
    stop(gateway).await;
}

/// The server never connects until it is told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_does_not_wait_for_a_server_that_is_not_connected() {
    let scratch = Scratch::new();
    let (record, ready) = (scratch.path("seen"), scratch.path("ready"));
    let server = server(&record).on("initialize", answer_after(&ready, INITIALIZE));
    let gateway = gateway_of(&scratch, &server, "start = \"lazy\"\n").await;
    let mut client = TestClient::modern(&gateway, "ada", json!({}));
    assert_eq!(listen(&mut client, 1, &["r:a"]).await, json!(["r:a"]));
    assert_eq!(listen(&mut client, 2, &["r:b"]).await, json!(["r:b"]));
    assert!(
        !ready.exists(),
        "both were acknowledged before the server connected"
    );
    // A subscription that ends before then is not made.
    cancel(&mut client, 1).await;
    until_ended(&mut client, 1).await;
    std::fs::write(&ready, "").unwrap();
    assert!(wait_until(PATIENCE, || subscribed(&record) == ["r:b"]));
    assert_eq!(Record::read(&record).count("resources/subscribe"), 1);
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_cannot_use_up_the_subscriptions_of_a_server() {
    let scratch = Scratch::new();
    let server = server(&scratch.path("seen"));
    let gateway = gateway_of(&scratch, &server, "").await;
    let mut greedy = TestClient::modern(&gateway, "ada", json!({}));
    let uris: Vec<String> = (0..300).map(|number| format!("r:{number}")).collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    let accepted = listen(&mut greedy, 1, &uris).await;
    assert_eq!(accepted.as_array().unwrap().len(), 256);
    let mut other = TestClient::modern(&gateway, "bob", json!({}));
    assert_eq!(listen(&mut other, 1, &["r:last"]).await, json!(["r:last"]));
    stop(gateway).await;
}
