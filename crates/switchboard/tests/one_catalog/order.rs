//! Tests of the order of discovery, and that tools are callable from then on.

use serde_json::{Value, json};
use switchboard::config::Dialect;
use switchboard_testkit::{Chaos, Passed, Scratch, Step};

use crate::support::{TIMEOUT, TestHost, start};

fn resources() -> [Step; 1] {
    [Step::result(
        r#"{"resources":[{"uri":"mem://one","name":"one"}]}"#,
    )]
}

/// S4-03: the messages between the host and a legacy server, in order.
#[tokio::test]
async fn s4_03_a_legacy_server_is_initialised_then_its_tools_are_listed_then_its_resources() {
    let scratch = Scratch::new();
    let passed = scratch.path("wire");
    let chaos = Chaos::new()
        .tool("create_issue", Step::text("created"))
        .on("resources/list", resources());
    let entry = chaos
        .entry("github")
        .set("protocol", "legacy")
        .teed(&passed);
    let host = start(&scratch, "", &[entry], &[Dialect::AgentCode], |builder| {
        builder
    })
    .await;
    host.server("github").unwrap().ready(TIMEOUT).await.unwrap();

    // Ready: everything is listed, and the tool has its name.
    assert!(host.catalog().resolve("mcp__github__create_issue").is_ok());
    let lines: Vec<Value> = Passed::read(&passed)
        .to_server
        .iter()
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let methods: Vec<_> = lines
        .iter()
        .map(|line| line["method"].as_str().unwrap())
        .collect();
    assert_eq!(
        methods,
        [
            "initialize",
            "notifications/initialized",
            "tools/list",
            "resources/list",
            "resources/templates/list"
        ]
    );
    let first = &lines[0]["params"];
    assert!(
        first["protocolVersion"].is_string() && first["capabilities"].is_object(),
        "{first}"
    );
    // The first response is that of `initialize`: nothing was sent before the version was
    // negotiated.
    let answer: Value = serde_json::from_slice(&Passed::read(&passed).to_host[0]).unwrap();
    assert_eq!(
        (
            &answer["id"],
            answer["result"]["protocolVersion"].is_string()
        ),
        (&lines[0]["id"], true)
    );
    host.stop().await;
}

/// S4-03: resources are listed only if they were declared.
#[tokio::test]
async fn s4_03_undeclared_resources_are_never_listed() {
    let servers = [(
        Dialect::AgentCode,
        "s",
        Chaos::new().tool("t", Step::text("ok")),
    )];
    let test = TestHost::settled("", &servers, |builder| builder).await;
    assert_eq!(test.record("s").count("resources/list"), 0);
    test.host.stop().await;
}

/// S2-05: connected, tools fetched, their schemas validated, then registered with conflicts
/// resolved.
#[tokio::test]
async fn s2_05_discovery_connects_fetches_validates_and_registers_in_this_order() {
    let chaos = |text: &str| Chaos::new().tool("search", Step::text(text));
    let broken = r#"{"name":"broken","inputSchema":{"type":"string"}}"#;
    let servers = [
        (Dialect::Gemini, "a", chaos("a's").extra_tool(broken)),
        (
            Dialect::Gemini,
            "b",
            chaos("b's").define(
                "search",
                "inputSchema",
                r#"{"$schema":"x","type":"object"}"#,
            ),
        ),
    ];
    let test = TestHost::settled("", &servers, |builder| builder).await;
    for server in ["a", "b"] {
        let methods = test.record(server).methods();
        let place = |method: &str| methods.iter().position(|known| known == method);
        assert!(
            place("initialize").unwrap() < place("tools/list").unwrap(),
            "{methods:?}"
        );
    }
    let catalog = test.host.catalog();
    let withheld: Vec<_> = catalog
        .withheld()
        .iter()
        .map(|no| format!("{}: {}", no.tool.as_wire(), no.reason))
        .collect();
    assert_eq!(
        withheld,
        ["broken: its inputSchema describes no object at its root"]
    );
    assert_eq!(
        catalog
            .resolve("b__search")
            .unwrap()
            .shown_schema()
            .as_str(),
        r#"{"type":"object"}"#
    );
    // Validation comes before naming: an invalid tool takes no name.
    assert_eq!(test.names(), ["search", "b__search"]);
    test.host.stop().await;
}

/// S1-01: tools are callable as soon as their server connects, late or again; nothing is
/// registered.
#[tokio::test]
async fn s1_01_tools_are_callable_as_soon_as_their_server_connects_late_or_after_a_reconnect() {
    let gate = Scratch::new();
    let go = gate.path("go");
    let chaos = Chaos::new()
        .tool("ping", Step::text("pong"))
        .on_start([Step::wait_file(&go)]);
    let test = TestHost::open("", &[(Dialect::A3s, "late", chaos)], |builder| builder).await;
    assert_eq!(test.names(), [""; 0]);
    let opening = async { std::fs::write(&go, "").unwrap() };
    let (answer, ()) = tokio::join!(test.text_for_model("mcp__late__ping", json!({})), opening);
    assert_eq!(answer, "pong");
    test.host.server("late").unwrap().restart().await;
    assert_eq!(
        test.text_for_model("mcp__late__ping", json!({})).await,
        "pong"
    );
    assert_eq!(test.record("late").starts(), 2);
    test.host.stop().await;
}
