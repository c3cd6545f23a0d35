use serde_json::json;
use switchboard_testkit::{Chaos, Step};

use crate::support::Home;

/// S2-52: the document's flag, on the document's own file: each step is logged as it is taken, with
/// the server's name, and nothing of it without the flag. Secrets stay out of it.
#[test]
fn s2_52_debug_mode_logs_each_step() {
    let launch = Chaos::new().tool("ok", [Step::text("fine")]).launch();
    let entry = json!({ "command": launch.command, "args": launch.args, "env": { "TOKEN": "canary-b7Qx92kLmZ4t" } });
    let settings = json!({ "mcpServers": { "s": entry } }).to_string();
    let home = || {
        let home = Home::new();
        std::fs::create_dir_all(home.path(".gemini")).unwrap();
        std::fs::write(home.path(".gemini/settings.json"), &settings).unwrap();
        home
    };
    let steps = [
        "settings.json: read",
        "server \"s\": connecting",
        "step spawn",
        "step handshake",
        "step list",
        "server \"s\": ready",
        "tool s/ok: resolved",
        "tool s/ok: arguments fit its schema",
        "tool s/ok: allowed",
        "tool s/ok: sent",
        "tool s/ok: answered after",
        "server \"s\": stopped",
    ];
    for flag in ["--debug", "--debug_mode", "-vv"] {
        let ran = home().run(&[flag, "call", "s/ok", "--yes"]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(0), "fine\n"),
            "{flag}: {ran:?}"
        );
        let mut rest = ran.stderr.as_str();
        for step in steps {
            let found = rest.find(step).unwrap_or_else(|| {
                panic!(
                    "{flag}: {step:?} is not logged, or not in its place:\n{}",
                    ran.stderr
                )
            });
            rest = &rest[found..];
        }
        assert!(
            !ran.stderr.contains("canary-b7Qx92kLmZ4t"),
            "{flag}: {}",
            ran.stderr
        );
    }
    let quiet = home().run(&["call", "s/ok", "--yes"]);
    assert_eq!(
        (quiet.code, quiet.stderr.as_str()),
        (Some(0), ""),
        "{quiet:?}"
    );
}

/// S2-52: a step that fails is logged with its reason.
#[test]
fn s2_52_debug_mode_logs_why_a_step_failed() {
    let home = Home::new();
    home.user_file(
        &Chaos::new()
            .on_start([Step::Stderr("no disk\n".into()), Step::Exit(4)])
            .entry("s")
            .render(),
    );
    let ran = home.run(&["--debug", "status"]);
    assert!(
        ran.stderr
            .contains("server \"s\": backoff after failure 1: exited with status 4"),
        "{ran:?}"
    );
}
