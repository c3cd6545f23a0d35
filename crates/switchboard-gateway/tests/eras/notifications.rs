use std::sync::Arc;

use serde_json::{Value, json};
use switchboard::{Approval, BoxFuture};
use switchboard_gateway::{
    Approvals, Gateway, GatewaySettings, HeldCall, ListingSettings, ToolListing,
};
use switchboard_testkit::{Chaos, Entry, Launch, Record, Scratch, Step, program, wait_until};

use super::support::{
    PATIENCE, TestClient, all_capabilities, client, demo, gateway, host, reload, stop,
};
use super::{ALLOW, COMBINATIONS, both};

const COMPLETE: &str = "notifications/elicitation/complete";

/// The server reports that a visit to its page is complete to the client that it sent there, and to
/// no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_that_was_sent_to_a_page_is_notified_that_the_visit_is_complete() {
    let scratch = Scratch::new();
    let gateway = both(&scratch, ALLOW).await;
    let mut other = TestClient::legacy(&gateway, "bob", all_capabilities()).await;
    let mut client = TestClient::legacy(&gateway, "ada", all_capabilities()).await;
    client.call(1, "mcp__old__ask_url", json!({})).await;
    let question = &client.questions.last().unwrap()["params"];
    let params = json!({"elicitationId": question["elicitationId"]});
    assert_eq!(client.notification(COMPLETE).await["params"], params);
    other.request(1, "ping", json!({})).await;
    let is_complete = |message: &Value| message["method"] == COMPLETE;
    assert!(!other.notifications.iter().any(is_complete));
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_visit_that_is_complete_after_its_call_is_notified_too() {
    let scratch = Scratch::new();
    let visited = scratch.path("visited");
    let page = r#"{"mode":"url","message":"hi","url":"https://example.com/x","elicitationId":"e"}"#;
    let server = Chaos::new().tool(
        "page",
        vec![
            Step::request("elicitation/create", Some(page)),
            Step::text("open"),
            Step::wait_file(&visited),
            Step::notify(COMPLETE, Some(r#"{"elicitationId":"e"}"#)),
        ],
    );
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", server.entry("s").render())).await;
    let mut client = TestClient::legacy(&gateway, "ada", all_capabilities()).await;
    assert_eq!(client.call(1, "mcp__s__page", json!({})).await, "open");
    // The call is over, also inside the gateway.
    client.request(2, "ping", json!({})).await;
    std::fs::write(&visited, "").unwrap();
    let complete = client.notification(COMPLETE).await;
    assert_eq!(complete["params"], json!({"elicitationId": "e"}));
    stop(gateway).await;
}

/// Calls the tool `log` until its message has come, because a server may get the level after the
/// first call.
async fn logged(client: &mut TestClient, server: &str, level: &str) -> Value {
    let mut params = json!({
        "name": format!("mcp__{server}__log"),
        "arguments": {"message": "hello", "level": level},
    });
    params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
    let called = async {
        loop {
            client.request(1, "tools/call", params.clone()).await;
            let is_log = |message: &Value| message["method"] == "notifications/message";
            if let Some(place) = client.notifications.iter().position(is_log) {
                return client.notifications.swap_remove(place)["params"].clone();
            }
        }
    };
    let logged = tokio::time::timeout(PATIENCE, called).await;
    logged.unwrap_or_else(|_| panic!("no message of {server}"))
}

/// The servers are started by the first call: a level that was set before then counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_messages_pass_in_all_four_combinations_also_from_servers_that_start_later() {
    for (is_modern, server) in COMBINATIONS {
        let scratch = Scratch::new();
        let lazy = |name, era| demo(name, era, "start = \"lazy\"");
        let servers = [lazy("old", "legacy"), lazy("new", "modern")].concat();
        let gateway = gateway(&scratch, &format!("{ALLOW}{servers}")).await;
        let mut client = client(&gateway, is_modern, "ada").await;
        if !is_modern {
            let set = client.request(1, "logging/setLevel", json!({"level": "debug"}));
            assert_eq!(set.await["result"], json!({}));
        }
        let logged = logged(&mut client, server, "debug").await;
        let expected = (json!("debug"), json!("demo"));
        let logged_as = (logged["level"].clone(), logged["logger"].clone());
        assert_eq!(logged_as, expected, "{is_modern} {server}: {logged}");
        stop(gateway).await;
    }
}

/// The levels that a legacy server with logging was asked for: the lowest that a connected client wants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_logs_from_the_lowest_level_that_a_connected_client_wants() {
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    let server = Chaos::new()
        .on("initialize", Step::result(r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#))
        .on("logging/setLevel", Step::result("{}"))
        .tool("t", Step::text("ok"))
        .record(record.clone());
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", server.entry("s").render())).await;
    let levels = || -> Vec<String> {
        let received = Record::read(&record).with_method("logging/setLevel");
        let params = received
            .iter()
            .map(|one| one.params.as_ref().unwrap().get());
        params.map(str::to_owned).collect()
    };
    let mut expected = Vec::new();
    let mut expect = |level: &str| {
        expected.push(format!(r#"{{"level":"{level}"}}"#));
        assert!(
            wait_until(PATIENCE, || levels() == expected),
            "{:?}",
            levels()
        );
    };
    let set = |level: &str| json!({"level": level});
    let mut calm = client(&gateway, false, "calm").await;
    calm.request(1, "logging/setLevel", set("error")).await;
    expect("error");
    let mut curious = client(&gateway, false, "curious").await;
    curious.request(1, "logging/setLevel", set("debug")).await;
    expect("debug");
    drop(curious);
    expect("error");
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_that_removes_the_last_server_removes_its_tools() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool("t", Step::text("ok"));
    let gateway = gateway(&scratch, &server.entry("s").render()).await;
    let mut client = TestClient::legacy(&gateway, "ada", json!({})).await;
    let listed = client.request(1, "tools/list", json!({})).await;
    assert_eq!(
        listed["result"]["tools"][0]["name"], "mcp__s__t",
        "{listed}"
    );
    reload(&gateway, &scratch, ALLOW).await;
    client
        .notification("notifications/tools/list_changed")
        .await;
    let listed = client.request(2, "tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"], json!([]), "{listed}");
    stop(gateway).await;
}

/// The client has listed nothing before: what it is notified of is measured from its first message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_list_is_notified_to_clients_that_have_listed_nothing() {
    const CHANGED: &str = "notifications/tools/list_changed";
    for is_modern in [false, true] {
        let scratch = Scratch::new();
        let changed = scratch.path("changed");
        let server = Chaos::new()
            .tool("old", Step::text("ok"))
            .on(
                "tools/list",
                Step::turns([
                    Step::result(r#"{"tools":[{"name":"old","inputSchema":{"type":"object"}}]}"#)
                        .into(),
                    Step::result(r#"{"tools":[{"name":"new","inputSchema":{"type":"object"}}]}"#)
                        .into(),
                ]),
            )
            .background(vec![Step::wait_file(&changed), Step::ListChanged(1)]);
        let gateway = gateway(&scratch, &format!("{ALLOW}{}", server.entry("s").render())).await;
        let mut client = client(&gateway, is_modern, "ada").await;
        if is_modern {
            client
                .send(json!({
                    "jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen",
                    "params": {
                        "notifications": {"toolsListChanged": true},
                        "_meta": {
                            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                            "io.modelcontextprotocol/clientCapabilities": {},
                        },
                    },
                }))
                .await;
            let acknowledged = "notifications/subscriptions/acknowledged";
            assert_eq!(client.next().await["method"], acknowledged);
        } else {
            client.request(1, "ping", json!({})).await;
        }
        std::fs::write(&changed, "").unwrap();
        client.notification(CHANGED).await;
        stop(gateway).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_that_removes_the_last_server_unlists_its_tools() {
    let scratch = Scratch::new();
    let servers = [demo("old", "legacy", ""), demo("new", "modern", "")];
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", servers.concat())).await;
    let mut client = client(&gateway, false, "ada").await;
    client.request(1, "tools/list", json!({})).await;
    for left in [&servers[..1], &[]] {
        reload(&gateway, &scratch, &format!("{ALLOW}{}", left.concat())).await;
        client
            .notification("notifications/tools/list_changed")
            .await;
        let tools = client.request(1, "tools/list", json!({})).await;
        let tools = tools["result"]["tools"].as_array().unwrap();
        assert_eq!(tools.is_empty(), left.is_empty(), "{tools:?}");
    }
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_of_reads_prompts_and_completions_reaches_the_client() {
    let scratch = Scratch::new();
    let progressing = |result: &str| vec![Step::Progress(1.0), Step::result(result)];
    let server = Chaos::new()
        .on("initialize", Step::result(r#"{"protocolVersion":"2025-11-25","capabilities":{"resources":{},"prompts":{},"completions":{}},"serverInfo":{"name":"s","version":"1"}}"#))
        .on("resources/list", Step::result(r#"{"resources":[{"uri":"r:a","name":"a"}]}"#))
        .on("resources/templates/list", Step::result(r#"{"resourceTemplates":[]}"#))
        .on("prompts/list", Step::result(r#"{"prompts":[{"name":"p"}]}"#))
        .on("resources/read", progressing(r#"{"contents":[]}"#))
        .on("prompts/get", progressing(r#"{"messages":[]}"#))
        .on("completion/complete", progressing(r#"{"completion":{"values":[]}}"#));
    let gateway = gateway(&scratch, &server.entry("s").render()).await;
    let mut client = client(&gateway, false, "ada").await;
    for (method, mut params) in [
        ("resources/read", json!({"uri": "r:a"})),
        ("prompts/get", json!({"name": "mcp__s__p"})),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/resource", "uri": "r:a"},
                "argument": {"name": "x", "value": ""},
            }),
        ),
    ] {
        params["_meta"] = json!({"progressToken": method});
        let answer = client.request(1, method, params).await;
        assert!(answer["result"].is_object(), "{answer}");
        let progress = client.notification("notifications/progress").await;
        assert_eq!(progress["params"]["progressToken"], method);
    }
    stop(gateway).await;
}

/// A server that crashes and does not come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_servers_tools_are_not_found_by_the_search() {
    let scratch = Scratch::new();
    let broken = scratch.path("broken");
    let shaky = Chaos::new()
        .tool("greet", Step::text("hello"))
        .tool("die", vec![Step::touch(&broken), Step::Exit(7)]);
    let script = format!("[ -e {} ] && exit 7; exec \"$0\" \"$@\"", broken.display());
    let chaosd = program("chaosd").display().to_string();
    let launch = Launch::new("/bin/sh").arg("-c").arg(script).arg(chaosd);
    let shaky = Entry::new("shaky", &launch.arg(shaky.json())).render();
    let steady = Chaos::new().tool("greet", Step::text("hello"));
    let steady = steady.entry("steady").render();
    let settings = GatewaySettings {
        listing: ListingSettings {
            tools: ToolListing::Search,
            ..ListingSettings::default()
        },
        lost_server_grace: std::time::Duration::ZERO,
        ..GatewaySettings::default()
    };
    let host = host(&scratch, &format!("{ALLOW}{shaky}{steady}")).await;
    let gateway = Gateway::new(host, settings);
    let mut client = client(&gateway, false, "ada").await;
    let query = || json!({"query": "greet", "detail": "names"});
    let found = client.call(1, "search_tools", query()).await;
    assert!(found.contains("mcp__shaky__greet"), "{found}");
    let die = json!({"name": "mcp__shaky__die"});
    let params = json!({"name": "call_tool", "arguments": die});
    client.request(2, "tools/call", params).await;
    let gone = async {
        loop {
            let found = client.call(3, "search_tools", query()).await;
            if !found.contains("shaky") {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(PATIENCE, gone).await.unwrap();
    assert!(found.contains("mcp__steady__greet"), "{found}");
    let listed = client.request(4, "tools/list", json!({})).await;
    let description = listed["result"]["tools"][0]["description"].as_str();
    assert!(!description.unwrap().contains("shaky"), "{listed}");
    stop(gateway).await;
}

/// Reports progress three times, then lets the call run.
struct SlowYes;

impl Approvals for SlowYes {
    fn approve<'a>(&'a self, call: &'a HeldCall<'a>) -> BoxFuture<'a, Approval> {
        (0..3).for_each(|_| (call.keep_alive)("waits"));
        Box::pin(async { Approval::Once })
    }
}

/// The specification requires it, and clients restart their timeouts only then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_progress_of_a_held_call_increases_with_each_notification() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool(
        "t",
        vec![Step::Progress(0.0), Step::Progress(1.0), Step::text("ok")],
    );
    let tables = format!(
        "[permissions]\nask = [\"*\"]\n{}",
        server.entry("s").render()
    );
    let settings = GatewaySettings {
        approvals: Arc::new(SlowYes),
        ..GatewaySettings::default()
    };
    let gateway = Gateway::new(host(&scratch, &tables).await, settings);
    let mut client = TestClient::legacy(&gateway, "ada", json!({})).await;
    let params = json!({"name": "mcp__s__t", "_meta": {"progressToken": 1}});
    let called = client.request(1, "tools/call", params).await;
    assert_eq!(called["result"]["content"][0]["text"], "ok", "{called}");
    let progress: Vec<f64> = (client.notifications.iter())
        .filter(|message| message["method"] == "notifications/progress")
        .map(|message| message["params"]["progress"].as_f64().unwrap())
        .collect();
    assert_eq!(progress, [0.001, 0.002, 0.003, 0.004, 1.0]);
    stop(gateway).await;
}
