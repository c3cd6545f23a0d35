//! What servers offer beside calls, as a person sees it: completions, changes of resources, logs, promises that were not kept.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Read};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Home, PROGRAM, Ran};
use switchboard_testkit::{Chaos, Step};

fn said(stdout: &str) -> Ran {
    Ran { code: Some(0), stdout: stdout.to_owned(), stderr: String::new() }
}

#[test]
fn complete_prints_one_value_a_line() {
    let home = Home::with_demo("");
    assert_eq!(home.run(&["complete", "review", "language", "ru"]), said("ruby\nrust\n"));
    assert_eq!(home.run(&["complete", "demo://greeting/{name}", "name", "A", "--server", "demo"]), said("Ada\nAlan\n"));
    assert_eq!(home.run(&["complete", "review", "style", "--with", "language=c"]), said("brief\nkind\nthorough\n"));
    let ran = home.run(&["complete", "review", "language", "ru", "--json"]);
    assert_eq!(ran.json()["completion"]["values"], serde_json::json!(["ruby", "rust"]), "{ran:?}");
    let error = home.run(&["complete", "reviw", "language", "--json"]).error();
    assert_eq!(
        (error["code"].as_u64(), error["message"].as_str()),
        (Some(2), Some("no server offers a prompt or template \"reviw\""))
    );
    assert!(error["hint"].as_str().unwrap().contains("review"), "{error}");
}

#[test]
fn what_a_server_does_not_offer_is_a_sentence_with_its_name() {
    let home = Home::new();
    let server = Chaos::new().on("prompts/list", [Step::result(r#"{"prompts":[{"name":"p"}]}"#)]);
    home.user_file(&server.entry("plain").render());
    let ran = home.run(&["complete", "p", "a"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert_eq!(ran.stderr, "error: server \"plain\": the server does not offer completions\n");
}

/// One line for each change, until Ctrl-C.
#[test]
fn watch_prints_one_line_for_each_change_until_it_is_interrupted() {
    for (protocol, words, expected) in [
        ("legacy", &["watch", "demo://counter"][..], "demo://counter\n"),
        ("modern", &["watch", "demo://counter", "--json"], "{\"server\":\"demo\",\"uri\":\"demo://counter\"}\n"),
    ] {
        let home = Home::new();
        let args = r#"["__demo-server", "--tick", "30"]"#;
        home.user_file(&format!("[servers.demo]\ncommand = {PROGRAM:?}\nargs = {args}\nprotocol = \"{protocol}\"\n"));
        let mut child = home.command(words).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..3 {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert_eq!(line, expected, "{protocol}");
        }
        kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
        // Read to the end, so that it is not stopped by a full pipe.
        std::io::copy(&mut lines, &mut std::io::sink()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{protocol}");
        // Ctrl-C is how it ends: that is no error.
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        let watching = "watching demo://counter of server \"demo\"; Ctrl-C ends it\n";
        assert_eq!(told, watching, "{protocol}");
    }
}

#[test]
fn watch_of_what_cannot_be_watched_says_so() {
    let check = |protocol: &str, told: &str| {
        let home = Home::with_demo(&format!("protocol = \"{protocol}\"\n"));
        let ran = home.run(&["watch", "demo://none", "--server", "demo"]);
        let stderr = format!("error: server \"demo\": {told}\n");
        assert_eq!(ran, Ran { code: Some(1), stdout: String::new(), stderr });
    };
    check("legacy", "the server answered with error -32002: no resource \"demo://none\"");
    check("modern", "the server does not tell of changes to this resource");
}

#[test]
fn a_call_shows_what_is_logged_meanwhile_from_the_level_on_that_was_given() {
    for protocol in ["legacy", "modern"] {
        let home = Home::with_demo(&format!("protocol = \"{protocol}\"\n"));
        let ran = home.run(&["call", "demo/log", "--yes", "--log-level", "alert"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "2 of 8 messages were sent\n"), "{protocol}: {ran:?}");
        let line = |level: &str| format!("server \"demo\", {level}: {{\"message\":\"something worth a line\"}}\n");
        assert_eq!(ran.stderr, line("alert") + &line("emergency"), "{protocol}");
    }
    let ran = Home::with_demo("").run(&["call", "demo/log", "--log-level", "loud"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("expected one of debug, info, notice"), "{ran:?}");
}

#[test]
fn a_result_that_breaks_its_tools_promise_is_told_on_stderr() {
    let home = Home::new();
    let result = r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":"one"}}"#;
    let server = Chaos::new().tool("odd", [Step::result(result)]).define(
        "odd",
        "outputSchema",
        r#"{"type":"object","properties":{"n":{"type":"number"}}}"#,
    );
    home.user_file(&server.entry("it").render());
    let ran = home.run(&["call", "it/odd", "--yes", "--json"]);
    let told =
        "server \"it\", tool odd: its structuredContent does not fit its output schema: /n: value is not of type \"number\"\n";
    assert_eq!(ran, Ran { code: Some(0), stdout: format!("{result}\n"), stderr: told.to_owned() });
}
