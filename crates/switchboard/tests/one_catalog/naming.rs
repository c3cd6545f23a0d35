//! Tests of the names of servers of different dialects in one catalog, and that each resolves to
//! its own tool.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard::caller::Approval;
use switchboard::config::Dialect;
use switchboard_testkit::{Chaos, Step};

use crate::support::{TIMEOUT, TestHost, caller_that_answers};

/// S2-37: a call has the exposed name, prefixed or not, and arguments. S2-43, S4-10: the server
/// gets its own name.
#[tokio::test]
async fn s2_37_s2_43_s4_10_a_call_by_the_exposed_name_reaches_its_server_under_the_original_one() {
    let chaos = |tool: &str, text: &str| Chaos::new().tool(tool, Step::text(text));
    let servers = [
        (Dialect::Gemini, "a", chaos("do it!", "from a")),
        (Dialect::Gemini, "b", chaos("do it!", "from b")),
        (
            Dialect::AgentCode,
            "github",
            chaos("create_issue", "created"),
        ),
    ];
    let test = TestHost::settled("", &servers, |builder| builder).await;
    let expected = [
        "ListMcpResources",
        "ReadMcpResource",
        "do_it_",
        "b__do_it_",
        "mcp__github__create_issue",
    ];
    assert_eq!(
        test.names(),
        expected,
        "an agent-code server brings the resource tools along"
    );
    assert_eq!(
        test.text_for_model("b__do_it_", json!({"n": 1})).await,
        "from b"
    );
    assert_eq!(
        test.text_for_model("do_it_", json!({"n": 2})).await,
        "from a"
    );
    assert_eq!(
        test.text_for_model("mcp__github__create_issue", json!({"title": "t"}))
            .await,
        "created"
    );
    assert_eq!(
        test.calls("a"),
        [json!({"name": "do it!", "arguments": {"n": 2}})]
    );
    assert_eq!(
        test.calls("b"),
        [json!({"name": "do it!", "arguments": {"n": 1}})]
    );
    assert_eq!(
        test.calls("github"),
        [json!({"name": "create_issue", "arguments": {"title": "t"}})]
    );
    test.host.stop().await;
}

/// S4-23: the server gets its own name of the tool, and the arguments as they are.
#[tokio::test]
async fn s4_23_a_call_carries_the_servers_own_tool_name_and_the_arguments() {
    let chaos = Chaos::new().tool("create issue!", Step::text("created"));
    let servers = [(Dialect::AgentCode, "github", chaos)];
    let test = TestHost::settled("", &servers, |builder| builder).await;
    let arguments = json!({"title": "t", "labels": ["a", {"b": null}], "n": 1.5});
    let name = test.names().pop().unwrap();
    assert_ne!(name, "create issue!");
    let answer = test.text_for_model(&name, arguments.clone()).await;
    assert_eq!(answer, "created");
    assert_eq!(
        test.calls("github"),
        [json!({"name": "create issue!", "arguments": arguments})]
    );
    test.host.stop().await;
}

/// S2-27, S2-28 with servers that connect in another order than configured.
#[tokio::test]
async fn s2_27_s2_28_the_first_server_has_the_bare_name_even_if_it_connects_last() {
    let gate = switchboard_testkit::Scratch::new();
    let go = gate.path("go");
    let servers = [
        (
            Dialect::Gemini,
            "slow",
            Chaos::new()
                .tool("search", Step::text("slow's"))
                .on_start([Step::wait_file(&go)]),
        ),
        (
            Dialect::Gemini,
            "quick",
            Chaos::new().tool("search", Step::text("quick's")),
        ),
    ];
    let test = TestHost::open("", &servers, |builder| builder).await;
    test.host
        .server("quick")
        .unwrap()
        .ready(TIMEOUT)
        .await
        .unwrap();
    // It is connected, and callable by its pair; its exposed name is not known yet.
    assert_eq!(test.names(), [""; 0]);
    assert_eq!(
        test.text_for_model("quick/search", json!({})).await,
        "quick's"
    );
    let person = caller_that_answers(Approval::Once);
    let early = test.call("search", json!({}), &person);
    let opening = async { std::fs::write(&go, "").unwrap() };
    // A call by the bare name waits for the server that will own it.
    let (early, ()) = tokio::join!(early, opening);
    assert_eq!(early.unwrap().untrusted_text().unwrap().raw(), "slow's");
    assert_eq!(test.names(), ["search", "quick__search"]);
    assert_eq!(
        test.text_for_model("quick__search", json!({})).await,
        "quick's"
    );
    test.host.stop().await;
}

/// S2-27, S2-28: once an earlier server has failed, later ones get their bare names, and keep them.
#[tokio::test]
async fn s2_28_a_server_that_recovers_late_gets_the_prefixed_name() {
    let marker = switchboard_testkit::Scratch::new();
    let go = marker.path("go");
    // Twice, since a server that exits on the first message is started once more within one
    // attempt.
    let fails = |name: &str| Step::once(marker.path(name), [Step::Exit(1)]);
    let fails_first = [fails("failed"), fails("failed again"), Step::wait_file(&go)];
    let servers = [
        (
            Dialect::Gemini,
            "first",
            Chaos::new()
                .tool("search", Step::text("first's"))
                .on_start(fails_first),
        ),
        (
            Dialect::Gemini,
            "second",
            Chaos::new().tool("search", Step::text("second's")),
        ),
    ];
    let test = TestHost::open("", &servers, |builder| builder).await;
    test.appears("search").await;
    std::fs::write(&go, "").unwrap();
    test.appears("first__search").await;
    let mut names = test.names();
    names.sort();
    assert_eq!(names, ["first__search", "search"]);
    assert_eq!(test.text_for_model("search", json!({})).await, "second's");
    assert_eq!(
        test.text_for_model("first__search", json!({})).await,
        "first's"
    );
    test.host.stop().await;
}

/// S4-25: an unknown server or tool is an error result for the model that names it.
#[tokio::test]
async fn s4_25_a_call_of_an_unknown_server_or_tool_is_an_error_result_that_names_it() {
    let servers = [(
        Dialect::AgentCode,
        "github",
        Chaos::new().tool("create_issue", Step::text("created")),
    )];
    let test = TestHost::settled("", &servers, |builder| builder).await;
    let check = async |name: &str, expected: &str| {
        assert_eq!(test.text_for_model(name, json!({})).await, expected)
    };
    check("mcp__gitlab__zzz", "error: no tool \"mcp__gitlab__zzz\"").await;
    check("github/close", "error: no tool \"github/close\"").await;
    check(
        "mcp__github__create_isue",
        "error: no tool \"mcp__github__create_isue\"; did you mean mcp__github__create_issue?",
    )
    .await;
    test.host.stop().await;
}

/// S4-20, S4-21, S4-22: on one host, which continues after each: a server's fault is an error
/// result for the model.
#[tokio::test]
async fn s4_20_s4_21_s4_22_a_lost_connection_a_refusal_and_a_timeout_are_error_results_and_the_host_goes_on()
 {
    let marks = switchboard_testkit::Scratch::new();
    // It starts; afterwards, without these markers, each start exits at once.
    let starts: Vec<_> = (0..16)
        .map(|start| marks.write(&format!("start {start}"), ""))
        .collect();
    let on_start: Vec<_> = starts
        .iter()
        .map(|mark| Step::once(mark, Step::Exit(9)))
        .collect();
    let frail = Chaos::new().on_start(on_start).tool("die", Step::Exit(7));
    let failed = r#"{"content":[{"type":"text","text":"no repository x"}],"isError":true}"#;
    let slow = Chaos::new()
        .tool("refuse", Step::error(-32603, "the disk is full"))
        .tool("fail", Step::result(failed))
        .tool("hang", Step::Drop)
        .tool("ok", Step::text("fine"));
    let servers = [
        (Dialect::AgentCode, "frail", frail),
        (Dialect::AgentCode, "slow", slow),
    ];
    let test = TestHost::settled("", &servers, |mut builder| {
        let entry = Arc::make_mut(builder.config_mut().servers.get_mut("slow").unwrap());
        entry.timeouts.call = Duration::from_millis(300);
        builder
    })
    .await;
    starts
        .iter()
        .for_each(|mark| std::fs::remove_file(mark).unwrap());
    let check = async |tool: &str, expected: &str| {
        let message = test.text_for_model(tool, json!({})).await;
        assert!(
            message.starts_with("error: ") && message.contains(expected),
            "{tool}: {message}"
        );
        assert_eq!(
            test.text_for_model("mcp__slow__ok", json!({})).await,
            "fine",
            "after {tool}"
        );
    };
    check("mcp__frail__die", "server \"frail\": ").await;
    check("mcp__frail__die", "exited with status 9").await;
    check("mcp__slow__refuse", "the disk is full").await;
    check("mcp__slow__fail", "no repository x").await;
    check(
        "mcp__slow__hang",
        "server \"slow\": no answer or progress within 300 ms",
    )
    .await;
    assert_eq!(
        (test.calls("frail").len(), test.record("slow").starts()),
        (1, 1),
        "nothing is sent twice, and nothing else ends"
    );
    test.host.stop().await;
}

/// S3-13: tools of an agent-apps server are listed with their schema, and callable from outside.
#[tokio::test]
async fn s3_10_s3_12_s3_13_tools_of_agent_apps_are_public_with_their_schema_and_source() {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
    let chaos = Chaos::new()
        .tool("read_file", Step::text("contents"))
        .define("read_file", "inputSchema", schema);
    let test = TestHost::settled(
        "",
        &[(Dialect::AgentApps, "filesystem", chaos)],
        |builder| builder,
    )
    .await;
    let tool = test
        .host
        .catalog()
        .resolve("filesystem-read-file")
        .unwrap()
        .clone();
    assert_eq!(tool.definition.input_schema.as_str(), schema);
    assert_eq!(
        tool.source_uri().as_deref(),
        Some("mcp://filesystem/read-file")
    );
    assert_eq!(
        test.text_for_model("filesystem-read-file", json!({"path": "x"}))
            .await,
        "contents"
    );
    test.host.stop().await;
}
