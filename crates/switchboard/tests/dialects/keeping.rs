//! Tests of which servers of a gemini file are kept, and which are closed after listing.

use serde_json::json;
use switchboard::config::Dialect;
use switchboard_testkit::{Chaos, Step, is_alive, wait_until};

use crate::support::{TIMEOUT, TestHost, assert_ready, call, snapshot};

/// S2-34: one process and one handshake, however many calls.
#[tokio::test(flavor = "multi_thread")]
async fn s2_34_the_connection_to_a_server_with_a_usable_tool_persists_between_calls() {
    let test = TestHost::new();
    let text = json!({ "mcpServers": { "x": { "command": test.server("x") } } }).to_string();
    let path = std::env::var("PATH").unwrap();
    let host = test
        .host(Dialect::Gemini, "settings.json", &text, &[("PATH", &path)])
        .await;
    assert_ready(&host, "x");
    let pid = snapshot(&host, "x").pid;
    assert!(pid.is_some());
    for _ in 0..2 {
        assert_eq!(call(&host, "x/ok", json!({})).await.as_deref(), Ok("fine"));
    }
    let record = test.record("x");
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

/// S2-35: a server without a usable tool is closed, whatever else it offers; one with a tool is
/// kept.
#[tokio::test(flavor = "multi_thread")]
async fn s2_35_the_process_of_a_server_without_usable_tools_ends() {
    let test = TestHost::new();
    let prompts = r#"{"prompts":[{"name":"greet"}]}"#;
    let prompting = test.server_that(
        "prompting",
        Chaos::new().on("prompts/list", [Step::result(prompts)]),
    );
    let text = json!({ "mcpServers": {
        "prompting": { "command": prompting },
        "filtered": { "command": test.server("filtered"), "excludeTools": ["ok"] },
        "kept": { "command": test.server("kept") },
    } });
    let path = std::env::var("PATH").unwrap();
    let host = test
        .host(
            Dialect::Gemini,
            "settings.json",
            &text.to_string(),
            &[("PATH", &path)],
        )
        .await;
    assert_ready(&host, "kept");
    for name in ["prompting", "filtered"] {
        let message = host.server(name).unwrap().dialect_status();
        assert_eq!(message.status, "DISCONNECTED", "{message:?}");
        assert!(
            message
                .error
                .as_ref()
                .unwrap()
                .starts_with("closed: no tools discovered"),
            "{message:?}"
        );
        let pid = test.pid(name);
        assert!(
            tokio::task::block_in_place(|| wait_until(TIMEOUT, || !is_alive(pid))),
            "{name} lives on"
        );
        let gone = || snapshot(&host, name).pid.is_none();
        assert!(
            tokio::task::block_in_place(|| wait_until(TIMEOUT, gone)),
            "{name} is shown as running"
        );
        assert_eq!(test.record(name).starts(), 1, "{name}");
    }
    assert!(is_alive(test.pid("kept")));
    host.stop().await;
}
