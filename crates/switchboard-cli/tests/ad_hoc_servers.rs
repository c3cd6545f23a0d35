//! Servers given with `--server`, and files of other programs that are reported.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::{Home, PROGRAM};
use switchboard_testkit::{Chaos, Launch, Step};

/// A server, and its command line quoted for `--server`.
fn line(launch: &Launch) -> String {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\\''"));
    let words = std::iter::once(launch.command.display().to_string()).chain(launch.args.clone());
    words
        .map(|word| quoted(&word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn server() -> Launch {
    Chaos::new().tool("ok", Step::text("fine")).launch()
}

/// Without a terminal nothing starts without a yes; with one, `call`, `tools` and `status` use it.
#[test]
fn t1_a_server_of_the_command_line_starts_after_a_yes_only() {
    let home = Home::with_demo("");
    let line = line(&server());
    for words in [&["call", "ok"][..], &["tools"], &["status"]] {
        let ran = home.run(&[words, &["--server", &line]].concat());
        assert_eq!(ran.code, Some(5), "{words:?}: {ran:?}");
        assert!(
            ran.stderr.contains("would start:") && ran.stderr.contains("accept it with `--yes`"),
            "{words:?}: {ran:?}"
        );
        assert!(!ran.stdout.contains("chaosd"), "{words:?}: {ran:?}");
    }
    let ran = home.run(&["call", "ok", "--server", &line, "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "fine\n"),
        "{ran:?}"
    );
    let ran = home.run(&["tools", "--server", &line, "--yes", "--json"]);
    let names: Vec<_> = ran.json()["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["tool"].clone())
        .collect();
    assert_eq!(names, ["ok"], "only this server: {ran:?}");
    let ran = home.run(&["status", "--server", &line, "--yes"]);
    assert!(
        ran.stdout.contains("(CONNECTED)") && !ran.stdout.contains("demo"),
        "{ran:?}"
    );
}

/// At a terminal it is shown whole and asked about; a yes is remembered for exactly this command
/// line.
#[test]
fn t1_a_server_of_the_command_line_is_asked_about_at_a_terminal() {
    let home = Home::new();
    let line = line(&server());
    let mut terminal = home.run_in_terminal(&["call", "ok", "--server", &line]);
    terminal.wait_for("Start it exactly as shown? [y/N]");
    terminal.send("n\r");
    assert_eq!(terminal.end().code, 5);
    let mut terminal = home.run_in_terminal(&["tools", "--server", &line]);
    terminal.wait_for("Start it exactly as shown? [y/N]");
    terminal.send("y\r");
    let ended = terminal.end();
    assert!(
        ended.code == 0 && ended.screen.contains("mcp__chaosd__ok"),
        "{}",
        ended.screen
    );
    assert_eq!(
        home.run(&["tools", "--server", &line]).code,
        Some(0),
        "remembered"
    );
    assert_eq!(
        home.run(&["tools", "--server", &format!("{line} more")])
            .code,
        Some(5),
        "for this command line only"
    );
}

/// Files of Codex, VS Code, Cursor and Claude are named once, and the command that is named reads
/// them.
#[test]
fn files_of_other_programs_are_named_once_with_what_reads_them() {
    let home = Home::with_demo("");
    let launch = server();
    let entry = json!({ "command": launch.command, "args": launch.args });
    let project = home.path("project").canonicalize().unwrap();
    let files: [(&str, String); 7] = [
        (".codex/config.toml", format!("[mcp_servers.codex]\ncommand = {:?}\nargs = {}\n", launch.command, json!(launch.args))),
        (".cursor/mcp.json", json!({ "mcpServers": { "cursor": entry } }).to_string()),
        (".claude.json", json!({ "projects": { project.to_str().unwrap(): { "mcpServers": { "claude": entry } } } }).to_string()),
        ("config/Claude/claude_desktop_config.json", json!({ "mcpServers": { "desktop": entry } }).to_string()),
        (
            "config/Code/User/mcp.json",
            json!({ "servers": { "code": { "type": "stdio", "command": launch.command, "args": launch.args } } }).to_string(),
        ),
        (
            "project/.vscode/mcp.json",
            json!({ "servers": { "vscode": { "type": "stdio", "command": launch.command, "args": launch.args } } }).to_string(),
        ),
        ("project/.cursor/mcp.json", json!({ "mcpServers": {} }).to_string()),
    ];
    for (name, text) in &files {
        let path = home.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let ran = home.run(&["tools", "demo"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(told.len(), 6, "one without servers is not told: {ran:?}");
    for line in &told {
        assert!(
            line.contains(" has 1 server and is not read; `switchboard -c "),
            "{line}"
        );
        let warns = line.ends_with(" reads it and starts its servers without asking");
        assert_eq!(
            warns,
            line.contains("/project/"),
            "T1: only a project's file may be a stranger's: {line}"
        );
        let file = line
            .split("`switchboard -c ")
            .nth(1)
            .unwrap()
            .split('`')
            .next()
            .unwrap();
        let document = home.run(&["-c", file, "status", "--json"]).json();
        let servers: Vec<_> = document["servers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|server| &server["status"])
            .collect();
        assert_eq!(servers, [&Value::from("CONNECTED")], "{line}: {document}");
    }
    assert_eq!(home.run(&["tools", "demo"]).stderr, "", "once");
}

/// T1: `--yes` accepts one run, and another command line is another server.
#[test]
fn t1_a_yes_on_the_command_line_is_not_remembered() {
    let home = Home::new();
    let line = line(&server());
    for _ in 0..2 {
        let ran = home.run(&["tools", "--server", &line, "--yes"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let ran = home.run(&["tools", "--server", &line]);
        assert_eq!(ran.code, Some(5), "{ran:?}");
    }
    assert_eq!(
        home.run(&["trust", "--list"]).stdout,
        format!(
            "folder {}\n",
            home.path("project").canonicalize().unwrap().display()
        )
    );
    let mut terminal = home.run_in_terminal(&["tools", "--server", &line]);
    terminal.wait_for("Start it exactly as shown? [y/N]");
    terminal.send("y\r");
    assert_eq!(terminal.end().code, 0);
    let ran = home.run(&["tools", "--server", &format!("{line} more")]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(!ran.stderr.contains("It changed"), "{ran:?}");
}

#[test]
fn a_server_of_the_command_line_that_fails_has_no_hint_about_a_configured_one() {
    let home = Home::new();
    let ran = home.run(&["call", "x", "--server", "/bin/false", "--yes"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(!ran.stderr.contains("switchboard doctor"), "{ran:?}");
    let ran = home.run(&["call", "--server", "/bin/false", "x", "--json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert_eq!(ran.error()["code"], 5);
}

#[test]
fn tools_of_a_server_of_the_command_line_that_fails_are_a_failure() {
    let home = Home::new();
    for words in [&["tools"][..], &["tools", "--json"]] {
        let ran = home.run(&[words, &["--server", "/bin/false", "--yes"]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
    }
}

/// A server of the command line is in no file, so that a command without `--server` would not find
/// it.
#[test]
fn hints_about_a_server_of_the_command_line_work_when_they_are_followed() {
    let home = Home::new();
    let line = line(&server());
    for words in [
        &["call", "zzz"][..],
        &["call", "okk"],
        &["call", "ok", "--args", "1"],
    ] {
        let ran = home.run(&[words, &["--server", &line, "--yes"]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let hint = ran
            .stderr
            .split('`')
            .nth(1)
            .unwrap_or_else(|| panic!("{ran:?}"));
        assert!(hint.starts_with("switchboard tools --server "), "{ran:?}");
        // The shell gets the folders of the test's home as the program would.
        let script = format!("{} --yes", hint.replacen("switchboard", PROGRAM, 1));
        let terminal = home.spawn_in_terminal(&["sh", "-c", &script]);
        let followed = terminal.end();
        assert_eq!(followed.code, 0, "{script}: {followed:?}");
    }
    let ran = home.run(&["tools", "--server", &line, "chaosd/ok", "--yes"]);
    assert!(ran.stdout.contains("switchboard call --server "), "{ran:?}");
    let ran = home.run(&["status", "--server", "/bin/false", "--yes"]);
    assert!(!ran.stdout.contains("switchboard doctor"), "{ran:?}");
    let secret = format!("env API_KEY=canary {line}");
    let ran = home.run(&["call", "zzz", "--server", &secret, "--yes"]);
    assert!(
        ran.stderr.contains("--server COMMAND") && !ran.stderr.contains("canary"),
        "{ran:?}"
    );
}

/// The signal handlers of a question would keep Ctrl-C from ending the reading.
#[test]
fn arguments_are_read_from_stdin_before_any_question() {
    let home = Home::new();
    let line = line(&server());
    let mut terminal = home.run_in_terminal(&["call", "ok", "--server", &line, "--args", "-"]);
    terminal.send("{}\r\u{4}");
    terminal.wait_for("Start it exactly as shown? [y/N]");
    terminal.send("n\r");
    assert_eq!(terminal.end().code, 5);
}

/// Prompts go to the terminal, so that stdout has JSON alone.
#[test]
fn a_server_of_the_command_line_is_asked_about_with_json_too() {
    let home = Home::new();
    let line = line(&server());
    let mut terminal = home.run_in_terminal(&["tools", "--json", "--server", &line]);
    terminal.wait_for("Start it exactly as shown? [y/N]");
    terminal.send("y\r");
    assert_eq!(terminal.end().code, 0);
}
