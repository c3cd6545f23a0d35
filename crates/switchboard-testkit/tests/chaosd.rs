//! Tests that `chaosd` misbehaves exactly as scripted: every test of the host depends on this.

#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::process::ExitStatusExt;

use common::{PATIENCE, Talk};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use switchboard_testkit::record::Event;
use switchboard_testkit::script::{Cursor, Flip, IdForm, IdPlace, Script};
use switchboard_testkit::{
    Chaos, Launch, Record, Scratch, Step, Steps, descendants_with_env, is_alive, program,
    wait_until,
};

const OK: &str = r#"{"content":[{"type":"text","text":"ok"}]}"#;

fn answer(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn list(id: u64, cursor: Option<&str>) -> String {
    let cursor = cursor
        .map(|cursor| format!(r#""cursor":"{cursor}""#))
        .unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{{cursor}}}}}"#)
}

fn definition(name: &str) -> String {
    format!(r#"{{"name":"{name}","description":"does {name}","inputSchema":{{"type":"object"}}}}"#)
}

#[test]
fn the_line_of_the_documentation_is_a_script() {
    let scratch = Scratch::new();
    let record = scratch.path("seen");
    let script = r#"{"tools": {"ok": {"text": "hi"}, "never": "drop", "die": {"exit": 7}}, "record": "PATH"}"#;
    let mut talk = Talk::start(
        &Launch::new(program("chaosd")).arg(script.replace("PATH", record.to_str().unwrap())),
    );
    talk.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#);
    talk.expect(&answer(
        "1",
        r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"chaosd","version":"1.0.0"}}"#,
    ));
    talk.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    talk.send(&list(2, None));
    talk.expect(&answer(
        "2",
        &format!(
            r#"{{"tools":[{},{},{}]}}"#,
            definition("ok"),
            definition("never"),
            definition("die")
        ),
    ));
    talk.call(3, "never");
    talk.call(4, "ok");
    talk.expect(&answer("4", r#"{"content":[{"type":"text","text":"hi"}]}"#));
    talk.call(5, "die");
    assert_eq!(talk.next(), None);
    assert_eq!(talk.wait().code(), Some(7));
    let methods = [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
        "tools/call",
        "tools/call",
    ];
    assert_eq!(Record::read(&record).methods(), methods);
}

#[test]
fn a_script_with_an_unknown_word_is_refused() {
    for script in [
        r#"{"tools": {"a": "dorp"}}"#,
        r#"{"tolls": {}}"#,
        r#"{"tools": {"a": {"huge": {"bytes": 1}}}}"#,
    ] {
        let output = Launch::new(program("chaosd"))
            .arg(script)
            .command()
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{script}");
        assert!(
            String::from_utf8_lossy(&output.stderr).starts_with("chaosd: the script is wrong: "),
            "{script}"
        );
    }
}

#[test]
fn what_rust_builds_is_what_chaosd_reads() {
    let chaos = Chaos::new()
        .tool(
            "a",
            [Step::Sleep(1), Step::result(r#"{ "b":1,  "a":1.10 }"#)],
        )
        .define("a", "title", "\"A\"")
        .fill(3);
    let json = chaos.json();
    assert_eq!(
        json,
        r#"{"tools":{"a":[{"sleep":1},{"result":{ "b":1,  "a":1.10 }}]},"define":{"a":{"title":"A"}},"list":{"fill":3}}"#
    );
    assert_eq!(
        serde_json::to_string(&serde_json::from_str::<Script>(&json).unwrap()).unwrap(),
        json
    );
}

/// Checks that one call of a tool with these steps gives exactly these lines.
fn check(steps: impl Into<Steps>, expected: &[&str]) {
    let steps = steps.into();
    let mut talk = Talk::start(&Chaos::new().tool("t", steps.clone()).launch());
    talk.call(7, "t");
    for line in expected {
        if !line.ends_with('\n') {
            talk.close_stdin();
        }
        assert_eq!(talk.next().as_deref(), Some(*line), "{steps:?}");
    }
    talk.close_stdin();
    assert_eq!(talk.next(), None, "{steps:?}");
}

#[test]
fn each_kind_of_answer_has_its_bytes() {
    let usual = format!("{}\n", answer("7", OK));
    let usual = usual.as_str();
    check(Step::Answer, &[usual]);
    check([Step::Answer, Step::Answer], &[usual, usual]);
    check(
        Step::result(r#"{ "z": 1e400, "a": [] }"#),
        &["{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{ \"z\": 1e400, \"a\": [] }}\n"],
    );
    check(
        Step::error(-32000, "no \"luck\""),
        &[concat!(
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no \"luck\""}}"#,
            "\n"
        )],
    );
    check(Step::AnswerRaw("[@id@]".into()), &["[7]\n"]);
    for (form, id) in [
        (IdForm::Wrong, "987654321"),
        (IdForm::Float, "7.0"),
        (IdForm::String, "\"7\""),
        (IdForm::Null, "null"),
    ] {
        check(Step::AnswerAs(form), &[&format!("{}\n", answer(id, OK))]);
    }
    check(
        Step::AnswerAs(IdForm::Missing),
        &[&format!("{{\"jsonrpc\":\"2.0\",\"result\":{OK}}}\n")],
    );
    check(Step::HalfAnswer, &[&usual[..(usual.len() - 1) / 2]]);
    check(Step::Drop, &[]);
    check(
        Step::Deep(3),
        &[&format!(
            "{}\n",
            answer(
                "7",
                r#"{"content":[{"type":"text","text":"deep"}],"structuredContent":[[[]]]}"#
            )
        )],
    );
    check(
        Step::Echo,
        &[&format!(
            "{}\n",
            answer(
                "7",
                r#"{"content":[{"type":"text","text":"{}"}],"structuredContent":{}}"#
            )
        )],
    );
}

#[test]
fn what_is_said_beside_the_answer_comes_before_it() {
    let usual = format!("{}\n", answer("7", OK));
    let changed = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    check(Step::say("{\"half\":@id@"), &["{\"half\":7\n", &usual]);
    check(Step::Part("npm ".into()), &[&format!("npm {usual}")]);
    check(Step::ListChanged(2), &[changed, changed, &usual]);
    check(
        Step::Junk(2),
        &[
            "npm warn line 0 is no message\n",
            "npm warn line 1 is no message\n",
            &usual,
        ],
    );
    let flood = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"notification 0\"}}\n";
    check(Step::FloodNotifications(1), &[flood, &usual]);
    check(
        Step::FloodPings(1),
        &[
            "{\"jsonrpc\":\"2.0\",\"id\":\"flood-0\",\"method\":\"ping\"}\n",
            &usual,
        ],
    );
    check(
        [Step::Part("{\"jsonrpc\"".into()), Step::Exit(0)],
        &["{\"jsonrpc\""],
    );
    check([Step::CloseStdout, Step::Answer], &[]);
    check([Step::CloseStderr, Step::Stderr("lost".into())], &[&usual]);
}

#[test]
fn a_huge_line_has_its_size_and_its_id_where_ordered() {
    for (place, before, after) in [
        (IdPlace::First, "\"id\":7,", ""),
        (IdPlace::Last, "", ",\"id\":7"),
        (IdPlace::None, "", ""),
    ] {
        let mut talk = Talk::start(&Chaos::new().tool("t", Step::huge(200_000, place)).launch());
        talk.call(7, "t");
        let line = talk.next().unwrap();
        let head = format!(
            r#"{{"jsonrpc":"2.0",{before}"result":{{"_meta":{{"id":424242}},"content":[{{"type":"text","text":"\"id\":424242,\\"#
        );
        assert_eq!(
            line,
            format!("{head}{}\"}}]}}{after}}}\n", "x".repeat(200_000))
        );
        serde_json::from_str::<serde_json::Value>(&line).unwrap();
    }
}

#[test]
fn a_slow_call_does_not_hold_up_the_next_one() {
    let scratch = Scratch::new();
    let mut talk = Talk::start(
        &Chaos::new()
            .tool("slow", Step::wait_file(scratch.path("go")))
            .tool("fast", Step::text("now"))
            .launch(),
    );
    talk.call(1, "slow");
    talk.call(2, "fast");
    talk.expect(&answer(
        "2",
        r#"{"content":[{"type":"text","text":"now"}]}"#,
    ));
    scratch.write("go", "");
    talk.expect(&answer("1", OK));
}

#[test]
fn an_answer_after_the_cancel_waits_for_the_cancel() {
    let mut talk = Talk::start(
        &Chaos::new()
            .tool("t", [Step::AwaitCancel, Step::Answer])
            .launch(),
    );
    talk.call(1, "t");
    talk.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    talk.expect(&answer("2", "{}"));
    talk.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    talk.expect(&answer("1", OK));
}

#[test]
fn a_question_during_the_second_call_waits_for_its_reply() {
    let asking: Steps = [Step::ask("name?"), Step::AnswerReply].into();
    let mut talk = Talk::start(
        &Chaos::new()
            .tool("t", Step::turns([Step::Answer.into(), asking]))
            .launch(),
    );
    talk.call(1, "t");
    talk.expect(&answer("1", OK));
    talk.call(2, "t");
    talk.expect(
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"name?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}}"#,
    );
    talk.send(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}"#);
    let reply = r#"{"result":{"action":"decline"}}"#;
    let quoted = serde_json::to_string(reply).unwrap();
    talk.expect(&answer(
        "2",
        &format!(
            r#"{{"content":[{{"type":"text","text":{quoted}}}],"structuredContent":{reply}}}"#
        ),
    ));
}

#[test]
fn progress_carries_the_token_of_its_call() {
    let mut talk = Talk::start(&Chaos::new().tool("t", Step::Progress(0.5)).launch());
    talk.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p1"}}}"#);
    talk.expect(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p1","progress":0.5}}"#);
    talk.expect(&answer("1", OK));
}

#[test]
fn lists_come_in_pages_and_with_wrong_cursors() {
    let page = |chaos: Chaos, cursor: Option<&str>| {
        let mut talk = Talk::start(&chaos.launch());
        talk.send(&list(1, cursor));
        talk.next().unwrap()
    };
    let expect = |tools: &[&str], next: Option<&str>| {
        let tools: Vec<String> = tools.iter().map(|tool| definition(tool)).collect();
        let next = next
            .map(|next| format!(r#","nextCursor":"{next}""#))
            .unwrap_or_default();
        format!(
            "{}\n",
            answer("1", &format!(r#"{{"tools":[{}]{next}}}"#, tools.join(",")))
        )
    };
    let paged = || Chaos::new().tool("a", Step::Answer).fill(2).page_size(2);
    assert_eq!(page(paged(), None), expect(&["a", "tool_00000"], Some("2")));
    assert_eq!(page(paged(), Some("2")), expect(&["tool_00001"], None));
    let one = || Chaos::new().tool("a", Step::Answer);
    assert_eq!(
        page(one().cursor(Cursor::Repeat), None),
        expect(&["a"], Some("again"))
    );
    assert_eq!(
        page(one().cursor(Cursor::Repeat), Some("again")),
        expect(&["a"], Some("again"))
    );
    assert_eq!(
        page(one().cursor(Cursor::Endless), None),
        expect(&["endless_0"], Some("1"))
    );
    assert_eq!(
        page(one().cursor(Cursor::Endless), Some("41")),
        expect(&["endless_41"], Some("42"))
    );
    assert_eq!(
        page(one().cursor(Cursor::Huge(5)), None),
        expect(&["a"], Some("ccccc"))
    );
    let twice = format!(
        "{}\n",
        answer(
            "1",
            &format!(r#"{{"tools":[{},{{"name": "a"}}]}}"#, definition("a"))
        )
    );
    assert_eq!(page(one().extra_tool(r#"{"name": "a"}"#), None), twice);
}

#[test]
fn a_definition_flips_when_its_condition_holds() {
    let scratch = Scratch::new();
    let changed = || serde_json::from_str(r#"{"description":"new"}"#).unwrap();
    let flip = |flip: Flip| {
        Chaos::new().tool("a", Step::Answer).flip(Flip {
            tool: "a".into(),
            define: changed(),
            ..flip
        })
    };
    let old = answer("1", &format!(r#"{{"tools":[{}]}}"#, definition("a")));
    let new = old.replace("does a", "new");

    let mut talk = Talk::start(
        &flip(Flip {
            after_lists: Some(2),
            ..Flip::default()
        })
        .launch(),
    );
    for expected in [&old, &old, &new] {
        talk.send(&list(1, None));
        talk.expect(expected);
    }
    let mut talk = Talk::start(
        &flip(Flip {
            after_calls: Some(1),
            ..Flip::default()
        })
        .launch(),
    );
    talk.send(&list(1, None));
    talk.expect(&old);
    talk.call(2, "a");
    talk.expect(&answer("2", OK));
    talk.send(&list(1, None));
    talk.expect(&new);
    let mut talk = Talk::start(
        &flip(Flip {
            after_file: Some(scratch.path("flip")),
            ..Flip::default()
        })
        .launch(),
    );
    talk.send(&list(1, None));
    talk.expect(&old);
    scratch.write("flip", "");
    talk.send(&list(1, None));
    talk.expect(&new);
}

#[test]
fn once_is_once_over_all_restarts() {
    let scratch = Scratch::new();
    let chaos = Chaos::new()
        .record(scratch.path("seen"))
        .on_start(Step::once(scratch.path("died"), Step::Exit(3)));
    let mut first = Talk::start(&chaos.launch());
    assert_eq!(first.wait().code(), Some(3));
    let mut second = Talk::start(&chaos.launch());
    second.close_stdin();
    assert_eq!(second.wait().code(), Some(0));
    let record = Record::read(&scratch.path("seen"));
    assert_eq!(record.starts(), 2);
    assert_eq!(record.0.last().unwrap().event, Event::Eof);
}

#[test]
fn ends_are_as_ordered() {
    let mut talk = Talk::start(
        &Chaos::new()
            .tool("t", Step::Signal("SIGKILL".into()))
            .launch(),
    );
    talk.call(1, "t");
    assert_eq!(talk.wait().signal(), Some(9));

    let scratch = Scratch::new();
    let chaos = Chaos::new()
        .ignore_eof()
        .ignore_term()
        .record(scratch.path("seen"));
    let mut talk = Talk::start(&chaos.launch());
    talk.close_stdin();
    let last = || {
        Record::read(&scratch.path("seen"))
            .0
            .pop()
            .map(|entry| entry.event)
    };
    assert!(wait_until(PATIENCE, || last() == Some(Event::Eof)));
    kill(Pid::from_raw(talk.pid()), Signal::SIGTERM).unwrap();
    assert!(wait_until(PATIENCE, || last()
        == Some(Event::Signal {
            name: "SIGTERM".into()
        })));
    assert!(is_alive(talk.pid()));

    let mut polite = Talk::start(&Chaos::new().tool("t", Step::Answer).launch());
    polite.call(1, "t");
    polite.expect(&answer("1", OK));
    kill(Pid::from_raw(polite.pid()), Signal::SIGTERM).unwrap();
    assert_eq!(polite.wait().signal(), Some(15));
}

#[test]
fn stderr_floods_by_the_byte() {
    let mut talk = Talk::start(
        &Chaos::new()
            .on_start([Step::Stderr("first\n".into()), Step::FloodStderr(300_001)])
            .launch(),
    );
    talk.close_stdin();
    let bytes = talk.stderr();
    assert_eq!((bytes.len(), &bytes[..6]), (300_007, &b"first\n"[..]));
}

#[test]
fn one_that_stops_reading_lets_the_pipe_fill() {
    let mut talk = Talk::start(&Chaos::new().tool("t", Step::StopReading).launch());
    talk.call(1, "t");
    talk.expect(&answer("1", OK));
    talk.call(2, "t");
    talk.close_stdin();
    assert!(!wait_until(std::time::Duration::from_millis(200), || talk
        .child
        .try_wait()
        .unwrap()
        .is_some()));
}

#[test]
fn f9_f10_forks_and_daemons_survive_term_and_are_found_by_their_canary() {
    let canary = format!("TESTKIT_CANARY={}", Scratch::new().folder().display());
    let (name, value) = canary.split_once('=').unwrap();
    let chaos = Chaos::new().tool("t", [Step::Fork, Step::ForkHoldingStdout, Step::Daemon]);
    let mut talk = Talk::start(&chaos.launch().env(name, value));
    talk.call(1, "t");
    talk.expect(&answer("1", OK));
    let family = descendants_with_env(&canary);
    let server = talk.pid();
    let parents: Vec<bool> = family
        .iter()
        .map(|process| process.parent == server)
        .collect();
    assert_eq!(family.len(), 4, "{family:?}");
    assert_eq!(
        parents.iter().filter(|is_child| **is_child).count(),
        2,
        "{family:?}"
    );
    for process in family.iter().filter(|process| process.pid != server) {
        kill(Pid::from_raw(process.pid), Signal::SIGTERM).unwrap();
    }
    kill(Pid::from_raw(server), Signal::SIGKILL).unwrap();
    talk.wait();
    let survivors = descendants_with_env(&canary);
    assert_eq!(survivors.len(), 3, "{survivors:?}");
    for process in survivors {
        kill(Pid::from_raw(process.pid), Signal::SIGKILL).unwrap();
    }
    assert!(wait_until(PATIENCE, || descendants_with_env(&canary).is_empty()));
}

#[test]
fn inspect_tells_what_the_process_was_given() {
    let launch = Chaos::new().tool("t", Step::Inspect).launch();
    let mut command = launch.command();
    command.env_clear().env("ONLY", "this");
    let mut talk = Talk::start_command(command);
    talk.call(1, "t");
    let line: serde_json::Value = serde_json::from_str(&talk.next().unwrap()).unwrap();
    let told = &line["result"]["structuredContent"];
    assert_eq!(told["environment"], serde_json::json!({"ONLY": "this"}));
    assert_eq!(
        told["descriptors"],
        serde_json::json!(inheritable_descriptors())
    );
    assert_eq!(told["pid"], talk.pid());
}

/// The descriptors of this process that a child inherits: the parent of the tests may have left
/// some open.
fn inheritable_descriptors() -> Vec<i32> {
    let flags = |number: i32| {
        std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default()
    };
    let is_closed_on_exec = |number: i32| {
        let flags = flags(number);
        let octal = flags
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap_or("02000000");
        i32::from_str_radix(octal.trim(), 8).unwrap() & 0o2_000_000 != 0
    };
    (0..1024)
        .filter(|number| *number < 3 || !is_closed_on_exec(*number))
        .collect()
}
