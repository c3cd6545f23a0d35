//! Servers of both eras whose handlers ask in the legacy way, made with Python's SDK and with FastMCP.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use switchboard_testkit::{Entry, KilledOnDrop, Launch};

use super::support::TerminalOutput;
use super::{Real, servers};

const SERVERS: [&str; 2] = ["asks-sdk", "asks-fastmcp"];

/// The notice when the program opens a connection of the other era.
const REOPENED: &str = "sends its questions in the legacy form, which protocol 2026-07-28 does not support; reconnected with 2025-11-25; this is remembered";

/// The screen as one line: a terminal of 80 columns breaks what is longer.
fn unbroken(ended: &TerminalOutput) -> String {
    ended
        .screen
        .replace('\n', " ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

impl Real {
    fn call_at_terminal(&self, tool: &str) -> TerminalOutput {
        self.home.run_in_terminal(&["call", tool, "--yes"]).end()
    }

    /// Makes the call, and answers the form that comes with `Ada`.
    fn call_and_answer(&self, tool: &str) -> TerminalOutput {
        let mut terminal = self.home.run_in_terminal(&["call", tool, "--yes"]);
        terminal.wait_for("What is your name?");
        terminal.send("Ada");
        terminal.wait_for("> Ada");
        terminal.send("\t");
        terminal.wait_for("[ Send ]");
        terminal.send("\r");
        let ended = terminal.end();
        assert_eq!((ended.code, ended.restored), (0, true), "{tool}: {ended:?}");
        ended
    }

    fn era(&self) -> Value {
        // A Python server takes longer than usual to start on a busy machine.
        self.json(&["status", "--json", "--wait", "60"])["servers"][0]["era"].clone()
    }
}

/// With one server, and time for it to start on a busy machine.
fn one(name: &str) -> Option<Real> {
    Real::with(&[name], |entry, _| entry.set("connect_timeout", "60s"))
}

#[test]
fn a_question_in_the_older_way_is_answered_from_the_second_run_on() {
    for name in SERVERS {
        let Some(real) = one(name) else { return };
        let tool = format!("{name}/elicit");
        assert_eq!(real.era(), "modern");
        let first = unbroken(&real.call_at_terminal(&tool));
        assert!(
            first.contains(REOPENED) && first.contains("The tool may have begun; call it again."),
            "{first}"
        );
        assert_eq!(real.era(), "legacy");
        for _ in 0..2 {
            let answered = unbroken(&real.call_and_answer(&tool));
            assert!(
                answered.contains("accept: name='Ada'")
                    && !answered.contains("sends its questions"),
                "{answered}"
            );
        }
    }
}

#[test]
fn a_tool_that_may_run_twice_is_answered_on_the_first_run() {
    for name in SERVERS {
        let adapt = |entry: Entry, _: &_| {
            entry
                .set("connect_timeout", "60s")
                .set_toml("idempotent_tools", "[\"elicit\"]")
        };
        let Some(real) = Real::with(&[name], adapt) else {
            return;
        };
        let answered = unbroken(&real.call_and_answer(&format!("{name}/elicit")));
        assert!(answered.contains("accept: name='Ada'"), "{answered}");
        assert!(
            answered.contains(REOPENED) && answered.contains("The call is made again."),
            "{answered}"
        );
    }
}

#[test]
fn a_handler_that_asks_in_its_result_leads_back() {
    for name in SERVERS {
        let Some(real) = one(name) else { return };
        real.call_at_terminal(&format!("{name}/elicit"));
        let newer = format!("{name}/newer");
        let back = unbroken(&real.call_at_terminal(&newer));
        assert!(
            back.contains(
                "sends its questions in the modern form, which protocol 2025-11-25 does not support"
            ),
            "{back}"
        );
        assert_eq!(real.era(), "modern");
        let answered = unbroken(&real.call_and_answer(&newer));
        assert!(answered.contains("answered: {'name': 'Ada'}"), "{answered}");
        // It is not switched again.
        let stays = unbroken(&real.call_at_terminal(&format!("{name}/elicit")));
        assert!(
            stays.contains("add an entry with `protocol = \"legacy\"`"),
            "{stays}"
        );
        assert_eq!(real.era(), "modern");
    }
}

#[test]
fn an_entry_that_dictates_the_era_leaves_the_others_alone() {
    for name in SERVERS {
        let Some(real) = Real::with(&[name], |entry, _| {
            entry
                .set("connect_timeout", "60s")
                .set("protocol", "legacy")
        }) else {
            return;
        };
        assert_eq!(real.era(), "legacy");
        let entry =
            std::fs::read_to_string(real.home.path("config/switchboard/switchboard.toml")).unwrap();
        real.home
            .user_file(&entry.replace("protocol = \"legacy\"", ""));
        assert_eq!(real.era(), "modern");
    }
}

/// A server that listens, and ends with its test.
fn listening(launch: &Launch, more: &[&str]) -> (KilledOnDrop, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut command = launch.clone().arg("http").arg(port.to_string()).command();
    let mut child = command
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said: Vec<String> = lines
        .by_ref()
        .map_while(Result::ok)
        .take_while(|line| !line.contains("running on"))
        .collect();
    assert!(child.try_wait().unwrap().is_none(), "{said:?}");
    // The output is read to the end, so that the server never blocks on it.
    std::thread::spawn(move || lines.count());
    let address = format!("http://127.0.0.1:{port}/mcp");
    (KilledOnDrop(child), address)
}

#[test]
fn over_http_a_question_in_the_older_way_is_answered_from_the_second_run_on() {
    for name in SERVERS {
        let Some(launches) = servers() else { return };
        let (_server, url) = listening(&launches[name], &[]);
        let Some(real) = Real::with(&[], |entry, _| entry) else {
            return;
        };
        real.home
            .user_file(&format!("[servers.asks]\nurl = \"{url}\"\n"));
        assert_eq!(real.era(), "modern");
        let first = unbroken(&real.call_at_terminal("asks/elicit"));
        assert!(first.contains(REOPENED), "{first}");
        assert_eq!(real.era(), "legacy");
        let answered = unbroken(&real.call_and_answer("asks/elicit"));
        assert!(answered.contains("accept: name='Ada'"), "{answered}");
    }
}

/// A server with both kinds of handlers has a connection of each era.
#[test]
fn over_http_both_ways_of_asking_are_answered() {
    for name in SERVERS {
        let Some(launches) = servers() else { return };
        let (_server, url) = listening(&launches[name], &[]);
        let Some(real) = Real::with(&[], |entry, _| entry) else {
            return;
        };
        real.home
            .user_file(&format!("[servers.asks]\nurl = \"{url}\"\n"));
        real.call_at_terminal("asks/elicit");
        let back = unbroken(&real.call_at_terminal("asks/newer"));
        assert!(
            back.contains(
                "Its tools that send questions in the legacy form use a second connection, with 2025-11-25"
            ),
            "{back}"
        );
        assert_eq!(real.era(), "modern");
        for (tool, answer) in [
            ("asks/elicit", "accept: name='Ada'"),
            ("asks/newer", "answered: {'name': 'Ada'}"),
            ("asks/elicit", "accept: name='Ada'"),
        ] {
            let answered = unbroken(&real.call_and_answer(tool));
            assert!(
                answered.contains(answer) && !answered.contains("sends its questions"),
                "{tool}: {answered}"
            );
        }
        assert_eq!(real.era(), "modern");
    }
}

#[test]
fn over_stateless_http_neither_era_carries_the_question_and_that_is_remembered() {
    for name in SERVERS {
        let Some(launches) = servers() else { return };
        let (_server, url) = listening(&launches[name], &["stateless"]);
        let Some(real) = Real::with(&[], |entry, _| entry) else {
            return;
        };
        real.home
            .user_file(&format!("[servers.asks]\nurl = \"{url}\"\n"));
        let said: Vec<String> = (0..3)
            .map(|_| unbroken(&real.call_at_terminal("asks/elicit")))
            .collect();
        assert!(said[0].contains(REOPENED), "{}", said[0]);
        assert!(
            said[1].contains("cannot send its questions with protocol 2025-11-25 either"),
            "{}",
            said[1]
        );
        assert!(
            said[2]
                .contains("which it supports neither with protocol 2026-07-28 nor with 2025-11-25"),
            "{}",
            said[2]
        );
        assert_eq!(json!([real.era()]), json!(["modern"]));
    }
}
