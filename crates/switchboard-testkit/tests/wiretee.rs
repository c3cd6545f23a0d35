//! Tests that `wiretee` changes nothing, and records everything.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use common::{PATIENCE, Talk};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use switchboard_testkit::{Chaos, Launch, Passed, Record, Scratch, Step, wait_until};

#[test]
fn a_result_is_recorded_byte_for_byte_before_it_arrives() {
    let scratch = Scratch::new();
    let result = r#"{ "content": [],  "z": 1.10, "a": 12345678901234567890123 }"#;
    let mut talk = Talk::start(
        &Chaos::new()
            .tool("t", Step::result(result))
            .launch()
            .teed(&scratch.path("wire")),
    );
    talk.call(9, "t");
    let line = talk.next().unwrap();
    let passed = Passed::read(&scratch.path("wire"));
    let sent =
        br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;
    assert_eq!(
        passed,
        Passed {
            to_server: vec![sent.to_vec()],
            to_host: vec![line.trim_end_matches('\n').into()]
        }
    );
    assert_eq!(passed.results_of("tools/call"), [result]);
    talk.close_stdin();
    assert_eq!(talk.wait().code(), Some(0));
}

#[test]
fn any_bytes_pass_unchanged_in_both_directions() {
    let scratch = Scratch::new();
    let mut child = Launch::new("cat")
        .teed(&scratch.path("wire"))
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let bytes: Vec<u8> = (0..300_000_u32)
        .map(|number| u8::try_from(number * 7 % 256).unwrap())
        .chain(*b"no newline")
        .collect();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let mut came = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut came).unwrap();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(
        came == bytes,
        "the bytes that came are not those that were sent"
    );
    let passed = Passed::read(&scratch.path("wire"));
    let lines: Vec<Vec<u8>> = bytes
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    assert!(
        passed.to_server == lines && passed.to_host == lines,
        "the record is not what passed"
    );
}

#[test]
fn a_part_of_a_line_passes_at_once() {
    let scratch = Scratch::new();
    let chaos = Chaos::new().tool("t", [Step::Part("half".into()), Step::CloseStdout]);
    let mut talk = Talk::start(&chaos.launch().teed(&scratch.path("wire")));
    talk.call(1, "t");
    // The server keeps running, yet the end of its stdout arrives.
    assert_eq!((talk.next().as_deref(), talk.next()), (Some("half"), None));
    assert_eq!(talk.child.try_wait().unwrap(), None);
}

#[test]
fn status_signals_and_deaths_pass_on() {
    let scratch = Scratch::new();
    let wire = scratch.path("wire");
    let mut exits = Talk::start(&Chaos::new().on_start(Step::Exit(7)).launch().teed(&wire));
    assert_eq!(exits.wait().code(), Some(7));
    let mut killed = Talk::start(
        &Chaos::new()
            .on_start(Step::Signal("SIGKILL".into()))
            .launch()
            .teed(&wire),
    );
    assert_eq!(killed.wait().signal(), Some(9));

    let chaos = Chaos::new()
        .tool("t", Step::Answer)
        .record(scratch.path("seen"));
    let mut told = Talk::start(&chaos.launch().teed(&wire));
    told.call(1, "t");
    told.next().unwrap();
    kill(Pid::from_raw(told.pid()), Signal::SIGTERM).unwrap();
    assert_eq!(told.wait().signal(), Some(15));
    let events: Vec<String> = Record::read(&scratch.path("seen"))
        .0
        .iter()
        .map(|entry| format!("{:?}", entry.event))
        .collect();
    assert_eq!(
        events.last().map(String::as_str),
        Some(r#"Signal { name: "SIGTERM" }"#)
    );
}

#[test]
fn a_grandchild_that_holds_stdout_does_not_hold_the_tee() {
    let scratch = Scratch::new();
    let canary = format!("TESTKIT_CANARY={}", scratch.folder().display());
    let (name, value) = canary.split_once('=').unwrap();
    let chaos = Chaos::new().on_start([Step::ForkHoldingStdout, Step::Exit(3)]);
    let mut talk = Talk::start(&chaos.launch().env(name, value).teed(&scratch.path("wire")));
    assert_eq!(talk.wait().code(), Some(3));
    for process in switchboard_testkit::descendants_with_env(&canary) {
        kill(Pid::from_raw(process.pid), Signal::SIGKILL).unwrap();
    }
    assert!(wait_until(PATIENCE, || {
        switchboard_testkit::descendants_with_env(&canary).is_empty()
    }));
}
