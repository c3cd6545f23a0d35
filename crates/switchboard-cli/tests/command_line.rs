//! The documented command line: exit codes, stdout and stderr, without a terminal.
#![allow(clippy::unwrap_used)]

mod support;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use serde_json::json;
use support::{Home, PROGRAM, ProgramOutput};
use switchboard_testkit::{Chaos, Record, Step};

#[test]
fn call_json_is_the_servers_result_and_a_newline() {
    let home = Home::with_demo("");
    let ran = home.run(&["call", "demo/echo", "message=a=b", "--yes", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(
        ran.stdout.ends_with("}\n") && ran.stdout.lines().count() == 1,
        "{ran:?}"
    );
    assert!(
        ran.json()["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("a=b"),
        "{ran:?}"
    );
}

#[test]
fn call_json_keeps_every_byte_that_the_server_sent() {
    let odd = r#"{"content":[{"type":"hologram","data":"\u00e9é"}], "z":1.00,"a":{"b":1e400,"a":12345678901234567890},"isError" : false}"#;
    let home = Home::new();
    home.user_file(
        &Chaos::new()
            .tool("odd", [Step::result(odd)])
            .entry("odd")
            .render(),
    );
    let ran = home.run(&["call", "odd/odd", "--yes", "--json"]);
    assert_eq!(
        ran,
        ProgramOutput {
            code: Some(0),
            stdout: format!("{odd}\n"),
            stderr: String::new()
        }
    );
}

#[test]
fn a_long_result_is_cut_and_the_whole_of_it_is_in_a_file_that_is_named() {
    let home = Home::with_demo("");
    let ended = home
        .run_in_terminal(&["call", "demo/big", "bytes=3000000", "--yes"])
        .end();
    assert_eq!(ended.code, 0, "{}", ended.screen);
    assert!(ended.bytes.len() < 1_200_000, "{} bytes", ended.bytes.len());
    let text = String::from_utf8(ended.bytes).unwrap();
    let file = text
        .rsplit("all of it is in ")
        .next()
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    assert!(
        std::fs::metadata(file).unwrap().len() >= 3_000_000,
        "{file}"
    );
    // A program gets all of it.
    let ran = home.run(&["call", "demo/big", "bytes=3000000", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.len(), ran.stderr.as_str()),
        (Some(0), 3_000_001, "")
    );
}

#[test]
fn an_exposed_name_is_called_from_the_first_run_on() {
    let home = Home::with_demo("");
    for _ in 0..2 {
        let ran = home.run(&["call", "mcp__demo__echo", "message=hi", "--yes"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(
            ran.stdout.contains("hi") && ran.stderr.is_empty(),
            "{ran:?}"
        );
    }
}

#[test]
fn a_tool_that_answers_with_an_error_has_answered_and_exits_1() {
    let home = Home::with_demo("");
    let ran = home.run(&["call", "demo/fail", "--yes", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.json()["isError"], json!(true));
}

#[test]
fn without_a_terminal_an_ask_is_denied_with_one_line() {
    let home = Home::with_demo("");
    let ran = home.run(&["call", "demo/echo", "message=hi"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.lines().count()),
        (Some(5), "", 1),
        "{ran:?}"
    );
    let ran = home.run(&["call", "demo/echo", "message=hi", "--json"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert_eq!(
        (&ran.error()["code"], &ran.error()["server"]),
        (&json!(5), &json!("demo"))
    );
}

#[test]
fn s0_36_without_a_terminal_an_elicitation_is_declined_with_one_line() {
    let home = Home::with_demo("");
    let ran = home.run(&["call", "demo/ask_form", "--yes"]);
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(
        ran.stderr.contains("server \"demo\" asked") && ran.stderr.contains("declined"),
        "{ran:?}"
    );
}

#[test]
fn words_that_are_not_text_are_a_usage_error() {
    let home = Home::with_demo("");
    let odd = OsStr::from_bytes(b"odd\xff");
    let ran = ProgramOutput::of(&home.command(&["status"]).arg0(odd).output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = home.command(&[]).arg(odd).output().unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// A project in a folder whose path is not Unicode can be accepted, and its neighbour is not.
#[test]
fn a_folder_whose_path_is_not_unicode_is_trusted_by_itself() {
    let home = Home::new();
    let entry = format!("[servers.demo]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n");
    let folders =
        [&b"caf\xe9"[..], b"caf\xe8"].map(|name| home.path("").join(OsStr::from_bytes(name)));
    for folder in &folders {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("switchboard.toml"), &entry).unwrap();
    }
    let run = |folder: usize, words: &[&str]| {
        let mut command = home.command(words);
        ProgramOutput::of(&command.current_dir(&folders[folder]).output().unwrap())
    };
    let accepted = run(0, &["trust", "demo", "--yes", "--json"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let call = ["call", "demo/echo", "message=hi", "--yes"];
    assert_eq!(run(0, &call).code, Some(0), "{:?}", run(0, &call));
    assert_eq!(run(1, &call).code, Some(5));
    assert_eq!(run(0, &["trust", "--list", "--json"]).code, Some(0));
    let revoke = ["trust", "--revoke", "switchboard.toml"];
    assert_eq!(run(0, &revoke).code, Some(0), "{:?}", run(0, &revoke));
    assert_eq!(run(0, &call).code, Some(5));
    let printed = run(0, &["install", "claude-code", "--print", "--json"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
}

/// Whatever the state folder is: a log line, a notice and the failure are one line.
#[test]
fn a_failure_with_json_is_one_line_where_the_state_folder_cannot_be_used() {
    let home = Home::with_demo("");
    for words in [
        &["call", "demo/nothing"][..],
        &["trust"],
        &["trust", "--revoke", "demo"],
        &["permissions", "revoke", "--all"],
    ] {
        let mut command = home.command(words);
        command.arg("--json").env("XDG_STATE_HOME", "/proc");
        let ran = ProgramOutput::of(&command.output().unwrap());
        assert!(ran.error()["message"].is_string(), "{words:?}");
    }
}

/// S0-36: as many lines as questions, although they read the same.
#[test]
fn s0_36_each_declined_elicitation_has_its_line() {
    let home = Home::new();
    let chaos = Chaos::new().tool(
        "asks_twice",
        [Step::ask("one?"), Step::ask("two?"), Step::text("fine")],
    );
    home.user_file(&chaos.entry("asker").render());
    let ran = home.run(&["call", "asker/asks_twice", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "fine\n"),
        "{ran:?}"
    );
    assert_eq!(ran.stderr.matches("declined").count(), 2, "{ran:?}");
}

/// A variable that is not Unicode is not given to servers, and the person reads which.
#[test]
fn s0_08_a_variable_that_is_not_unicode_is_named_in_one_notice() {
    let home = Home::with_demo("");
    let mut command = home.command(&["call", "demo/echo", "message=x", "--yes"]);
    // A server gets no variable but those of a short list, so the other one is no news.
    for variable in ["LC_ODD", "ODD"] {
        command.env(variable, OsStr::from_bytes(b"caf\xe9"));
    }
    let ran = ProgramOutput::of(&command.output().unwrap());
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(0),
            "variables that are not Unicode or have no valid name, and are not passed to servers: LC_ODD\n"
        )
    );
}

/// A prompt's arguments are text: what is given as JSON is a JSON string.
#[test]
fn a_prompts_argument_given_as_json_is_a_string() {
    let home = Home::with_demo("");
    let ran = home.run(&["prompt", "review", "language:=\"rust\""]);
    let plain = home.run(&["prompt", "review", "language=rust"]);
    assert_eq!((ran.code, &ran), (Some(0), &plain));
    let ran = home.run(&["prompt", "review", "language:=1"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("write language=TEXT"), "{ran:?}");
}

/// S3-18: the server asks before any call is in flight, and lists its tools only after the answer.
#[test]
fn s3_18_a_question_without_a_call_is_declined_with_one_line_on_stderr() {
    let home = Home::new();
    let told = home.path("told");
    let chaos = Chaos::new()
        .on(
            "notifications/initialized",
            [Step::ask("anybody?"), Step::touch(&told)],
        )
        .on("tools/list", [Step::wait_file(&told), Step::Answer])
        .tool("ok", Step::text("fine"))
        .record(home.path("seen"));
    home.user_file(&chaos.entry("asker").render());
    let ran = home.run(&["call", "asker/ok", "--yes"]);
    let line = "server \"asker\": a question of the server was declined: no call is in flight that it could belong to\n";
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(0), "fine\n", line)
    );
    let answers = Record::read(&home.path("seen"))
        .messages()
        .into_iter()
        .filter_map(|message| message.result);
    assert_eq!(
        answers
            .map(|answer| answer.get().to_owned())
            .collect::<Vec<_>>(),
        [r#"{"action":"decline"}"#]
    );
}

#[test]
fn wrong_words_wrong_tools_and_wrong_arguments_exit_2() {
    let home = Home::with_demo("");
    let check = |words: &[&str], told: &str| {
        let ran = home.run(words);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(2), ""),
            "{words:?}: {ran:?}"
        );
        assert!(ran.stderr.contains(told), "{words:?}: {ran:?}");
        let with_json: Vec<_> = words.iter().chain(&["--json"]).copied().collect();
        assert_eq!(home.run(&with_json).error()["code"], json!(2), "{words:?}");
    };
    check(&["call", "demo/nothing", "--yes"], "demo/nothing");
    check(
        &["call", "nobody/echo", "--yes"],
        "configured servers: demo",
    );
    check(
        &["call", "demo/add", "a=x", "b=2", "--yes"],
        "expected number",
    );
    check(
        &["call", "demo/echo", "--args", "[1]", "--yes"],
        "expected a JSON object",
    );
    check(&["call", "demo/echo", "noequals"], "key=value");
    check(&["tools", "nobody"], "configured servers: demo");
    check(
        &["tools", "--vendor", "nobody"],
        "gemini, openai, openai-chat, local, anthropic",
    );
    check(&["--dialect", "gemini", "status"], "give the file with -c");
    check(&["frobnicate"], "frobnicate");
}

#[test]
fn a_server_that_cannot_start_exits_3_and_says_what_to_try() {
    let home = Home::new();
    home.user_file("[servers.gone]\ncommand = \"no-such-program-anywhere\"\n");
    let ran = home.run(&["call", "gone/x", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
    assert!(
        ran.stderr.contains("no-such-program-anywhere")
            && ran.stderr.contains("switchboard doctor gone"),
        "{ran:?}"
    );
    let ran = home.run(&["doctor"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stdout.starts_with("✗ gone: "), "{ran:?}");
}

#[test]
fn tools_json_has_every_definition_and_what_is_withheld() {
    let ran = Home::with_demo("exclude_tools = [\"big\"]\n").run(&["tools", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let document = ran.json();
    let tools = document["tools"].as_array().unwrap();
    let echo = tools.iter().find(|tool| tool["tool"] == "echo").unwrap();
    assert_eq!(
        (&echo["name"], &echo["server"]),
        (&json!("mcp__demo__echo"), &json!("demo"))
    );
    assert!(
        echo["inputSchema"]["properties"].is_object() && echo["description"].is_string(),
        "{echo}"
    );
    assert!(document["withheld"].is_array());
    assert!(!tools.iter().any(|tool| tool["tool"] == "big"));
}

#[test]
fn status_json_has_the_fields_of_the_contract() {
    let home = Home::with_demo("[servers.off]\ncommand = \"true\"\nenabled = false\n");
    let document = home.run(&["status", "--json"]).json();
    assert_eq!(document["discovery"], json!("COMPLETED"));
    let servers = document["servers"].as_array().unwrap();
    let of = |name: &str| {
        servers
            .iter()
            .find(|server| server["name"] == name)
            .unwrap()
    };
    let demo = of("demo");
    assert_eq!(
        (&demo["status"], &demo["state"]),
        (&json!("CONNECTED"), &json!("ready"))
    );
    assert_eq!(
        (&demo["transport"], &demo["error"]),
        (&json!("stdio"), &json!(null))
    );
    assert!(demo["era"].is_string() && demo["protocolVersion"].is_string());
    assert!(
        demo["tools"]
            .as_array()
            .unwrap()
            .contains(&json!("mcp__demo__echo")),
        "{demo}"
    );
    assert_eq!(
        (&of("off")["status"], &of("off")["state"]),
        (&json!("DISCONNECTED"), &json!("disabled"))
    );
}

#[test]
fn s2_45_canaries_are_in_no_view_and_no_log() {
    let home = Home::with_demo(
        "env = { SECRET = \"canary-env\", OTHER = \"${HIDDEN}\" }\n[servers.web]\nurl = \"https://me:canary-user@127.0.0.1:1/mcp?key=canary-query\"\n\
         headers = { Authorization = \"Bearer canary-header\" }\n\
         [servers.args]\ncommand = \"false\"\nargs = [\"--token=canary-arg\", \"--api-key\", \"canary-next\"]\n",
    );
    for words in [
        &["-vvv", "status"][..],
        &["-vvv", "status", "--json"],
        &["-vvv", "doctor"],
        &["logs"],
        &["-v", "tools"],
    ] {
        let ran = ProgramOutput::of(
            &home
                .command(words)
                .env("HIDDEN", "canary-expanded")
                .output()
                .unwrap(),
        );
        assert!(
            !ran.stdout.contains("canary") && !ran.stderr.contains("canary"),
            "{words:?}: {ran:?}"
        );
    }
}

#[test]
fn t1_a_projects_server_is_inert_until_trusted_and_again_once_it_changes() {
    let home = Home::new();
    let canary = home.path("canary");
    home.project_file(&format!(
        "[servers.evil]\ncommand = \"touch\"\nargs = [{:?}]\ntrust = true\n",
        canary.display().to_string()
    ));
    for words in [
        &["status"][..],
        &["tools"],
        &["doctor"],
        &["status", "--json"],
    ] {
        let ran = home.run(words);
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
        assert!(
            ran.stderr.contains("switchboard trust"),
            "{words:?}: {ran:?}"
        );
    }
    for words in [
        &["call", "evil/x", "--yes"][..],
        &["tools", "evil"],
        &["doctor", "evil"],
        &["trust"],
    ] {
        let ran = home.run(words);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(5), ""),
            "{words:?}: {ran:?}"
        );
        assert!(
            ran.stderr.contains("switchboard trust evil"),
            "{words:?}: {ran:?}"
        );
    }
    assert!(!canary.exists(), "nothing may start before trust");
    assert_eq!(
        home.run(&["trust", "--yes"]).code,
        Some(2),
        "--yes needs names"
    );
    let ran = home.run(&["trust", "evil", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "trusted: evil\n"),
        "{ran:?}"
    );
    assert!(
        ran.stderr.contains(&canary.display().to_string()),
        "what was trusted is shown: {ran:?}"
    );
    home.run(&["status"]);
    assert!(canary.exists(), "trusted servers start");
    home.project_file("[servers.evil]\ncommand = \"touch\"\nargs = [\"elsewhere\"]\n");
    assert_eq!(home.run(&["call", "evil/x"]).code, Some(5));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let home = Home::with_demo("");
    let mut child = home.command(&["tools", "--json"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}

#[test]
fn f30_sigint_exits_130_and_sigterm_143() {
    use nix::sys::signal::{Signal, kill};
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let home = Home::with_demo("");
        let mut child = home
            .command(&["-vv", "call", "demo/slow", "seconds=600", "--yes"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| { line.unwrap().contains("signal handlers are installed") }));
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        kill(pid, signal).unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
    }
}

#[test]
fn completions_answer_from_files_and_start_nothing() {
    let home = Home::new();
    let canary = home.path("canary");
    home.user_file(&format!(
        "[servers.one]\ncommand = \"touch\"\nargs = [{:?}]\n",
        canary.display().to_string()
    ));
    let ran = home.run(&["completions", "bash"]);
    assert!(
        ran.code == Some(0) && ran.stdout.contains("SWITCHBOARD_COMPLETE"),
        "{ran:?}"
    );
    let mut command = home.command(&["--", "switchboard", "tools", ""]);
    command.env("SWITCHBOARD_COMPLETE", "fish");
    let ran = ProgramOutput::of(&command.output().unwrap());
    assert!(
        ran.stdout.lines().any(|line| line.starts_with("one")),
        "{ran:?}"
    );
    assert!(!canary.exists());
}

#[test]
fn demo_works_without_a_terminal() {
    let home = Home::new();
    let ran = home.run(&["demo"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    for told in [
        "demo-legacy (CONNECTED)",
        "demo-modern (CONNECTED)",
        "Discovery State: COMPLETED",
        "as --yes does",
        "other side of the gate",
    ] {
        assert!(ran.stdout.contains(told), "{told}: {ran:?}");
    }
    let left = std::fs::read_dir(home.path("state/switchboard"))
        .unwrap()
        .map(|file| file.unwrap().file_name());
    assert_eq!(
        left.collect::<Vec<_>>(),
        ["folders.json"],
        "nothing is written outside its own folder"
    );
}

/// `--json` makes one document of it, the results as they came.
#[test]
fn demo_with_json_is_one_document() {
    let ran = Home::new().run(&["demo", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let document = ran.json();
    let states: Vec<_> = document["status"]["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| &server["state"])
        .collect();
    assert_eq!(states, [&json!("ready"), &json!("ready")]);
    let calls: Vec<_> = document["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (&call["tool"], &call["result"]["content"]))
        .collect();
    let said = json!([{"type": "text", "text": "hello from the other side of the gate"}]);
    assert_eq!(
        calls,
        [
            (&json!("demo-legacy/echo"), &said),
            (&json!("demo-modern/echo"), &said)
        ]
    );
}

#[test]
fn a_file_given_with_c_is_the_only_one_and_trusted() {
    let home = Home::with_demo("");
    let file = home.path("given.toml");
    std::fs::write(
        &file,
        format!("[servers.given]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n"),
    )
    .unwrap();
    let document = home
        .run(&["-c", &file.display().to_string(), "status", "--json"])
        .json();
    let names: Vec<_> = document["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["name"].clone())
        .collect();
    assert_eq!(names, [json!("given")]);
    let ran = home.run(&["-c", "/nowhere/at/all.toml", "status"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

/// S3-08: commands that neither list nor call spawn nothing; a listing spawns each server once, a
/// call only its own server.
#[test]
fn s3_08_a_file_of_lazy_servers_spawns_each_once_for_a_listing_and_none_before() {
    let home = Home::new();
    let entry = |name: &str| {
        let launch = Chaos::new()
            .tool("ok", [Step::text("fine")])
            .record(home.path(name))
            .launch();
        format!(
            "    {name}: {{ command: {:?}, args: {:?} }}\n",
            launch.command, launch.args
        )
    };
    let text = format!("metadata:\n  mcp:\n{}{}", entry("one"), entry("other"));
    std::fs::write(home.path("project/agent.yaml"), text).unwrap();
    let check = |words: &[&str], starts: [usize; 2]| {
        let ran = home.run(&[&["-c", "agent.yaml", "--dialect", "agent-apps"], words].concat());
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
        assert_eq!(
            ["one", "other"].map(|name| Record::read(&home.path(name)).starts()),
            starts,
            "{words:?}: {ran:?}"
        );
        ran
    };
    check(&["status"], [0, 0]);
    let listed = check(&["tools"], [1, 1]);
    assert_eq!(
        listed.stdout,
        "one-ok    one    does ok\nother-ok  other  does ok\n"
    );
    check(&["call", "one/ok", "--yes"], [2, 1]);
    // The cached catalogs are enough for a listing.
    assert_eq!(check(&["tools"], [2, 1]).stdout, listed.stdout);
}
