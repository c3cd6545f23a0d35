//! Values of variables and headers are in no view, no log and no answer to `why`, in any dialect.

use serde_json::json;

use crate::fixture::{Fixture, entry, gemini, good};

/// S2-56, S2-45: canaries in env, headers, user info, query and arguments; S0-17: what is shown is
/// the placeholder.
#[test]
fn s2_56_values_of_env_and_headers_are_never_printed() {
    let mut fixture = Fixture::new();
    fixture.set("HIDDEN", "canary-expanded");
    let mut child = entry(&good().launch());
    child["env"] =
        json!({ "PLAIN": "canary-env", "REFERS": "$HIDDEN", "MIXED": "canary-${HIDDEN}" });
    let servers = json!({
        "child": child,
        "web": {
            "httpUrl": "http://me:canary-user@127.0.0.1:1/mcp?key=canary-query",
            "headers": { "Authorization": "Bearer canary-header", "X-Key": "$HIDDEN" }
        },
        "args": { "command": "false", "args": ["--token=canary-arg", "--api-key", "canary-next"] },
    });
    fixture.write("settings.json", &gemini(servers));
    let file = fixture.home.path("settings.json").display().to_string();
    let given = ["-c", &file, "--dialect", "gemini"];
    let commands: [&[&str]; 12] = [
        &["-vvv", "status"],
        &["--debug_mode", "status", "--json"],
        &["doctor"],
        &["-v", "tools"],
        &["logs"],
        &["why", "child"],
        &["why", "child", "env"],
        &["why", "child", "--json"],
        &["why", "web"],
        &["why", "web", "--json"],
        &["why", "args"],
        &["why", "args", "args", "--json"],
    ];
    for words in commands {
        let ran = fixture.run(&[&given[..], words].concat());
        assert!(
            !ran.stdout.contains("canary") && !ran.stderr.contains("canary"),
            "{words:?}: {ran:?}"
        );
    }
    let told = fixture
        .run(&[&given[..], &["why", "child", "env"]].concat())
        .stdout;
    assert!(
        told.contains("env.REFERS = ${HIDDEN}    line 1\n      HIDDEN is set\n"),
        "{told}"
    );
    assert!(
        told.contains("env.PLAIN = ***") && told.contains("env.MIXED = ***${HIDDEN}"),
        "{told}"
    );
}

/// S2-56: the review before a project's file is accepted shows what the file contains, word for
/// word, so that a person knows what is accepted. What a reference stands for is not part of it.
#[test]
fn s2_56_the_review_of_trust_shows_the_file_and_no_value_of_a_reference() {
    let mut fixture = Fixture::new();
    fixture.set("HIDDEN", "canary-expanded");
    let servers = json!({
        "child": { "command": "false", "env": { "PLAIN": "literal", "REFERS": "$HIDDEN" } },
        "web": {
            "httpUrl": "http://127.0.0.1:1/mcp",
            "headers": { "Authorization": "Bearer literal", "X-Key": "$HIDDEN" }
        },
    });
    fixture.write("project/.gemini/settings.json", &gemini(servers));
    let ran = fixture.run(&["trust"]);
    for line in [
        "variable: PLAIN = \"literal\"",
        "variable: REFERS = \"$HIDDEN\"",
        "header: Authorization = \"Bearer literal\"",
        "header: X-Key = \"$HIDDEN\"",
    ] {
        let text = [&ran.stdout, &ran.stderr];
        assert!(
            text.iter().any(|text| text.contains(line)),
            "{line}: {ran:?}"
        );
    }
    assert!(
        !ran.stdout.contains("canary") && !ran.stderr.contains("canary"),
        "{ran:?}"
    );
}

/// S0-17: the file of core-agent can be committed; what is shown is `${env:NAME}`.
#[test]
fn s0_17_core_agent_shows_the_placeholder_and_never_the_value() {
    let mut fixture = Fixture::new();
    fixture.set("TOKEN", "canary-token");
    let mut server = entry(&good().launch());
    server["transport"] = "stdio".into();
    server["env"] = json!({ "TOKEN": "${env:TOKEN}" });
    fixture.write(
        "project/.agents/mcp.json",
        &json!({ "version": 1, "servers": { "s": server } }).to_string(),
    );
    let given = ["-c", ".agents/mcp.json"];
    for words in [
        &["-vvv", "status"][..],
        &["status", "--json"],
        &["doctor"],
        &["logs"],
        &["why", "s"],
        &["why", "s", "--json"],
    ] {
        let ran = fixture.run(&[&given[..], words].concat());
        assert!(
            !ran.stdout.contains("canary") && !ran.stderr.contains("canary"),
            "{words:?}: {ran:?}"
        );
    }
    let told = fixture
        .run(&[&given[..], &["why", "s", "env.TOKEN"]].concat())
        .stdout;
    assert!(
        told.ends_with("  env.TOKEN = ${env:TOKEN}    line 1\n      TOKEN is set\n"),
        "{told}"
    );
}
