//! `switchboard run`: a model without a person, with the built-in script and with a scripted vendor
//! on a loopback socket.
#![allow(clippy::unwrap_used)]

mod support;
mod vendor;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::{Home, ProgramOutput};
use switchboard_testkit::{Chaos, Step};
use vendor::{chat_turn, model_section, vendor};

/// A home with a server that has the tool `greet`.
fn home(more: &str) -> Home {
    let home = Home::new();
    let mut server = Chaos::new().tool("greet", Step::text("hello\u{200b} \u{1b}[31mred"));
    server.script.instructions = Some("greet with care".to_owned());
    let server = server.tool("hang", Step::Drop);
    home.user_file(&format!("{more}\n{}", server.entry("s").render()));
    home
}

const CALL: &str = "call mcp__s__greet {}";

#[test]
fn stdout_has_the_answer_alone() {
    let ran = home("").run(&["run", "-p", CALL, "--allow", "s/greet"]);
    let answer = "mcp__s__greet answered: hello [31mred\n";
    assert_eq!((ran.code, &*ran.stdout), (Some(0), answer), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("not an AI model"), "{ran:?}");
}

#[test]
fn the_request_can_come_from_stdin() {
    let home = home("");
    let mut child = home
        .command(&["run", "-p", "-", "--allow", "s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(CALL.as_bytes())
        .unwrap();
    let ran = ProgramOutput::of(&child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("hello"), "{ran:?}");
    let empty = home.run(&["run", "-p", " "]);
    assert_eq!(empty.code, Some(2), "{empty:?}");
}

#[test]
fn a_call_that_needs_approval_is_denied_and_the_rule_to_allow_it_is_named() {
    let ran = home("").run(&["run", "-p", CALL]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("`--allow s/greet`"), "{ran:?}");
    // The model reads it, too.
    assert!(ran.stdout.contains("--allow s/greet"), "{ran:?}");
    let denied = home("[permissions]\ndeny = ['s/greet']");
    let ran = denied.run(&["run", "-p", CALL, "--allow", "s/greet"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(!ran.stdout.contains("hello"), "{ran:?}");
    let ran = home("").run(&["run", "-p", CALL, "--allow", ""]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn json_is_one_document_and_stream_json_one_line_for_each_event() {
    let home = home("");
    let words = ["run", "-p", CALL, "--allow", "s", "--output"];
    let ran = home.run(&[&words[..], &["json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let document = ran.json();
    let call = json!({"server": "s", "tool": "greet", "decision": "allowed", "is_error": false});
    assert_eq!(document["calls"], json!([call]));
    assert_eq!(
        (&document["turns"], &document["cost"]),
        (&json!(2), &json!(0.0))
    );
    assert!(document["usage"]["output"].is_u64(), "{document}");

    let ran = home.run(&[&words[..], &["stream-json"]].concat());
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["call_started", "call_ended", "text", "result"]);
    assert_eq!(lines[1]["decision"], "allowed");
    assert_eq!(lines[3]["text"], document["text"]);
}

#[test]
fn limits_end_the_run_before_the_calls() {
    let home = home("");
    for limit in [["--max-turns", "1"], ["--max-cost", "0"]] {
        let words = ["run", "-p", CALL, "--allow", "s", "--output", "json"];
        let ran = home.run(&[&words[..], &limit].concat());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(ran.json()["calls"][0]["decision"], "denied", "{ran:?}");
        assert!(ran.stderr.contains(limit[0]), "{ran:?}");
    }
}

#[test]
fn a_vendors_model_calls_a_tool_and_reads_its_result() {
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "mcp__s__greet", "arguments": "{}"}});
    let (url, vendor) = vendor(vec![
        chat_turn(
            json!({"role": "assistant", "tool_calls": [call]}),
            "tool_calls",
        ),
        chat_turn(
            json!({"role": "assistant", "content": "It said \u{1b}[1mhello."}),
            "stop",
        ),
    ]);
    let ran =
        home(&model_section("openai-chat", &url)).run(&["run", "-p", "greet", "--allow", "s"]);
    assert_eq!(
        (ran.code, &*ran.stdout, &*ran.stderr),
        (Some(0), "It said \u{1b}[1mhello.\n", "")
    );
    let requests = vendor.join().unwrap();
    // The server's instructions are quoted.
    assert!(requests[0].contains("> greet with care"), "{}", requests[0]);
    assert!(requests[0].contains("Bearer sk-mine"), "{}", requests[0]);
    assert!(requests[0].contains("\"mcp__s__greet\""), "{}", requests[0]);
    assert!(requests[1].contains("hello"), "{}", requests[1]);
}

#[test]
fn a_model_that_does_not_answer_ends_with_its_exit_code() {
    let cases = [
        ("503 Busy\r\nretry-after: 3600", 75),
        ("429 Slow\r\nretry-after: 3600", 75),
        ("401 No", 4),
        ("404 Gone", 2),
    ];
    for (head, code) in cases {
        let body = json!({"error": {"message": "not\u{1b}[31m now", "type": "x"}}).to_string();
        let (url, vendor) = vendor(vec![(head, body)]);
        let ran = home(&model_section("openai-chat", &url)).run(&["run", "-p", "hello"]);
        assert_eq!(
            (ran.code, &*ran.stdout),
            (Some(code), ""),
            "{head}: {ran:?}"
        );
        assert!(!ran.stderr.contains('\u{1b}'), "{ran:?}");
        assert!(!ran.stderr.contains("sk-mine"), "{ran:?}");
        vendor.join().unwrap();
    }
}

/// Runs the program with this text on stdin.
fn with_input(home: &Home, words: &[&str], input: &[u8]) -> ProgramOutput {
    let mut child = home
        .command(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    ProgramOutput::of(&child.wait_with_output().unwrap())
}

#[test]
fn the_document_of_a_run_that_failed_has_what_was_done_and_the_error() {
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "mcp__s__greet", "arguments": "{}"}});
    for format in ["json", "stream-json"] {
        let turn = chat_turn(json!({"tool_calls": [call.clone()]}), "tool_calls");
        let body = json!({"error": {"message": "bad key", "type": "x"}}).to_string();
        let (url, vendor) = vendor(vec![turn, ("401 No", body)]);
        let words = ["run", "-p", "x", "--allow", "s", "--output", format];
        let ran = home(&model_section("openai-chat", &url)).run(&words);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        let last = ran.stdout.lines().last().unwrap_or_default();
        let document: Value = serde_json::from_str(last).unwrap();
        assert_eq!(document["error"]["code"], 4, "{ran:?}");
        assert!(
            document["error"]["message"]
                .as_str()
                .unwrap()
                .contains("bad key")
        );
        assert_eq!(document["calls"][0]["tool"], "greet", "{ran:?}");
        assert_eq!(
            (&document["turns"], &document["stop"]),
            (&json!(1), &json!("failed"))
        );
        assert!(document["session"].is_string(), "{ran:?}");
        assert!(
            ran.stderr.contains("error: ") && ran.stderr.contains("bad key"),
            "{ran:?}"
        );
        vendor.join().unwrap();
    }
}

#[test]
fn a_tool_that_the_vendor_refused_is_named_until_it_is_offered_again() {
    let words = "Invalid schema for function 'mcp__s__greet': In context=('properties'), no.";
    let refusal = || {
        let error = json!({"error": {"message": words, "type": "invalid_request_error"}});
        ("400 Bad Request", error.to_string())
    };
    let done = || chat_turn(json!({"content": "done"}), "stop");
    // It is simplified first, and withheld when that does not help.
    let (url, vendor) = vendor(vec![refusal(), refusal(), done(), done(), done()]);
    let home = home(&model_section("openai-chat", &url));
    let ran = home.run(&["run", "-p", "hello"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "done\n"), "{ran:?}");
    let ran = home.run(&["run", "-p", "hello"]);
    assert!(
        ran.stderr.contains("not offered") && ran.stderr.contains("s/greet"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains(words), "{ran:?}");
    let ran = with_input(&home, &["chat"], b"/tools\n/tools --retry\n/tools\nhello\n");
    let row = format!("s/greet: it is not offered: {words}");
    assert_eq!(ran.stdout.matches(&row).count(), 1, "{ran:?}");
    let requests = vendor.join().unwrap();
    let has_tool = requests
        .iter()
        .map(|text| text.contains("\"mcp__s__greet\""));
    assert!(
        has_tool.eq([true, true, false, false, true]),
        "{requests:?}"
    );
}

#[test]
fn a_line_of_a_pipe_that_is_not_text_ends_the_conversation_with_an_error() {
    let ran = with_input(&home(""), &["chat"], b"/help\n\xff\n/help\n");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("stdin, line 2"), "{ran:?}");
    assert_eq!(ran.stdout.matches("/mcp [ACTION").count(), 1, "{ran:?}");
}

/// Also where a prompt's argument is asked for.
#[test]
fn an_answer_that_is_not_text_ends_the_conversation_with_an_error() {
    let home = Home::with_demo("[permissions]\nallow = ['demo']\n");
    // A call waits for its server.
    let input = b"/call demo/echo message=up\n/review\n\xff\n";
    let ran = with_input(&home, &["chat"], input);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("stdin, line 3"), "{ran:?}");
    assert!(ran.stderr.contains("the prompt needs"), "{ran:?}");
}

#[test]
fn a_vendor_without_a_key_is_not_asked() {
    let words = ["run", "-p", "hello", "--model", "anthropic/x"];
    let ran = home("").run(&words);
    assert_eq!((ran.code, &*ran.stdout), (Some(4), ""), "{ran:?}");
    assert!(ran.stderr.contains("ANTHROPIC_API_KEY"), "{ran:?}");
}

#[test]
fn a_key_whose_variable_is_not_set_is_reported() {
    let model = "[model]\nvendor = 'anthropic'\nname = 'x'\napi_key = '${NO_SUCH_KEY}'\n";
    let ran = home(model).run(&["run", "-p", "hello"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(
        ran.stderr.contains("\"${NO_SUCH_KEY}\", which is"),
        "{ran:?}"
    );
}

#[test]
fn a_model_without_a_name_is_an_error_of_the_configuration() {
    let home = home("[model]\nvendor = 'openai-chat'\nbase_url = 'http://127.0.0.1:1'\n");
    let ran = home.run(&["run", "-p", "hello"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.contains("set `name` in [model]"), "{ran:?}");
}

#[test]
fn an_interrupt_ends_the_call_and_the_run() {
    let home = home("");
    let words = ["run", "-p", "call mcp__s__hang {}", "--allow", "s"];
    let words = [&words[..], &["--output", "stream-json"]].concat();
    let mut child = home
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("call_started"), "{line}");
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupted.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn an_answer_that_was_cut_off_is_not_a_success() {
    for (finish, content, recorded, words) in [
        (
            "length",
            "The first half",
            "length",
            "the answer was cut off",
        ),
        (
            "content_filter",
            "The first",
            "refused",
            "refused to answer",
        ),
        (
            "server_busy",
            "The first half",
            "other",
            "before it was complete",
        ),
        ("stop", " ", "done", "the answer is empty"),
    ] {
        let text = json!({"role": "assistant", "content": content});
        let (url, vendor) = vendor(vec![chat_turn(text, finish)]);
        let ran = home(&model_section("openai-chat", &url))
            .run(&["run", "-p", "hello", "--output", "json"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(ran.json()["finish"], recorded, "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
        vendor.join().unwrap();
    }
}

#[test]
fn on_a_terminal_the_models_text_is_escaped() {
    let text = json!({"role": "assistant", "content": "a\u{1b}[2Jb"});
    let (url, vendor) = vendor(vec![chat_turn(text, "stop")]);
    let ended = home(&model_section("openai-chat", &url))
        .run_in_terminal(&["run", "-p", "hello"])
        .end();
    assert_eq!(ended.code, 0, "{}", ended.screen);
    assert!(ended.screen.contains("a\\u{1b}[2Jb"), "{}", ended.screen);
    vendor.join().unwrap();
}

/// The file of the only session of a home.
fn session_file(home: &Home) -> std::path::PathBuf {
    let folder = home.path("state/switchboard/sessions");
    let files = std::fs::read_dir(folder).unwrap();
    let files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn a_run_is_a_session_that_can_be_continued_and_replayed() {
    let home = home("");
    let ran = home.run(&["run", "-p", CALL, "--allow", "s", "--output", "json"]);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let id = document["session"].as_str().unwrap().to_owned();
    let file = session_file(&home);
    for words in [
        &["--continue"][..],
        &["--resume", &id],
        &["--resume", &id[..12]],
    ] {
        let ran = home.run(&[&["run", "-p", "more", "--output", "json"], words].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let document: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(document["session"].as_str(), Some(&*id), "{ran:?}");
    }
    let replayed = home.run(&["replay", file.to_str().unwrap()]);
    let last = "5 requests compared, 0 differ; 5 turns and 1 result replayed\n";
    assert_eq!((replayed.code, &*replayed.stdout), (Some(0), last));

    // A session that another version wrote: its third request had other bytes.
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replacen("\"more\\\"", "\"less\\\"", 1);
    assert_ne!(changed, text);
    std::fs::write(&file, changed).unwrap();
    let replayed = home.run(&["replay", file.to_str().unwrap()]);
    assert_eq!(replayed.code, Some(1), "{replayed:?}");
    assert!(replayed.stdout.contains("request 3 "), "{replayed:?}");

    let unknown = home.run(&["run", "-p", "x", "--resume", "none"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    let no_session = home.run(&["replay", "/nowhere"]);
    assert_eq!(no_session.code, Some(2), "{no_session:?}");
}

/// The program is killed while a call is in flight: the call is lost, and the next run reports it.
#[test]
fn a_call_lost_in_a_crash_has_one_result_and_is_reported() {
    let home = home("");
    let mut child = home
        .command(&[
            "run",
            "-p",
            "call mcp__s__hang {}",
            "--allow",
            "s",
            "--output",
            "stream-json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let started = lines.find(|line| line.as_ref().unwrap().contains("call_started"));
    assert!(started.is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = home.run(&["run", "-p", "and now?", "--continue"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = "the program ended during the call of mcp__s__hang";
    assert!(ran.stderr.contains(told), "{ran:?}");
    let text = std::fs::read_to_string(session_file(&home)).unwrap();
    assert_eq!(text.matches("\"outcome\":\"lost\"").count(), 1, "{text}");
    let again = home.run(&["run", "-p", "and now?", "--continue"]);
    assert!(!again.stderr.contains("lost"), "{again:?}");
    let replayed = home.run(&["replay", session_file(&home).to_str().unwrap()]);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
}

#[test]
fn a_stored_key_is_sent_to_the_address_that_it_was_given_for() {
    let replies = vec![chat_turn(json!({"content": "done"}), "stop")];
    let (url, requests) = vendor(replies);
    let home = home(&format!(
        "[model]\nvendor = 'openai-chat'\nname = 'm'\nbase_url = '{url}'\n"
    ));
    let login = ["login", "--model", "openai-chat"];
    let empty = with_input(&home, &login, b"\n");
    assert_eq!(empty.code, Some(2), "{empty:?}");
    let stored = with_input(&home, &login, b"sk-stored\n");
    assert_eq!(stored.code, Some(0), "{stored:?}");
    assert!(stored.stdout.contains("127.0.0.1") && !stored.stdout.contains("sk-stored"));
    let ran = home.run(&["run", "-p", "hello"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let requests = requests.join().unwrap();
    assert!(
        requests[0].contains("authorization: Bearer sk-stored"),
        "{requests:?}"
    );
    // Another vendor's address does not get it.
    let other = home.run(&["run", "-p", "hello", "--model", "anthropic/x"]);
    assert_eq!(other.code, Some(4), "{other:?}");
    assert!(
        other.stderr.contains("login --model anthropic"),
        "{other:?}"
    );
    for expected in ["was deleted", "no key"] {
        let out = home.run(&["logout", "--model", "openai-chat"]);
        assert!(out.stdout.contains(expected), "{out:?}");
    }
    let unknown = home.run(&["login", "--model", "acme"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}

#[test]
fn a_key_that_cannot_be_kept_is_an_error() {
    let home = home("");
    let state = home.path("state-file");
    std::fs::write(&state, "").unwrap();
    for words in [
        ["login", "--model", "anthropic"],
        ["logout", "--model", "anthropic"],
    ] {
        let mut command = home.command(&words);
        let ran = ProgramOutput::of(&command.env("XDG_STATE_HOME", &state).output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains("cannot be stored"), "{ran:?}");
    }
}

#[test]
fn a_key_is_stored_and_deleted_with_json() {
    let home = home("");
    let stored = with_input(
        &home,
        &["login", "--model", "anthropic", "--json"],
        b"sk-x\n",
    )
    .json();
    assert_eq!(stored["host"], "api.anthropic.com");
    assert_eq!(stored["stored"], true);
    for expected in [true, false] {
        let deleted = home
            .run(&["logout", "--model", "anthropic", "--json"])
            .json();
        let expected = json!({ "host": "api.anthropic.com", "wasStored": expected });
        assert_eq!(deleted, expected);
    }
}
