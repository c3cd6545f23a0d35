//! Many servers: cached catalogs avoid starting them, and `status` shows them compactly.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::Home;
use switchboard_testkit::{Chaos, Launch, Step};

/// The demo server and a second one, which both record every start.
fn home() -> Home {
    let home = Home::new();
    let starts = home.path("starts");
    let noting = |name: &str, launch: Launch| {
        let script = format!("echo {name} >> '{}'; exec \"$@\"", starts.display());
        let args = [
            vec![
                "-c".to_owned(),
                script,
                "sh".to_owned(),
                launch.command.display().to_string(),
            ],
            launch.args,
        ]
        .concat();
        format!(
            "[servers.{name}]\ncommand = \"/bin/sh\"\nargs = {}\n",
            json!(args)
        )
    };
    let demo = noting("demo", Launch::new(support::PROGRAM).arg("__demo-server"));
    let other = noting(
        "other",
        Chaos::new().tool("ok", Step::text("fine")).launch(),
    );
    home.user_file(&format!("{demo}{other}"));
    home
}

fn started(home: &Home, words: &[&str]) -> (Option<i32>, String, String) {
    let _ = std::fs::remove_file(home.path("starts"));
    let ran = home.run(words);
    (
        ran.code,
        std::fs::read_to_string(home.path("starts")).unwrap_or_default(),
        ran.stdout + &ran.stderr,
    )
}

/// `read` and `prompt` start the one server that has it, where all are remembered; `prompt
/// SERVER/NAME` says which.
#[test]
fn read_and_prompt_start_only_the_server_that_is_remembered_to_have_it() {
    let home = home();
    let (_, all, _) = started(&home, &["tools"]);
    assert_eq!(all.lines().count(), 2, "{all}");
    for words in [
        &["read", "demo://text"][..],
        &["read", "demo://greeting/Ada"],
        &["prompt", "haiku"],
        &["prompt", "demo/haiku"],
    ] {
        let (code, starts, told) = started(&home, words);
        assert_eq!(
            (code, starts.as_str()),
            (Some(0), "demo\n"),
            "{words:?}: {told}"
        );
    }
    let (code, _, told) = started(&home, &["prompt", "demo/nothing"]);
    assert!(
        code == Some(2) && told.contains("no prompt \"nothing\""),
        "{told}"
    );
}

/// On a first run nothing is remembered: `prompt SERVER/NAME` still starts only that server.
#[test]
fn a_prompt_named_with_its_server_starts_only_that_one() {
    let home = home();
    let (code, starts, told) = started(&home, &["prompt", "demo/haiku"]);
    assert_eq!((code, starts.as_str()), (Some(0), "demo\n"), "{told}");
}

/// Twelve servers are twelve lines; `-v` and a document's own view show all.
#[test]
fn the_status_of_many_servers_is_a_line_each() {
    let home = Home::new();
    let launch = Chaos::new()
        .tool("a", Step::text("x"))
        .tool("b", Step::text("x"))
        .launch();
    let server = json!({ "command": launch.command, "args": launch.args });
    let all: serde_json::Map<String, Value> = (1..=12)
        .map(|number| (format!("s{number}"), server.clone()))
        .collect();
    let file = home.path("project/.mcp.json");
    std::fs::write(&file, json!({ "mcpServers": all }).to_string()).unwrap();
    let given = ["-c", file.to_str().unwrap()];
    let ran = home.run(&[&given[..], &["status"]].concat());
    assert_eq!(
        ran.stdout.matches("(CONNECTED)  2 tools\n").count(),
        12,
        "{ran:?}"
    );
    assert!(
        ran.stdout.lines().count() <= 20 && !ran.stdout.contains("Command:"),
        "{ran:?}"
    );
    let ran = home.run(&[&given[..], &["-v", "status"]].concat());
    assert_eq!(ran.stdout.matches("\n  Command: ").count(), 12, "{ran:?}");
    let ran = home.run(&[&given[..], &["--dialect", "gemini", "status"]].concat());
    assert_eq!(ran.stdout.matches("\n  Command: ").count(), 12, "{ran:?}");
}

/// `status --json` says what is started or reached, where, and for how long it may take; secrets
/// are masked.
#[test]
fn status_json_has_command_folder_timeouts_and_url() {
    let home = Home::new();
    home.user_file(
        "[servers.local]\ncommand = \"/bin/false\"\nargs = [\"--token\", \"canary\"]\ncwd = \"/tmp\"\ncall_timeout = \"5s\"\n\
         [servers.far]\nurl = \"http://me:canary@127.0.0.1:1/mcp?key=canary\"\n",
    );
    let ran = home.run(&["status", "--json"]);
    assert!(!ran.stdout.contains("canary"), "{ran:?}");
    let servers = ran.json()["servers"].clone();
    let fields = |server: &Value| {
        json!([
            server["command"],
            server["cwd"],
            server["timeouts"],
            server["url"]
        ])
    };
    let times = |call: u64| json!({ "connect": 30_000, "call": call, "callMax": 600_000 });
    assert_eq!(
        fields(&servers[0]),
        json!(["/bin/false --token ***", "/tmp", times(5000), null])
    );
    assert_eq!(
        fields(&servers[1]),
        json!([null, null, times(60_000), "http://127.0.0.1:1/mcp"])
    );
}
