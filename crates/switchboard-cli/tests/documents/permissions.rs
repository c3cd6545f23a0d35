//! Permissions of a project's file: they apply after a person has accepted exactly these.

use crate::machine::Machine;

/// A core-agent file with one server, and this before its servers.
fn core_agent(permissions: &str) -> String {
    format!(
        r#"{{{permissions}"servers": {{"filesystem": {{"transport": "stdio", "command": "mcp-server-filesystem"}}}}}}"#
    )
}

/// A project whose core-agent file says this about permissions; its server is trusted.
fn project(permissions: &str) -> Machine {
    let machine = Machine::new().file(".agents/mcp.json", &core_agent(permissions));
    let trusted = machine.run(&["trust", "filesystem", "--yes"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    machine
}

/// Runs `switchboard trust` in a terminal, answers the second question, and returns its screen.
fn answer(machine: &Machine, keys: &str) -> String {
    let mut terminal = machine.spawn_in_terminal(&["trust"]);
    let screen = terminal.wait_for("without asking? [y/N]");
    terminal.send(keys);
    let ended = terminal.end();
    assert_eq!(
        ended.code,
        if keys.starts_with('y') { 0 } else { 5 },
        "{ended:?}"
    );
    screen
}

fn code(machine: &Machine, words: &[&str]) -> Option<i32> {
    machine.run(words).code
}

const READ: [&str; 3] = ["call", "filesystem_read_file", "path=x"];
const WRITE: [&str; 2] = ["call", "filesystem_write_file"];

/// S0-23 in a project: without a yes the allow list lifts no question; with one it does, for
/// exactly the tool that it names; a change of its text asks again.
#[test]
fn s0_23_a_projects_allow_list_counts_once_it_is_accepted_and_until_it_changes() {
    let machine = project(r#""permissions": {"allow": ["mcp:filesystem_read_file"]}, "#);
    assert_eq!(
        code(&machine, &READ),
        Some(5),
        "trusting the server accepts no permissions"
    );
    let screen = answer(&machine, "\r");
    assert!(
        screen.contains(r#"│ allow "mcp:filesystem_read_file""#),
        "{screen}"
    );
    assert_eq!(code(&machine, &READ), Some(5), "the default answer is no");
    answer(&machine, "y\r");
    assert_eq!(
        (code(&machine, &READ), code(&machine, &WRITE)),
        (Some(0), Some(5))
    );
    let machine = machine.file(
        ".agents/mcp.json",
        &core_agent(r#""permissions": {"allow": ["mcp:filesystem_read_file", "mcp:filesystem_write_file"]}, "#),
    );
    assert_eq!(
        (code(&machine, &READ), code(&machine, &WRITE)),
        (Some(5), Some(5)),
        "the yes was for another text"
    );
    let screen = answer(&machine, "y\r");
    assert!(
        screen.contains(r#"│ + allow "mcp:filesystem_write_file""#),
        "{screen}"
    );
    assert_eq!(
        (code(&machine, &READ), code(&machine, &WRITE)),
        (Some(0), Some(0))
    );
    // Accepted permissions do not override a deny rule of the user's own file.
    std::fs::write(
        machine.path("config/switchboard/switchboard.toml"),
        "[permissions]\ndeny = [\"filesystem/read_file\"]\n",
    )
    .unwrap();
    assert_eq!(
        (code(&machine, &READ), code(&machine, &WRITE)),
        (Some(5), Some(0))
    );
}

/// S0-26 in a project, and given with `-c`: `yolo` skips the gate for servers' tools, with the
/// `mcp:` denies of the same file, and says so once; a deny of another file holds.
#[test]
fn s0_26_yolo_skips_the_denies_of_its_own_file_and_none_of_another() {
    let permissions =
        r#""permissions": {"mode": "yolo", "deny": ["mcp:filesystem_write_file", "bash:rm"]}, "#;
    let machine = project(permissions).file("given.json", &core_agent(permissions));
    assert_eq!(
        (code(&machine, &READ), code(&machine, &WRITE)),
        (Some(5), Some(5)),
        "not accepted, only the deny counts"
    );
    let screen = answer(&machine, "y\r");
    assert!(
        screen.contains("│ mode \"yolo\": no tool of any server is asked about"),
        "{screen}"
    );
    for given in [&[][..], &["-c", "given.json", "--dialect", "core-agent"]] {
        let written = machine.run(&[given, &WRITE].concat());
        assert_eq!(
            (written.code, written.stdout.as_str()),
            (Some(0), "written\n"),
            "{written:?}"
        );
        let lines: Vec<_> = written
            .stderr
            .lines()
            .filter(|line| line.contains("yolo"))
            .collect();
        assert!(
            lines.len() == 1 && lines[0].contains("mcp:filesystem_write_file"),
            "one notice: {written:?}"
        );
        assert!(!lines[0].contains("bash:rm"), "{written:?}");
    }
    let own = machine.path("own.toml");
    std::fs::write(&own, "[permissions]\ndeny = [\"filesystem/write_file\"]\n").unwrap();
    let both = ["-c", "given.json", "-c", own.to_str().unwrap()];
    let refused = machine.run(&[&both[..], &WRITE].concat());
    assert!(
        refused.code == Some(5) && refused.stderr.contains("own.toml"),
        "{refused:?}"
    );
    assert_eq!(code(&machine, &[&both[..], &READ].concat()), Some(0));
    // Another file of the same folder is another file too.
    let denies = r#""permissions": {"deny": ["mcp:filesystem_write_file"]}, "#;
    let machine = machine.file("denies.json", &core_agent(denies));
    let both = [
        "--dialect",
        "core-agent",
        "-c",
        "given.json",
        "-c",
        "denies.json",
    ];
    let refused = machine.run(&[&both[..], &WRITE].concat());
    assert!(
        refused.code == Some(5) && refused.stderr.contains("denies.json"),
        "{refused:?}"
    );
}

/// Revoking a file revokes its permissions: they must not apply when its server is accepted again,
/// nor to the user's own servers.
#[test]
fn revoking_a_file_or_its_last_server_revokes_its_permissions() {
    let list = |machine: &Machine| machine.run(&["trust", "--list"]).stdout;
    for revoked in [".agents/mcp.json", "filesystem"] {
        let machine = project(r#""permissions": {"mode": "yolo"}, "#);
        answer(&machine, "y\r");
        assert_eq!(code(&machine, &WRITE), Some(0));
        let listed = list(&machine);
        assert!(
            listed.contains("permissions of ") && listed.contains("│ mode \"yolo\""),
            "{listed}"
        );
        let ran = machine.run(&["trust", "--revoke", revoked]);
        assert!(ran.stdout.contains("revoked: permissions of "), "{ran:?}");
        assert!(!list(&machine).contains("yolo"), "{ran:?}");
        let again = machine.run(&["trust", "filesystem", "--yes"]);
        assert_eq!(again.code, Some(0), "{again:?}");
        assert_eq!(code(&machine, &WRITE), Some(5), "{revoked}");
    }
}

/// Permissions of a file stay accepted as long as one of its servers is.
#[test]
fn revoking_one_of_two_servers_keeps_the_permissions_of_their_file() {
    let entry = r#"{"transport": "stdio", "command": "mcp-server-filesystem"}"#;
    let text = format!(
        r#"{{"permissions": {{"mode": "yolo"}}, "servers": {{"filesystem": {entry}, "other": {entry}}}}}"#
    );
    let machine = Machine::new().file(".agents/mcp.json", &text);
    let accept = ["trust", "filesystem", "other", "--yes", "--permissions"];
    assert_eq!(code(&machine, &accept), Some(0));
    assert_eq!(code(&machine, &["trust", "--revoke", "other"]), Some(0));
    assert_eq!(code(&machine, &WRITE), Some(0));
    // A file can be named for its permissions too, after its servers were revoked one by one.
    let last = machine.run(&["trust", "--revoke", "filesystem", "--json"]);
    let permissions = &last.json()["revoked"]["permissions"];
    assert!(permissions.to_string().contains("mcp.json"), "{last:?}");
    let listed = machine.run(&["trust", "--list", "--json"]).json();
    assert_eq!(listed["permissions"], serde_json::json!([]));
}

/// S0-27 in a project: a file without a word about permissions has no gate once that was accepted.
#[test]
fn s0_27_a_projects_silence_about_permissions_counts_once_it_is_accepted() {
    let machine = project("");
    assert_eq!(code(&machine, &READ), Some(5));
    let screen = answer(&machine, "y\r");
    assert!(
        screen.contains(r#"no permissions in the file: every tool of server "filesystem""#),
        "{screen}"
    );
    assert_eq!(
        (code(&machine, &READ), code(&machine, &WRITE)),
        (Some(0), Some(0))
    );
    // A server that is added later was not accepted.
    let entry = r#"{"transport": "stdio", "command": "mcp-server-filesystem"}"#;
    let machine = machine.file(
        ".agents/mcp.json",
        &format!(r#"{{"servers": {{"filesystem": {entry}, "other": {entry}}}}}"#),
    );
    assert_eq!(code(&machine, &["trust", "other", "--yes"]), Some(0));
    assert_eq!(code(&machine, &["call", "other_write_file"]), Some(5));
    // With `--permissions`, `--yes` is a yes to the second question too.
    let accepted = machine.run(&["trust", "other", "--yes", "--permissions"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert_eq!(
        (
            code(&machine, &READ),
            code(&machine, &["call", "other_write_file"])
        ),
        (Some(0), Some(0))
    );
}

/// S0-42 in a project: the permissions of `.agents/config.json` are part of the same question.
#[test]
fn s0_42_a_projects_config_json_counts_once_it_is_accepted() {
    let machine = project("").file(
        ".agents/config.json",
        r#"{"permissions": {"allow": ["mcp:filesystem_read_file"]}}"#,
    );
    assert_eq!(code(&machine, &READ), Some(5));
    let screen = answer(&machine, "y\r");
    assert!(
        screen.contains(r#"│ allow "mcp:filesystem_read_file""#)
            && !screen.contains("no permissions"),
        "{screen}"
    );
    assert_eq!(
        (code(&machine, &READ), code(&machine, &WRITE)),
        (Some(0), Some(5))
    );
}

/// S2-15 in a project: `trust` of an entry lifts every confirmation of that server once it was
/// accepted.
#[test]
fn s2_15_a_projects_trust_counts_once_it_is_accepted() {
    let text = |trust: bool| {
        format!(
            r#"{{"mcpServers": {{"files": {{"command": "mcp-server-filesystem", "trust": {trust}}}, "python": {{"command": "python"}}}}}}"#
        )
    };
    let machine = Machine::new().file(".gemini/settings.json", &text(true));
    let mut terminal = machine.spawn_in_terminal(&["trust"]);
    for name in ["files", "python"] {
        terminal.wait_for(&format!("Trust server \"{name}\" exactly as shown? [y/N]"));
        terminal.send("y\r");
    }
    let screen = terminal.wait_for("without asking? [y/N]");
    assert!(
        screen.contains(r#"│ trust of server "files": every tool of it"#),
        "{screen}"
    );
    terminal.send("n\r");
    assert_eq!(
        terminal.end().code,
        0,
        "the servers are trusted all the same"
    );
    let call = ["call", "read_file", "path=x"];
    assert_eq!(code(&machine, &call), Some(5));
    answer(&machine, "y\r");
    assert_eq!(
        (
            code(&machine, &call),
            code(&machine, &["call", "calculate_sum"])
        ),
        (Some(0), Some(5))
    );
    let machine = machine.file(".gemini/settings.json", &text(false));
    assert_eq!(
        code(&machine, &call),
        Some(5),
        "a project can always tighten"
    );
}

/// Permissions that are not accepted are reported once, and again after a change. `why` shows for
/// each rule whether it applies.
#[test]
fn a_projects_permissions_that_do_not_count_are_mentioned_once() {
    let machine = project(
        r#""permissions": {"allow": ["mcp:filesystem_read_file"], "ask": ["mcp:filesystem_write_file"]}, "#,
    );
    let mentions = |words: &[&str]| {
        let ran = machine.run(words);
        ran.stderr
            .lines()
            .filter(|line| line.contains("switchboard trust"))
            .count()
    };
    assert_eq!(mentions(&["status"]), 1);
    assert_eq!(
        (
            mentions(&["status"]),
            mentions(&["tools"]),
            mentions(&["why", "filesystem"])
        ),
        (0, 0, 0)
    );
    let why = machine.run(&["why", "filesystem"]);
    let line = |why: &crate::support::ProgramOutput, text: &str| {
        why.stdout
            .lines()
            .find(|line| line.contains(text))
            .unwrap_or_else(|| panic!("{why:?}"))
            .to_owned()
    };
    assert!(
        line(&why, r#"allow "mcp:filesystem_read_file""#).contains("ignored"),
        "{why:?}"
    );
    assert!(
        line(&why, r#"ask "mcp:filesystem_write_file""#).contains("applies"),
        "{why:?}"
    );
    answer(&machine, "y\r");
    let why = machine.run(&["why", "filesystem"]);
    assert!(
        !line(&why, r#"allow "mcp:filesystem_read_file""#).contains("ignored"),
        "{why:?}"
    );
    let json = machine.run(&["why", "filesystem", "--json"]).json();
    assert_eq!(json["permissions"][0]["counts"], true, "{json}");
    let machine = machine.file(
        ".agents/mcp.json",
        &core_agent(r#""permissions": {"allow": ["mcp:*"]}, "#),
    );
    let status = machine.run(&["status"]);
    assert_eq!(
        status
            .stderr
            .lines()
            .filter(|line| line.contains("switchboard trust"))
            .count(),
        1,
        "{status:?}"
    );
}
