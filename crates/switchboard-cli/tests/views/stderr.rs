//! Stderr of servers: stored for debugging, in gemini without lines that a logger marked as INFO.

use serde_json::json;
use switchboard_testkit::Step;

use crate::fixture::{Fixture, entry, gemini, good};

const WORDS: &str = "INFO: started\n2026-11-15 09:30:00,123 - root - INFO - ready\nWARNING: slow disk\nplain words\n";

/// S2-51.
#[test]
fn s2_51_stderr_is_logged_without_the_lines_that_a_logger_marked_info() {
    let fixture = Fixture::new();
    let chatty = good().on_start(Step::Stderr(WORDS.to_owned()));
    fixture.write(
        "settings.json",
        &gemini(json!({ "chatty": entry(&chatty.launch()) })),
    );
    let file = fixture.home.path("settings.json").display().to_string();
    assert_eq!(
        fixture
            .run(&[
                "-c",
                &file,
                "--dialect",
                "gemini",
                "call",
                "chatty/ok",
                "--yes"
            ])
            .code,
        Some(0)
    );
    let logged = fixture.run(&["logs", "chatty"]).stdout;
    assert!(
        logged.contains(" stderr WARNING: slow disk\n") && logged.contains(" stderr plain words\n"),
        "{logged}"
    );
    assert!(!logged.contains("INFO"), "{logged}");
}

/// S4-08: all of it, where the document says nothing of levels.
#[test]
fn s4_08_stderr_is_captured_for_debugging() {
    let fixture = Fixture::new();
    let launch = good().on_start(Step::Stderr(WORDS.to_owned())).launch();
    let args = json!(launch.args);
    fixture.write(
        "config.toml",
        &format!(
            "[mcp_servers.chatty]\ncommand = {:?}\nargs = {args}\n",
            launch.command
        ),
    );
    let file = fixture.home.path("config.toml").display().to_string();
    assert_eq!(
        fixture
            .run(&[
                "-c",
                &file,
                "--dialect",
                "agent-code",
                "call",
                "chatty/ok",
                "--yes"
            ])
            .code,
        Some(0)
    );
    let logged = fixture.run(&["logs", "chatty"]).stdout;
    for line in WORDS.lines() {
        assert!(
            logged.contains(&format!(" stderr {line}\n")),
            "{line}: {logged}"
        );
    }
}
