//! In which order a server is discovered, and that its tools are callable from then on.

use serde_json::{Value, json};
use switchboard::config::Dialect;
use switchboard_testkit::{Chaos, Passed, Scratch, Step};

use crate::support::{PATIENCE, Stage, start};

fn resources() -> [Step; 1] {
    [Step::result(
        r#"{"resources":[{"uri":"mem://one","name":"one"}]}"#,
    )]
}

/// S4-03: what passes between the host and a legacy server, in order.
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
    host.server("github")
        .unwrap()
        .ready(PATIENCE)
        .await
        .unwrap();

    // Ready: all of it has happened, and the tool has its name.
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
    // The first that came back is the answer to `initialize`: nothing was sent before the version
    // was agreed.
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

/// S4-03: resources are listed only where they were declared.
#[tokio::test]
async fn s4_03_a_server_that_declares_no_resources_is_not_asked_for_them() {
    let servers = [(
        Dialect::AgentCode,
        "s",
        Chaos::new().tool("t", Step::text("ok")),
    )];
    let stage = Stage::settled("", &servers, |builder| builder).await;
    assert_eq!(stage.record("s").count("resources/list"), 0);
    stage.host.stop().await;
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
    let stage = Stage::settled("", &servers, |builder| builder).await;
    for server in ["a", "b"] {
        let methods = stage.record(server).methods();
        let place = |method: &str| methods.iter().position(|known| known == method);
        assert!(
            place("initialize").unwrap() < place("tools/list").unwrap(),
            "{methods:?}"
        );
    }
    let catalog = stage.host.catalog();
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
    // Validation comes before names: what is not valid takes no name from anybody.
    assert_eq!(stage.names(), ["search", "b__search"]);
    stage.host.stop().await;
}

/// S1-01: tools are callable as soon as their server connects, late or anew; nobody registers
/// anything.
#[tokio::test]
async fn s1_01_tools_are_callable_as_soon_as_their_server_connects_late_or_after_a_reconnect() {
    let gate = Scratch::new();
    let go = gate.path("go");
    let chaos = Chaos::new()
        .tool("ping", Step::text("pong"))
        .on_start([Step::wait_file(&go)]);
    let stage = Stage::open("", &[(Dialect::A3s, "late", chaos)], |builder| builder).await;
    assert_eq!(stage.names(), [""; 0]);
    let opening = async { std::fs::write(&go, "").unwrap() };
    let (answer, ()) = tokio::join!(stage.told("mcp__late__ping", json!({})), opening);
    assert_eq!(answer, "pong");
    stage.host.server("late").unwrap().restart().await;
    assert_eq!(stage.told("mcp__late__ping", json!({})).await, "pong");
    assert_eq!(stage.record("late").starts(), 2);
    stage.host.stop().await;
}
