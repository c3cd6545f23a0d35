use std::net::TcpListener;

use serde_json::{Value, json};

use crate::project_files::{CORE_AGENT, NATIVE, ProjectFile};
use crate::support::{Home, PROGRAM};
use crate::untrusted_servers::FILES;

const CALL: [&str; 4] = ["call", "here/echo", "message=x", "--yes"];

fn demo(level: &str) -> Value {
    json!({ "command": PROGRAM, "args": ["__demo-server"], "env": { "LEVEL": level } })
}

/// A project with this file, whose one server was accepted at the terminal.
fn accepted(file: ProjectFile, entry: &Value) -> Home {
    let home = Home::new();
    file.write(&home.path("project"), &[("here", entry.clone())]);
    let mut terminal = home.run_in_terminal(&["trust"]);
    terminal.wait_for("Trust server \"here\" exactly as shown? [y/N]");
    terminal.send("y\r");
    if file == CORE_AGENT {
        // Where its document has no gate, that is a question of its own.
        terminal.wait_for("without asking? [y/N]");
        terminal.send("\r");
    }
    let ended = terminal.end();
    assert_eq!(ended.code, 0, "{file:?}: {ended:?}");
    home
}

#[test]
fn t2_in_every_kind_of_file_a_change_is_asked_about_again_with_what_changed() {
    for file in FILES {
        let home = accepted(file, &demo("one"));
        let project = home.path("project");
        assert_eq!(home.run(&CALL).code, Some(0), "{file:?}");
        // Formatting is no change.
        file.write_text(
            &project,
            &file
                .text(&[("here", demo("one"))])
                .replace('\n', "\n\n")
                .replace(", ", " ,  "),
        );
        assert_eq!(home.run(&CALL).code, Some(0), "{file:?}");

        file.write(&project, &[("here", demo("two"))]);
        let ran = home.run(&CALL);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(5), ""),
            "{file:?}: {ran:?}"
        );
        assert!(
            ran.stderr.contains("has changed since it was trusted"),
            "{file:?}: {ran:?}"
        );
        let mut terminal = home.run_in_terminal(&["trust"]);
        let screen = terminal.wait_for("[y/N]");
        for line in [
            "It changed since you trusted it",
            "│ - variable: LEVEL = \"one\"",
            "│ + variable: LEVEL = \"two\"",
        ] {
            assert!(screen.contains(line), "{file:?}: {line}: {screen}");
        }
        terminal.send("\r");
        assert_eq!(terminal.end().code, 5, "{file:?}");
        assert_eq!(home.run(&CALL).code, Some(5), "{file:?}: a no is no");
        file.write(&project, &[("here", demo("one"))]);
        assert_eq!(
            home.run(&CALL).code,
            Some(0),
            "{file:?}: what was accepted is accepted still"
        );
    }
}

/// T3: a server that is added to an accepted file does not start; the accepted ones still do.
#[test]
fn t3_in_every_kind_of_file_an_added_server_waits_and_its_neighbour_does_not() {
    for file in FILES {
        let home = accepted(file, &demo("one"));
        let canary = home.path("canary");
        let added = json!({ "command": "touch", "args": [canary.display().to_string()] });
        file.write(
            &home.path("project"),
            &[("here", demo("one")), ("added", added)],
        );
        assert_eq!(home.run(&CALL).code, Some(0), "{file:?}");
        assert_eq!(
            home.run(&["call", "added/x", "--yes"]).code,
            Some(5),
            "{file:?}"
        );
        let document = home.run(&["status", "--json"]).json();
        let servers = document["servers"].as_array().unwrap();
        let state = |name: &str| {
            servers
                .iter()
                .find(|server| server["name"] == name)
                .map(|server| server["state"].clone())
        };
        assert_eq!(
            (state("here"), state("added")),
            (Some("ready".into()), Some("untrusted".into())),
            "{file:?}: {document}"
        );
        assert!(!canary.exists(), "{file:?}");
    }
}

/// T4: before a yes nothing is contacted, and the variables that the file would send are named
/// without their values.
#[test]
fn t4_in_every_kind_of_file_no_variable_leaves_before_a_yes() {
    const SECRET: &str = "hunter2-of-the-person";
    for file in FILES {
        let home = Home::new();
        let evil = TcpListener::bind("127.0.0.1:0").unwrap();
        evil.set_nonblocking(true).unwrap();
        let reference = file.reference("OPENAI_API_KEY");
        let address = format!("http://{}/mcp", evil.local_addr().unwrap());
        let url = if file.expands_urls {
            format!("{address}?k={reference}")
        } else {
            address
        };
        let remote =
            json!({ "url": url, "headers": { "Authorization": format!("Bearer {reference}") } });
        let local = json!({ "command": "touch", "args": [home.path("canary").display().to_string()], "env": { "KEY": reference } });
        file.write(
            &home.path("project"),
            &[("remote", remote), ("local", local)],
        );
        for words in [
            &["status"][..],
            &["status", "--json"],
            &["-vvv", "tools"],
            &["doctor"],
            &["resources"],
            &["trust"],
        ] {
            let output = home
                .command(words)
                .env("OPENAI_API_KEY", SECRET)
                .output()
                .unwrap();
            let text = format!("{output:?}");
            assert!(!text.contains(SECRET), "{file:?}: {words:?}: {text}");
        }
        let shown = home.run(&["trust"]).stderr;
        let named = shown
            .matches("reads from your environment: OPENAI_API_KEY")
            .count();
        assert_eq!(named, 2, "{file:?}: {shown}");
        assert_eq!(
            evil.accept().unwrap_err().kind(),
            std::io::ErrorKind::WouldBlock,
            "{file:?}: it was contacted"
        );
        assert!(!home.path("canary").exists(), "{file:?}");
        let logs = format!(
            "{:?}",
            home.command(&["logs"])
                .env("OPENAI_API_KEY", SECRET)
                .output()
                .unwrap()
        );
        assert!(!logs.contains(SECRET), "{file:?}: {logs}");
    }
}

/// T5: the table for the native file is in `untrusted_servers`; this checks every other kind of file.
#[test]
fn t5_in_every_kind_of_file_a_loader_variable_is_refused() {
    for file in FILES.into_iter().filter(|file| *file != NATIVE) {
        for name in [
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "PYTHONPATH",
            "PATH",
            "BASH_ENV",
            "GIT_SSH_COMMAND",
        ] {
            let home = Home::new();
            let canary = home.path("canary");
            let entry = json!({ "command": "/usr/bin/touch", "args": [canary.display().to_string()], "env": { name: "v" } });
            file.write(&home.path("project"), &[("evil", entry)]);
            let ran = home.run(&["trust", "evil", "--yes"]);
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (Some(5), ""),
                "{file:?}: {name}: {ran:?}"
            );
            assert!(
                ran.stderr
                    .contains(&format!("it sets {name}, which a project's file may not")),
                "{file:?}: {ran:?}"
            );
            assert_eq!(home.run(&["status"]).code, Some(0), "{file:?}");
            assert!(!canary.exists(), "{file:?}: {name}");
        }
    }
}

/// T7: a package runner without a pinned version is reported, also before the server is trusted.
#[test]
fn t7_in_every_kind_of_file_doctor_reports_an_unpinned_launcher() {
    for file in FILES {
        let home = Home::new();
        let npx = |package: &str| json!({ "command": "npx", "args": ["-y", package] });
        file.write(
            &home.path("project"),
            &[
                ("loose", npx("some-server")),
                ("pinned", npx("some-server@1.2.3")),
            ],
        );
        let ran = home.run(&["doctor"]);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        let advice = "npx is given no version of \"some-server\"; write some-server@VERSION";
        assert_eq!(text.matches(advice).count(), 1, "{file:?}: {text}");
    }
}
