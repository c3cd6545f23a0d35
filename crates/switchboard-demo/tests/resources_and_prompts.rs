//! Resources, prompts, completion, and notifications of changes.
#![allow(clippy::unwrap_used)]

mod process;

use process::{Process, error};
use serde_json::{Value, json};

#[test]
fn resources_are_listed_and_read_in_both_eras() {
    for mut server in Process::both(&[]) {
        let uris = |list: &Value, field: &str, name: &str| {
            list[field]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item[name].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let list = server.result("resources/list", json!({}));
        assert_eq!(
            uris(&list, "resources", "uri"),
            ["demo://text", "demo://picture", "demo://counter"]
        );
        let templates = server.result("resources/templates/list", json!({}));
        assert_eq!(
            uris(&templates, "resourceTemplates", "uriTemplate"),
            ["demo://greeting/{name}"]
        );

        let is_modern = server.is_modern();
        let mut read = |uri: &str| {
            let result = server.result("resources/read", json!({"uri": uri}));
            assert_eq!(result.get("ttlMs").is_some(), is_modern);
            assert_eq!(result.get("cacheScope").is_some(), is_modern);
            let contents = result["contents"].as_array().unwrap();
            assert_eq!((contents.len(), &contents[0]["uri"]), (1, &json!(uri)));
            contents[0].clone()
        };
        assert!(read("demo://text")["text"].is_string());
        assert!(read("demo://picture")["blob"].is_string());
        assert_eq!(read("demo://counter")["text"], "0");
        assert_eq!(read("demo://greeting/Zo%C3%AB")["text"], "Hello, Zoë!");

        let code = if is_modern { -32602 } else { -32002 };
        for uri in ["demo://nothing", "demo://greeting/", "file:///etc/passwd"] {
            assert_eq!(
                server.error("resources/read", json!({"uri": uri})),
                (code, json!({"uri": uri}))
            );
        }
        assert_eq!(
            server.error("resources/read", json!({})),
            (-32602, Value::Null)
        );
    }
}

#[test]
fn prompts_are_listed_filled_in_and_completed_in_both_eras() {
    for mut server in Process::both(&["--page-size", "1"]) {
        let first = server.result("prompts/list", json!({}));
        let second = server.result("prompts/list", json!({"cursor": first["nextCursor"]}));
        assert_eq!(
            (&first["prompts"][0]["name"], &second["prompts"][0]["name"]),
            (&json!("haiku"), &json!("review"))
        );
        assert_eq!(
            (
                second["prompts"][0]["arguments"].as_array().unwrap().len(),
                second.get("nextCursor")
            ),
            (2, None)
        );

        let mut text = |params: Value| {
            let result = server.result("prompts/get", params);
            result["messages"][0]["content"]["text"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            text(json!({"name": "haiku"})),
            "Write a haiku about a telephone switchboard at night."
        );
        assert_eq!(
            text(json!({"name": "review", "arguments": {"language": "rust", "style": "kind"}})),
            "Give the rust code that follows a kind review."
        );
        for params in [
            json!({"name": "review"}),
            json!({"name": "nothing"}),
            json!({"name": "review", "arguments": {"language": 5}}),
        ] {
            assert_eq!(server.error("prompts/get", params), (-32602, Value::Null));
        }

        let review = json!({"type": "ref/prompt", "name": "review"});
        let greeting = json!({"type": "ref/resource", "uri": "demo://greeting/{name}"});
        for (reference, name, value, expected) in [
            (&review, "language", "c", json!(["c", "clojure", "cobol"])),
            (&review, "language", "RU", json!(["ruby", "rust"])),
            (&review, "style", "x", json!([])),
            (&review, "other", "", json!([])),
            (&greeting, "name", "a", json!(["Ada", "Alan"])),
        ] {
            let params = json!({"ref": reference, "argument": {"name": name, "value": value}});
            let total = expected.as_array().unwrap().len();
            assert_eq!(
                server.result("completion/complete", params),
                json!({"completion": {"values": expected, "total": total, "hasMore": false}})
            );
        }
        let unknown = json!({"ref": {"type": "ref/prompt", "name": "nothing"}, "argument": {"name": "a", "value": ""}});
        for params in [
            unknown,
            json!({"ref": {"type": "ref/else"}}),
            json!({"ref": review}),
        ] {
            assert_eq!(
                server.error("completion/complete", params),
                (-32602, Value::Null)
            );
        }
    }
}

fn names(server: &mut Process) -> Vec<String> {
    let list = server.result("tools/list", json!({}));
    list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_legacy_peer_is_notified_when_the_tool_list_changes() {
    let mut server = Process::legacy("2025-11-25", json!({}), &[]);
    let before = names(&mut server);
    for (expected, there) in [
        ("the tool surprise is there now", true),
        ("the tool surprise is gone", false),
    ] {
        server.begin_call("toggle_tool", json!({}));
        assert_eq!(
            server.next(),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}})
        );
        let reply = server.next();
        assert_eq!(process::words(&reply["result"]), expected);
        let mut now = before.clone();
        now.extend(there.then(|| "surprise".to_owned()));
        assert_eq!(names(&mut server), now);
    }
}

#[test]
fn a_legacy_peer_is_notified_of_a_resource_while_it_is_subscribed() {
    let mut server = Process::legacy("2025-06-18", json!({}), &[]);
    let counter = json!({"uri": "demo://counter"});
    assert_eq!(
        server.words("count_up", json!({})),
        "the counter stands at 1"
    );
    assert_eq!(
        server.result("resources/subscribe", counter.clone()),
        json!({})
    );
    server.begin_call("count_up", json!({}));
    assert_eq!(
        server.next(),
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": counter})
    );
    assert_eq!(
        process::words(&server.next()["result"]),
        "the counter stands at 2"
    );
    assert_eq!(
        server.result("resources/unsubscribe", counter.clone()),
        json!({})
    );
    assert_eq!(
        server.words("count_up", json!({})),
        "the counter stands at 3"
    );
    assert_eq!(
        server.result("resources/read", counter)["contents"][0]["text"],
        "3"
    );
    assert_eq!(
        error(&server.request("resources/subscribe", json!({"uri": "demo://nothing"}))).0,
        -32002
    );
}

fn told(method: &str, id: u64, more: Value) -> Value {
    let mut params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[test]
fn each_listen_stream_carries_only_the_notifications_it_asked_for() {
    let mut server = Process::modern(json!({}), &[]);
    // Without a listener nothing is sent.
    assert_eq!(
        server.words("toggle_tool", json!({})),
        "the tool surprise is there now"
    );

    let wanted = json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["demo://nothing"]});
    let tools = server.begin("subscriptions/listen", json!({"notifications": wanted}));
    let honoured = json!({"notifications": {"toolsListChanged": true}});
    assert_eq!(
        server.next(),
        told("notifications/subscriptions/acknowledged", tools, honoured)
    );

    let wanted = json!({"resourceSubscriptions": ["demo://counter"]});
    let counter = server.begin("subscriptions/listen", json!({"notifications": wanted}));
    assert_eq!(
        server.next(),
        told(
            "notifications/subscriptions/acknowledged",
            counter,
            json!({"notifications": wanted})
        )
    );

    let call = server.begin_call("toggle_tool", json!({}));
    assert_eq!(
        server.next(),
        told("notifications/tools/list_changed", tools, json!({}))
    );
    assert_eq!(server.next()["id"], call);
    let call = server.begin_call("count_up", json!({}));
    assert_eq!(
        server.next(),
        told(
            "notifications/resources/updated",
            counter,
            json!({"uri": "demo://counter"})
        )
    );
    assert_eq!(server.next()["id"], call);

    // A cancelled stream gets no response; the other gets one when the server ends.
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": counter}}));
    assert_eq!(
        server.words("count_up", json!({})),
        "the counter stands at 2"
    );
    let info = json!({"name": "switchboard-demo", "title": "Switchboard demo", "version": env!("CARGO_PKG_VERSION")});
    let meta = json!({"io.modelcontextprotocol/subscriptionId": tools, "io.modelcontextprotocol/serverInfo": info});
    let last =
        json!({"jsonrpc": "2.0", "id": tools, "result": {"resultType": "complete", "_meta": meta}});
    let (status, rest) = server.end();
    assert_eq!((status.code(), rest), (Some(0), vec![last]));
}

#[test]
fn a_listen_request_must_name_its_notifications() {
    let mut server = Process::modern(json!({}), &[]);
    assert_eq!(
        server.error("subscriptions/listen", json!({})),
        (-32602, Value::Null)
    );
    assert_eq!(
        server.error(
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": 5}})
        ),
        (-32602, Value::Null)
    );
}

#[test]
fn the_counter_counts_by_itself_if_configured() {
    let mut server = Process::modern(json!({}), &["--tick", "5"]);
    let wanted = json!({"resourceSubscriptions": ["demo://counter"]});
    let id = server.begin("subscriptions/listen", json!({"notifications": wanted}));
    assert_eq!(
        server.next()["method"],
        "notifications/subscriptions/acknowledged"
    );
    for _ in 0..3 {
        assert_eq!(
            server.next(),
            told(
                "notifications/resources/updated",
                id,
                json!({"uri": "demo://counter"})
            )
        );
    }
}
