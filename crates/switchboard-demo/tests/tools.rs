//! Every tool, in both eras.
#![allow(clippy::unwrap_used)]

mod process;

use process::{Process, error, words};
use serde_json::{Value, json};

#[test]
fn plain_tools_answer_alike_in_both_eras() {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    for mut server in Process::both(&[]) {
        let odd = "two\nlines, \"quotes\", \\, é and \u{1F4DE}";
        assert_eq!(server.call("echo", json!({"message": odd})), text(odd));
        assert_eq!(
            server.call("add", json!({"a": 9_007_199_254_740_993_i64, "b": 2})),
            json!({"content": [{"type": "text", "text": r#"{"sum":9007199254740995}"#}], "structuredContent": {"sum": 9_007_199_254_740_995_i64}})
        );
        assert_eq!(
            server.call("add", json!({"a": 0.5, "b": 1}))["structuredContent"],
            json!({"sum": 1.5})
        );
        assert_eq!(
            server.words("big", json!({"bytes": 1_048_576})),
            "x".repeat(1_048_576)
        );
        assert_eq!(
            server.call("fail", json!({"reason": "no paper"})),
            json!({"content": [{"type": "text", "text": "no paper"}], "isError": true})
        );
        assert_eq!(
            server.words("count_up", json!({})),
            "the counter stands at 1"
        );
    }
}

#[test]
fn content_of_every_kind_arrives_complete() {
    for mut server in Process::both(&[]) {
        let kinds = |result: &Value| {
            let blocks = result["content"].as_array().unwrap().iter();
            blocks
                .map(|block| block["type"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let expected: [(&str, &[&str]); 6] = [
            ("image", &["image"]),
            ("audio", &["audio"]),
            ("resource_link", &["text", "resource_link"]),
            ("embedded_resource", &["resource", "resource"]),
            ("mixed", &["text", "image", "resource_link", "resource"]),
            ("hologram", &["hologram", "text"]),
        ];
        for (tool, expected) in expected {
            assert_eq!(kinds(&server.call(tool, json!({}))), expected, "{tool}");
        }
        let image = server.call("image", json!({}));
        assert!(
            image["content"][0]["data"]
                .as_str()
                .unwrap()
                .starts_with("iVBORw0KGgo"),
            "{image}"
        );
        let audio = server.call("audio", json!({}));
        assert!(
            audio["content"][0]["data"]
                .as_str()
                .unwrap()
                .starts_with("UklGR"),
            "{audio}"
        );
        let resources = server.call("embedded_resource", json!({}));
        assert!(resources["content"][0]["resource"]["text"].is_string());
        assert!(resources["content"][1]["resource"]["blob"].is_string());
    }
}

#[test]
fn wrong_arguments_are_the_tools_failure_and_a_wrong_request_is_a_protocol_error() {
    for mut server in Process::both(&[]) {
        for (tool, arguments) in [
            ("echo", json!({})),
            ("echo", json!({"message": 5})),
            ("add", json!({"a": "1", "b": 2})),
            ("big", json!({"bytes": 1_000_000_000_000_u64})),
            ("slow", json!({"seconds": -1})),
            ("slow", json!({"steps": 0})),
            ("log", json!({"level": "loud"})),
        ] {
            assert_eq!(
                server.call(tool, arguments.clone())["isError"],
                true,
                "{tool} {arguments}"
            );
        }
        for params in [
            json!({"name": "nothing"}),
            json!({"name": "surprise"}),
            json!({"name": "tool_00001"}),
            json!({"arguments": {}}),
            json!({"name": "echo", "arguments": [1]}),
            json!({"name": 5}),
        ] {
            assert_eq!(
                server.error("tools/call", params.clone()),
                (-32602, Value::Null),
                "{params}"
            );
        }
    }
}

#[test]
fn the_list_comes_in_pages_and_every_listed_tool_can_be_called() {
    for mut server in Process::both(&["--tools", "1000", "--page-size", "64"]) {
        let (mut names, mut pages, mut params) = (Vec::new(), 0, json!({}));
        loop {
            let page = server.result("tools/list", params);
            let tools = page["tools"].as_array().unwrap();
            assert!(tools.len() <= 64);
            assert!(
                tools
                    .iter()
                    .all(|tool| tool["inputSchema"]["type"] == "object")
            );
            names.extend(
                tools
                    .iter()
                    .map(|tool| tool["name"].as_str().unwrap().to_owned()),
            );
            pages += 1;
            if server.is_modern() {
                assert_eq!(
                    (&page["ttlMs"], &page["cacheScope"]),
                    (&json!(60000), &json!("public"))
                );
            } else {
                assert_eq!(page.get("ttlMs"), None);
            }
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!((names.len(), unique.len(), pages), (1026, 1026, 17));
        assert_eq!(
            server.words("tool_01000", json!({"text": "a"})),
            r#"tool_01000 was called with {"text":"a"}"#
        );
        for cursor in [json!("from-4000"), json!("nonsense"), json!(5)] {
            assert_eq!(
                server.error("tools/list", json!({"cursor": cursor})),
                (-32602, Value::Null)
            );
        }
    }
}

#[test]
fn tools_carry_titles_icons_hints_and_schemas() {
    let mut server = Process::modern(json!({}), &[]);
    let list = server.result("tools/list", json!({}));
    assert_eq!(list.get("nextCursor"), None);
    let tool = |name: &str| {
        list["tools"]
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap()
            .clone()
    };
    let hints = |name: &str| {
        (
            tool(name)["annotations"]["readOnlyHint"].clone(),
            tool(name)["annotations"]["destructiveHint"].clone(),
        )
    };
    assert_eq!(hints("echo"), (json!(true), json!(false)));
    assert_eq!(hints("toggle_tool"), (json!(false), json!(false)));
    assert_eq!(hints("confirm"), (json!(false), json!(true)));
    assert_eq!(tool("echo")["title"], "Echo");
    assert!(
        tool("echo")["icons"][0]["src"]
            .as_str()
            .unwrap()
            .starts_with("data:image/png;base64,")
    );
    assert_eq!(
        tool("add")["outputSchema"],
        json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]})
    );
}

#[test]
fn whoami_reports_era_client_and_capabilities_of_the_call() {
    let capabilities = json!({"elicitation": {}});
    let [legacy, modern] = [
        Process::legacy("2025-06-18", capabilities.clone(), &[]),
        Process::modern(capabilities.clone(), &[]),
    ];
    for (mut server, era, version) in [
        (legacy, "legacy", "2025-06-18"),
        (modern, "modern", process::MODERN),
    ] {
        assert_eq!(
            server.call("whoami", json!({}))["structuredContent"],
            json!({
                "era": era,
                "protocolVersion": version,
                "peer": {"name": "tester", "version": "1"},
                "capabilities": capabilities,
                "server": "switchboard-demo",
            })
        );
    }
}

#[test]
fn slow_reports_progress_under_the_given_token_and_then_answers() {
    for mut server in Process::both(&[]) {
        let arguments = json!({"seconds": 0.03, "steps": 3});
        let params =
            json!({"name": "slow", "arguments": arguments, "_meta": {"progressToken": "p-1"}});
        let id = server.begin("tools/call", params);
        for step in 1..=3 {
            assert_eq!(
                server.next(),
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                    "progressToken": "p-1", "progress": step, "total": 3, "message": format!("step {step} of 3"),
                }})
            );
        }
        let reply = server.next();
        assert_eq!(reply["id"], id);
        assert_eq!(words(&server.plain(&reply)), "worked for 0.03 s in 3 steps");
        // Without a token there is nothing but the answer.
        assert_eq!(
            server.words("slow", arguments),
            "worked for 0.03 s in 3 steps"
        );
    }
}

#[test]
fn a_cancelled_call_stops_says_so_on_stderr_and_is_never_answered() {
    for mut server in Process::both(&[]) {
        let id = server.begin_call("slow", json!({"seconds": 3000}));
        server.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}}),
        );
        assert_eq!(
            server.next_log(),
            format!("slow: call {id} cancelled: enough")
        );
        assert_eq!(server.words("echo", json!({"message": "next"})), "next");
        // One that makes no sense is ignored.
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4711}}));
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}));
        let (status, rest) = server.end();
        assert_eq!((status.code(), rest), (Some(0), vec![]));
    }
}

#[test]
fn log_messages_come_at_the_level_that_was_asked_for() {
    let levels = |server: &mut Process, params: Value| {
        let id = server.begin("tools/call", params);
        let (mut levels, mut message) = (Vec::new(), server.next());
        while message["method"] == "notifications/message" {
            assert_eq!(
                message["params"]["data"],
                json!({"message": "something worth a line"})
            );
            levels.push(message["params"]["level"].as_str().unwrap().to_owned());
            message = server.next();
        }
        assert_eq!(message["id"], id);
        (levels, words(&server.plain(&message)))
    };
    let loud = ["critical", "alert", "emergency"]
        .map(str::to_owned)
        .to_vec();

    let mut legacy = Process::legacy("2025-11-25", json!({}), &[]);
    assert_eq!(
        levels(&mut legacy, json!({"name": "log"})).0.len(),
        7,
        "everything from info up, until told otherwise"
    );
    assert_eq!(
        legacy.result("logging/setLevel", json!({"level": "critical"})),
        json!({})
    );
    assert_eq!(
        levels(&mut legacy, json!({"name": "log"})),
        (loud.clone(), "3 of 8 messages were sent".to_owned())
    );
    assert_eq!(
        error(&legacy.request("logging/setLevel", json!({"level": "loud"}))),
        (-32602, Value::Null)
    );

    let mut modern = Process::modern(json!({}), &[]);
    assert_eq!(
        levels(&mut modern, json!({"name": "log"})),
        (vec![], "0 of 8 messages were sent".to_owned())
    );
    let params = json!({"name": "log", "_meta": {"io.modelcontextprotocol/logLevel": "critical"}});
    assert_eq!(
        levels(&mut modern, params),
        (loud, "3 of 8 messages were sent".to_owned())
    );
}
