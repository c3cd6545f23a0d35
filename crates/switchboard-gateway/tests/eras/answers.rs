use std::time::Duration;

use serde_json::{Value, json};
use switchboard_gateway::audit::AuditLog;
use switchboard_gateway::{Gateway, GatewaySettings, ListingSettings, Operations};
use switchboard_testkit::script::Era;
use switchboard_testkit::{Chaos, Record, Scratch, Step, wait_until};

use super::ALLOW;
use super::support::{PATIENCE, TestClient, all_capabilities, answer, client, gateway, host, stop};

const FORM: &str = r#"{"mode":"form","message":"hi","requestedSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"}}}}"#;
const PAGE: &str =
    r#"{"mode":"url","message":"hi","url":"https://example.com/x","elicitationId":"e"}"#;
const SAMPLING: &str =
    r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10}"#;

/// The tools of the server that asks, with the method and the params of their questions.
const QUESTIONS: [(&str, &str, &str); 4] = [
    ("form", "elicitation/create", FORM),
    ("page", "elicitation/create", PAGE),
    ("sample", "sampling/createMessage", SAMPLING),
    ("roots", "roots/list", "{}"),
];

/// A server whose tools ask one question, and return the answer as it came.
fn asking_server(era: Era) -> Chaos {
    let mut server = Chaos::new().era(era);
    for (tool, method, params) in QUESTIONS {
        let question = format!(r#"{{"q":{{"method":"{method}","params":{params}}}}}"#);
        let steps = match era {
            Era::Modern => vec![
                Step::input_required(Some(&question), Some("state")),
                Step::AnswerInput,
            ],
            _ => vec![Step::request(method, Some(params)), Step::AnswerReply],
        };
        server = server.tool(tool, steps);
    }
    server
}

/// Unknown members, key order and the text of numbers are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_reach_the_server_byte_for_byte_in_all_four_combinations() {
    let form = r#"{"_meta":{"k":[ 1.0 ]},"action":"accept","content":{"b":1.50,"a":"x","c":12345678901234567890123},"extra":true}"#;
    let page = r#"{"_meta":{"k":[ 1.0 ]},"action":"accept","extra":1.00}"#;
    let sample =
        r#"{"role":"assistant","content":{"type":"text","text":"é"},"model":"m","x":1.50}"#;
    let roots = r#"{"roots":[{"uri":"file:///w","name":"w","_meta":{"x": 1.50}}],"y":2.0}"#;
    for era in [Era::Legacy, Era::Modern] {
        let scratch = Scratch::new();
        let entry = asking_server(era).entry("s").render();
        let gateway = gateway(&scratch, &format!("{ALLOW}{entry}")).await;
        for is_modern in [false, true] {
            let mut client = client(&gateway, is_modern, "ada").await;
            // A legacy client's roots are asked for at once.
            client
                .raw_answers
                .insert("roots/list", Ok(roots.to_owned()));
            let answers = [form, page, sample, roots];
            for ((tool, method, _), answer) in QUESTIONS.into_iter().zip(answers) {
                client.raw_answers.insert(method, Ok(answer.to_owned()));
                let text = client.call(1, &format!("mcp__s__{tool}"), json!({})).await;
                assert!(text.contains(answer), "{era:?} {is_modern} {tool}: {text}");
            }
        }
        stop(gateway).await;
    }
}

/// A client's error reaches a legacy server with its code and data. A modern server cannot be sent
/// one: its question is cancelled, or the call fails with the client's message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_clients_reach_the_server_with_code_and_data() {
    let error = r#"{"code":-32055,"message":"out of paper","data":{"why":[ 1.50 ]}}"#;
    for era in [Era::Legacy, Era::Modern] {
        let scratch = Scratch::new();
        let entry = asking_server(era).entry("s").render();
        let gateway = gateway(&scratch, &format!("{ALLOW}{entry}")).await;
        let mut client = TestClient::legacy(&gateway, "ada", all_capabilities()).await;
        for (_, method, _) in QUESTIONS {
            client.raw_answers.insert(method, Err(error.to_owned()));
        }
        for (tool, ..) in QUESTIONS {
            let text = client.call(1, &format!("mcp__s__{tool}"), json!({})).await;
            let expected = match (era, tool) {
                (Era::Modern, "form" | "page") => r#"{"action":"cancel"}"#,
                (Era::Modern, "sample") => "the client answered: out of paper",
                (Era::Modern, _) => r#"{"roots":[]}"#,
                _ => error,
            };
            assert!(text.contains(expected), "{era:?} {tool}: {text}");
        }
        stop(gateway).await;
    }
}

/// The modern era has no error that stands for a page to be visited first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_client_gets_no_error_code_of_the_legacy_era() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .era(Era::Legacy)
        .tool("page", Step::error(-32042, "first this"));
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", server.entry("s").render())).await;
    for (is_modern, code) in [(false, -32042), (true, -32603)] {
        let mut client = client(&gateway, is_modern, "ada").await;
        let params = json!({"name": "mcp__s__page", "arguments": {}});
        let answer = client.request(1, "tools/call", params).await;
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["message"]),
            (&json!(code), &json!("first this")),
            "{answer}"
        );
    }
    stop(gateway).await;
}

/// The modern protocol has no id for a visit to a page, and the legacy one requires it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_modern_server_has_an_id_for_a_legacy_client() {
    let page = r#"{"mode":"url","message":"hi","url":"https://example.com/x"}"#;
    let question = format!(r#"{{"q":{{"method":"elicitation/create","params":{page}}}}}"#);
    let steps = vec![
        Step::input_required(Some(&question), Some("state")),
        Step::AnswerInput,
    ];
    let scratch = Scratch::new();
    let server = Chaos::new().era(Era::Modern).tool("page", steps);
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", server.entry("s").render())).await;
    for is_modern in [false, true] {
        let mut client = client(&gateway, is_modern, "ada").await;
        client.call(1, "mcp__s__page", json!({})).await;
        // A legacy client is asked for its roots, too, at any time.
        let mut questions = client.questions.iter();
        let asked = questions.find(|question| question["method"] == "elicitation/create");
        let mut asked = asked.unwrap()["params"].clone();
        let id = asked.as_object_mut().unwrap().remove("elicitationId");
        let has_id = id.is_some_and(|id| id.as_str().is_some_and(|id| !id.is_empty()));
        assert_eq!(has_id, !is_modern);
        let given: serde_json::Value = serde_json::from_str(page).unwrap();
        assert_eq!(asked, given, "the rest is unchanged");
    }
    stop(gateway).await;
}

/// The legacy schema allows only an object there, and its SDKs reject the whole result otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn structured_content_that_is_no_object_is_left_out_for_legacy_clients() {
    let server = [("list", "[1, 2]"), ("object", "{\"a\": 1.50}")]
        .into_iter()
        .fold(Chaos::new().era(Era::Modern), |server, (tool, content)| {
            let result = format!(
                r#"{{"resultType":"complete","content":[],"structuredContent":{content},"x":1.50}}"#
            );
            server.tool(tool, Step::result(&result))
        });
    let tables = format!("{ALLOW}{}", server.entry("s").render());
    for (is_modern, is_as_is, list) in [
        (false, false, None),
        (false, true, Some(json!([1, 2]))),
        (true, false, Some(json!([1, 2]))),
    ] {
        let scratch = Scratch::new();
        let settings = GatewaySettings {
            listing: ListingSettings {
                schemas_as_is: is_as_is,
                ..ListingSettings::default()
            },
            ..GatewaySettings::default()
        };
        let gateway = Gateway::new(host(&scratch, &tables).await, settings);
        let mut client = client(&gateway, is_modern, "ada").await;
        for (tool, expected) in [("list", list), ("object", Some(json!({"a": 1.5})))] {
            let params = json!({"name": format!("mcp__s__{tool}"), "arguments": {}});
            let response = client.request(1, "tools/call", params).await;
            let result = &response["result"];
            let content = result.get("structuredContent");
            assert_eq!(content, expected.as_ref(), "{response}");
            // What is left out is not lost.
            let text = match content {
                None => json!([{"type": "text", "text": "[1, 2]"}]),
                Some(_) => json!([]),
            };
            assert_eq!(result["content"], text, "{response}");
            assert_eq!(result["x"], 1.5, "{response}");
        }
        stop(gateway).await;
    }
}

/// A gateway that stops reads no more messages either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_at_once_when_nobody_can_answer_its_question_any_more() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool("t", Step::text("ok"));
    let gateway = gateway(&scratch, &server.entry("s").render()).await;
    let mut client = TestClient::legacy(&gateway, "ada", all_capabilities()).await;
    let params = json!({"name": "mcp__s__t", "arguments": {}});
    client
        .send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
        .await;
    while client.next().await["method"] != "elicitation/create" {}
    client.close_writer().await;
    let response = client.next_raw_response().await;
    assert!(response.contains("nobody can answer"), "{response}");
    stop(gateway).await;
}

/// The client has sent both before the gateway looks at the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_right_behind_the_answer_reaches_the_call() {
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    let steps = vec![
        Step::request("elicitation/create", Some(FORM)),
        Step::AwaitCancel,
    ];
    let server = Chaos::new().era(Era::Legacy).tool("t", steps);
    let entry = server.record(&record).entry("s").render();
    let gateway = gateway(&scratch, &format!("{ALLOW}{entry}")).await;
    let mut client = TestClient::modern(&gateway, "ada", all_capabilities());
    let mut params = json!({"name": "mcp__s__t", "arguments": {}});
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": all_capabilities(),
    });
    let call = |id: u64, params: &serde_json::Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    client.send(call(1, &params)).await;
    let asked = client.next().await["result"].clone();
    params["requestState"] = asked["requestState"].clone();
    let questions = asked["inputRequests"].as_object().unwrap().iter();
    let answers = questions.map(|(key, question)| (key.clone(), answer(question)));
    params["inputResponses"] = answers.collect::<serde_json::Map<_, _>>().into();
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    client
        .send_raw(&[call(2, &params).to_string(), cancelled.to_string()].join("\n"))
        .await;
    let is_cancelled = || Record::read(&record).count("notifications/cancelled") == 1;
    let waiting = async {
        while !is_cancelled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    stop(gateway).await;
}

/// The answer to the first may be older than the change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_roots_replaces_the_open_question_about_them() {
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, ALLOW).await;
    let mut client = TestClient::legacy(&gateway, "ada", all_capabilities()).await;
    let first = client.next().await;
    assert_eq!(first["method"], "roots/list");
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    client.send(changed).await;
    let mut next = [client.next().await, client.next().await];
    next.sort_by_key(|message| message["method"].to_string());
    assert_eq!(next[0]["method"], "notifications/cancelled");
    assert_eq!(next[0]["params"]["requestId"], first["id"]);
    assert_eq!(next[1]["method"], "roots/list");
    stop(gateway).await;
}

/// The time of a call that waits for another client's, or for a client's answer, is not the server's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_waiting_for_clients_is_not_booked_as_the_servers() {
    let scratch = Scratch::new();
    let ask = Step::request("elicitation/create", Some(FORM));
    let server = Chaos::new()
        .era(Era::Legacy)
        .tool("ask", vec![ask, Step::text("ok")])
        .tool("plain", Step::text("ok"));
    let entry = server.entry("s").set("asks", "yes");
    let entry = entry.set("call_timeout", "300ms").render();
    let host = host(&scratch, &format!("{ALLOW}{entry}")).await;
    let operations = Operations::new(host.clone(), AuditLog::in_memory(), Vec::new());
    let gateway = Gateway::new(host, operations.settings());
    let forms = json!({"elicitation": {"form": {}}});
    let mut ada = TestClient::legacy(&gateway, "ada", forms).await;
    let call = |name: &str| json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name}});
    ada.send(call("mcp__s__ask")).await;
    let question = ada.next().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    // Both wait for as long as the second call may.
    let mut bob = TestClient::legacy(&gateway, "bob", json!({})).await;
    let queued = bob.call(1, "mcp__s__plain", json!({})).await;
    assert!(queued.contains("not sent within 300 ms"), "{queued}");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    ada.send(answer).await;
    assert_eq!(ada.next().await["id"], 7);
    let lines = operations.audit().recent(9);
    for (client, share) in [("ada", "questions_ms"), ("bob", "waiting_ms")] {
        let lines = lines.iter().map(|line| serde_json::from_str(line).unwrap());
        let line: Value = { lines }
            .find(|line: &Value| line["client"] == client)
            .unwrap();
        let part = |key: &str| line[key].as_f64().unwrap_or_default();
        assert!(part(share) >= 300.0, "{line}");
        assert!(
            part("server_ms") <= part("duration_ms") - part(share),
            "{line}"
        );
    }
    stop(gateway).await;
}

/// The audit log has what the server did, though the client never came for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_ended_while_its_client_was_asked_is_recorded_as_answered() {
    let scratch = Scratch::new();
    let (go, done) = (scratch.path("go"), scratch.path("done"));
    let question =
        format!(r#"{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{FORM}}}"#);
    let steps = vec![
        Step::Say(question),
        Step::WaitFile(go.clone()),
        Step::text("ok"),
        Step::Touch(done.clone()),
    ];
    let server = Chaos::new()
        .era(Era::Legacy)
        .tool("t", steps)
        .tool("next", vec![Step::WaitFile(done), Step::text("ok")]);
    let tables = format!("{ALLOW}{}", server.entry("s").render());
    let host = host(&scratch, &tables).await;
    let operations = Operations::new(host.clone(), AuditLog::in_memory(), Vec::new());
    let gateway = Gateway::new(host, operations.settings());
    let mut client = TestClient::modern(&gateway, "ada", all_capabilities());
    let params = json!({"name": "mcp__s__t", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": all_capabilities(),
    }});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    client.send(call).await;
    let asked = client.next().await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    std::fs::write(go, "").unwrap();
    client.call(2, "mcp__s__next", json!({})).await;
    stop(gateway).await;
    let outcome = || {
        let lines = operations.audit().recent(9);
        let mut lines = lines.iter().map(|line| serde_json::from_str(line).unwrap());
        let line = lines.find(|line: &Value| line["name"] == "t")?;
        Some(line["outcome"].clone())
    };
    assert!(wait_until(PATIENCE, || outcome().is_some()));
    assert_eq!(outcome().unwrap(), "answered");
}
