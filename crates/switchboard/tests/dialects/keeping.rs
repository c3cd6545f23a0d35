//! Which servers of a gemini file stay, and which are closed once it is known what they offer.

use std::time::Duration;

use serde_json::json;
use switchboard::config::Dialect;
use switchboard_testkit::{Chaos, Step, is_alive, wait_until};

use crate::support::{PATIENCE, Stage, assert_ready, call, snapshot};

/// S2-34: one process and one handshake, however many calls and however long the pause between
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn s2_34_the_connection_to_a_server_with_a_usable_tool_persists_between_calls() {
    let stage = Stage::new();
    let text = json!({ "mcpServers": { "x": { "command": stage.server("x") } } }).to_string();
    let path = std::env::var("PATH").unwrap();
    let host = stage
        .host(Dialect::Gemini, "settings.json", &text, &[("PATH", &path)])
        .await;
    assert_ready(&host, "x");
    let pid = snapshot(&host, "x").pid;
    assert!(pid.is_some());
    for pause in [500, 0] {
        assert_eq!(call(&host, "x/ok", json!({})).await.as_deref(), Ok("fine"));
        // Nothing is waited for: a connection that is closed when it is idle would be closed now.
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    let record = stage.record("x");
    assert_eq!(
        (
            record.starts(),
            record.count("initialize"),
            record.count("tools/call")
        ),
        (1, 1, 2)
    );
    assert_eq!(snapshot(&host, "x").pid, pid);
    host.stop().await;
}

/// S2-35: without a usable tool nothing of the server is left, whatever else it offers; one with a
/// tool stays beside it.
#[tokio::test(flavor = "multi_thread")]
async fn s2_35_the_process_of_a_server_without_usable_tools_ends() {
    let stage = Stage::new();
    let prompts = r#"{"prompts":[{"name":"greet"}]}"#;
    let prompting = stage.server_that(
        "prompting",
        Chaos::new().on("prompts/list", [Step::result(prompts)]),
    );
    let text = json!({ "mcpServers": {
        "prompting": { "command": prompting },
        "filtered": { "command": stage.server("filtered"), "excludeTools": ["ok"] },
        "kept": { "command": stage.server("kept") },
    } });
    let path = std::env::var("PATH").unwrap();
    let host = stage
        .host(
            Dialect::Gemini,
            "settings.json",
            &text.to_string(),
            &[("PATH", &path)],
        )
        .await;
    assert_ready(&host, "kept");
    for name in ["prompting", "filtered"] {
        let told = host.server(name).unwrap().record();
        assert_eq!(told.status, "DISCONNECTED", "{told:?}");
        assert!(
            told.error
                .as_ref()
                .unwrap()
                .starts_with("no tools discovered"),
            "{told:?}"
        );
        let pid = stage.pid(name);
        assert!(
            tokio::task::block_in_place(|| wait_until(PATIENCE, || !is_alive(pid))),
            "{name} lives on"
        );
        let gone = || snapshot(&host, name).pid.is_none();
        assert!(
            tokio::task::block_in_place(|| wait_until(PATIENCE, gone)),
            "{name} is shown as running"
        );
        assert_eq!(stage.record(name).starts(), 1, "{name}");
    }
    assert!(is_alive(stage.pid("kept")));
    host.stop().await;
}
