//! Reports about servers that do not start, die, or print invalid output.

use serde_json::{Value, json};
use switchboard_testkit::{Entry, Launch, Step};

use crate::fixture::{Fixture, good};
use crate::support::ProgramOutput;

fn shell(script: &str) -> Launch {
    Launch::new("/bin/sh").arg("-c").arg(script)
}

/// One server's entry in `status --json` and in `doctor --json`.
fn examined(entry: &Entry) -> (Value, Value) {
    let fixture = Fixture::new();
    fixture.configure(std::slice::from_ref(entry));
    let status = fixture.home.run(&["-v", "status", "--json"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    let doctor = fixture.home.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, Some(3), "{doctor:?}");
    (
        status.json()["servers"][0].clone(),
        doctor.json()["servers"][0].clone(),
    )
}

/// S2-65: each failure has its own message, in `status` and in `doctor`, with a command to copy.
fn check(entry: &Entry, fact: &str, by_hand: &str) {
    let (status, doctor) = examined(entry);
    assert_eq!(status["status"], json!("DISCONNECTED"), "{status}");
    assert!(
        status["error"]
            .as_str()
            .unwrap()
            .starts_with(&format!("{fact}; try `switchboard doctor s`")),
        "{status}"
    );
    let history: Vec<_> = status["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    assert!(
        history.len() >= 2 && history[0] == "connecting" && history[1].contains(fact),
        "P9: {status}"
    );

    assert_eq!(doctor["summary"], json!(fact), "{doctor}");
    assert!(
        doctor["try"]
            .as_array()
            .unwrap()
            .contains(&json!(format!("run it by hand: {by_hand}"))),
        "{doctor}"
    );
}

#[test]
fn s2_65_each_connection_failure_has_its_own_message_and_a_command_to_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("plain"), "no program").unwrap();
    let (plain, missing) = (path("plain"), path("missing"));
    let lost = Launch {
        cwd: Some(missing.clone().into()),
        ..Launch::new("true")
    };
    let silent = Entry::new("s", &shell("exec sleep 600"))
        .set("connect_timeout", "2s")
        .set("protocol", "legacy");
    let cases = [
        (
            Entry::new("s", &Launch::new("no-such-program")),
            "no program \"no-such-program\" in PATH; install it, or give its full path in `command`".to_owned(),
            "no-such-program".to_owned(),
        ),
        (
            Entry::new("s", &Launch::new(missing.as_str())),
            format!("there is no file {missing:?}; correct `command`"),
            missing.clone(),
        ),
        (Entry::new("s", &Launch::new(plain.as_str())), format!("{plain:?} is not executable; try `chmod +x`"), plain.clone()),
        (
            Entry::new("s", &lost),
            format!("the working folder {missing:?} does not exist or is not a folder; correct `cwd`"),
            format!("cd {missing} && true"),
        ),
        (
            Entry::new("s", &shell("echo 'TOKEN is not set' >&2; exit 3")),
            "exited with status 3 before the handshake was complete (last stderr: \"TOKEN is not set\")".to_owned(),
            r"/bin/sh -c 'echo '\''TOKEN is not set'\'' >&2; exit 3'".to_owned(),
        ),
        (
            Entry::new("s", &shell("kill -SEGV $$")),
            "was killed by SIGSEGV before the handshake was complete".to_owned(),
            "/bin/sh -c 'kill -SEGV $$'".to_owned(),
        ),
        (silent, "no answer to the handshake within 2 s".to_owned(), "/bin/sh -c 'exec sleep 600'".to_owned()),
    ];
    std::thread::scope(|scope| {
        for (entry, fact, by_hand) in &cases {
            scope.spawn(move || check(entry, fact, by_hand));
        }
    });
}

/// S2-65: in the entry's own syntax, with its folder and the names of its variables, but none of
/// their values.
#[test]
fn s2_65_the_command_to_copy_of_a_gemini_entry_starts_what_the_entry_starts() {
    let fixture = Fixture::new();
    let folder = std::fs::canonicalize(fixture.home.path("project")).unwrap();
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    // In the file a `$` before a name would be a reference.
    let script =
        "test $(printenv A) = canary && test \"$1\" = $(printenv HOME)/x && pwd >&2; exit 9";
    let entry = json!({
        "command": "/bin/sh", "args": ["-c", script, "sh", "$HOME/x"], "cwd": "sub",
        "env": { "A": "$GIVEN", "B": "kept-back" }, "timeout": 20000,
    });
    let file = folder.join("settings.json");
    std::fs::write(&file, json!({ "mcpServers": { "s": entry } }).to_string()).unwrap();
    let mut command = fixture.home.command(&[
        "-c",
        file.to_str().unwrap(),
        "--dialect",
        "gemini",
        "doctor",
        "--json",
    ]);
    let doctor = ProgramOutput::of(&command.env("GIVEN", "canary").output().unwrap());
    assert!(!doctor.stdout.contains("kept-back"), "{doctor:?}");
    let document = doctor.json();
    let advice = document["servers"][0]["try"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str);
    let line = advice
        .filter_map(|line| line.strip_prefix("run it by hand: "))
        .next()
        .unwrap();
    let opening = format!(
        "cd {}/sub && A=\"${{GIVEN}}\" B='***' /bin/sh -c ",
        folder.display()
    );
    assert!(
        line.starts_with(&opening) && line.ends_with(" sh \"${HOME}\"/x"),
        "{line}"
    );
    // As a person would.
    let mut shell = std::process::Command::new("/bin/sh");
    let ran = ProgramOutput::of(
        &shell
            .arg("-c")
            .arg(line)
            .env("GIVEN", "canary")
            .current_dir("/")
            .output()
            .unwrap(),
    );
    assert_eq!(
        (ran.code, ran.stderr),
        (Some(9), format!("{}\n", folder.join("sub").display()))
    );
}

/// S2-65: in gemini's own file each failure has its own message, and the command to copy fails in a
/// shell in the same way.
#[test]
fn s2_65_in_a_gemini_file_each_failure_has_its_own_message_and_repeats_by_hand() {
    let fixture = Fixture::new();
    let folder = std::fs::canonicalize(fixture.home.path("project")).unwrap();
    let plain = folder.join("plain").display().to_string();
    std::fs::write(&plain, "no program").unwrap();
    let exits = "echo 'TOKEN is not set' >&2; exit 3";
    let cases = [
        (
            "absent",
            json!({"command": "no-such-program"}),
            "no program \"no-such-program\" in PATH",
            127,
        ),
        ("plain", json!({"command": plain}), "is not executable", 126),
        (
            "lost",
            json!({"command": "true", "cwd": "missing"}),
            "the working folder",
            2,
        ),
        (
            "exits",
            json!({"command": "/bin/sh", "args": ["-c", exits]}),
            "exited with status 3 before the handshake was complete (last stderr: \"TOKEN is not set\")",
            3,
        ),
        (
            "silent",
            json!({"command": "sleep", "args": ["600"], "timeout": 2000}),
            "no answer to the handshake within 2 s",
            124,
        ),
    ];
    let servers: serde_json::Map<String, Value> = cases
        .iter()
        .map(|(name, entry, _, _)| ((*name).to_owned(), entry.clone()))
        .collect();
    let file = folder.join("settings.json");
    std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).unwrap();
    let document = fixture
        .home
        .run(&[
            "-c",
            file.to_str().unwrap(),
            "--dialect",
            "gemini",
            "doctor",
            "--json",
        ])
        .json();
    for (name, _, fact, code) in cases {
        let server = document["servers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|server| server["name"] == name)
            .unwrap();
        assert!(
            server["summary"].as_str().unwrap().contains(fact),
            "{server}"
        );
        let advice = server["try"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str);
        let line = advice
            .filter_map(|line| line.strip_prefix("run it by hand: "))
            .next()
            .unwrap();
        // As a person would who waits for a second.
        let by_hand = std::process::Command::new("timeout")
            .args(["1", "/bin/sh", "-c", line])
            .output()
            .unwrap();
        let ran = ProgramOutput::of(&by_hand);
        assert_eq!(ran.code, Some(code), "{line}: {ran:?}");
        assert!(
            name != "exits" || ran.stderr == "TOKEN is not set\n",
            "{ran:?}"
        );
    }
}

#[test]
fn f7_a_server_that_dies_during_a_call_is_reported_with_its_status_and_last_stderr() {
    let fixture = Fixture::new();
    let dying = good().tool(
        "die",
        [
            Step::Stderr("reading\ndisk is full\n".to_owned()),
            Step::Exit(7),
        ],
    );
    fixture.configure(&[fixture.entry("frail", dying)]);
    let ran = fixture.home.run(&["call", "frail/die", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
    let told = "(exited with status 7; last stderr: \"reading\", \"disk is full\"); try `switchboard doctor frail`; the call may have been executed: check before you repeat it\n";
    assert!(ran.stderr.ends_with(told), "{ran:?}");

    let ran = fixture.home.run(&["call", "frail/die", "--yes", "--json"]);
    let error = ran.error();
    assert_eq!(
        (ran.code, &error["code"], &error["server"]),
        (Some(3), &json!(3), &json!("frail"))
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("exited with status 7"),
        "{error}"
    );
}

/// F2, S2-65: invalid output is shown even if no session was opened.
#[test]
fn f2_doctor_shows_the_junk_of_a_server_that_failed_for_it() {
    let fixture = Fixture::new();
    fixture.configure(&[fixture.entry(
        "noisy",
        good().on_start([Step::say("\u{1b}[31mWelcome!"), Step::Junk(1_500)]),
    )]);
    let ran = fixture.home.run(&["doctor", "noisy"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let told = "✗ noisy: the connection ended before the handshake was complete: 1000 consecutive lines or events are not JSON-RPC messages";
    assert!(ran.stdout.starts_with(told), "{ran:?}");
    let lines: Vec<_> = ran.stdout.lines().map(str::trim).collect();
    let junk = lines
        .iter()
        .position(|line| line.starts_with("Invalid output: "))
        .unwrap();
    let count: u64 = lines[junk].split(' ').nth(2).unwrap().parse().unwrap();
    assert!((1_000..=1_501).contains(&count), "{}", lines[junk]);
    let samples: Vec<_> = lines[junk + 1..]
        .iter()
        .take_while(|line| line.starts_with('│'))
        .collect();
    assert_eq!(samples.len(), 20, "{samples:?}");
    assert!(
        samples[0].contains("Welcome!") && !samples[0].contains('\u{1b}'),
        "{samples:?}"
    );
    assert_eq!(*samples[19], "│ npm warn line 18 is no message");
    assert!(
        lines.contains(&"Try: have it log to stderr: stdout is for messages only"),
        "{ran:?}"
    );
}

/// P9: the history of a server can be read while it runs.
#[test]
fn p9_status_shows_the_reason_of_each_state() {
    let fixture = Fixture::new();
    fixture.configure(&[fixture.entry("one", good())]);
    let document = fixture.home.run(&["-v", "status", "--json"]).json();
    assert_eq!(
        document["servers"][0]["history"],
        json!(["connecting", "ready, legacy 2025-11-25"])
    );
    let ran = fixture.home.run(&["-v", "status"]);
    assert!(
        ran.stdout
            .contains("\n  History: connecting\n  History: ready, legacy 2025-11-25\n"),
        "{ran:?}"
    );

    let dies = good().on_start([Step::Exit(7)]);
    fixture.configure(&[fixture.entry("one", dies)]);
    let document = fixture.home.run(&["-v", "status", "--json"]).json();
    let failure = "backoff after failure 1: exited with status 7 before the handshake was complete";
    assert_eq!(
        document["servers"][0]["history"],
        json!(["connecting", failure])
    );
}
