//! Lines, batches, broken messages, and the end of the connection.
#![allow(clippy::unwrap_used)]

mod process;

use process::{Process, error, words};
use serde_json::{Value, json};

fn echo(id: Value, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": message}}})
}

fn echoed(id: Value, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": message}]}})
}

#[test]
fn an_invalid_message_gets_an_error_and_the_next_one_is_served() {
    let mut server = Process::legacy("2025-11-25", json!({}), &[]);
    for (text, code) in [
        ("{\"jsonrpc\":", -32700),
        ("hello", -32700),
        ("42", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
    ] {
        server.send_text(text);
        let reply = server.next();
        assert_eq!(
            (reply["id"].clone(), error(&reply).0),
            (Value::Null, code),
            "{text}"
        );
    }
    server.send_text(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}"#);
    assert_eq!(error(&server.next()), (-32602, Value::Null));
    server.send_text("");
    server.send_text("  \t ");
    server.send_text(r#"{"jsonrpc":"2.0","id":99,"result":{"an":"answer to nothing"}}"#);
    server.send_text(r#"{"jsonrpc":"2.0","method":"notifications/from/the/future"}"#);
    assert_eq!(
        server.words("echo", json!({"message": "still here"})),
        "still here"
    );
}

#[test]
fn ids_come_back_exactly_as_they_were() {
    let mut server = Process::legacy("2025-11-25", json!({}), &[]);
    for id in [
        json!("a \"quoted\" one"),
        json!(0),
        json!(-5),
        json!(u64::MAX),
        json!("1"),
    ] {
        server.send(&echo(id.clone(), "hi"));
        assert_eq!(server.next(), echoed(id, "hi"));
    }
}

#[test]
fn many_calls_sent_at_once_are_all_answered_in_order() {
    let mut server = Process::legacy("2025-11-25", json!({}), &[]);
    let calls: Vec<String> = (0..5000)
        .map(|number| echo(json!(number), "hi").to_string())
        .collect();
    server.send_text(&calls.join("\n"));
    for number in 0..5000 {
        assert_eq!(server.next(), echoed(json!(number), "hi"));
    }
}

#[test]
fn a_batch_is_answered_by_one_array_when_the_last_of_it_is_done() {
    let mut server = Process::legacy("2025-03-26", json!({}), &[]);
    let slow = json!({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {"name": "slow", "arguments": {"seconds": 0.05}}});
    server.send(&json!([
        slow,
        echo(json!(1), "one"),
        {"jsonrpc": "2.0", "method": "notifications/whatever"},
        {"jsonrpc": "2.0", "id": 2, "method": "nothing"},
        {"jsonrpc": "2.0"},
        echo(json!(3), "three"),
    ]));
    let reply = server.next();
    let reply = reply.as_array().unwrap();
    assert_eq!(reply.len(), 5);
    assert_eq!(reply[0], echoed(json!(1), "one"));
    assert_eq!(
        (reply[1]["id"].clone(), error(&reply[1]).0),
        (json!(2), -32601)
    );
    assert_eq!(
        (reply[2]["id"].clone(), error(&reply[2]).0),
        (Value::Null, -32600)
    );
    assert_eq!(reply[3], echoed(json!(3), "three"));
    assert_eq!(
        (reply[4]["id"].clone(), words(&reply[4]["result"])),
        (json!("slow"), "worked for 0.05 s in 5 steps".to_owned())
    );

    server.send(&json!([{"jsonrpc": "2.0", "method": "notifications/whatever"}]));
    server.send(&json!([]));
    assert_eq!(error(&server.next()), (-32600, Value::Null));
}

#[test]
fn a_cancelled_call_of_a_batch_does_not_hold_back_the_others() {
    let mut server = Process::legacy("2025-03-26", json!({}), &[]);
    let slow = json!({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {"name": "slow", "arguments": {"seconds": 3000}}});
    server.send(&json!([slow, echo(json!(1), "one")]));
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}));
    assert_eq!(server.next(), json!([echoed(json!(1), "one")]));
}

#[test]
fn batches_are_refused_where_the_revision_has_none() {
    let mut server = Process::legacy("2025-06-18", json!({}), &[]);
    server.send(&json!([echo(json!(1), "one")]));
    assert_eq!(error(&server.next()), (-32600, Value::Null));
}

#[test]
fn fast_calls_overtake_a_slow_one_and_the_end_of_input_ends_the_process_at_once() {
    for mut server in Process::both(&[]) {
        server.begin_call("slow", json!({"seconds": 3000}));
        assert_eq!(
            server.words("echo", json!({"message": "running"})),
            "running"
        );
        let (status, rest) = server.end();
        assert_eq!((status.code(), rest), (Some(0), vec![]));
    }
    let (status, rest) = Process::start(&[]).end();
    assert_eq!((status.code(), rest), (Some(0), vec![]));
}

#[test]
fn the_last_message_needs_no_newline() {
    let mut server = Process::legacy("2025-11-25", json!({}), &[]);
    server.send_unfinished(&echo(json!(5), "last words").to_string());
    let (status, rest) = server.end();
    assert_eq!(
        (status.code(), rest),
        (Some(0), vec![echoed(json!(5), "last words")])
    );
}

#[test]
fn wrong_options_end_with_2_and_say_what_was_expected() {
    let mut server = Process::start(&["--era", "stone"]);
    assert_eq!(
        server.next_log(),
        "switchboard-demo: --era stone: expected legacy, modern or both"
    );
    assert_eq!(server.end().0.code(), Some(2));
}

#[test]
fn a_delayed_start_answers_after_its_delay() {
    let begin = std::time::Instant::now();
    let mut server = Process::legacy("2025-11-25", json!({}), &["--delay-start", "200"]);
    assert!(begin.elapsed() >= std::time::Duration::from_millis(200));
    assert_eq!(server.words("echo", json!({"message": "late"})), "late");
}
