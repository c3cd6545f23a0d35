//! Rules, effects and denials: the gate treats built-in tools as it treats servers' tools.

use serde_json::json;
use switchboard::{CallError, ToolEffect};
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::fixture::Fixture;

/// T8: annotations of a server do not set a tool's effect, so no mode approves by them.
#[tokio::test]
async fn t8_a_servers_annotations_do_not_set_a_tools_effect() {
    let scratch = Scratch::new();
    let hints = r#"{"readOnlyHint":true,"destructiveHint":false}"#;
    let server = Chaos::new().tool("Peek", Step::text("ran"));
    let server = server.define("Peek", "annotations", hints);
    let file = scratch.config_with("", &[server.entry("s")]);
    let config = switchboard::HostBuilder::open(file).unwrap();
    let mut config = config;
    let servers = config.config_mut().servers.clone();
    let fixture = Fixture::with(
        |tools| tools,
        |mut host| {
            host.config_mut().servers = servers;
            host
        },
    )
    .await;
    fixture
        .host
        .wait_until_settled(std::time::Duration::from_secs(60))
        .await;
    let answer = fixture.call("s/Peek", json!({})).await.unwrap();
    assert_eq!(answer, "ran");
    fixture.call("Glob", json!({"pattern": "*"})).await.unwrap();
    let asked = fixture.caller.asked.lock().unwrap().clone();
    let effects: Vec<_> = asked.into_iter().map(|asked| asked.0).collect();
    assert_eq!(effects, [None, Some(ToolEffect::Read)]);
}

/// T33: a deny rule applies to built-in tools after any approval; an allow rule for one tool does not
/// apply to another.
#[tokio::test]
async fn t33_rules_hold_for_built_in_tools_by_their_own_names() {
    let fixture = Fixture::with(
        |tools| tools,
        |host| host.deny("Bash").allow("Read").ask("Grep"),
    )
    .await;
    fixture.file("a.txt", "one\n");
    let denied = fixture
        .try_call("Bash", json!({"command": "touch ran"}))
        .await;
    assert!(
        matches!(denied, Err(CallError::Denied { .. })),
        "{denied:?}"
    );
    let call = switchboard::Call::new("Bash", json!({"command": "touch ran"}));
    let beforehand = fixture.host.call_with(call.pre_approved()).await;
    assert!(matches!(beforehand, Err(CallError::Denied { .. })));
    assert!(!fixture.path("ran").exists());
    fixture
        .call("Read", json!({"path": "a.txt"}))
        .await
        .unwrap();
    assert_eq!(
        fixture.previews().len(),
        0,
        "allowed and denied calls are not asked about"
    );
    fixture
        .call("Grep", json!({"pattern": "one"}))
        .await
        .unwrap();
    fixture.call("Glob", json!({"pattern": "*"})).await.unwrap();
    assert_eq!(fixture.previews().len(), 2);
}

/// Rules for tools of servers do not apply to built-in tools.
#[tokio::test]
async fn t33_rules_for_servers_tools_allow_no_built_in_tool() {
    for rule in ["mcp__*", "mcp__Read", "mcp:*", "read", "Rea?d", "bash:*"] {
        let fixture = Fixture::with(|tools| tools, |host| host.allow(rule)).await;
        fixture.file("a.txt", "one\n");
        let _ = fixture.call("Read", json!({"path": "a.txt"})).await;
        assert_eq!(fixture.previews().len(), 1, "{rule}");
    }
}
