//! Tools of the program and tools of servers: side by side, under one permission system.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use switchboard::HostBuilder;
use switchboard::call::{Call, CallError};
use switchboard::caller::{Approval, Caller, Keep};
use switchboard::config::Dialect;
use switchboard::server::State;
use switchboard::session::RequestFault;
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{Own, PATIENCE, Stage, person_who_says, start};

/// S0-19, S4-11: one base name, three tools, each reached by its own name.
#[tokio::test]
async fn s0_19_s4_11_own_and_server_tools_of_one_base_name_are_called_apart() {
    let (search, ran) = Own::new("search");
    let chaos = |text: &str| Chaos::new().tool("search", Step::text(text));
    let servers = [
        (Dialect::CoreAgent, "one", chaos("one's")),
        (Dialect::AgentCode, "two", chaos("two's")),
    ];
    let stage = Stage::settled("", &servers, |builder| builder.tool(search)).await;
    let expected = [
        "search",
        "ListMcpResources",
        "ReadMcpResource",
        "one_search",
        "mcp__two__search",
    ];
    assert_eq!(
        stage.names(),
        expected,
        "an agent-code server brings the resource tools along"
    );
    assert_eq!(
        stage.told("search", json!({"text": "mine"})).await,
        "own: mine"
    );
    assert_eq!(stage.told("one_search", json!({})).await, "one's");
    assert_eq!(stage.told("mcp__two__search", json!({})).await, "two's");
    assert_eq!(
        (
            ran.load(Ordering::Relaxed),
            stage.calls("one").len(),
            stage.calls("two").len()
        ),
        (1, 1, 1)
    );
    stage.host.stop().await;
}

/// S1-17, S2-49, S4-16: rules, questions and remembered answers decide on both kinds of tools in
/// the same way.
#[tokio::test]
async fn s1_17_s2_49_s4_16_one_permission_system_for_own_and_server_tools() {
    let rules = "[permissions]\ndeny = [\"Bash\", \"mcp__s__danger\"]\nallow = [\"Read\", \"mcp__s__fine\"]\n";
    let (bash, bash_ran) = Own::new("Bash");
    let (read, _) = Own::new("Read");
    let (other, _) = Own::new("other");
    let chaos = ["danger", "fine", "plain"]
        .iter()
        .fold(Chaos::new(), |chaos, tool| {
            chaos.tool(tool, Step::text("ok"))
        });
    let own = |builder: HostBuilder| builder.tool(bash).tool(read).tool(other);
    let stage = Stage::settled(rules, &[(Dialect::Native, "s", chaos)], own).await;
    let text = json!({"text": "x"});

    let person = person_who_says(Approval::AlwaysTool(Keep::Run));
    for denied in ["Bash", "mcp__s__danger"] {
        let error = stage.call(denied, text.clone(), &person).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Denied { reason, .. } if reason.to_string().starts_with("deny rule")),
            "{error}"
        );
    }
    assert_eq!(
        (bash_ran.load(Ordering::Relaxed), stage.calls("s").len()),
        (0, 0)
    );
    for allowed in ["Read", "mcp__s__fine"] {
        stage.call(allowed, text.clone(), &person).await.unwrap();
    }
    assert_eq!(person.exposed(), [""; 0]);
    // Neither rule holds: asked once, and the answer is remembered.
    for _ in 0..2 {
        for asked in ["other", "mcp__s__plain"] {
            stage.call(asked, text.clone(), &person).await.unwrap();
        }
    }
    assert_eq!(person.exposed(), ["other", "mcp__s__plain"]);
    let nobody = person_who_says(Approval::Unavailable);
    let (unasked, _) = (
        stage.call("other", text.clone(), &nobody).await.unwrap(),
        nobody.exposed(),
    );
    assert!(!unasked.is_error());
    stage.host.stop().await;
}

#[tokio::test]
async fn an_always_for_one_of_the_programs_tools_is_for_that_one_alone() {
    let (one, _) = Own::new("one");
    let (two, _) = Own::new("two");
    let stage = Stage::settled("", &[], |builder| builder.tool(one).tool(two)).await;
    let person = person_who_says(Approval::AlwaysServer(Keep::Run));
    for tool in ["one", "two", "one", "two"] {
        stage
            .call(tool, json!({"text": "x"}), &person)
            .await
            .unwrap();
    }
    assert_eq!(person.exposed(), ["one", "two"]);
}

#[tokio::test]
async fn an_own_tools_arguments_are_checked_its_failure_is_a_result_and_its_time_is_bounded() {
    let (own, ran) = Own::new("own");
    let stage = Stage::settled("[permissions]\nmode = \"yolo\"\n", &[], |builder| {
        builder.tool(own)
    })
    .await;
    let person = person_who_says(Approval::No { reason: None });
    let misfit = stage
        .call("own", json!({"text": 1}), &person)
        .await
        .unwrap_err();
    assert!(
        misfit
            .to_string()
            .starts_with("tool own: the arguments do not fit the tool's input schema"),
        "{misfit}"
    );
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert_eq!(
        stage.told("own", json!({"text": "fail"})).await,
        "error: it did not work"
    );
    let call = Call::new("own", json!({"text": "wait"}))
        .caller(person as Arc<dyn Caller>)
        .timeout(Duration::from_millis(50));
    let late = stage.host.call_with(call).await.unwrap_err();
    assert!(
        matches!(
            late,
            CallError::Request {
                fault: RequestFault::Timeout { total: true, .. },
                ..
            }
        ),
        "{late}"
    );
}

/// S2-06: what a discovered tool carries: whether it is confirmed, how it is executed, what the
/// model and what the person see of its answer, how its server stands, and how long it may take.
#[tokio::test]
async fn s2_06_a_tool_carries_confirmation_execution_projections_state_and_timeout() {
    let image = r#"{"content":[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}]}"#;
    let chaos = Chaos::new()
        .tool("list", Step::text(r#"{"a":1}"#))
        .tool("image", Step::result(image))
        .tool("never", Step::Drop);
    let scratch = Scratch::new();
    let entries = ["py", "trusted"].map(|name| {
        chaos
            .clone()
            .record(scratch.path(name))
            .entry(name)
            .set("call_timeout", "3s")
    });
    let trusting = |mut builder: HostBuilder| {
        Arc::make_mut(&mut builder.config_mut().servers[1]).trust = true;
        builder
    };
    let host = start(&scratch, "", &entries, &[Dialect::Gemini; 2], trusting).await;
    assert!(host.settled(PATIENCE).await);
    let stage = Stage { host, scratch };
    let tool = stage.host.catalog().resolve("list").unwrap().clone();
    let person = person_who_says(Approval::Once);
    let result = stage
        .call(tool.exposed.as_str(), json!({}), &person)
        .await
        .unwrap();
    assert_eq!(person.exposed(), ["list"]);
    assert_eq!(
        stage.calls("py"),
        [json!({"name": "list", "arguments": {}})]
    );
    assert_eq!(result.untrusted_text().unwrap().raw(), r#"{"a":1}"#);
    assert_eq!(
        result.for_person().unwrap().raw(),
        "```json\n{\n  \"a\": 1\n}\n```"
    );
    let state = |stage: &Stage| {
        stage
            .host
            .server(tool.id.server.as_str())
            .unwrap()
            .snapshot()
            .state
            .clone()
    };
    assert!(matches!(state(&stage), State::Ready { .. }));
    // S2-44: the parts that a model takes are there as they were sent, image data and all.
    let picture = stage.call("image", json!({}), &person).await.unwrap();
    assert_eq!(
        picture.raw.to_value().unwrap(),
        serde_json::from_str::<serde_json::Value>(image).unwrap()
    );
    let late = stage.call("never", json!({}), &person).await.unwrap_err();
    assert!(
        matches!(
            late,
            CallError::Request {
                fault: RequestFault::Timeout { .. },
                ..
            }
        ),
        "{late}"
    );
    assert!(late.to_string().ends_with("no answer within 3s"), "{late}");
    assert_eq!(person.exposed(), ["list", "image", "never"]);
    // Of a trusted server nobody is asked.
    let nobody = person_who_says(Approval::No { reason: None });
    stage
        .call("trusted__list", json!({}), &nobody)
        .await
        .unwrap();
    assert_eq!(nobody.exposed(), [""; 0]);
    stage.host.stop().await;
    assert!(matches!(state(&stage), State::Stopped));
}
