//! Tests of the audit log.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use switchboard::secret::Secret;

use super::*;

fn shape(arguments: &RawJson) -> String {
    AuditLog::in_memory().arguments(arguments).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn lines_are_json_without_secrets_in_a_file_of_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let redactor = Redactor::new([Secret::new("CANARY-1234")]);
    let log = AuditLog::open(folder.path(), AuditArguments::Full, redactor);
    let arguments = RawJson::from(json!({"key": "CANARY-1234", "n": 1}));
    log.add(&AuditLine {
        event: "request",
        client: "codex",
        name: "with \"quotes\"\nand lines",
        arguments: Some(&arguments),
        duration: Some(Duration::from_micros(1500)),
        ..AuditLine::default()
    });
    log.close().await;
    let path = log.path().unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut written = lines(path);
    let time = written[0]["time"].take();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    let expected = json!({
        "time": null, "event": "request", "client": "codex", "name": "with \"quotes\"\nand lines",
        "arguments": {"key": "[secret]", "n": 1}, "duration_ms": 1.5,
    });
    assert_eq!(written, [expected]);
    assert_eq!(log.recent(9).len(), 1);
    assert_eq!(log.dropped(), 0);
}

/// The clock of this test stands still while a task is ready, so no line is written because of time.
#[tokio::test(start_paused = true)]
async fn lines_of_a_busy_gateway_are_written_before_their_buffer_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let log = AuditLog::open(folder.path(), AuditArguments::Shape, Redactor::default());
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let name = "x".repeat(900);
    for _ in 0..2 * MAX_PENDING_BYTES / name.len() {
        log.add(&AuditLine {
            event: "request",
            name: &name,
            ..AuditLine::default()
        });
        while lock(&log.0.buffer).pending.len() >= WRITE_BYTES {
            assert!(std::time::Instant::now() < until, "nothing was written");
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(log.dropped(), 0);
    log.close().await;
}

/// A disk that does not take lines delays no call: they are counted, and the next line says so.
#[tokio::test]
async fn lines_that_do_not_fit_are_counted_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let log = AuditLog::open(folder.path(), AuditArguments::Full, Redactor::default());
    let long = RawJson::from(Value::from("x".repeat(60 << 10)));
    let add = |arguments| {
        log.add(&AuditLine {
            event: "request",
            arguments,
            ..AuditLine::default()
        });
    };
    // The writer cannot run between these: this test has one thread.
    let mut count = 0;
    while log.dropped() == 0 {
        add(Some(&long));
        count += 1;
    }
    add(None);
    log.close().await;
    let written = lines(log.path().unwrap());
    let shown: Vec<_> = written
        .iter()
        .map(|line| (line["event"].as_str().unwrap(), line["lines"].clone()))
        .collect();
    let request = ("request", Value::Null);
    let mut expected = vec![request.clone(); count - 1];
    expected.extend([("dropped", json!(1)), request]);
    assert_eq!(shown, expected);
}

/// A client cannot keep its calls out of the log by what it sends, nor fill the memory.
#[tokio::test]
async fn a_line_fits_whatever_a_client_sent() {
    let folder = tempfile::tempdir().unwrap();
    let redactor = Redactor::new([Secret::new("CANARY-1234")]);
    let log = AuditLog::open(folder.path(), AuditArguments::Full, redactor);
    let long = "é".repeat(1 << 20);
    let cut = format!("{}… (2097152 bytes)", "é".repeat(512));
    let arguments = RawJson::from(json!({ "text": long }));
    let info = RawJson::from(json!({"name": "codex", "version": "1\n", "icons": "i".repeat(2000)}));
    // Its last characters are after the cut.
    let secret = format!("{}CANARY-1234{}", "x".repeat(1020), "y".repeat(100));
    log.add(&AuditLine {
        event: "request",
        client_info: Some(&info),
        name: &long,
        rule: &secret,
        approval: &long,
        error: &long,
        arguments: Some(&arguments),
        ..AuditLine::default()
    });
    let larger = RawJson::from(json!({"name": "codex", "icons": long}));
    log.add(&AuditLine {
        event: "request",
        client_info: Some(&larger),
        ..AuditLine::default()
    });
    log.close().await;
    let mut written = lines(log.path().unwrap());
    for line in &mut written {
        line.as_object_mut().unwrap().remove("time");
    }
    let bytes = arguments.as_str().len();
    let expected = [
        json!({
            "event": "request", "client_info": {"name": "codex", "version": "1\n"}, "name": cut,
            "rule": format!("{}[sec… (1131 bytes)", "x".repeat(1020)), "approval": cut, "error": cut,
            "arguments": format!("{bytes} bytes"),
        }),
        json!({"event": "request", "client_info": format!("{} bytes", larger.as_str().len())}),
    ];
    assert_eq!(written, expected);
}

#[test]
fn the_lines_that_are_stored_for_the_page_are_bounded_by_number_and_size() {
    let log = AuditLog::new(None, AuditArguments::Full, Redactor::default());
    let long = RawJson::from(Value::from("x".repeat(60 << 10)));
    for arguments in [None, Some(&long), None] {
        for _ in 0..2 * RECENT_LINES {
            log.add(&AuditLine {
                event: "request",
                arguments,
                ..AuditLine::default()
            });
            let buffer = lock(&log.0.buffer);
            let stored = &buffer.recent;
            let bytes: usize = stored.iter().map(String::len).sum();
            assert_eq!(buffer.recent_bytes, bytes);
            let capacity: usize = stored.iter().map(String::capacity).sum();
            assert!(stored.len() <= RECENT_LINES, "{}", stored.len());
            assert!(capacity <= 2 * MAX_RECENT_BYTES, "{capacity}");
        }
    }
    assert_eq!(log.recent(usize::MAX).len(), RECENT_LINES);
}

/// Two gateways of a user share the files: one of stdio, one of HTTP.
#[test]
fn two_gateways_lose_no_line_when_either_rotates_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = [0; 2].map(|_| AuditFile::with_size(folder.path(), 200));
    let mut expected = Vec::new();
    for number in 0..12 {
        let line = format!("{number:060}");
        files[number % 5 % 2]
            .append(format!("{line}\n").as_bytes())
            .unwrap();
        expected.push(line);
    }
    let mut written = Vec::new();
    for name in [
        "audit.jsonl.4",
        "audit.jsonl.3",
        "audit.jsonl.2",
        "audit.jsonl.1",
        "audit.jsonl",
    ] {
        let text = std::fs::read_to_string(folder.path().join("audit").join(name));
        written.extend(text.unwrap_or_default().lines().map(str::to_owned));
    }
    assert_eq!(written, expected);
}

#[test]
fn the_files_are_rotated_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = AuditFile::with_size(folder.path(), 100);
    for number in 0..20 {
        file.append(format!("{number:060}\n").as_bytes()).unwrap();
    }
    let mut names: Vec<_> = std::fs::read_dir(folder.path().join("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "audit.jsonl",
            "audit.jsonl.1",
            "audit.jsonl.2",
            "audit.jsonl.3",
            "audit.jsonl.4",
            "audit.lock"
        ]
    );
    let newest = std::fs::read_to_string(file.path()).unwrap();
    assert!(newest.trim_end().ends_with("19"), "{newest}");
}

#[test]
fn arguments_are_recorded_by_shape() {
    let check = |arguments: Value, expected: Value| {
        let shown: Value = serde_json::from_str(&shape(&RawJson::from(arguments))).unwrap();
        assert_eq!(shown, expected);
    };
    check(
        json!({"path": "/secret", "n": 1, "deep": {"list": ["x", "y"], "ok": true}, "none": null}),
        json!({"path": "string", "n": "number", "deep": {"list": ["string"], "ok": "boolean"}, "none": "null"}),
    );
    check(
        json!({"a": {"b": {"c": {"d": "x"}}}}),
        json!({"a": {"b": {"c": "object"}}}),
    );
    let many: Value = (0..30)
        .map(|number| (format!("k{number:02}"), json!(1)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let shown: Value = serde_json::from_str(&shape(&RawJson::from(many))).unwrap();
    assert_eq!(shown["…"], "6 more");
}

/// A client cannot forge a line by line breaks between the tokens of its JSON.
#[tokio::test]
async fn line_breaks_in_a_clients_json_do_not_make_lines() {
    let folder = tempfile::tempdir().unwrap();
    let log = AuditLog::open(folder.path(), AuditArguments::Full, Redactor::default());
    let forged: RawJson = "{\"a\":\n{\"event\":\"forged\"}\r\n}".parse().unwrap();
    log.add(&AuditLine {
        event: "request",
        client_info: Some(&forged),
        arguments: Some(&forged),
        ..AuditLine::default()
    });
    log.close().await;
    let written = lines(log.path().unwrap());
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(written[0]["arguments"], json!({"a": {"event": "forged"}}));
    assert_eq!(written[0]["client_info"], json!({"a": {"event": "forged"}}));
}

#[test]
fn shapes_keep_names_with_quotes_and_long_lists_readable() {
    let check = |arguments: &str, expected: &str| {
        assert_eq!(shape(&arguments.parse().unwrap()), expected);
    };
    check(
        r#"{"a\"b":[1,"x",{}],"c":[]}"#,
        r#"{"a\"b":["number"],"c":[]}"#,
    );
    check("[[[[1]]]]", r#"[[["array"]]]"#);
    check("1.5", r#""number""#);
    check(r#"{"a": [ 1e400 , 2 ]}"#, r#"{"a":["number"]}"#);
}

#[test]
fn audit_lines_equal_the_output_of_a_serializer() {
    for text in [
        "",
        "plain",
        "a \"quoted\" \\ é",
        "\0\x01\t\n\r\x08\x0c\x1f\x7f",
    ] {
        let mut out = String::new();
        line::push_string(&mut out, text);
        assert_eq!(out, Value::from(text).to_string());
    }
    let mut clock = AuditClock::default();
    for _ in 0..2 {
        let mut out = String::new();
        let before = timestamp(SystemTime::now());
        clock.write(&mut out);
        assert!(
            (before..=timestamp(SystemTime::now())).contains(&out),
            "{out}"
        );
    }
}
