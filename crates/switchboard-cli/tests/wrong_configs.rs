//! Each kind of invalid configuration: a message that says what was expected, exit code 2, and
//! nothing starts.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use support::{Home, ProgramOutput};

/// Three lines before each mistake: a server that would create a file if it were started.
fn canary(home: &Home) -> String {
    format!(
        "[servers.canary]\ncommand = \"touch\"\nargs = [{:?}]\n",
        home.path("canary").display().to_string()
    )
}

/// Every command that starts servers says the same, and starts none.
fn check(mistake: &str, expected: &[&str]) {
    let home = Home::new();
    std::fs::write(home.path("project/wrong.toml"), canary(&home) + mistake).unwrap();
    let stderr: String = expected
        .iter()
        .map(|line| format!("error: wrong.toml:{line}\n"))
        .collect();
    for command in [
        &["status"][..],
        &["tools"],
        &["call", "canary/x", "--yes"],
        &["doctor"],
        &["read", "x://y"],
    ] {
        let words: Vec<_> = ["-c", "wrong.toml"]
            .iter()
            .chain(command)
            .copied()
            .collect();
        assert_eq!(
            home.run(&words),
            ProgramOutput {
                code: Some(2),
                stdout: String::new(),
                stderr: stderr.clone()
            },
            "{mistake}"
        );
    }
    let told = home.run(&["-c", "wrong.toml", "status", "--json"]);
    let message: Vec<_> = expected
        .iter()
        .map(|line| format!("wrong.toml:{line}"))
        .collect();
    assert_eq!(told.code, Some(2));
    assert_eq!(
        told.error(),
        json!({ "code": 2, "server": null, "message": message.join("\n"), "hint": null })
    );
    assert!(
        !home.path("canary").exists(),
        "something was started: {mistake}"
    );
}

#[test]
fn bad_toml() {
    check(
        "[servers.a\ncommand = \"x\"\n",
        &["4:11: not valid TOML: unclosed table, expected `]`"],
    );
    check(
        "[servers.a]\ncommand = \"x\nargs = []\n",
        &[
            "5:13: not valid TOML: the string is not closed; expected the closing quote before the end of the line",
        ],
    );
    check(
        "[servers.canary]\n",
        &["4:10: not valid TOML: this name is already set above; each may occur once"],
    );
}

#[test]
fn unknown_transport() {
    check(
        "[servers.a]\ncommand = \"x\"\ntransport = \"pigeon\"\n",
        &[
            "6:13: servers.a.transport: unknown transport \"pigeon\"; expected \"stdio\", \"http\" or \"sse\"",
        ],
    );
}

#[test]
fn an_entry_needs_exactly_one_of_command_and_url() {
    check(
        "[servers.a]\ncommand = \"x\"\nurl = \"https://x\"\n",
        &[
            "6:1: servers.a: both `command` (line 5) and `url` (line 6) are set; a server is either a program to start or a URL to reach: remove one of them",
        ],
    );
    check(
        "[servers.a]\n",
        &[
            "4:10: servers.a: neither `command` nor `url` is set; expected a program to start or a URL to reach",
        ],
    );
}

#[test]
fn empty_command() {
    check(
        "[servers.a]\ncommand = \"\"\n",
        &[
            "5:1: servers.a.command: empty; expected the program to start, such as \"npx\" or \"./server\"",
        ],
    );
}

#[test]
fn bad_duration() {
    let expected =
        "expected a whole number and a unit, such as \"500ms\", \"30s\", \"10m\" or \"1h\"";
    check(
        "[servers.a]\ncommand = \"x\"\ncall_timeout = \"30 parsecs\"\n",
        &[&format!(
            "6:16: servers.a.call_timeout: \"30 parsecs\" is not a duration; {expected}"
        )],
    );
    check(
        "[servers.a]\ncommand = \"x\"\ncall_timeout = 30\n",
        &[&format!(
            "6:16: servers.a.call_timeout: {expected}, found an integer"
        )],
    );
}

#[test]
fn an_invalid_server_name_is_rejected_with_the_expected_form() {
    let expected =
        "expected 1 to 32 of A-Z a-z 0-9 _ -, without \"__\" and without \"_\" at either end";
    check(
        "[servers.\"a b\"]\ncommand = \"x\"\n",
        &[&format!(
            "4:10: servers.\"a b\": \"a b\" cannot name a server: it has a character outside A-Z a-z 0-9 _ -; {expected}"
        )],
    );
    // The gateway's paths need it.
    check(
        "[servers.server-card]\ncommand = \"x\"\n",
        &[
            "4:10: servers.server-card: \"server-card\" cannot name a server: the gateway uses it for something else, at /mcp/server-card; expected another name",
        ],
    );
}

#[test]
fn unknown_mode() {
    check(
        "[permissions]\nmode = \"maybe\"\n",
        &["5:8: permissions.mode: unknown mode \"maybe\"; expected \"ask\", \"yolo\" or \"deny\""],
    );
}

#[test]
fn all_type_errors_are_reported_at_once() {
    check(
        "[servers.a]\ncommand = [\"x\"]\nargs = \"y\"\nenabled = \"yes\"\nenv = [1]\n",
        &[
            "5:11: servers.a.command: expected a string in quotes, found a list",
            "6:8: servers.a.args: expected a list of strings, such as [\"a\", \"b\"], found a string",
            "7:11: servers.a.enabled: expected true or false, found a string",
            "8:7: servers.a.env: expected a table of strings, such as { NAME = \"value\" }, found a list",
        ],
    );
}

#[test]
fn unreadable_file() {
    let home = Home::new();
    home.user_file(&canary(&home));
    std::fs::write(home.path("project/bytes.toml"), b"name = \"\xff\"").unwrap();
    std::fs::write(home.path("project/locked.toml"), canary(&home)).unwrap();
    std::fs::set_permissions(
        home.path("project/locked.toml"),
        PermissionsExt::from_mode(0o000),
    )
    .unwrap();
    let check = |file: &str, told: &str| {
        let expected = ProgramOutput {
            code: Some(2),
            stdout: String::new(),
            stderr: format!("error: {told}\n"),
        };
        assert_eq!(home.run(&["-c", file, "status"]), expected);
        assert!(
            !home.path("canary").exists(),
            "something was started: {file}"
        );
    };
    check(
        "nowhere.toml",
        "nowhere.toml: no such file; correct the path",
    );
    check("..", "..: is a folder; expected a file");
    check(
        "bytes.toml",
        "bytes.toml:1:9: not UTF-8 text; save the file as UTF-8",
    );
    // Root can read every file.
    if std::fs::read(home.path("project/locked.toml")).is_err() {
        check(
            "locked.toml",
            "locked.toml: cannot be read: permission denied; try `chmod u+r`, or another file",
        );
    }
    // A project's file of that name that cannot be read is not passed over.
    std::fs::create_dir(home.path("project/switchboard.toml")).unwrap();
    let ran = home.run(&["status"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(
        ran.stderr
            .ends_with("project/switchboard.toml: is a folder; expected a file\n"),
        "{ran:?}"
    );
    assert!(!home.path("canary").exists(), "something was started");
}
