//! core-agent: `.agents/mcp.json` in a project.

use switchboard_testkit::{Chaos, Record, Step};

use crate::machine::Machine;

/// The document's first example; its address is a server on this machine.
fn example(address: &str) -> String {
    include_str!("../../../switchboard-config/tests/seeds/core-agent/schema.json").replace(
        "https://api.githubcopilot.com/mcp/",
        &format!("{address}/mcp"),
    )
}

/// The document's file in a fresh project, accepted once, then used.
#[test]
fn s0_46_the_documents_example_is_trusted_shown_listed_and_called() {
    let machine = Machine::new().variable("GITHUB_TOKEN", "a-token-of-the-person");
    let text = example(machine.address());
    let machine = machine.file(".agents/mcp.json", &text);
    insta::assert_snapshot!(machine.transcript(&[
        "status",
        "trust filesystem github --yes",
        "status",
        "tools filesystem",
        "call filesystem_read_file path=/tmp/x --yes",
        "call filesystem_read_file path=/tmp/x",
    ]));
}

/// Given with `-c`, or the person's own, and without a word about permissions, calls are not asked
/// about (S0-27); with an allow list, only what it names is (S0-23).
#[test]
fn s0_27_without_a_gate_nothing_is_asked_and_with_one_only_what_it_names() {
    let machine = Machine::new();
    let text = r#"{"servers": {"filesystem": {"transport": "stdio", "command": "mcp-server-filesystem"}}}"#;
    let gated = text.replacen(
        '{',
        r#"{"permissions": {"allow": ["mcp:filesystem_read_file"]}, "#,
        1,
    );
    let machine = machine.file("open.json", text).file("gated.json", &gated);
    insta::assert_snapshot!(machine.transcript(&[
        "-c open.json --dialect core-agent call filesystem_write_file",
        "-c gated.json --dialect core-agent call filesystem_read_file path=x",
        "-c gated.json --dialect core-agent call filesystem_write_file",
    ]));
}

/// S0-13: nothing starts, not even the valid server, although the file was given with `-c` and is
/// trusted.
#[test]
fn s0_14_a_server_that_mixes_transports_stops_the_program_before_anything_starts() {
    let text = "{\"servers\": {\n  \"good\": {\"transport\": \"stdio\", \"command\": \"recorded\"},\n  \"both\": {\"transport\": \"stdio\", \"command\": \"recorded\", \"url\": \"https://x.example\"}\n}}";
    let machine = Machine::new().file("mcp.json", text);
    let seen = machine.path("seen");
    machine.stand_in(
        "recorded",
        &Chaos::new()
            .tool("read_file", Step::text("read"))
            .record(&seen),
    );
    insta::assert_snapshot!(
        machine.transcript(&["-c mcp.json --dialect core-agent call good_read_file"])
    );
    assert!(!seen.exists(), "something was started");
    let right = text.replace(", \"url\": \"https://x.example\"", "");
    let machine = machine.file("mcp.json", &right);
    assert_eq!(
        machine
            .run(&[
                "-c",
                "mcp.json",
                "--dialect",
                "core-agent",
                "call",
                "good_read_file"
            ])
            .stdout,
        "read\n"
    );
    // Both entries are valid now, and the call waits only for the server that it names.
    assert!(
        Record::read(&seen).starts() > 0,
        "the stand-in shows that it was started"
    );
}

/// S0-29, S0-30: a program that is not there and an address that answers 404 are errors of theirs
/// alone.
#[test]
fn s0_29_30_servers_that_fail_are_errors_and_the_others_go_on() {
    let machine = Machine::new();
    let text = format!(
        r#"{{"version": 1, "servers": {{
  "filesystem": {{"transport": "stdio", "command": "mcp-server-filesystem"}},
  "missing": {{"transport": "stdio", "command": "no-such-program"}},
  "lost": {{"transport": "http", "url": "{}/nowhere"}}
}}}}"#,
        machine.address()
    );
    let machine = machine.file("mcp.json", &text);
    insta::assert_snapshot!(machine.transcript(&[
        "-c mcp.json --dialect core-agent status",
        "-c mcp.json --dialect core-agent call filesystem_read_file path=x",
    ]));
}

/// `url` is required where the transport is `http`, and is the address of a Streamable HTTP
/// endpoint: an address that speaks only HTTP+SSE is an error of that server.
#[test]
fn s0_10_an_http_server_needs_a_url_and_it_is_a_streamable_http_endpoint() {
    let machine = Machine::new();
    let text = |path: &str| {
        format!(
            r#"{{"version": 1, "servers": {{"remote": {{"transport": "http", "url": "{}{path}"}}}}}}"#,
            machine.address()
        )
    };
    let (good, sse) = (text("/mcp"), text("/sse"));
    let machine = machine.file("good.json", &good).file("sse.json", &sse);
    let machine = machine.file(
        "none.json",
        r#"{"version": 1, "servers": {"remote": {"transport": "http"}}}"#,
    );
    let run = |file: &str, words: &[&str]| {
        machine.run(&[&["-c", file, "--dialect", "core-agent"], words].concat())
    };
    let called = run("good.json", &["call", "remote_echo", "message=hello"]);
    assert_eq!(
        (called.code, called.stdout.as_str()),
        (Some(0), "hello\n"),
        "{called:?}"
    );
    assert_eq!(
        run("good.json", &["status", "--json"]).json()["servers"][0]["transport"],
        "http"
    );
    let failed = run("sse.json", &["call", "remote/echo", "message=hello"]);
    assert_eq!(
        failed.code,
        Some(3),
        "an event stream is not what this document's `url` means: {failed:?}"
    );
    let refused = run("none.json", &["status"]);
    assert!(
        refused.code == Some(2)
            && refused.stderr.contains("`url`")
            && refused.stderr.contains("remote"),
        "{refused:?}"
    );
}

/// A server of a core-agent file asks during a call: the program that embeds the host, here the one
/// at the terminal, opens the question and its answer goes back to the server.
#[test]
fn s0_35_a_servers_question_is_put_to_the_person_and_the_answer_goes_back() {
    let machine = Machine::new().file(
        "mcp.json",
        r#"{"version": 1, "servers": {"shop": {"transport": "stdio", "command": "shop"}}}"#,
    );
    machine.stand_in(
        "shop",
        &Chaos::new().tool("order", [Step::ask("Which size?"), Step::AnswerReply]),
    );
    let mut terminal = machine.spawn_in_terminal(&[
        "-c",
        "mcp.json",
        "--dialect",
        "core-agent",
        "call",
        "shop_order",
    ]);
    let screen = terminal.wait_for("Which size?");
    assert!(screen.contains("Server \"shop\" asks"), "{screen}");
    terminal.send("large\t");
    terminal.wait_for("[ Send ]");
    terminal.send("\r");
    let ended = terminal.end();
    assert!(
        ended.code == 0 && ended.screen.contains("accept") && ended.screen.contains("large"),
        "{ended:?}"
    );
}
