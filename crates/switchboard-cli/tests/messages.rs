//! Notices, errors with suggestions, first steps, and completion in a real shell.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::Command;

use support::{Home, PROGRAM, ProgramOutput};

fn home_with_findings() -> Home {
    Home::with_demo(
        "env = { TOKEN = \"${NOT_THERE}\" }\ndescripton = \"x\"\n[permissions]\nallow = [\"nobody/x\"]\n",
    )
}

#[test]
fn every_notice_reaches_stderr_once_in_a_line_of_its_own() {
    let home = home_with_findings();
    let file = home.path("config/switchboard/switchboard.toml");
    let expected = format!(
        "warning: {file}:5:1: servers.demo.descripton: unknown field, ignored; did you mean `description`?\n\
         warning: {file}:7:1: permissions.allow: \"nobody/x\" matches no configured server\n\
         server \"demo\": NOT_THERE is not set; env.TOKEN is empty\n",
        file = file.display()
    );
    for words in [
        &["status"][..],
        &["tools"],
        &["tools", "demo", "--json"],
        &["call", "demo/echo", "message=x", "--yes"],
    ] {
        assert_eq!(home.run(words).stderr, expected, "{words:?}");
    }
    let report = home.run(&["doctor"]);
    assert_eq!(report.stderr, "");
    for told in [
        "Offers: 26 tools",
        "descripton: unknown field",
        "matches no configured server",
        "Not set: NOT_THERE",
    ] {
        assert_eq!(report.stdout.matches(told).count(), 1, "{told}: {report:?}");
    }
}

#[test]
fn the_hint_to_start_a_gateway_can_be_copied() {
    let home = Home::with_demo("");
    let error = home.run(&["reload", "--json"]).error();
    let hint = error["hint"].as_str().unwrap();
    assert!(
        hint.starts_with("start one with `switchboard serve --http 127.0.0.1:8808`;"),
        "{hint}"
    );
}

#[test]
fn a_failure_with_json_carries_the_notices_in_its_one_line() {
    let ran = home_with_findings().run(&["call", "demo/nothing", "--json"]);
    assert_eq!(
        (ran.code, ran.stderr.lines().count()),
        (Some(2), 1),
        "{ran:?}"
    );
    let document: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(
        document["notices"].as_array().unwrap().len(),
        3,
        "{document}"
    );
}

#[test]
fn a_typing_error_gets_a_suggestion() {
    let home = Home::with_demo("");
    let check = |words: &[&str], code: i32, told: &str| {
        let ran = home.run(words);
        assert_eq!(
            (ran.code, ran.stderr.as_str()),
            (Some(code), format!("{told}\n").as_str()),
            "{words:?}: {ran:?}"
        );
    };
    check(
        &["call", "demo/ech", "--yes"],
        2,
        "error: no tool \"demo/ech\"; did you mean demo/echo?",
    );
    check(
        &["call", "demo", "--yes"],
        2,
        "error: \"demo\" is a server; name one of its tools as demo/TOOL; `switchboard tools demo` lists them",
    );
    check(
        &["tools", "dmo"],
        2,
        "error: no server \"dmo\"; did you mean demo? configured servers: demo",
    );
    check(
        &["prompt", "revue"],
        2,
        "error: no prompt \"revue\"; did you mean review? `switchboard prompts` lists them",
    );
    check(
        &["read", "demo://txt"],
        2,
        "error: no server lists the resource demo://txt; did you mean demo://text? `switchboard resources` lists them; \
         --server SERVER reads from a server that does not list it",
    );
    check(
        &[
            "call",
            "demo/slow",
            "second=0",
            "seconds=0",
            "steps=1",
            "--yes",
        ],
        0,
        "server \"demo\", tool slow: its schema has no argument \"second\"; did you mean seconds? it is passed on as given",
    );
    check(
        &["call", "demo/echo", "--yes"],
        2,
        "error: server \"demo\", tool echo: the arguments do not fit the tool's input schema: \"message\" is a required property; \
         `switchboard tools demo/echo` shows its arguments",
    );
    check(
        &[
            "call",
            "demo/slow",
            "seconds=30",
            "--timeout",
            "0.3",
            "--yes",
        ],
        3,
        "error: server \"demo\": not completed within 300 ms; raise the limit with --timeout SECS, or with `call_timeout_max` in its entry; \
         the call may have been executed: check before you repeat it",
    );
}

/// A line to copy works as it stands: with the file that was given.
#[test]
fn how_to_call_a_tool_names_the_file_that_was_given() {
    let home = Home::with_demo("");
    let file = home.path("config/switchboard/switchboard.toml");
    let file = file.to_str().unwrap();
    let ran = home.run(&["-c", file, "tools", "demo/add"]);
    let line = format!("switchboard -c {file} call demo/add a=NUMBER b=NUMBER");
    assert!(ran.stdout.contains(&line), "{ran:?}");
}

#[test]
fn one_tool_is_shown_with_its_arguments() {
    let expected = "mcp__demo__add  (tool add of server \"demo\")\n\n  Add\n\n  Adds two numbers\n\nArguments:\n  a  number, required\n  \
                    b  number, required\n\nCall it:\n  switchboard call demo/add a=NUMBER b=NUMBER\n";
    let home = Home::with_demo("");
    for name in ["demo/add", "mcp__demo__add"] {
        let ran = home.run(&["tools", name]);
        assert_eq!(
            ran,
            ProgramOutput {
                code: Some(0),
                stdout: expected.to_owned(),
                stderr: String::new()
            }
        );
    }
}

#[test]
fn without_a_configuration_status_shows_the_first_steps_and_listings_refer_to_it() {
    let home = Home::new();
    let ran = home.run(&["status"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (
            Some(0),
            "MCP Servers Status:\n\nDiscovery State: NOT_STARTED\n"
        )
    );
    for told in [
        "project/switchboard.toml",
        "config/switchboard/switchboard.toml",
        "[servers.time]",
        "switchboard demo",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {ran:?}");
    }
    for command in ["tools", "resources", "prompts"] {
        let ran = home.run(&[command]);
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.lines().count()),
            (Some(0), "", 1),
            "{ran:?}"
        );
        assert!(
            ran.stderr.starts_with("no server is configured: "),
            "{ran:?}"
        );
    }
}

#[test]
fn bash_completes_commands_servers_tools_keys_resources_and_prompts() {
    let home = Home::with_demo("");
    home.run(&["status"]);
    let check = |words: &[&str], expected: &[&str]| {
        let line = words
            .iter()
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" ");
        let script = format!(
            "source <(switchboard completions bash); COMP_WORDS=(switchboard {line}); COMP_CWORD={}; COMP_TYPE=9; \
             _clap_complete_switchboard switchboard '{}' x; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len(),
            words.last().unwrap()
        );
        let folder = PROGRAM.rsplit_once('/').unwrap().0;
        let mut bash = Command::new("bash");
        bash.args(["--norc", "--noprofile", "-c", &script]).env(
            "PATH",
            format!("{folder}:{}", std::env::var("PATH").unwrap()),
        );
        let home = |name: &str| home.path(name).display().to_string();
        bash.env("XDG_CONFIG_HOME", home("config"))
            .env("XDG_STATE_HOME", home("state"))
            .env("HOME", home(""));
        let ran = ProgramOutput::of(&bash.current_dir(home("project")).output().unwrap());
        let found: Vec<_> = ran
            .stdout
            .lines()
            .filter(|word| !word.starts_with("--"))
            .collect();
        assert_eq!(found, expected, "{words:?}: {}", ran.stderr);
    };
    check(&["st"], &["status"]);
    check(&["tools", ""], &["demo"]);
    check(
        &["call", "demo/a"],
        &[
            "demo/add",
            "demo/audio",
            "demo/ask_form",
            "demo/ask_url",
            "demo/ask_secret",
            "demo/ask_twice",
            "demo/ask_model",
            "demo/ask_roots",
        ],
    );
    check(
        &["call", "mcp__demo__e"],
        &[
            "mcp__demo__echo",
            "mcp__demo__embedded_resource",
            "mcp__demo__errand",
        ],
    );
    check(&["call", "demo/slow", ""], &["seconds=", "steps="]);
    check(&["call", "demo/slow", "seconds=1", ""], &["steps="]);
    check(&["prompt", ""], &["haiku", "review"]);
    check(&["read", "demo://t"], &["demo://text"]);
}

/// The notice about an unset variable says what happens to the field: it is empty, or lacks the
/// variable.
#[test]
fn only_a_field_that_becomes_empty_is_reported_as_empty() {
    let home = Home::with_demo(
        "env = { WHOLE = \"${GONE}\", PART = \"https://${GONE}/x\", SAFE = \"${GONE:-here}\" }\n",
    );
    let expected = "server \"demo\": GONE is not set, and is left out of env.PART\nserver \"demo\": GONE is not set; env.WHOLE is empty\n";
    let mut lines: Vec<_> = home
        .run(&["tools"])
        .stderr
        .lines()
        .map(|line| format!("{line}\n"))
        .collect();
    lines.sort();
    assert_eq!(lines.concat(), expected);
    let doctor = home.run(&["doctor"]).stdout;
    assert!(
        doctor.contains("Not set: GONE is not set, and is left out of env.PART\n"),
        "{doctor}"
    );
}
