//! The tool that runs as a task, in both eras, as a peer sees it.
#![allow(clippy::unwrap_used)]

mod process;

use process::{Process, error, words};
use serde_json::{Value, json};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";

fn modern() -> Process {
    Process::modern(
        json!({"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}}),
        &[],
    )
}

fn legacy() -> Process {
    Process::legacy("2025-11-25", json!({"elicitation": {"form": {}}}), &[])
}

/// Starts a task; returns its first state.
fn begin(server: &mut Process, arguments: Value) -> Value {
    if server.is_modern() {
        let reply = server.request(
            "tools/call",
            json!({"name": "errand", "arguments": arguments}),
        );
        assert_eq!(reply["result"]["resultType"], "task", "{reply}");
        return reply["result"].clone();
    }
    server.result(
        "tools/call",
        json!({"name": "errand", "arguments": arguments, "task": {"ttl": 60_000}}),
    )["task"]
        .clone()
}

/// Polls until the status is not `working`.
fn after_work(server: &mut Process, id: &Value) -> Value {
    loop {
        let state = server.result("tasks/get", json!({"taskId": id}));
        if state["status"] != "working" {
            return state;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_task_is_declared_started_and_polled_in_both_eras() {
    let mut server = legacy();
    let task = begin(&mut server, json!({"seconds": 0.1, "steps": 1}));
    assert_eq!(
        (&task["status"], &task["ttl"], &task["pollInterval"]),
        (&json!("working"), &json!(60_000), &json!(100))
    );
    assert_eq!(
        after_work(&mut server, &task["taskId"])["status"],
        "completed"
    );
    let mut result = server.result("tasks/result", json!({"taskId": task["taskId"]}));
    assert_eq!(
        result["_meta"].take(),
        json!({RELATED: {"taskId": task["taskId"]}})
    );
    assert_eq!(words(&result), "ran for 0.1 s in 1 steps");

    let mut server = modern();
    assert_eq!(
        server.result("server/discover", json!({}))["capabilities"]["extensions"],
        json!({EXTENSION: {}})
    );
    let task = begin(&mut server, json!({"seconds": 0.1, "steps": 1}));
    assert_eq!(
        (&task["status"], &task["ttlMs"], &task["pollIntervalMs"]),
        (&json!("working"), &json!(900_000), &json!(100))
    );
    let ended = after_work(&mut server, &task["taskId"]);
    assert_eq!(
        (&ended["status"], words(&ended["result"]).as_str()),
        (&json!("completed"), "ran for 0.1 s in 1 steps")
    );
}

#[test]
fn a_legacy_task_asks_while_its_result_is_awaited() {
    let mut server = legacy();
    let task = begin(
        &mut server,
        json!({"seconds": 0.1, "steps": 2, "ask": true}),
    );
    assert_eq!(
        after_work(&mut server, &task["taskId"])["status"],
        "input_required"
    );
    server.begin("tasks/result", json!({"taskId": task["taskId"]}));
    let question = server.next();
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(
        question["params"]["_meta"],
        json!({RELATED: {"taskId": task["taskId"]}})
    );
    server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ann"}}}));
    assert_eq!(
        words(&server.next()["result"]),
        "ran for 0.1 s in 2 steps for Ann"
    );
}

#[test]
fn a_modern_task_asks_in_its_state_and_accepts_the_answer_once() {
    let mut server = modern();
    let task = begin(
        &mut server,
        json!({"seconds": 0.1, "steps": 2, "ask": true}),
    );
    let id = &task["taskId"];
    assert_eq!(
        after_work(&mut server, id)["inputRequests"]["name"]["method"],
        "elicitation/create"
    );
    for (key, name) in [("other", "Eve"), ("name", "Ann"), ("name", "Eve")] {
        let responses = json!({key: {"action": "accept", "content": {"name": name}}});
        assert_eq!(
            server.result(
                "tasks/update",
                json!({"taskId": id, "inputResponses": responses})
            ),
            json!({})
        );
    }
    assert_eq!(
        words(&after_work(&mut server, id)["result"]),
        "ran for 0.1 s in 2 steps for Ann"
    );
}

#[test]
fn a_task_can_be_cancelled_while_it_runs() {
    for mut server in [legacy(), modern()] {
        let task = begin(&mut server, json!({"seconds": 3000}));
        let cancelled = server.result("tasks/cancel", json!({"taskId": task["taskId"]}));
        let expected = if server.is_modern() {
            Value::Null
        } else {
            json!("cancelled")
        };
        assert_eq!(cancelled["status"], expected);
        assert_eq!(
            after_work(&mut server, &task["taskId"])["status"],
            "cancelled"
        );
        let again = server.request("tasks/cancel", json!({"taskId": task["taskId"]}));
        assert_eq!(again.get("error").is_some(), !server.is_modern(), "{again}");
    }
}

/// A client without the capability gets no task.
#[test]
fn no_task_is_made_without_request_or_capability() {
    let call = json!({"name": "errand", "arguments": {}});
    assert_eq!(legacy().error("tools/call", call.clone()).0, -32601);
    let missing = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
    for (method, params) in [
        ("tools/call", call.clone()),
        ("tasks/get", json!({"taskId": "x"})),
    ] {
        assert_eq!(
            Process::modern(json!({}), &[]).error(method, params),
            (-32021, missing.clone())
        );
    }
    assert_eq!(
        Process::legacy("2025-06-18", json!({}), &[]).call("errand", json!({}))["isError"],
        true
    );
    for mut server in [legacy(), modern()] {
        assert_eq!(server.error("tasks/get", json!({"taskId": "x"})).0, -32602);
        let other = if server.is_modern() {
            "tasks/result"
        } else {
            "tasks/update"
        };
        let reply = server.request(other, json!({"taskId": "x"}));
        assert_eq!(error(&reply).0, -32601, "{reply}");
    }
}
