//! Server features beyond calls: completions, resource updates, logs, output schemas, vendor forms.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Read};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Home, PROGRAM, ProgramOutput};
use switchboard_testkit::{Chaos, Record, Step};

fn said(stdout: &str) -> ProgramOutput {
    ProgramOutput {
        code: Some(0),
        stdout: stdout.to_owned(),
        stderr: String::new(),
    }
}

#[test]
fn complete_prints_one_value_a_line() {
    let home = Home::with_demo("");
    assert_eq!(
        home.run(&["complete", "review", "language", "ru"]),
        said("ruby\nrust\n")
    );
    assert_eq!(
        home.run(&["complete", "demo/review", "language", "ru"]),
        said("ruby\nrust\n")
    );
    assert_eq!(
        home.run(&[
            "complete",
            "demo://greeting/{name}",
            "name",
            "A",
            "--server",
            "demo"
        ]),
        said("Ada\nAlan\n")
    );
    assert_eq!(
        home.run(&["complete", "review", "style", "--with", "language=c"]),
        said("brief\nkind\nthorough\n")
    );
    let ran = home.run(&["complete", "review", "language", "ru", "--json"]);
    assert_eq!(
        ran.json()["completion"]["values"],
        serde_json::json!(["ruby", "rust"]),
        "{ran:?}"
    );
    let error = home
        .run(&["complete", "reviw", "language", "--json"])
        .error();
    assert_eq!(
        (error["code"].as_u64(), error["message"].as_str()),
        (
            Some(2),
            Some("no server offers a prompt or template \"reviw\"")
        )
    );
    assert!(
        error["hint"].as_str().unwrap().contains("review"),
        "{error}"
    );
}

#[test]
fn a_missing_capability_is_an_error_that_names_the_server() {
    let home = Home::new();
    let server = Chaos::new().on(
        "prompts/list",
        [Step::result(r#"{"prompts":[{"name":"p"}]}"#)],
    );
    home.user_file(&server.entry("plain").render());
    let ran = home.run(&["complete", "p", "a"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert_eq!(
        ran.stderr,
        "error: server \"plain\": the server does not offer completions\n"
    );
}

/// One line for each change, until Ctrl-C.
#[test]
fn watch_prints_one_line_for_each_change_until_it_is_interrupted() {
    for (protocol, words, expected) in [
        (
            "legacy",
            &["watch", "demo://counter"][..],
            "demo://counter\n",
        ),
        (
            "modern",
            &["watch", "demo://counter", "--json"],
            "{\"server\":\"demo\",\"uri\":\"demo://counter\"}\n",
        ),
    ] {
        let home = Home::new();
        let args = r#"["__demo-server", "--tick", "30"]"#;
        home.user_file(&format!(
            "[servers.demo]\ncommand = {PROGRAM:?}\nargs = {args}\nprotocol = \"{protocol}\"\n"
        ));
        let mut child = home
            .command(words)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..3 {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert_eq!(line, expected, "{protocol}");
        }
        kill(
            Pid::from_raw(child.id().try_into().unwrap()),
            Signal::SIGINT,
        )
        .unwrap();
        // Read to the end, so that it is not stopped by a full pipe.
        std::io::copy(&mut lines, &mut std::io::sink()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{protocol}");
        // Ctrl-C is the normal end, not an error.
        let mut told = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut told)
            .unwrap();
        let watching = "watching demo://counter of server \"demo\"; press Ctrl-C to stop\n";
        assert_eq!(told, watching, "{protocol}");
    }
}

#[test]
fn watching_a_resource_without_subscriptions_is_an_error() {
    let check = |protocol: &str, told: &str| {
        let home = Home::with_demo(&format!("protocol = \"{protocol}\"\n"));
        let ran = home.run(&["watch", "demo://none", "--server", "demo"]);
        let stderr = format!("error: server \"demo\": {told}\n");
        assert_eq!(
            ran,
            ProgramOutput {
                code: Some(1),
                stdout: String::new(),
                stderr
            }
        );
    };
    check(
        "legacy",
        "the server answered with error -32002: no resource \"demo://none\"",
    );
    check(
        "modern",
        "the server does not report changes of this resource",
    );
}

#[test]
fn a_call_prints_the_servers_log_from_the_given_level() {
    for protocol in ["legacy", "modern"] {
        let home = Home::with_demo(&format!("protocol = \"{protocol}\"\n"));
        let ran = home.run(&["call", "demo/log", "--yes", "--log-level", "alert"]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(0), "2 of 8 messages were sent\n"),
            "{protocol}: {ran:?}"
        );
        let line = |level: &str| {
            format!("server \"demo\", {level}: {{\"message\":\"something worth a line\"}}\n")
        };
        assert_eq!(ran.stderr, line("alert") + &line("emergency"), "{protocol}");
    }
    let ran = Home::with_demo("").run(&["call", "demo/log", "--log-level", "loud"]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("expected one of debug, info, notice"),
        "{ran:?}"
    );
}

#[test]
fn a_result_that_violates_its_output_schema_is_reported_on_stderr() {
    let home = Home::new();
    let result = r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":"one"}}"#;
    let server = Chaos::new().tool("odd", [Step::result(result)]).define(
        "odd",
        "outputSchema",
        r#"{"type":"object","properties":{"n":{"type":"number"}}}"#,
    );
    home.user_file(&server.entry("it").render());
    let ran = home.run(&["call", "it/odd", "--yes", "--json"]);
    let told = "server \"it\", tool odd: its structuredContent does not fit its output schema: /n: value is not of type \"number\"\n";
    assert_eq!(
        ran,
        ProgramOutput {
            code: Some(0),
            stdout: format!("{result}\n"),
            stderr: told.to_owned()
        }
    );
}

/// A server with one tool whose schema no vendor takes as it is.
fn odd() -> Chaos {
    let schema = r#"{"$schema":"x","type":"object","properties":{"a b":{"type":"integer","enum":[1,2]}},"additionalProperties":false}"#;
    Chaos::new()
        .tool("t", Step::text("ok"))
        .define("t", "inputSchema", schema)
        .define("t", "description", "\"does t\"")
}

#[test]
fn tools_for_a_vendor_are_the_array_for_a_request_to_it() {
    let home = Home::new();
    home.user_file(&odd().entry("s").render());
    let check = |vendor: &str, expected: &str| {
        assert_eq!(
            home.run(&["tools", "--vendor", vendor]),
            said(&format!("{expected}\n")),
            "{vendor}"
        );
    };
    check(
        "gemini",
        r#"[{"functionDeclarations":[{"name":"mcp__s__t","description":"does t","parametersJsonSchema":{"type":"object","properties":{"a b":{"type":"integer","description":"one of 1, 2"}}}}]}]"#,
    );
    check(
        "openai",
        r#"[{"type":"function","name":"mcp__s__t","description":"does t","parameters":{"$schema":"x","type":"object","properties":{"a b":{"type":"integer","enum":[1,2]}},"additionalProperties":false},"strict":false}]"#,
    );
    check(
        "anthropic",
        r#"[{"name":"mcp__s__t","description":"does t","input_schema":{"$schema":"x","type":"object","properties":{"a_b":{"type":"integer","enum":[1,2]}},"additionalProperties":false}}]"#,
    );
}

/// S2-30, S2-31: what is listed of a gemini server is what its document says; the call is checked
/// against the server's own schema.
#[test]
fn s2_30_s2_31_s2_43_a_gemini_file_shows_cleaned_schemas_and_calls_are_checked_by_the_original() {
    let home = Home::new();
    let launch = odd().launch();
    let file = home.path("settings.json");
    // In a file of its own: what begins with `$` in an argument would be a reference here.
    let script = home.path("script.json");
    std::fs::write(&script, &launch.args[0]).unwrap();
    let entry = serde_json::json!({"mcpServers": {"py": {"command": launch.command, "args": [format!("@{}", script.display())]}}});
    std::fs::write(&file, entry.to_string()).unwrap();
    let run = |words: &[&str]| {
        home.run(
            &[
                &["-c", file.to_str().unwrap(), "--dialect", "gemini"],
                words,
            ]
            .concat(),
        )
    };
    let listed = run(&["tools", "--json"]).json();
    let tool = &listed["tools"][0];
    assert_eq!(
        (&tool["name"], &tool["source"]),
        (&"t".into(), &"mcp://py/t".into()),
        "{listed}"
    );
    let cleaned = serde_json::json!({"type": "object", "properties": {"a b": {"type": "integer", "enum": [1, 2]}}});
    assert_eq!(tool["inputSchema"], cleaned);
    let wrong = run(&["call", "t", "--args", r#"{"further": 1}"#, "--yes"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let right = run(&["call", "t", "--args", r#"{"a b": 1}"#, "--yes"]);
    assert_eq!(
        (right.code, right.stdout.as_str()),
        (Some(0), "ok\n"),
        "{right:?}"
    );
}

/// S4-12, S4-13 on the command line, with a file of that program.
#[test]
fn s4_12_s4_13_the_resource_tools_of_an_agent_code_file_are_called_like_any_other() {
    let home = Home::new();
    let server = Chaos::new()
        .on(
            "resources/list",
            [Step::result(
                r#"{"resources":[{"uri":"mem://a","name":"a"}]}"#,
            )],
        )
        .on(
            "resources/read",
            [Step::result(
                r#"{"contents":[{"uri":"mem://a","text":"it says a"}]}"#,
            )],
        )
        .record(home.path("seen"));
    let launch = server.launch();
    let file = home.path("config.toml");
    let text = format!(
        "[mcp_servers.one]\ncommand = {:?}\nargs = {:?}\n",
        launch.command, launch.args
    );
    std::fs::write(&file, text).unwrap();
    let run = |words: &[&str]| {
        home.run(
            &[
                &["-c", file.to_str().unwrap(), "--dialect", "agent-code"],
                words,
            ]
            .concat(),
        )
    };
    let listed = run(&["call", "ListMcpResources", "--yes"]);
    assert!(
        listed.stdout.contains("mem://a") && listed.stdout.contains("\"server\":\"one\""),
        "{listed:?}"
    );
    assert_eq!(
        run(&["call", "ReadMcpResource", "uri=mem://a", "--yes"]),
        said("[resource mem://a]\nit says a\n")
    );
    let seen = Record::read(&home.path("seen")).with_method("resources/read");
    assert_eq!(seen.len(), 1);
    let params: serde_json::Value =
        serde_json::from_str(seen[0].params.as_ref().unwrap().get()).unwrap();
    assert_eq!(params["uri"], "mem://a");
    assert_eq!(
        run(&["call", "ReadMcpResource", "uri=mem://a"]).code,
        Some(5)
    );
}
