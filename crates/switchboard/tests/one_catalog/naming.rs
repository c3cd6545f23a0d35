//! Names of servers of different dialects in one catalog, and that each leads to its own tool.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard::caller::Approval;
use switchboard::config::Dialect;
use switchboard_testkit::{Chaos, Step};

use crate::support::{PATIENCE, Stage, person_who_says};

/// S2-37: a call carries the registered name, prefixed or not, and arguments. S2-43, S4-10: the
/// server is sent its own name.
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
    let stage = Stage::settled("", &servers, |builder| builder).await;
    let expected = [
        "ListMcpResources",
        "ReadMcpResource",
        "do_it_",
        "b__do_it_",
        "mcp__github__create_issue",
    ];
    assert_eq!(
        stage.names(),
        expected,
        "an agent-code server brings the resource tools along"
    );
    assert_eq!(stage.told("b__do_it_", json!({"n": 1})).await, "from b");
    assert_eq!(stage.told("do_it_", json!({"n": 2})).await, "from a");
    assert_eq!(
        stage
            .told("mcp__github__create_issue", json!({"title": "t"}))
            .await,
        "created"
    );
    assert_eq!(
        stage.calls("a"),
        [json!({"name": "do it!", "arguments": {"n": 2}})]
    );
    assert_eq!(
        stage.calls("b"),
        [json!({"name": "do it!", "arguments": {"n": 1}})]
    );
    assert_eq!(
        stage.calls("github"),
        [json!({"name": "create_issue", "arguments": {"title": "t"}})]
    );
    stage.host.stop().await;
}

/// S2-27, S2-28 with servers that come in the other order than they are configured.
#[tokio::test]
async fn s2_27_s2_28_the_first_in_the_file_has_the_bare_name_though_it_connects_last() {
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
    let stage = Stage::open("", &servers, |builder| builder).await;
    stage
        .host
        .server("quick")
        .unwrap()
        .ready(PATIENCE)
        .await
        .unwrap();
    // It is there, and works by its pair; the name that it will have is not known yet.
    assert_eq!(stage.names(), [""; 0]);
    assert_eq!(stage.told("quick/search", json!({})).await, "quick's");
    let person = person_who_says(Approval::Once);
    let early = stage.call("search", json!({}), &person);
    let opening = async { std::fs::write(&go, "").unwrap() };
    // A call by the bare name waits for whoever will have it.
    let (early, ()) = tokio::join!(early, opening);
    assert_eq!(early.unwrap().untrusted_text().unwrap().raw(), "slow's");
    assert_eq!(stage.names(), ["search", "quick__search"]);
    assert_eq!(stage.told("quick__search", json!({})).await, "quick's");
    stage.host.stop().await;
}

/// S2-27, S2-28: once it is known that an earlier server failed, later ones have their bare names,
/// and keep them.
#[tokio::test]
async fn s2_28_a_server_that_comes_back_late_gets_the_prefixed_name() {
    let marker = switchboard_testkit::Scratch::new();
    let go = marker.path("go");
    // Twice, since a server that dies of the first message is started once more within one attempt.
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
    let stage = Stage::open("", &servers, |builder| builder).await;
    stage.appears("search").await;
    std::fs::write(&go, "").unwrap();
    stage.appears("first__search").await;
    let mut names = stage.names();
    names.sort();
    assert_eq!(names, ["first__search", "search"]);
    assert_eq!(stage.told("search", json!({})).await, "second's");
    assert_eq!(stage.told("first__search", json!({})).await, "first's");
    stage.host.stop().await;
}

/// S4-25: an unknown server or tool is an error that names it, as a result for the model.
#[tokio::test]
async fn s4_25_a_call_of_an_unknown_server_or_tool_is_an_error_result_that_names_it() {
    let servers = [(
        Dialect::AgentCode,
        "github",
        Chaos::new().tool("create_issue", Step::text("created")),
    )];
    let stage = Stage::settled("", &servers, |builder| builder).await;
    let check =
        async |name: &str, expected: &str| assert_eq!(stage.told(name, json!({})).await, expected);
    check("mcp__gitlab__zzz", "error: no tool \"mcp__gitlab__zzz\"").await;
    check("github/close", "error: no tool \"github/close\"").await;
    check(
        "mcp__github__create_isue",
        "error: no tool \"mcp__github__create_isue\"; did you mean mcp__github__create_issue?",
    )
    .await;
    stage.host.stop().await;
}

/// S4-20, S4-21, S4-22: on one host, which goes on after each: what a server does wrong is a result
/// that tells the model so.
#[tokio::test]
async fn s4_20_s4_21_s4_22_a_lost_connection_a_refusal_and_a_timeout_are_error_results_and_the_host_goes_on()
 {
    let marks = switchboard_testkit::Scratch::new();
    // It starts, and after that, without these marks, each start of a row ends at once.
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
    let stage = Stage::settled("", &servers, |mut builder| {
        let entry = Arc::make_mut(builder.config_mut().servers.get_mut("slow").unwrap());
        entry.timeouts.call = Duration::from_millis(300);
        builder
    })
    .await;
    starts
        .iter()
        .for_each(|mark| std::fs::remove_file(mark).unwrap());
    let check = async |tool: &str, expected: &str| {
        let told = stage.told(tool, json!({})).await;
        assert!(
            told.starts_with("error: ") && told.contains(expected),
            "{tool}: {told}"
        );
        assert_eq!(
            stage.told("mcp__slow__ok", json!({})).await,
            "fine",
            "after {tool}"
        );
    };
    check("mcp__frail__die", "server \"frail\": ").await;
    check("mcp__frail__die", "exited with status 9").await;
    check("mcp__slow__refuse", "the disk is full").await;
    check("mcp__slow__fail", "no repository x").await;
    check("mcp__slow__hang", "server \"slow\": no answer within 300ms").await;
    assert_eq!(
        (stage.calls("frail").len(), stage.record("slow").starts()),
        (1, 1),
        "nothing is sent twice, and nothing else ends"
    );
    stage.host.stop().await;
}

/// S3-13: tools of an agent-apps server are listed with their schema, and callable from outside.
#[tokio::test]
async fn s3_10_s3_12_s3_13_tools_of_agent_apps_are_public_with_their_schema_and_source() {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
    let chaos = Chaos::new()
        .tool("read_file", Step::text("contents"))
        .define("read_file", "inputSchema", schema);
    let stage = Stage::settled(
        "",
        &[(Dialect::AgentApps, "filesystem", chaos)],
        |builder| builder,
    )
    .await;
    let tool = stage
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
        stage
            .told("filesystem-read-file", json!({"path": "x"}))
            .await,
        "contents"
    );
    stage.host.stop().await;
}
