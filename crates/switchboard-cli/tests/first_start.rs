//! A first start through a package runner: it has the time that an installation takes, and is not
//! ended before.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use support::Home;
use switchboard_testkit::{Chaos, Step};

/// A folder with an `npx` that takes so long to install, records that, and then runs a server.
fn home(seconds: &str) -> Home {
    let home = Home::new();
    std::fs::create_dir_all(home.path("bin")).unwrap();
    let launch = Chaos::new().tool("ok", Step::text("fine")).launch();
    let script = home.path("script.json");
    std::fs::write(&script, &launch.args[0]).unwrap();
    let npx = home.path("bin/npx");
    let installed = home.path("installed");
    let body = format!(
        "[ -e '{installed}' ] || sleep {seconds}\necho >> '{installed}'\nexec '{}' '@{}'",
        launch.command.display(),
        script.display(),
        installed = installed.display(),
    );
    std::fs::write(&npx, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&npx, PermissionsExt::from_mode(0o755)).unwrap();
    home.user_file(&format!(
        "[servers.x]\ncommand = {npx:?}\nargs = [\"-y\", \"server-x\"]\n"
    ));
    home
}

/// Without a terminal: longer than the ten seconds that other servers have.
#[test]
fn without_a_terminal_an_installation_is_waited_for() {
    let home = home("12");
    let status = home.run(&["status", "--json"]).json();
    assert_eq!(
        (&status["servers"][0]["status"], &status["discovery"]),
        (&json!("CONNECTED"), &json!("COMPLETED")),
        "{status}"
    );
    assert_eq!(
        std::fs::read_to_string(home.path("installed"))
            .unwrap()
            .lines()
            .count(),
        1,
        "one installation, to its end"
    );
}

/// On a terminal the program names the server that it waits for, without a limit.
#[test]
fn on_a_terminal_the_awaited_server_is_named() {
    let home = home("12");
    let terminal = home.run_in_terminal(&["tools"]);
    terminal.wait_for("x (first start, npx may be installing it)");
    let ended = terminal.end();
    assert_eq!(ended.code, 0, "{}", ended.screen);
    assert!(ended.screen.contains("mcp__x__ok"), "{}", ended.screen);
}

/// A cold start by a call, within what the call was given; by the document's name too, which no
/// catalog has yet.
#[test]
fn a_call_with_enough_time_works_on_a_cold_start() {
    for name in ["x/ok", "mcp__x__ok"] {
        let home = home("12");
        let ran = home.run(&["call", name, "--yes", "--timeout", "120"]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(0), "fine\n"),
            "{name}: {ran:?}"
        );
        assert_eq!(
            std::fs::read_to_string(home.path("installed"))
                .unwrap()
                .lines()
                .count(),
            1,
            "{name}"
        );
    }
}

/// `--wait` limits the wait, and the current step is reported.
#[test]
fn the_wait_option_limits_the_wait() {
    let home = home("600");
    let ran = home.run(&["tools", "--wait", "1"]);
    assert!(
        ran.stderr.contains(
            "still connecting (first start, npx may be installing it); wait longer with --wait SECS"
        ),
        "{ran:?}"
    );
}
