//! Tasks and skills through the gateway, in every combination of eras that has them.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::{PATIENCE, TestClient, all_capabilities, answer, client, demo, gateway, stop};
use switchboard_gateway::Gateway;
use switchboard_testkit::script::Era;
use switchboard_testkit::{Chaos, Record, Scratch, Step};

const ALLOW: &str = "[permissions]\nallow = [\"*\"]\n";
const RELATED: &str = "io.modelcontextprotocol/related-task";

async fn both(scratch: &Scratch) -> Gateway {
    let servers = [demo("old", "legacy", ""), demo("new", "modern", "")].concat();
    gateway(scratch, &format!("{ALLOW}{servers}")).await
}

/// A modern client that takes tasks.
fn task_client(gateway: &Gateway, name: &str) -> TestClient {
    let mut capabilities = all_capabilities();
    capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    TestClient::modern(gateway, name, capabilities)
}

/// A client that does not know tasks gets the result, whichever kind of task its server makes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_task_is_a_plain_call_for_clients_without_tasks() {
    let scratch = Scratch::new();
    let gateway = both(&scratch).await;
    for (is_modern, server) in [(false, "old"), (false, "new"), (true, "old"), (true, "new")] {
        let mut client = client(&gateway, is_modern, "ada").await;
        let arguments = json!({"seconds": 0.1, "steps": 1, "ask": true});
        let text = client
            .call(1, &format!("mcp__{server}__errand"), arguments)
            .await;
        assert!(text.contains("for Ada"), "{is_modern} {server}: {text}");
    }
    stop(gateway).await;
}

/// Asks for the state of a task until it is this; questions are answered by `tasks/update`.
async fn poll(client: &mut TestClient, task: &Value, expected: &str) -> Value {
    let polled = async {
        loop {
            let state = client
                .request(10, "tasks/get", json!({"taskId": task}))
                .await;
            let state = state["result"].clone();
            if state["status"] == expected {
                return state;
            }
            if state["status"] == "input_required" {
                let mut answers = json!({});
                for (key, question) in state["inputRequests"].as_object().unwrap() {
                    answers[key] = answer(question);
                }
                let update = json!({"taskId": task, "inputResponses": answers});
                client.request(11, "tasks/update", update).await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let polled = tokio::time::timeout(PATIENCE, polled).await;
    polled.expect("the task gets there")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_client_polls_the_task_that_a_server_of_either_era_makes() {
    let scratch = Scratch::new();
    let gateway = both(&scratch).await;
    for server in ["old", "new"] {
        let mut client = task_client(&gateway, "ada");
        let params = |arguments: Value| json!({"name": format!("mcp__{server}__errand"), "arguments": arguments});
        let asking = params(json!({"seconds": 0.1, "steps": 1, "ask": true}));
        let created = client.request(1, "tools/call", asking).await;
        assert_eq!(
            created["result"]["resultType"], "task",
            "{server}: {created}"
        );
        let task = created["result"]["taskId"].clone();
        let ended = poll(&mut client, &task, "completed").await;
        let text = ended["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("for Ada"), "{server}: {ended}");

        let long = params(json!({"seconds": 3000}));
        let created = client.request(2, "tools/call", long).await;
        let long = created["result"]["taskId"].clone();
        // Another principal does not see it, and who does not declare tasks cannot ask.
        let mut other = task_client(&gateway, "bob");
        let refused = other.request(1, "tasks/get", json!({"taskId": long})).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let mut plain = TestClient::modern(&gateway, "ada", json!({}));
        let refused = plain.request(1, "tasks/get", json!({"taskId": long})).await;
        assert_eq!(refused["error"]["code"], -32021, "{refused}");
        let cancelled = client
            .request(3, "tasks/cancel", json!({"taskId": long}))
            .await;
        assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
        poll(&mut client, &long, "cancelled").await;
    }
    stop(gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_client_calls_any_tool_as_a_task() {
    let scratch = Scratch::new();
    let gateway = both(&scratch).await;
    for server in ["old", "new"] {
        let mut client = client(&gateway, false, "ada").await;
        let asking = json!({"seconds": 0.1, "steps": 1, "ask": true});
        for (tool, arguments, expected) in [
            ("errand", asking, "for Ada"),
            ("echo", json!({"message": "hi"}), "hi"),
        ] {
            let params = json!({
                "name": format!("mcp__{server}__{tool}"), "arguments": arguments,
                "task": {"ttl": 60_000},
            });
            let created = client.request(1, "tools/call", params).await;
            let task = created["result"]["task"]["taskId"].clone();
            assert!(task.is_string(), "{created}");
            assert_eq!(created["result"]["task"]["ttl"], 60_000, "{created}");
            let named = json!({"taskId": task});
            let result = client.request(2, "tasks/result", named.clone()).await;
            let text = result["result"]["content"][0]["text"].as_str();
            assert!(
                text.is_some_and(|text| text.contains(expected)),
                "{server} {tool}: {result}"
            );
            assert_eq!(result["result"]["_meta"][RELATED], named, "{result}");
            let state = client.request(3, "tasks/get", named.clone()).await;
            assert_eq!(state["result"]["status"], "completed", "{state}");
            let late = client.request(4, "tasks/cancel", named).await;
            assert_eq!(late["error"]["code"], -32602, "{late}");
        }
        let question = client
            .questions
            .iter()
            .find(|one| one["method"] == "elicitation/create");
        let related = &question.unwrap()["params"]["_meta"][RELATED];
        assert!(related["taskId"].is_string(), "{related}");
        let listed = client.request(5, "tasks/list", json!({})).await;
        assert!(
            listed["result"]["tasks"].as_array().unwrap().len() >= 2,
            "{listed}"
        );
    }
    stop(gateway).await;
}

/// The task is the gateway's: a server that knows tasks would refuse the call of a plain tool, or answer
/// with a task of its own in place of the result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_clients_request_for_a_task_does_not_reach_the_server() {
    for era in [Era::Legacy, Era::Modern] {
        let scratch = Scratch::new();
        let record = scratch.path("seen");
        let server = Chaos::new()
            .era(era)
            .tool("plain", Step::text("done"))
            .record(&record);
        let gateway = gateway(&scratch, &format!("{ALLOW}{}", server.entry("s").render())).await;
        let mut client = client(&gateway, false, "ada").await;
        let params = json!({"name": "mcp__s__plain", "arguments": {}, "task": {"ttl": 60_000}});
        let created = client.request(1, "tools/call", params).await;
        let named = json!({"taskId": created["result"]["task"]["taskId"]});
        let result = client.request(2, "tasks/result", named).await;
        assert_eq!(result["result"]["content"][0]["text"], "done", "{result}");
        let received = Record::read(&record).with_method("tools/call");
        assert_eq!(received.len(), 1);
        let params = received[0].params.as_ref().unwrap().get();
        assert!(!params.contains("\"task\""), "{params}");
        stop(gateway).await;
    }
}

/// An ended task does not change, so one that was cancelled is never shown in another state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_task_is_cancelled_when_its_cancellation_is_answered() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool("t", vec![Step::AwaitCancel, Step::text("late")]);
    let tables = format!("{ALLOW}{}", server.entry("s").render());
    let gateway = gateway(&scratch, &tables).await;
    let mut client = client(&gateway, false, "ada").await;
    let params = json!({"name": "mcp__s__t", "arguments": {}, "task": {}});
    let created = client.request(1, "tools/call", params).await;
    let task = json!({"taskId": created["result"]["task"]["taskId"]});
    // Both are handled before the call can end.
    let line = |id: u64, method: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": task}).to_string()
    };
    let lines = [line(2, "tasks/cancel"), line(3, "tasks/get")].join("\n");
    client.send_raw(&lines).await;
    for id in [2, 3] {
        let response: Value = serde_json::from_str(&client.next_raw_response().await).unwrap();
        let shown = (&response["id"], &response["result"]["status"]);
        assert_eq!(shown, (&json!(id), &json!("cancelled")), "{response}");
    }
    stop(gateway).await;
}

/// The server's own task is none of the client's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_and_logs_of_a_legacy_clients_task_name_it_and_no_other() {
    let scratch = Scratch::new();
    let log =
        format!(r#"{{"level":"info","data":"x","_meta":{{"{RELATED}":{{"taskId":"its own"}}}}}}"#);
    let server = Chaos::new().tool(
        "t",
        vec![
            Step::Progress(1.0),
            Step::notify("notifications/message", Some(&log)),
            Step::text("ok"),
        ],
    );
    let tables = format!("{ALLOW}{}", server.entry("s").render());
    let gateway = gateway(&scratch, &tables).await;
    let mut client = client(&gateway, false, "ada").await;
    for is_task in [false, true] {
        let mut params = json!({
            "name": "mcp__s__t", "arguments": {}, "_meta": {"progressToken": "p"},
        });
        if is_task {
            params["task"] = json!({});
        }
        let created = client.request(1, "tools/call", params).await;
        let task = created["result"]["task"].get("taskId").cloned();
        for method in ["notifications/progress", "notifications/message"] {
            let message = client.notification(method).await;
            let named = message["params"]["_meta"][RELATED].get("taskId").cloned();
            assert_eq!(named, task, "{message}");
        }
    }
    stop(gateway).await;
}

/// Tasks belong to the principal: another session may wait for the result, and answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_that_waits_for_a_tasks_result_answers_its_questions() {
    let scratch = Scratch::new();
    let gateway = both(&scratch).await;
    let mut first = client(&gateway, false, "ada").await;
    let params = json!({
        "name": "mcp__old__errand", "task": {},
        "arguments": {"seconds": 0.5, "steps": 1, "ask": true},
    });
    let created = first.request(1, "tools/call", params).await;
    let task = created["result"]["task"]["taskId"].clone();
    let mut second = client(&gateway, false, "ada").await;
    let result = second
        .request(1, "tasks/result", json!({"taskId": task}))
        .await;
    let text = result["result"]["content"][0]["text"].as_str();
    assert!(
        text.is_some_and(|text| text.contains("for Ada")),
        "{result}"
    );
    stop(gateway).await;
}

/// The time stands still but for timeouts, so a wait for one shows.
#[tokio::test(start_paused = true)]
async fn the_connection_of_a_client_with_a_stored_task_ends_at_once() {
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, "").await;
    let mut client = client(&gateway, false, "ada").await;
    let params = json!({"name": "no_such_tool", "task": {}});
    let created = client.request(1, "tools/call", params).await;
    let task = created["result"]["task"]["taskId"].clone();
    assert!(task.is_string(), "{created}");
    client
        .request(2, "tasks/result", json!({"taskId": task}))
        .await;
    let began = tokio::time::Instant::now();
    client.disconnect().await;
    assert!(began.elapsed() < std::time::Duration::from_secs(1));
    stop(gateway).await;
}

/// A server with these skills and nothing else, whose files say whose they are.
fn skilled(name: &str, era: Era, skills: &[&str]) -> Chaos {
    let is_legacy = matches!(era, Era::Legacy);
    let capabilities = format!(
        r#"{{"tools":{{}},"resources":{{}},"extensions":{{"io.modelcontextprotocol/skills":{{"directoryRead":{is_legacy}}}}}}}"#
    );
    let legacy = format!(
        r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"s","version":"1"}}}}"#
    );
    let modern = format!(
        r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{capabilities},"ttlMs":1000,"cacheScope":"private"}}"#
    );
    let entries: Vec<_> = skills
        .iter()
        .map(|uri| format!(r#"{{"uri":"{uri}","frontmatter":{{"name":"{name}"}},"resources":[ {{"digest":"sha256:1","size":1.0}} ]}}"#))
        .collect();
    let list = format!(r#"{{"skills":[{}]}}"#, entries.join(","));
    let file = format!(r#"{{"contents":[{{"uri":"x","text":"{name}"}}]}}"#);
    let server = Chaos::new()
        .era(era)
        .on("skills/list", Step::result(&list))
        .on(
            "skills/get",
            Step::result(&format!(r#"{{"skill":"{name}"}}"#)),
        )
        .on(
            "resources/directory/read",
            Step::result(&format!(r#"{{"resources":[],"of":"{name}"}}"#)),
        )
        .on("resources/read", Step::result(&file));
    match era {
        Era::Modern => server.on("server/discover", Step::result(&modern)),
        _ => server.on("initialize", Step::result(&legacy)),
    }
}

/// SEP-2640: one list of all skills, entries byte for byte; each file comes from its skill's server;
/// of two skills with one address the first in config order counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skills_of_servers_of_both_eras_are_offered_to_clients_of_both_eras() {
    let scratch = Scratch::new();
    let old = skilled(
        "old",
        Era::Legacy,
        &["skill://a/SKILL.md", "skill://same/SKILL.md"],
    );
    let new = skilled(
        "new",
        Era::Modern,
        &["skill://b/SKILL.md", "skill://same/SKILL.md"],
    );
    let record = scratch.path("new.jsonl");
    let new = new.record(&record);
    let silent = Chaos::new();
    let servers = [old.entry("old"), new.entry("new"), silent.entry("silent")];
    let servers: String = servers.iter().map(|server| server.render()).collect();
    for is_modern in [false, true] {
        let gateway = gateway(&scratch, &format!("{ALLOW}{servers}")).await;
        let mut client = client(&gateway, is_modern, "ada").await;
        // Before any list: the servers are asked for one.
        let text = |response: &Value| response["result"]["contents"][0]["text"].clone();
        let read = client
            .request(1, "resources/read", json!({"uri": "skill://b/notes.md"}))
            .await;
        assert_eq!(text(&read), "new", "{read}");
        let listed = client.request(2, "skills/list", json!({})).await;
        let skills = listed["result"]["skills"].as_array().unwrap().clone();
        let uris: Vec<_> = skills
            .iter()
            .map(|skill| skill["uri"].as_str().unwrap())
            .collect();
        assert_eq!(
            uris,
            [
                "skill://a/SKILL.md",
                "skill://same/SKILL.md",
                "skill://b/SKILL.md"
            ]
        );
        assert_eq!(skills[1]["frontmatter"]["name"], "old", "{listed}");
        for (uri, server) in [
            ("skill://a/SKILL.md", "old"),
            ("skill://same/scripts/run.sh", "old"),
            ("skill://b/SKILL.md", "new"),
        ] {
            let read = client
                .request(3, "resources/read", json!({ "uri": uri }))
                .await;
            assert_eq!(text(&read), server, "{uri}: {read}");
        }
        let got = client
            .request(4, "skills/get", json!({"uri": "skill://b/SKILL.md"}))
            .await;
        assert_eq!(got["result"]["skill"], "new", "{got}");
        let received = Record::read(&record).with_method("skills/get");
        let params = received.last().unwrap().params.clone().unwrap();
        let params = serde_json::to_value(params).unwrap();
        assert_eq!(params["uri"], "skill://b/SKILL.md", "{params}");
        let folder = client
            .request(5, "resources/directory/read", json!({"uri": "skill://a"}))
            .await;
        assert_eq!(folder["result"]["of"], "old", "{folder}");
        // The newer one does not declare that it lists folders: it is not asked.
        let folder = client
            .request(5, "resources/directory/read", json!({"uri": "skill://b"}))
            .await;
        assert_eq!(folder["error"]["code"], -32601, "{folder}");
        let unknown = client
            .request(6, "skills/get", json!({"uri": "skill://none/SKILL.md"}))
            .await;
        assert!(unknown["error"]["code"].is_i64(), "{unknown}");
        stop(gateway).await;
    }
}

/// SEP-2640: a server gets no request for a skill of a server before it, whatever it lists; nor for
/// addresses that are merely like those of its own skills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_cannot_take_over_the_skill_of_one_before_it() {
    let scratch = Scratch::new();
    let honest = skilled("honest", Era::Legacy, &["skill://pdf/SKILL.md"]);
    let resources = r#"{"resources":[{"uri":"skill://pdf/SKILL.md","name":"a"},{"uri":"skill://own/SKILL.md","name":"b"}]}"#;
    let other = [
        "skill://pdf/notes.md",
        "skill://pdf/scripts/",
        "skill://p",
        "skill://own/SKILL.md",
    ];
    let other = skilled("other", Era::Legacy, &other).on("resources/list", Step::result(resources));
    let servers = [honest.entry("honest"), other.entry("other")].map(|entry| entry.render());
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", servers.concat())).await;
    let mut client = client(&gateway, false, "ada").await;
    // The first of them before any list of skills.
    for (uri, server) in [
        ("skill://pdf/SKILL.md", Some("honest")),
        ("skill://pdf/notes.md", Some("honest")),
        ("skill://pdf/scripts/run.py", Some("honest")),
        ("skill://own/SKILL.md", Some("other")),
        ("skill://own/run.py", Some("other")),
        ("skill://pdf2/notes.md", None),
    ] {
        let read = client
            .request(1, "resources/read", json!({ "uri": uri }))
            .await;
        let text = read["result"]["contents"][0]["text"].as_str();
        assert_eq!(text, server, "{uri}: {read}");
    }
    let got = client
        .request(2, "skills/get", json!({"uri": "skill://pdf/SKILL.md"}))
        .await;
    assert_eq!(got["result"]["skill"], "honest", "{got}");
    let listed = client.request(3, "skills/list", json!({})).await;
    let skills = listed["result"]["skills"].as_array().unwrap();
    let uris: Vec<_> = skills.iter().map(|skill| &skill["uri"]).collect();
    assert_eq!(
        uris,
        ["skill://pdf/SKILL.md", "skill://p", "skill://own/SKILL.md"]
    );
    stop(gateway).await;
}
