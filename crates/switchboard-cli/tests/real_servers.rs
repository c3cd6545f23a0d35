//! The stage "real servers": the whole program against real servers from npm and PyPI.
//!
//! `SWITCHBOARD_REAL_SERVERS` names the file that `.ci/real-servers DIR` writes. Every server
//! has a variable of its test in its environment, by which leftover processes are found.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::{Home, ProgramOutput};
use switchboard_testkit::{Entry, Launch, Passed, descendants_with_env, wait_until};

mod eras;
mod raw_client;

/// Every server, its era, and one call that succeeds; `@folder@` is the folder that the server runs
/// in.
const SIX: [(&str, &str, &[&str]); 6] = [
    ("everything", "legacy", &["everything/echo", "message=hi"]),
    (
        "filesystem",
        "legacy",
        &["filesystem/read_text_file", "path=@folder@/hello.txt"],
    ),
    ("memory", "legacy", &["memory/read_graph"]),
    (
        "sequential-thinking",
        "legacy",
        &[
            "sequential-thinking/sequentialthinking",
            "thought=one",
            "nextThoughtNeeded=false",
            "thoughtNumber=1",
            "totalThoughts=1",
        ],
    ),
    ("time", "modern", &["time/get_current_time", "timezone=UTC"]),
    ("git", "modern", &["git/git_log", "repo_path=@folder@"]),
];

/// Longer than any step takes on a busy machine; a test that passes never waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the real servers are started; `None` where this machine is said to be offline.
fn servers() -> Option<BTreeMap<String, Launch>> {
    if std::env::var("SWITCHBOARD_OFFLINE").as_deref() == Ok("1") {
        println!("skipped: SWITCHBOARD_OFFLINE=1");
        return None;
    }
    let file = std::env::var("SWITCHBOARD_REAL_SERVERS").unwrap_or_else(|_| {
        panic!(
            "SWITCHBOARD_REAL_SERVERS is not set; run `.ci/real-servers DIR` and set it to DIR/servers.json, \
             or set SWITCHBOARD_OFFLINE=1 to skip"
        )
    });
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| {
        panic!("SWITCHBOARD_REAL_SERVERS: {file}: {error}; `.ci/real-servers DIR` writes it")
    });
    let written: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
    let launch = |entry: &Value| Launch {
        command: entry["command"].as_str().unwrap().into(),
        args: entry["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect(),
        cwd: entry["cwd"].as_str().map(PathBuf::from),
        env: Vec::new(),
    };
    Some(
        written
            .iter()
            .map(|(name, entry)| (name.clone(), launch(entry)))
            .collect(),
    )
}

/// A person's folders with some of the real servers in the user's own file.
struct Real {
    home: Home,
    servers: BTreeMap<String, Launch>,
    canary: String,
}

impl Real {
    /// With one server and the tee in front of it.
    fn teed(name: &str) -> Option<Self> {
        Self::with(&[name], |entry, home| entry.teed(&home.path("wire")))
    }

    /// With these servers, the entry of each as the test wants it.
    fn with(names: &[&str], adapt: impl Fn(Entry, &Home) -> Entry) -> Option<Self> {
        let servers = servers()?;
        let home = Home::new();
        let value = home
            .folder
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let entries: Vec<_> = names
            .iter()
            .map(|name| {
                // The memory server would write beside its own program.
                let launch = servers[*name]
                    .clone()
                    .env("CANARY", &value)
                    .env("MEMORY_FILE_PATH", &text(home.path("memory.jsonl")));
                adapt(Entry::new(name, &launch), &home).render()
            })
            .collect();
        home.user_file(&entries.join("\n"));
        Some(Self {
            home,
            servers,
            canary: format!("CANARY={value}"),
        })
    }

    fn all() -> Option<Self> {
        Self::with(&SIX.map(|(name, _, _)| name), |entry, _| entry)
    }

    fn one(name: &str) -> Option<Self> {
        Self::with(&[name], |entry, _| entry)
    }

    /// Runs to the end; by then every server is gone.
    fn run(&self, words: &[&str]) -> ProgramOutput {
        let ran = self.home.run(words);
        assert_eq!(
            descendants_with_env(&self.canary),
            [],
            "left behind by {words:?}"
        );
        ran
    }

    fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(words);
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
        ran.json()
    }

    /// Runs, and gives what the tee recorded of this run as the one result of this method, with a
    /// newline.
    fn recorded(&self, words: &[&str], method: &str) -> (ProgramOutput, String) {
        let wire = self.home.path("wire");
        // Ids start at the same number in every process.
        let _ = std::fs::remove_file(&wire);
        let ran = self.run(words);
        let results = Passed::read(&wire).results_of(method);
        assert_eq!(results.len(), 1, "{method} was asked once: {results:?}");
        (ran, results.concat() + "\n")
    }

    /// The words of a call that succeeds.
    fn call(&self, server: &str, words: &[&str]) -> Vec<String> {
        let folder = self.servers[server]
            .cwd
            .clone()
            .map(text)
            .unwrap_or_default();
        ["call"]
            .iter()
            .chain(words)
            .chain(&["--yes", "--json"])
            .map(|word| word.replace("@folder@", &folder))
            .collect()
    }
}

fn text(path: PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn tools_lists_what_each_server_lists_by_hand() {
    let Some(real) = Real::all() else { return };
    // Six servers that start at once take longer than usual on a busy machine.
    let all = ["tools", "--json", "--wait", "60"];
    let listed = real.json(&all);
    let of = |tool: &Value| {
        (
            tool["server"].as_str().unwrap().to_owned(),
            tool["tool"].as_str().unwrap().to_owned(),
        )
    };
    let ours: BTreeSet<_> = listed["tools"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(listed["withheld"], json!([]));
    let six = real
        .servers
        .iter()
        .filter(|(name, _)| SIX.iter().any(|(known, _, _)| known == name));
    let theirs: BTreeSet<_> = six
        .flat_map(|(name, launch)| {
            raw_client::tools(launch)
                .into_iter()
                .map(|tool| (name.clone(), tool))
        })
        .collect();
    assert_eq!(ours, theirs);
    // In the second run the eras are known, which must change nothing but the time.
    assert_eq!(real.json(&all), listed);
}

#[test]
fn a_call_on_each_server_prints_the_bytes_that_the_tee_recorded() {
    for (name, _, words) in SIX {
        let Some(real) = Real::teed(name) else { return };
        let (ran, recorded) = real.recorded(&strs(&real.call(name, words)), "tools/call");
        assert_eq!(
            (ran.code, &ran.stdout),
            (Some(0), &recorded),
            "{name}: {ran:?}"
        );
        assert_ne!(ran.json()["isError"], json!(true), "{name}: {ran:?}");
    }
}

#[test]
fn status_shows_every_server_with_its_era() {
    let Some(real) = Real::all() else { return };
    let status = real.json(&["status", "--json"]);
    assert_eq!(status["discovery"], "COMPLETED");
    let shown: Vec<_> = status["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| {
            assert!(!server["tools"].as_array().unwrap().is_empty(), "{server}");
            json!([
                server["name"],
                server["status"],
                server["state"],
                server["transport"],
                server["era"],
                server["protocolVersion"],
                server["error"]
            ])
        })
        .collect();
    let expected: Vec<_> = SIX
        .iter()
        .map(|(name, era, _)| {
            let version = if *era == "legacy" {
                "2025-11-25"
            } else {
                "2026-07-28"
            };
            json!([name, "CONNECTED", "ready", "stdio", era, version, null])
        })
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn doctor_finds_nothing_wrong() {
    let Some(real) = Real::all() else { return };
    let report = real.json(&["doctor", "--json"]);
    assert_eq!(report["warnings"], json!([]));
    let found: Vec<_> = report["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| json!([server["name"], server["ok"], server["try"]]))
        .collect();
    assert_eq!(found, SIX.map(|(name, _, _)| json!([name, true, []])));
    for server in report["servers"].as_array().unwrap() {
        let offers = server["facts"]
            .as_array()
            .unwrap()
            .iter()
            .find(|fact| fact["fact"] == "Offers")
            .unwrap();
        assert!(
            !offers["value"].as_str().unwrap().starts_with("0 tools"),
            "{server}"
        );
    }
}

#[test]
fn resources_are_listed_and_read() {
    let Some(real) = Real::teed("everything") else {
        return;
    };
    let listed = real.json(&["resources", "everything", "--json"]);
    let uri = "demo://resource/static/document/features.md";
    assert!(
        listed["resources"]
            .as_array()
            .unwrap()
            .iter()
            .any(|resource| resource["uri"] == uri),
        "{listed}"
    );
    assert!(
        !listed["resourceTemplates"].as_array().unwrap().is_empty(),
        "{listed}"
    );
    let (ran, recorded) = real.recorded(&["read", uri, "--json"], "resources/read");
    assert_eq!(ran.stdout, recorded);
    let person = real.run(&["read", uri]);
    assert_eq!(
        person.stdout,
        ran.json()["contents"][0]["text"].as_str().unwrap(),
        "a person sees the text"
    );
    // Listed by nobody, covered by a template.
    let dynamic = real.json(&["read", "demo://resource/dynamic/text/7", "--json"]);
    assert_eq!(
        dynamic["contents"][0]["uri"],
        "demo://resource/dynamic/text/7"
    );
}

#[test]
fn prompts_are_listed_and_got() {
    let Some(real) = Real::teed("everything") else {
        return;
    };
    let listed = real.json(&["prompts", "everything", "--json"]);
    let names: BTreeSet<_> = listed["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| prompt["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains("args-prompt") && names.contains("simple-prompt"),
        "{listed}"
    );
    let (ran, recorded) = real.recorded(
        &["prompt", "args-prompt", "city=Paris", "--json"],
        "prompts/get",
    );
    assert_eq!(ran.stdout, recorded);
    assert!(ran.stdout.contains("Paris"), "{ran:?}");
}

#[test]
fn s0_36_elicitation_without_a_terminal_is_declined_at_once() {
    let Some(real) = Real::one("everything") else {
        return;
    };
    let ran = real.run(&[
        "call",
        "everything/trigger-elicitation-request",
        "--yes",
        "--json",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("\\\"action\\\": \\\"decline\\\""),
        "{ran:?}"
    );
    assert_eq!(
        ran.stderr,
        "server \"everything\" asked a question, which was declined: there is no terminal to ask on\n"
    );
}

#[test]
fn progress_keeps_a_long_call_alive_beyond_the_idle_timeout() {
    let Some(real) = Real::with(&["everything"], |entry, _| entry.set("call_timeout", "2s")) else {
        return;
    };
    let work = "everything/trigger-long-running-operation";
    let ran = real.run(&["call", work, "duration=6", "steps=12", "--yes", "--json"]);
    let done = json!([{ "type": "text", "text": "Long running operation completed. Duration: 6 seconds, Steps: 12." }]);
    assert_eq!(
        (ran.code, &ran.json()["content"]),
        (Some(0), &done),
        "{ran:?}"
    );
    // A step reports nothing until it is done.
    let silent = real.run(&["call", work, "duration=60", "steps=1", "--yes", "--json"]);
    assert_eq!(silent.code, Some(3), "{silent:?}");
    assert_eq!(silent.error()["server"], "everything");
}

/// `simulate-research-query` can be called in no other way than as a task (2025-11-25), and asks in
/// the middle of it.
#[test]
fn a_task_is_followed_to_its_end_and_its_result_printed_as_it_came() {
    let Some(real) = Real::teed("everything") else {
        return;
    };
    let words = [
        "call",
        "everything/simulate-research-query",
        "topic=python",
        "ambiguous=true",
        "--yes",
        "--json",
    ];
    let (ran, recorded) = real.recorded(&words, "tasks/result");
    assert_eq!(ran.stdout, recorded);
    assert!(
        ran.stdout
            .contains("Research Report: python (User declined"),
        "{ran:?}"
    );
    assert_eq!(
        ran.stderr,
        "server \"everything\" asked a question, which was declined: there is no terminal to ask on\n"
    );
}

#[test]
fn f28_ctrl_c_cancels_a_task() {
    let Some(real) = Real::teed("everything") else {
        return;
    };
    let words = [
        "call",
        "everything/simulate-research-query",
        "topic=python",
        "--yes",
    ];
    let mut child = real.home.command(&words).spawn().unwrap();
    let wire = real.home.path("wire");
    let polled = || {
        Passed::read(&wire)
            .to_server
            .iter()
            .any(|line| line.windows(9).any(|part| part == b"tasks/get"))
    };
    assert!(wait_until(PATIENCE, polled), "{:?}", Passed::read(&wire));
    kill(
        Pid::from_raw(i32::try_from(child.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(descendants_with_env(&real.canary), []);
    let sent = Passed::read(&wire).to_server;
    assert!(
        sent.iter()
            .any(|line| line.windows(12).any(|part| part == b"tasks/cancel")),
        "{sent:?}"
    );
}

#[test]
fn f28_ctrl_c_cancels_a_long_call_and_leaves_no_process() {
    let Some(real) = Real::teed("everything") else {
        return;
    };
    let words = [
        "call",
        "everything/trigger-long-running-operation",
        "duration=600",
        "steps=6000",
        "--yes",
    ];
    let mut child = real.home.command(&words).spawn().unwrap();
    let wire = real.home.path("wire");
    let methods = |sent: &[Vec<u8>]| -> Vec<String> {
        let method = |line: &Vec<u8>| {
            serde_json::from_slice::<Value>(line).ok()?["method"]
                .as_str()
                .map(str::to_owned)
        };
        sent.iter().filter_map(method).collect()
    };
    let working = || {
        methods(&Passed::read(&wire).to_host)
            .iter()
            .any(|method| method == "notifications/progress")
    };
    assert!(wait_until(PATIENCE, working), "{:?}", Passed::read(&wire));
    kill(
        Pid::from_raw(i32::try_from(child.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let began = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // Stopping takes 3.5 s at most.
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(descendants_with_env(&real.canary), []);
    assert_eq!(
        methods(&Passed::read(&wire).to_server)
            .last()
            .map(String::as_str),
        Some("notifications/cancelled")
    );
}

#[test]
fn f29_kill_9_leaves_none_of_the_six() {
    let Some(real) = Real::all() else { return };
    let mut child = real.home.command(&["tools"]).spawn().unwrap();
    // All are started at once, and none is ready as fast as that.
    assert!(wait_until(PATIENCE, || descendants_with_env(&real.canary)
        .len()
        >= SIX.len()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait_until(Duration::from_secs(3), || descendants_with_env(
        &real.canary
    )
    .is_empty()));
}
