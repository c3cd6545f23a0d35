//! `switchboard serve` over standard streams: the real program, spoken to line by line.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::Home;
use switchboard_testkit::{Chaos, Entry, Launch, Record, Step, program, wait_until};

/// Long enough for a busy machine; a test that passes never waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program with a client at its standard streams.
struct Served {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Served {
    fn start(home: &Home, words: &[&str]) -> Self {
        let mut child = home
            .command(&[&["serve"], words].concat())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).for_each(|line| {
                // The test may have ended.
                let _ = sender.send(line);
            });
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
        }
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
    }

    /// Every line on stdout is a message.
    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.request(0, "initialize", params);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    fn notification(&mut self, method: &str) {
        while self.next()["method"] != method {}
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.request(id, "tools/call", params)["result"].clone()
    }

    fn names(&mut self, id: u64) -> Vec<String> {
        let listed = self.request(id, "tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Closes stdin and waits for the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.wait()
    }

    fn wait(mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn home(servers: &[(&str, Chaos)]) -> Home {
    let home = Home::new();
    let entries = servers
        .iter()
        .map(|(name, server)| server.entry(name).render());
    let rules = "[permissions]\nallow = [\"*\"]\n".to_owned();
    home.user_file(&entries.fold(rules, |text, entry| text + &entry));
    home
}

/// The entry of a server that is started by a shell after these commands.
fn started_after(name: &str, server: &Chaos, commands: &str) -> String {
    let script = format!("{commands}; exec \"$0\" \"$@\"");
    let chaosd = program("chaosd").display().to_string();
    let launch = Launch::new("sh").arg("-c").arg(script).arg(chaosd);
    Entry::new(name, &launch.arg(server.json())).render()
}

/// How long the first list of a first run waits for the first server (`FIRST_LISTS` of the gateway).
const FIRST_LISTS: Duration = Duration::from_secs(2);

/// A server that never answers its handshake, and one that works: the very first list waits until one
/// of them is connected, for two seconds at most, and grows when a server connects later. Later runs
/// wait for none.
#[test]
fn a_hanging_server_does_not_delay_the_first_requests() {
    let hanging = Chaos::new()
        .on("initialize", Step::Drop)
        .on("server/discover", Step::Drop);
    let working = Chaos::new().tool("greet", Step::text("hello"));
    let home = home(&[("hanging", hanging), ("working", working)]);
    let mut served = Served::start(&home, &[]);
    let answer = served.initialize();
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answer["result"]["serverInfo"]["name"], "switchboard");
    if served.names(1).is_empty() {
        served.notification("notifications/tools/list_changed");
    }
    assert_eq!(served.names(2), ["mcp__working__greet"]);
    let result = served.call(3, "mcp__working__greet", json!({}));
    assert_eq!(result["content"][0]["text"], "hello", "{result}");
    assert_eq!(served.end(), Some(0));

    // The next run knows the list before any server has been started.
    let mut served = Served::start(&home, &[]);
    served.initialize();
    let asked = Instant::now();
    assert_eq!(served.names(1), ["mcp__working__greet"]);
    assert!(asked.elapsed() < FIRST_LISTS / 2, "{:?}", asked.elapsed());
    assert_eq!(served.end(), Some(0));
}

/// Nothing is known of the only server, and it never connects: that is waited for once.
#[test]
fn a_server_that_never_connected_delays_the_first_list_of_the_first_run_only() {
    let hanging = Chaos::new()
        .on("initialize", Step::Drop)
        .on("server/discover", Step::Drop);
    let home = home(&[("hanging", hanging)]);
    let mut served = Served::start(&home, &[]);
    served.initialize();
    assert_eq!(served.names(1), [""; 0]);
    let is_remembered = || {
        let stored = std::fs::read_to_string(home.path("state/switchboard/eras.json"));
        stored.is_ok_and(|stored| stored.contains("was_unlisted"))
    };
    assert!(wait_until(PATIENCE, is_remembered));
    assert_eq!(served.end(), Some(0));

    let mut served = Served::start(&home, &[]);
    served.initialize();
    let asked = Instant::now();
    assert_eq!(served.names(1), [""; 0]);
    assert!(asked.elapsed() < FIRST_LISTS / 2, "{:?}", asked.elapsed());
    assert_eq!(served.end(), Some(0));
}

/// Some SDKs start a command twice, the first time only to probe its era.
#[test]
fn a_probe_starts_no_server_and_the_first_other_request_starts_all() {
    let home = Home::new();
    let record = home.path("received");
    let server = Chaos::new().tool("greet", Step::text("hello"));
    home.user_file(&server.record(&record).entry("s").render());
    let mut served = Served::start(&home, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let answer = served.request(1, "server/discover", json!({"_meta": meta}));
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(served.end(), Some(0));
    assert!(!record.exists(), "the probe started the server");

    let mut served = Served::start(&home, &[]);
    served.initialize();
    assert!(wait_until(PATIENCE, || record.exists()
        && Record::read(&record).count("tools/list") > 0));
    assert_eq!(served.end(), Some(0));
    assert_eq!(Record::read(&record).starts(), 1);
}

/// There is no queue of approvals at standard streams: the denial says what a person can do.
#[test]
fn a_client_that_cannot_be_asked_is_told_how_its_calls_can_be_approved() {
    let home = Home::new();
    let server = Chaos::new().tool("greet", Step::text("hello"));
    home.user_file(&server.entry("s").render());
    let mut served = Served::start(&home, &[]);
    served.initialize();
    let result = served.call(1, "mcp__s__greet", json!({}));
    let text = result["content"][0]["text"].as_str().unwrap();
    for advice in [
        "add \"s/greet\" to `allow` under [permissions]",
        "let the client start `switchboard attach` instead: then you approve its calls yourself",
    ] {
        assert!(text.contains(advice), "{text}");
    }
    assert_eq!(served.end(), Some(0));
}

/// A server that dies does not take others down; a call to it is an error result that says so.
#[test]
fn a_call_to_a_dead_server_is_an_error_result_that_says_so() {
    let dying = Chaos::new().tool("die", Step::Exit(7));
    let working = Chaos::new().tool("greet", Step::text("hello"));
    let home = home(&[("dying", dying), ("working", working)]);
    let mut served = Served::start(&home, &[]);
    served.initialize();
    let result = served.call(1, "mcp__dying__die", json!({}));
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("server \"dying\"") && text.contains('7'),
        "{text}"
    );
    let result = served.call(2, "mcp__working__greet", json!({}));
    assert_eq!(result["content"][0]["text"], "hello", "{result}");
    let unknown = served.request(3, "tools/call", json!({"name": "nothing"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert_eq!(served.end(), Some(0));
}

/// Nothing is known of the tools of a server that was never up: the name says which server it is.
#[test]
fn a_call_to_a_server_that_was_never_up_says_why_it_is_down() {
    let home = Home::new();
    let working = Chaos::new().tool("greet", Step::text("hello"));
    let missing = "[servers.missing]\ncommand = \"/nonexistent/program\"\n";
    home.user_file(&(working.entry("working").render() + missing));
    let mut served = Served::start(&home, &[]);
    served.initialize();
    let result = served.call(1, "mcp__missing__greet", json!({}));
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    let expected = "server \"missing\": there is no file \"/nonexistent/program\"";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(served.end(), Some(0));
}

/// Clients put a prefix before a name, and their models take 64 characters of `[A-Za-z0-9_-]`: a name
/// that does not fit is listed short, and the call reaches the tool under the short name and the long.
#[test]
fn a_name_that_strict_clients_reject_is_listed_short_and_called() {
    let long = format!("a_tool_with_a_name_of_{}", "many_".repeat(8));
    let chaos = Chaos::new()
        .tool("short", Step::text("short"))
        .tool("dotted.name", Step::text("dotted"))
        .tool(&long, Step::text("long"));
    let home = home(&[("one", chaos)]);
    let mut served = Served::start(&home, &[]);
    served.initialize();
    let names = served.names(1);
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], "mcp__one__short");
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    for (id, (name, text)) in names.iter().zip(["short", "dotted", "long"]).enumerate() {
        assert!(name.bytes().all(is_safe), "{name}");
        // What opencode and goose make of it.
        for prefix in ["switchboard_", "switchboard__"] {
            assert!(prefix.len() + name.len() <= 64, "{prefix}{name}");
        }
        let result = served.call(10 + id as u64, name, json!({}));
        assert_eq!(result["content"][0]["text"], text, "{name}: {result}");
    }
    let result = served.call(20, &format!("mcp__one__{long}"), json!({}));
    assert_eq!(result["content"][0]["text"], "long", "{result}");
    assert_eq!(served.end(), Some(0));

    let doctor = home.run(&["doctor", "one"]).stdout;
    assert!(doctor.contains("/name in what `serve` lists"), "{doctor}");

    let mut served = Served::start(&home, &["--schemas", "as-is"]);
    served.initialize();
    let as_is = [
        "mcp__one__short".to_owned(),
        "mcp__one__dotted.name".to_owned(),
        format!("mcp__one__{long}"),
    ];
    assert_eq!(served.names(1), as_is);
    assert_eq!(served.end(), Some(0));
}

/// `--names identity` passes the names of a single server through, to a modern client too.
#[test]
fn identity_keeps_the_names_of_a_single_server() {
    let home = home(&[("one", Chaos::new().tool("greet", Step::text("hello")))]);
    let mut served = Served::start(&home, &["--names", "identity"]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let discovered = served.request(1, "server/discover", json!({"_meta": meta}));
    let versions = &discovered["result"]["supportedVersions"];
    assert_eq!(versions, &json!(["2026-07-28"]), "{discovered}");
    let params = json!({"name": "greet", "arguments": {}, "_meta": meta});
    let called = served.request(2, "tools/call", params);
    assert_eq!(called["result"]["content"][0]["text"], "hello", "{called}");
    assert_eq!(called["result"]["resultType"], "complete", "{called}");
    served.initialize();
    assert_eq!(served.names(3), ["greet"]);
    assert_eq!(served.end(), Some(0));

    let two = self::home(&[("one", Chaos::new()), ("two", Chaos::new())]);
    let ran = two.run(&["serve", "--names", "identity"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("2 are configured"), "{ran:?}");
}

/// A signal ends it as the end of its input does, and its servers end with it.
#[test]
fn a_signal_ends_the_gateway_and_its_servers() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let home = home(&[("one", Chaos::new().tool("inspect", Step::Inspect))]);
        let mut served = Served::start(&home, &[]);
        served.initialize();
        let result = served.call(1, "mcp__one__inspect", json!({}));
        let text = result["content"][0]["text"].as_str().unwrap();
        let seen: Value = serde_json::from_str(text).unwrap();
        let pid = Pid::from_raw(i32::try_from(seen["pid"].as_i64().unwrap()).unwrap());
        kill(
            Pid::from_raw(i32::try_from(served.child.id()).unwrap()),
            signal,
        )
        .unwrap();
        assert_eq!(served.wait(), Some(0), "{signal}");
        assert!(kill(pid, None).is_err(), "the server outlived it");
    }
}

/// SIGTERM drains: a call in flight may end and is answered; one that takes too long is answered with
/// an error that says so. Nothing is left.
#[test]
fn sigterm_answers_the_calls_in_flight() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let files = switchboard_testkit::Scratch::new();
    let (begun, go) = (files.path("begun"), files.path("go"));
    let server = Chaos::new()
        .tool("inspect", Step::Inspect)
        .tool("never", Step::Drop)
        .tool(
            "late",
            [
                Step::touch(&begun),
                Step::wait_file(&go),
                Step::text("done"),
            ],
        );
    let home = home(&[("one", server)]);
    let mut served = Served::start(&home, &[]);
    served.initialize();
    let seen = served.call(1, "mcp__one__inspect", json!({}));
    let seen: Value = serde_json::from_str(seen["content"][0]["text"].as_str().unwrap()).unwrap();
    for (id, tool) in [(2, "mcp__one__never"), (3, "mcp__one__late")] {
        let params = json!({"name": tool, "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        served.send(&call);
    }
    assert!(switchboard_testkit::wait_until(PATIENCE, || begun.exists()));
    let pid = Pid::from_raw(i32::try_from(served.child.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    std::fs::write(&go, "").unwrap();
    let late = served.next();
    assert_eq!(
        (&late["id"], &late["result"]["content"][0]["text"]),
        (&json!(3), &json!("done")),
        "{late}"
    );
    let never = served.next();
    assert_eq!(
        (&never["id"], &never["result"]["isError"]),
        (&json!(2), &json!(true)),
        "{never}"
    );
    let text = never["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("the gateway ended before"), "{text}");
    assert_eq!(served.wait(), Some(0));
    let server = Pid::from_raw(i32::try_from(seen["pid"].as_i64().unwrap()).unwrap());
    assert!(kill(server, None).is_err(), "the server outlived it");
}

/// The gateway's demo needs nothing but the program: one call whose client is asked, one that an
/// operator allows, both in the audit log.
#[test]
fn the_demo_of_the_gateway_ends_with_both_calls_in_the_audit_log() {
    let ran = Home::new().run(&["--json", "demo", "--gateway"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    for (index, client) in ["editor", "script"].into_iter().enumerate() {
        assert_eq!(shown["calls"][index]["client"], client, "{shown}");
        let result = shown["calls"][index]["result"].as_str().unwrap();
        assert!(result.contains("hello"), "{shown}");
        let is_recorded = |line: &Value| {
            line["event"] == "request" && line["client"] == client && line["approval"] == "yes"
        };
        let audit = shown["audit"].as_array().unwrap();
        assert!(audit.iter().any(is_recorded), "{shown}");
    }
}

#[test]
fn a_server_that_waits_for_approval_is_named_to_the_client_that_starts_the_gateway() {
    let home = Home::new();
    home.project_file("[servers.new]\ncommand = \"/nowhere\"\n");
    let mut served = Served::start(&home, &[]);
    assert_eq!(
        served.initialize()["result"]["instructions"],
        "server \"new\" waits for a person's approval: this project's entry has not been accepted; review it with `switchboard trust new`, then connect again"
    );
    assert_eq!(served.end(), Some(0));
}

/// A server that crashes and does not come back: its tools stay listed for the grace period, are gone
/// after it, and are back with the server. A call says at any time that the server is down.
#[test]
fn tools_of_a_lost_server_stay_listed_for_the_grace_period_and_return_with_it() {
    const CHANGED: &str = "notifications/tools/list_changed";
    let files = switchboard_testkit::Scratch::new();
    let broken = files.path("broken");
    let server = Chaos::new()
        .tool("die", Step::Exit(7))
        .tool("greet", Step::text("hello"));
    let entry = started_after(
        "shaky",
        &server,
        &format!("[ -e {} ] && exit 7", broken.display()),
    );
    let home = Home::new();
    home.user_file(&format!(
        "[gateway]\nlost_server_grace = \"2s\"\n[permissions]\nallow = [\"*\"]\n{entry}"
    ));
    let mut served = Served::start(&home, &[]);
    served.initialize();
    if served.names(1).is_empty() {
        served.notification(CHANGED);
    }
    let names = ["mcp__shaky__die", "mcp__shaky__greet"];
    assert_eq!(served.names(2), names);

    std::fs::write(&broken, "").unwrap();
    served.call(3, "mcp__shaky__die", json!({}));
    assert_eq!(served.names(4), names);
    served.notification(CHANGED);
    assert_eq!(served.names(5), [""; 0]);
    let down = served.call(6, "mcp__shaky__greet", json!({}));
    let text = down["content"][0]["text"].as_str().unwrap();
    assert_eq!(down["isError"], true, "{down}");
    assert!(
        text.contains("server \"shaky\"") && text.contains("exited with status 7"),
        "{text}"
    );

    std::fs::remove_file(&broken).unwrap();
    let (mut is_up, mut has_changed, mut id) = (false, false, 7);
    let greet = |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "mcp__shaky__greet"}});
    served.send(&greet(id));
    while !(is_up && has_changed) {
        let message = served.next();
        has_changed |= message["method"] == CHANGED;
        if message["id"] == id {
            is_up = message["result"]["content"][0]["text"] == "hello";
        }
        if message["id"] == id && !is_up {
            // The gateway waits before it starts a server again that failed.
            assert!(id < 300, "the server does not come back: {message}");
            std::thread::sleep(Duration::from_millis(100));
            id += 1;
            served.send(&greet(id));
        }
    }
    assert_eq!(served.names(id + 1), names);
    assert_eq!(served.end(), Some(0));
}

/// What a client needs to begin comes from the cached catalog, in both eras, while no server is up.
#[test]
fn the_first_answers_come_from_the_cached_catalog_before_any_server_is_up() {
    let files = switchboard_testkit::Scratch::new();
    let (slow, go) = (files.path("slow"), files.path("go"));
    let server = Chaos::new().tool("greet", Step::text("hello"));
    let wait = format!(
        "while [ -e {} ] && [ ! -e {} ]; do sleep 0.05; done",
        slow.display(),
        go.display()
    );
    let entry = started_after("late", &server, &wait);
    let home = Home::new();
    home.user_file(&format!("[permissions]\nallow = [\"*\"]\n{entry}"));
    let mut served = Served::start(&home, &[]);
    served.initialize();
    while served.names(1) != ["mcp__late__greet"] {
        served.notification("notifications/tools/list_changed");
    }
    assert_eq!(served.end(), Some(0));

    std::fs::write(&slow, "").unwrap();
    let mut served = Served::start(&home, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let discovered = served.request(1, "server/discover", json!({"_meta": meta}));
    assert_eq!(discovered["result"]["resultType"], "complete");
    let listed = served.request(2, "tools/list", json!({"_meta": meta}));
    assert_eq!(listed["result"]["tools"][0]["name"], "mcp__late__greet");
    let answer = served.initialize();
    assert_eq!(answer["result"]["serverInfo"]["name"], "switchboard");
    assert_eq!(served.names(3), ["mcp__late__greet"]);
    std::fs::write(&go, "").unwrap();
    let called = served.call(4, "mcp__late__greet", json!({}));
    assert_eq!(called["content"][0]["text"], "hello", "{called}");
    assert_eq!(served.end(), Some(0));
}
