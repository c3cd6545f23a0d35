//! Both eras of clients with both eras of servers: what works directly works through the gateway.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

/// Answers of clients to the questions of servers.
#[path = "eras/answers.rs"]
mod answers;
/// Notifications to clients.
#[path = "eras/notifications.rs"]
mod notifications;
/// Subscriptions to resources.
#[path = "eras/subscriptions.rs"]
mod subscriptions;

use serde_json::{Value, json};
use support::{PATIENCE, TestClient, all_capabilities, client, demo, gateway, stop};
use switchboard::caller::{CallerId, Root};
use switchboard_gateway::audit::AuditLog;
use switchboard_gateway::{Gateway, GatewaySettings, ListingSettings, Operations, ToolListing};
use switchboard_testkit::script::Era as ServerEra;
use switchboard_testkit::{Chaos, Record, Scratch, Step};

const ALLOW: &str = "[permissions]\nallow = [\"*\"]\n";

async fn both(scratch: &Scratch, rules: &str) -> Gateway {
    let servers = [demo("old", "legacy", ""), demo("new", "modern", "")].concat();
    gateway(scratch, &format!("{rules}{servers}")).await
}

/// Every combination, as (client is modern, server's name).
const COMBINATIONS: [(bool, &str); 4] =
    [(false, "old"), (false, "new"), (true, "old"), (true, "new")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_prompts_resources_and_completions_work_in_all_four_combinations() {
    let scratch = Scratch::new();
    let gateway = both(&scratch, ALLOW).await;
    for (is_modern, server) in COMBINATIONS {
        let mut client = client(&gateway, is_modern, "ada").await;
        let tools = client.request(1, "tools/list", json!({})).await;
        let tools = tools["result"]["tools"].as_array().unwrap().clone();
        let echo = format!("mcp__{server}__echo");
        assert!(tools.iter().any(|tool| tool["name"] == *echo), "{tools:?}");
        assert_eq!(
            client.call(2, &echo, json!({"message": "é\u{2028}"})).await,
            "é\u{2028}"
        );

        let params = json!({
            "name": format!("mcp__{server}__review"),
            "arguments": {"language": "rust"},
        });
        let prompt = client.request(3, "prompts/get", params).await;
        assert_eq!(prompt["result"]["messages"][0]["role"], "user", "{prompt}");

        let read = client
            .request(4, "resources/read", json!({"uri": "demo://greeting/Ada"}))
            .await;
        assert_eq!(
            read["result"]["contents"][0]["text"], "Hello, Ada!",
            "{read}"
        );

        let params = json!({
            "ref": {"type": "ref/prompt", "name": format!("mcp__{server}__review")},
            "argument": {"name": "language", "value": "ru"},
        });
        let completion = client.request(5, "completion/complete", params).await;
        let values = &completion["result"]["completion"]["values"];
        assert_eq!(values, &json!(["ruby", "rust"]), "{completion}");
    }
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_logs_and_questions_reach_the_client_in_all_four_combinations() {
    let scratch = Scratch::new();
    let gateway = both(&scratch, ALLOW).await;
    for (is_modern, server) in COMBINATIONS {
        let mut client = client(&gateway, is_modern, "ada").await;
        let params = json!({
            "name": format!("mcp__{server}__slow"),
            "arguments": {"seconds": 0.1, "steps": 2},
            "_meta": {"progressToken": "p1"},
        });
        client.request(1, "tools/call", params).await;
        let progress: Vec<_> = (client.notifications.iter())
            .filter(|message| message["method"] == "notifications/progress")
            .map(|message| {
                (
                    &message["params"]["progressToken"],
                    &message["params"]["progress"],
                )
            })
            .collect();
        let token = json!("p1");
        assert_eq!(progress, [(&token, &json!(1)), (&token, &json!(2))]);

        let name = format!("mcp__{server}__ask_twice");
        assert_eq!(
            client.call(2, &name, json!({})).await,
            "pleased to meet you, Ada"
        );
        let name = format!("mcp__{server}__ask_model");
        assert_eq!(client.call(3, &name, json!({})).await, "m said: kind");
    }
    stop(gateway).await;
}

/// A server that asks for folders during a call gets those of the client that calls, though others
/// are connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roots_are_those_of_the_client_that_calls_in_all_four_combinations() {
    let scratch = Scratch::new();
    let gateway = both(&scratch, ALLOW).await;
    let _other = TestClient::legacy(&gateway, "bob", json!({})).await;
    for (is_modern, server) in COMBINATIONS {
        let mut client = client(&gateway, is_modern, "ada").await;
        let text = client
            .call(1, &format!("mcp__{server}__ask_roots"), json!({}))
            .await;
        assert!(
            text.contains("file:///work"),
            "{is_modern} {server}: {text}"
        );
    }
    stop(gateway).await;
}

/// T21: outside of a call a server gets the roots of the only client, and none while there are
/// several, or none is connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t21_the_roots_of_one_client_are_not_those_of_another() {
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    let server = Chaos::new()
        .era(ServerEra::Legacy)
        .tool("any", Step::text("hi"))
        .on(
            "notifications/roots/list_changed",
            Step::request("roots/list", None),
        )
        .record(&record);
    let gateway = gateway(&scratch, &server.entry("chaos").render()).await;
    // The roots that the server was given, one answer after the other.
    let given = || -> Vec<usize> {
        let results = Record::read(&record).messages().into_iter();
        let results = results.filter_map(|message| message.result);
        let roots = results.filter_map(|result| {
            let result: Value = serde_json::from_str(result.get()).ok()?;
            Some(result["roots"].as_array()?.len())
        });
        roots.collect()
    };
    let until_given = async |expected: &[usize]| {
        let waiting = async {
            while given() != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        let received = Record::read(&record).methods();
        assert!(
            waited.is_ok(),
            "{:?}, expected {expected:?}: {received:?}",
            given()
        );
    };
    let ada = answering_roots(&gateway, "ada").await;
    until_given(&[1]).await;
    let bob = TestClient::legacy(&gateway, "bob", json!({})).await;
    until_given(&[1, 0]).await;
    drop(bob);
    until_given(&[1, 0, 1]).await;
    drop(ada);
    until_given(&[1, 0, 1, 0]).await;
    stop(gateway).await;
}

/// T21, T32: a client that has no roots gets those of the gateway itself, and not those of the only
/// client that has some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t21_t32_a_call_of_a_client_without_roots_gets_no_roots_of_another() {
    let scratch = Scratch::new();
    let gateway = both(&scratch, ALLOW).await;
    let _ada = answering_roots(&gateway, "ada").await;
    let mut bob = TestClient::modern(&gateway, "bob", json!({}));
    // A modern server is told that there are no roots, and asks for none.
    for (own, expected) in [
        (Vec::new(), ("0 roots", "-32021")),
        (vec!["file:///own"], ("file:///own", "file:///own")),
    ] {
        let root = |uri: &&str| Root {
            uri: (*uri).to_owned(),
            name: None,
        };
        gateway.host().set_roots(own.iter().map(root).collect());
        gateway
            .host()
            .set_roots_outside_calls(Some((CallerId::new("ada"), vec![root(&"file:///work")])));
        for (server, expected) in [("old", expected.0), ("new", expected.1)] {
            let params = json!({"name": format!("mcp__{server}__ask_roots"), "arguments": {}});
            let response = bob.request(1, "tools/call", params).await.to_string();
            assert!(response.contains(expected), "{server}: {response}");
        }
    }
    stop(gateway).await;
}

/// A legacy client that has listed its roots.
async fn answering_roots(gateway: &Gateway, name: &str) -> TestClient {
    let mut client = TestClient::legacy(gateway, name, all_capabilities()).await;
    let question = client.next().await;
    let result = support::answer(&question);
    let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    client.send(response).await;
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_call_of_a_server_that_is_down_is_recorded_with_the_server() {
    let scratch = Scratch::new();
    let tables = format!("{ALLOW}[servers.dead]\ncommand = \"false\"\n");
    let host = support::host(&scratch, &tables).await;
    let operations = Operations::new(host.clone(), AuditLog::in_memory(), Vec::new());
    let gateway = Gateway::new(host, operations.settings());
    let mut client = TestClient::legacy(&gateway, "ada", json!({})).await;
    let params = json!({"name": "mcp__dead__x", "arguments": {}});
    client.request(1, "tools/call", params).await;
    let lines = operations.audit().recent(9);
    let lines = lines.iter().map(|line| serde_json::from_str(line).unwrap());
    let servers: Vec<_> = lines.map(|line: Value| line["server"].clone()).collect();
    assert_eq!(servers, ["dead"]);
    stop(gateway).await;
}

/// The audit log has what was decided on sampling, apart from the answer about the call itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_on_sampling_is_a_line_of_its_own() {
    let scratch = Scratch::new();
    for (rules, expected) in [
        (
            "allow = [\"*/ask_model\"]\nask = [\"*/@sampling\"]",
            json!({"decision": "ask", "approval": "yes", "outcome": "permitted"}),
        ),
        (
            "allow = [\"*/ask_model\"]\ndeny = [\"*/@sampling\"]",
            json!({"decision": "deny", "approval": null, "outcome": "denied"}),
        ),
    ] {
        let tables = format!("[permissions]\n{rules}\n{}", demo("old", "legacy", ""));
        let host = support::host(&scratch, &tables).await;
        let operations = Operations::new(host.clone(), AuditLog::in_memory(), Vec::new());
        let gateway = Gateway::new(host, operations.settings());
        let mut client = TestClient::legacy(&gateway, "ada", all_capabilities()).await;
        let params = json!({"name": "mcp__old__ask_model", "arguments": {}});
        client.request(1, "tools/call", params).await;
        let lines: Vec<Value> = (operations.audit().recent(9).iter().rev())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let (sampling, call) = (&lines[0], &lines[1]);
        assert_eq!(
            (&sampling["event"], &sampling["client"], &sampling["server"]),
            (&json!("sampling"), &json!("ada"), &json!("old"))
        );
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&sampling[key], value, "{key}: {sampling}");
        }
        assert_eq!(
            (&call["event"], &call["decision"]),
            (&json!("request"), &json!("allow"))
        );
        assert_eq!(call["approval"], Value::Null, "{call}");
        stop(gateway).await;
    }
}

/// A server's sampling passes the gate as `SERVER/@sampling`, whichever way it reaches the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_sampling_never_reaches_the_client_in_all_four_combinations() {
    let scratch = Scratch::new();
    let rules = "[permissions]\nallow = [\"*\"]\ndeny = [\"*/@sampling\"]\n";
    let gateway = both(&scratch, rules).await;
    for (is_modern, server) in COMBINATIONS {
        let mut client = client(&gateway, is_modern, "ada").await;
        let params = json!({"name": format!("mcp__{server}__ask_model"), "arguments": {}});
        let response = client.request(1, "tools/call", params).await;
        let is_sampling = |question: &Value| question["method"] == "sampling/createMessage";
        let asked = client.questions.iter().any(is_sampling);
        assert!(!asked, "{is_modern} {server}: {response}");
        assert!(!response.to_string().contains("m said"), "{response}");
    }
    stop(gateway).await;
}

/// T33: the gate's question goes to the client that calls; a client that cannot be asked is told why the
/// call is denied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_asks_the_client_that_calls_and_no_answer_means_no() {
    let scratch = Scratch::new();
    let gateway = both(&scratch, "[permissions]\nask = [\"*\"]\n").await;
    for (is_modern, server) in COMBINATIONS {
        let echo = format!("mcp__{server}__echo");
        let mut asked = client(&gateway, is_modern, "ada").await;
        assert_eq!(asked.call(1, &echo, json!({"message": "hi"})).await, "hi");
        let question = asked
            .questions
            .iter()
            .find(|one| one["method"] == "elicitation/create");
        let message = question.unwrap()["params"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(message.contains(&format!("{server}/echo")), "{message}");
        // A question of the server after the approval is part of the same call.
        let name = format!("mcp__{server}__ask_twice");
        assert_eq!(
            asked.call(2, &name, json!({})).await,
            "pleased to meet you, Ada"
        );

        let mut mute = match is_modern {
            true => TestClient::modern(&gateway, "bob", json!({})),
            false => TestClient::legacy(&gateway, "bob", json!({})).await,
        };
        let text = mute.call(1, &echo, json!({"message": "hi"})).await;
        assert!(
            text.contains("denied") && text.contains("cannot be asked"),
            "{text}"
        );
    }
    stop(gateway).await;
}

/// Params and results are the same bytes on both sides, except for names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_params_meta_and_errors_pass_unchanged() {
    use switchboard_testkit::{Chaos, Step};
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    let raw = r#"{"content":[],"x":1.00,"big":12345678901234567890123,"_meta":{"k":[ 1 ]}}"#;
    let line = format!(r#"{{"jsonrpc":"2.0","id":@id@,"result":{raw}}}"#);
    let fault = json!({"code": -32055, "message": "no", "data": {"why": [1]}});
    let server = Chaos::new()
        .tool("exact", Step::AnswerRaw(line))
        .tool(
            "wrong",
            serde_json::from_value::<Step>(json!({"error": fault})).unwrap(),
        )
        .record(record.clone());
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", server.entry("s").render())).await;
    let mut client = client(&gateway, false, "ada").await;
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"mcp__s__exact","arguments":{"n": 1.00},"odd":[ 0.70 ],"_meta":{"traceparent":"00-a","x/y":{"z": 1e400}}}}"#;
    client.send_raw(request).await;
    let line = client.next_raw_response().await;
    assert_eq!(
        line,
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{raw}}}"#)
    );
    let seen = std::fs::read_to_string(&record).unwrap();
    for part in [
        r#""odd":[ 0.70 ]"#,
        r#""traceparent":"00-a""#,
        r#""x/y":{"z": 1e400}"#,
        r#""arguments":{"n": 1.00}"#,
    ] {
        assert!(
            seen.contains(part) || seen.contains(&part.replace('"', "\\\"")),
            "{part}: {seen}"
        );
    }
    let response = client
        .request(8, "tools/call", json!({"name": "mcp__s__wrong"}))
        .await;
    assert_eq!(response["error"], fault, "{response}");
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_changes_and_resource_updates_reach_clients_of_both_eras() {
    let scratch = Scratch::new();
    let gateway = both(&scratch, ALLOW).await;
    let mut old = client(&gateway, false, "old").await;
    let mut new = client(&gateway, true, "new").await;
    // The lists that clients know are what changes are measured by.
    old.request(1, "tools/list", json!({})).await;
    let uri = json!({"uri": "demo://counter"});
    let subscribed = old.request(2, "resources/subscribe", uri).await;
    assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    let listen = json!({
        "jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen",
        "params": {
            "notifications": {
                "toolsListChanged": true, "resourceSubscriptions": ["demo://counter"],
            },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    new.send(listen).await;
    let acknowledged = new.next().await;
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(
        acknowledged["params"]["notifications"]["toolsListChanged"],
        true
    );
    let of_listen =
        |message: &Value| message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 9;

    let mut third = client(&gateway, false, "third").await;
    third.call(1, "mcp__old__toggle_tool", json!({})).await;
    old.notification("notifications/tools/list_changed").await;
    assert!(of_listen(
        &new.notification("notifications/tools/list_changed").await
    ));
    third.call(2, "mcp__old__count_up", json!({})).await;
    let updated = old.notification("notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "demo://counter");
    assert!(of_listen(
        &new.notification("notifications/resources/updated").await
    ));
    // Nobody else is told of a resource.
    third.request(3, "ping", json!({})).await;
    let is_update = |message: &Value| message["method"] == "notifications/resources/updated";
    assert!(!third.notifications.iter().any(is_update));
    stop(gateway).await;
}

/// A cancel reaches the server; one for a request that has ended is ignored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_call_is_cancelled_at_its_server_and_not_answered() {
    let scratch = Scratch::new();
    let gateway = both(&scratch, ALLOW).await;
    for (is_modern, server) in COMBINATIONS {
        let mut client = client(&gateway, is_modern, "ada").await;
        let stopped = format!("mcp__{server}__stopped");
        let before = client.call(1, &stopped, json!({})).await;
        let cancel = |id: u64| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        client.send(cancel(1)).await;
        let mut params = json!({
            "name": format!("mcp__{server}__slow"), "arguments": {"seconds": 3000, "steps": 30000},
            "_meta": {"progressToken": 1},
        });
        if is_modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        client
            .send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}))
            .await;
        // A call that is cancelled before it is sent never reaches the server.
        client.notification("notifications/progress").await;
        client.send(cancel(2)).await;
        let counted = async {
            loop {
                if client.call(4, &stopped, json!({})).await != before {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, counted)
            .await
            .expect("the server is told");
    }
    stop(gateway).await;
}

/// MCP Apps: a tool names the page that shows its result, and the client reads that page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tools_page_and_its_metadata_are_unchanged_in_all_four_combinations() {
    const META: &str =
        r#"{"ui":{"resourceUri":"ui://clock/face.html","x":1.50},"example.com/own":[]}"#;
    const PAGE: &str = r#"{"uri":"ui://clock/face.html","name":"face","mimeType":"text/html;profile=mcp-app","_meta":{"ui":{"csp":{"connectDomains":[]}}}}"#;
    const CONTENT: &str = r#"{"uri":"ui://clock/face.html","mimeType":"text/html;profile=mcp-app","text":"<p>now</p>","_meta":{"ui":{"prefersBorder":true}}}"#;
    let server = |era| {
        Chaos::new()
            .era(era)
            .tool(
                "show",
                Step::result(&format!(r#"{{"content":[],"_meta":{META}}}"#)),
            )
            .define("show", "_meta", META)
            .on(
                "resources/list",
                Step::result(&format!(r#"{{"resources":[{PAGE}]}}"#)),
            )
            .on(
                "resources/read",
                Step::result(&format!(r#"{{"contents":[{CONTENT}]}}"#)),
            )
    };
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for era in [ServerEra::Legacy, ServerEra::Modern] {
        let scratch = Scratch::new();
        let entry = server(era).entry("clock").render();
        let gateway = gateway(&scratch, &format!("{ALLOW}{entry}")).await;
        for is_modern in [false, true] {
            let mut client = client(&gateway, is_modern, "ada").await;
            let tools = client.request(1, "tools/list", json!({})).await;
            assert_eq!(tools["result"]["tools"][0]["_meta"], parsed(META));
            let listed = client.request(2, "resources/list", json!({})).await;
            assert_eq!(listed["result"]["resources"], json!([parsed(PAGE)]));
            let uri = json!({"uri": "ui://clock/face.html"});
            let read = client.request(3, "resources/read", uri).await;
            assert_eq!(read["result"]["contents"], json!([parsed(CONTENT)]));
            let call = json!({"name": "mcp__clock__show", "arguments": {}});
            let called = client.request(4, "tools/call", call).await;
            for (key, value) in parsed(META).as_object().unwrap() {
                assert_eq!(called["result"]["_meta"][key], *value, "{called}");
            }
        }
        stop(gateway).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_reach_no_server_are_in_the_audit_log() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool("t", Step::text("ok"));
    let host = support::host(&scratch, &format!("{ALLOW}{}", server.entry("s").render())).await;
    let operations = Operations::new(host.clone(), AuditLog::in_memory(), Vec::new());
    let settings = GatewaySettings {
        listing: ListingSettings {
            tools: ToolListing::Search,
            ..ListingSettings::default()
        },
        ..operations.settings()
    };
    let gateway = Gateway::new(host, settings);
    let mut client = client(&gateway, false, "ada").await;
    client
        .request(1, "prompts/get", json!({"name": "no_such_prompt"}))
        .await;
    client.call(2, "search_tools", json!({"query": "t"})).await;
    let lines = operations.audit().recent(9);
    let lines: Vec<Value> = (lines.iter().rev())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown = |line: &Value| {
        let member = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        [
            member("client"),
            member("method"),
            member("name"),
            member("outcome"),
        ]
    };
    let mut shown: Vec<_> = lines.iter().map(shown).collect();
    shown.sort();
    let expected = [
        ["ada", "prompts/get", "no_such_prompt", "failed"],
        ["ada", "tools/call", "search_tools", "answered"],
    ];
    assert_eq!(shown, expected);
    stop(gateway).await;
}

/// The server is started by the request that brings its state back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_servers_own_state_reaches_it_also_if_it_was_not_connected() {
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    for (era, expected) in [
        // The server's own answer, which knows its states.
        (ServerEra::Modern, "was never given"),
        (ServerEra::Legacy, "requestState is not valid"),
    ] {
        let server = Chaos::new().era(era).tool("t", Step::text("ok"));
        let entry = server.record(record.clone()).entry("s");
        let entry = entry.set("start", "lazy").render();
        let gateway = gateway(&scratch, &format!("{ALLOW}{entry}")).await;
        let mut client = TestClient::modern(&gateway, "ada", json!({}));
        let params = json!({"name": "mcp__s__t", "arguments": {}, "requestState": "its own"});
        let answer = client.request(1, "tools/call", params).await;
        let message = answer["error"]["message"].as_str();
        let is_expected = message.is_some_and(|message| message.contains(expected));
        assert!(is_expected, "{answer}");
        stop(gateway).await;
    }
    let received = Record::read(&record).with_method("tools/call");
    let [call] = received.as_slice() else {
        panic!("{received:?}");
    };
    let params = call.params.as_ref().unwrap().get();
    assert!(params.contains(r#""requestState":"its own""#), "{params}");
}

/// What `_meta` says about a connection is replaced on the next one; the rest is passed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reserved_keys_of_a_request_are_those_of_each_connection() {
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    let server = Chaos::new()
        .era(ServerEra::Modern)
        .tool("t", Step::text("ok"));
    let entry = server.record(record.clone()).entry("s").render();
    let gateway = gateway(&scratch, &format!("{ALLOW}{entry}")).await;
    let mut client = TestClient::modern(&gateway, "CANARY", json!({"roots": {"CANARY": true}}));
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let params = json!({
        "name": "mcp__s__t",
        "arguments": {},
        "_meta": {"progressToken": "CANARY", "traceparent": traceparent, "example.com/own": [1]},
    });
    let called = client.request(1, "tools/call", params).await;
    assert_eq!(called["result"]["content"][0]["text"], "ok", "{called}");
    let text = std::fs::read_to_string(&record).unwrap();
    assert!(!text.contains("CANARY"), "{text}");
    let received = Record::read(&record).with_method("tools/call");
    let params = received[0].params.as_ref().unwrap().get();
    let meta = &serde_json::from_str::<Value>(params).unwrap()["_meta"];
    assert_eq!(meta["traceparent"], traceparent, "{meta}");
    assert_eq!(meta["example.com/own"], json!([1]), "{meta}");
    assert_eq!(
        meta["io.modelcontextprotocol/clientInfo"]["name"], "switchboard",
        "{meta}"
    );
    stop(gateway).await;
}
