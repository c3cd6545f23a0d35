use serde_json::{Value, json};
use switchboard_testkit::{Chaos, Step};

use crate::served;
use crate::support::{Home, without_our_sequences};

/// A server whose tool `t` answers with this result.
fn with_result(result: &Value) -> Home {
    served(&Chaos::new().tool("t", [Step::result(&result.to_string())]))
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// What the program prints at a terminal, without its own colours.
fn seen(home: &Home, words: &[&str]) -> String {
    let ended = home.run_in_terminal(words).end();
    without_our_sequences(std::str::from_utf8(&ended.bytes).unwrap()).replace("\r\n", "\n")
}

/// A tool that reports a failure: stderr says so, stdout has the tool's text alone, the exit code is
/// 1.
#[test]
fn a_tool_failure_is_marked_on_stderr_and_stdout_stays_as_it_was() {
    let result =
        json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
    let home = with_result(&result);
    let ran = home.run(&["call", "s/t", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(1), "no such file\n"),
        "{ran:?}"
    );
    assert_eq!(
        ran.stderr,
        "error: server \"s\", tool t: the tool reported a failure\n"
    );
    let ran = home.run(&["call", "s/t", "--yes", "--json"]);
    assert_eq!((ran.code, ran.json()), (Some(1), result), "{ran:?}");
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["server"]),
        (&json!(1), &json!("s")),
        "{error}"
    );
    let ran = with_result(&text("fine")).run(&["call", "s/t", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(0), "fine\n", "")
    );
}

/// S2-44, S2-67: JSON stands in a Markdown block at a terminal; on a pipe it is JSON and nothing
/// else, whole and readable by `jq`.
#[test]
fn s2_67_json_has_a_fence_on_a_terminal_and_none_on_a_pipe() {
    let odd = "a\u{1b}[2J\u{202e}\u{e000}b";
    let long = "x".repeat(2 * 1024 * 1024);
    let value = json!({ "b": [1.5, odd], "a": { "long": long } });
    for result in [
        text(&value.to_string()),
        json!({ "content": [], "structuredContent": value }),
    ] {
        let home = with_result(&result);
        let ran = home.run(&["call", "s/t", "--yes"]);
        assert_eq!(ran.code, Some(0), "{:.300}", ran.stderr);
        assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), value);
        assert!(
            !ran.stdout.contains(['\u{1b}', '\u{202e}', '\u{e000}']),
            "it may still be shown by a pager"
        );
    }
    let home = with_result(&text(r#"{"b":1.0,"a":2}"#));
    assert_eq!(
        home.run(&["call", "s/t", "--yes"]).stdout,
        "{\"b\":1.0,\"a\":2}\n"
    );
    let shown = seen(&home, &["call", "s/t", "--yes"]);
    assert!(
        shown.contains("```json\n{\n  \"b\": 1.0,\n  \"a\": 2\n}\n```\n"),
        "{shown}"
    );
    // Text that is no JSON stays as it is in both places.
    let home = with_result(&text("[not json"));
    assert_eq!(home.run(&["call", "s/t", "--yes"]).stdout, "[not json\n");
    assert!(seen(&home, &["call", "s/t", "--yes"]).contains("[not json\n"));
}

/// S2-44: one result, both ways at once: every part of it as the server sent it for a model
/// (`llmContent`), and formatted for the person (`returnDisplay`): text as text, JSON in a Markdown
/// block, other kinds by type and size.
#[test]
fn s2_44_a_result_has_raw_parts_for_the_model_and_a_formatted_text_for_the_person() {
    let parts = json!([
        { "type": "text", "text": "first\nsecond", "annotations": { "audience": ["user"] } },
        { "type": "text", "text": "{\"n\":1.0}" },
        { "type": "image", "data": "aGVsbG8=", "mimeType": "image/png", "_meta": { "k": 1 } },
        { "type": "resource", "resource": { "uri": "file:///r", "mimeType": "text/plain", "text": "inside" } },
        { "type": "hologram", "x": 1 },
    ]);
    let home = with_result(&json!({ "content": parts, "_meta": { "own": true } }));
    let ran = home.run(&["call", "s/t", "--yes", "--json"]);
    assert_eq!(
        ran.stdout,
        json!({ "content": parts, "_meta": { "own": true } }).to_string() + "\n",
        "byte for byte"
    );
    let shown = seen(&home, &["call", "s/t", "--yes"]);
    let formatted = "first\nsecond\n```json\n{\n  \"n\": 1.0\n}\n```\n[image image/png, 5 bytes]\n[resource file:///r]\ninside\n\
                     ```json\n{\n  \"type\": \"hologram\",\n  \"x\": 1\n}\n```\n";
    assert!(shown.contains(formatted), "{shown}");
}

/// T11: control, hidden and unassigned characters become escapes of the same value in JSON on a
/// terminal.
#[test]
fn t11_json_on_a_terminal_has_no_hidden_character() {
    let hidden: String = (0..=u32::from(char::MAX))
        .filter_map(char::from_u32)
        .filter(|&character| switchboard::untrusted::is_hidden(character))
        // Not each of the private and unassigned ones: the ends of their ranges.
        .filter(|&character| u32::from(character) < 0x3000 || u32::from(character) % 0x1000 < 2)
        .collect();
    let home = with_result(&text(&hidden));
    let shown = seen(&home, &["call", "s/t", "--yes", "--json"]);
    let line = shown.lines().find(|line| line.starts_with('{')).unwrap();
    let found: Vec<_> = line
        .chars()
        .filter(|&character| switchboard::untrusted::is_hidden(character))
        .collect();
    assert!(found.is_empty(), "{} of them: {found:?}", found.len());
    assert_eq!(serde_json::from_str::<Value>(line).unwrap(), text(&hidden));
}

/// T11: emoji that consist of several characters are shown as themselves; the same characters
/// elsewhere stay escapes.
#[test]
fn t11_emoji_sequences_and_line_breaks_are_shown_as_themselves() {
    let family = "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f} 🏳\u{fe0f}\u{200d}🌈 👍🏽 🇩🇪 1\u{fe0f}\u{20e3} 🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
    let home = with_result(&text(&format!(
        "{family}\nnext line a\u{200d}b\u{fe0f} 👍\u{200d} 🏴\u{e0041}\u{e007f}"
    )));
    let expected = format!(
        "{family}\nnext line a\\u{{200d}}b\\u{{fe0f}} 👍\\u{{200d}} 🏴\\u{{e0041}}\\u{{e007f}}\n"
    );
    assert_eq!(home.run(&["call", "s/t", "--yes"]).stdout, expected);
    assert!(seen(&home, &["call", "s/t", "--yes"]).contains(&expected));
}

/// T12: an error of several lines keeps its lines, and none begins at the left edge.
#[test]
fn t12_line_breaks_in_errors_and_logs_are_line_breaks() {
    let log = json!({ "level": "error", "data": "logged one\nlogged two" }).to_string();
    let home = served(
        &Chaos::new()
            .tool(
                "t",
                [Step::error(
                    -32000,
                    "first line\nerror: second line\n\tthird",
                )],
            )
            .tool(
                "log",
                [
                    Step::notify("notifications/message", Some(&log)),
                    Step::Answer,
                ],
            ),
    );
    let ran = home.run(&["call", "s/t", "--yes"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr
            .contains("first line\n    error: second line\n    \tthird"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("\\u{a}"), "{}", ran.stderr);
    let ran = home.run(&["call", "s/log", "--yes", "--log-level", "debug"]);
    assert!(
        ran.stderr.contains("logged one\n    logged two\n"),
        "{}",
        ran.stderr
    );
}

/// T13: a terminal with bidirectional text reorders the text around right-to-left letters. Each run
/// of them is isolated, so that a key and its value, or a name and our own text, keep their order.
#[test]
fn t13_right_to_left_text_does_not_reorder_the_text_around_it() {
    let home = served(
        &Chaos::new()
            .tool("אבג", [Step::text("שלום עולם, 100 (ok)")])
            .define("אבג", "description", "\"אבג דהו\""),
    );
    let isolated = |text: &str| format!("\u{2068}{text}\u{2069}");
    let mut terminal = home.run_in_terminal(&["call", "s/אבג", "--args", r#"{"אב":"גד"}"#]);
    terminal.wait_for("[n] no");
    terminal.send("o");
    let bytes = terminal.end().bytes;
    let shown = String::from_utf8(bytes).unwrap();
    assert!(
        shown.contains(&format!("\"{}\":\"{}\"", isolated("אב"), isolated("גד"))),
        "{shown}"
    );
    assert!(
        shown.contains(&format!("{}, 100 (ok)", isolated("שלום עולם"))),
        "{shown}"
    );
    assert!(seen(&home, &["tools"]).contains(&isolated("אבג דהו")));
    // A program that reads it gets the text alone, and JSON has escapes.
    assert_eq!(
        home.run(&["call", "s/אבג", "--yes"]).stdout,
        "שלום עולם, 100 (ok)\n"
    );
    assert!(seen(&home, &["call", "s/אבג", "--yes", "--json"]).contains("\\u05e9\\u05dc"));
}

/// `key=@file` gives the text of a file, `key:=@file` its JSON; `@@` begins a text with one `@`.
#[test]
fn a_value_is_read_from_a_file() {
    let home = served(&Chaos::new().tool("t", [Step::Echo]));
    std::fs::write(home.path("project/letter.txt"), "Dear \"you\",\nhi\n").unwrap();
    std::fs::write(home.path("project/numbers.json"), "[1.0, 2]\n").unwrap();
    std::fs::write(home.path("project/raw.bin"), [0xff, 0xfe]).unwrap();
    let ran = home.run(&[
        "call",
        "s/t",
        "text=@letter.txt",
        "numbers:=@numbers.json",
        "name=@@ada",
        "--yes",
        "--json",
    ]);
    let expected = json!({ "text": "Dear \"you\",\nhi\n", "numbers": [1.0, 2], "name": "@ada" });
    assert_eq!(ran.json()["structuredContent"], expected, "{ran:?}");
    for (word, what) in [
        ("text=@nowhere.txt", "nowhere.txt"),
        ("text=@raw.bin", "raw.bin"),
        ("n:=@letter.txt", "n"),
    ] {
        let ran = home.run(&["call", "s/t", word, "--yes"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(what), "{ran:?}");
    }
    let ran = home.run(&["call", "s/t", "name=@ada", "--yes"]);
    assert!(
        ran.stderr.contains("name=@@ada"),
        "the way out is told: {ran:?}"
    );
}

/// `--save DIR` writes images, sound and other bytes to files under names of ours.
#[test]
fn binary_results_are_saved_to_files() {
    let result = json!({ "content": [
        { "type": "text", "text": "see" },
        { "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" },
        { "type": "audio", "data": "d2F2", "mimeType": "audio/wav" },
        { "type": "resource", "resource": { "uri": "file:///../../etc/passwd", "mimeType": "../../x", "blob": "AAEC/w" } },
        { "type": "image", "data": "not base64!", "mimeType": "image/gif" },
    ] });
    let contents =
        json!({ "contents": [{ "uri": "x://a", "mimeType": "application/pdf", "blob": "cGRm" }] });
    let home = served(
        &Chaos::new()
            .tool("t", [Step::result(&result.to_string())])
            .on(
                "resources/list",
                [Step::result(
                    r#"{"resources":[{"uri":"x://a","name":"a"}]}"#,
                )],
            )
            .on("resources/read", [Step::result(&contents.to_string())]),
    );
    let ran = home.run(&["call", "s/t", "--yes", "--save", "out"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let names = || {
        let listed = std::fs::read_dir(home.path("project/out")).unwrap();
        let mut names: Vec<_> = listed
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["audio-1.wav", "image-1.png", "resource-1.bin"]);
    assert_eq!(
        std::fs::read(home.path("project/out/image-1.png")).unwrap(),
        b"hello"
    );
    assert_eq!(
        std::fs::read(home.path("project/out/resource-1.bin")).unwrap(),
        [0, 1, 2, 255]
    );
    assert!(
        ran.stderr.contains("saved out/image-1.png") && ran.stderr.contains("not base64"),
        "{ran:?}"
    );
    assert!(
        ran.stdout.starts_with("see\n[image image/png, 5 bytes]\n"),
        "{ran:?}"
    );
    // A second run overwrites nothing.
    let ran = home.run(&["call", "s/t", "--yes", "--json", "--save", "out"]);
    assert_eq!((ran.code, ran.json()), (Some(0), result), "{ran:?}");
    assert_eq!(
        names(),
        [
            "audio-1.wav",
            "audio-2.wav",
            "image-1.png",
            "image-2.png",
            "resource-1.bin",
            "resource-2.bin"
        ]
    );
    let ran = home.run(&["read", "x://a", "--save", "out"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        std::fs::read(home.path("project/out/resource-1.pdf")).unwrap(),
        b"pdf"
    );
    // A folder that is not writable is reported before the tool runs.
    std::fs::write(home.path("project/file"), "").unwrap();
    let ran = home.run(&["call", "s/t", "--yes", "--save", "file"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
}

/// `tools --schema` shows a schema's keys in the server's own order.
#[test]
fn a_schema_is_shown_in_its_own_order() {
    let schema = r#"{"type":"object","required":["z"],"properties":{"z":{"type":"number","maximum":1.50},"a":{"type":"string"}}}"#;
    let home = served(
        &Chaos::new()
            .tool("t", [Step::Answer])
            .define("t", "inputSchema", schema),
    );
    let lines =
        |text: &str| -> String { text.lines().map(|line| format!("    {line}\n")).collect() };
    let expected = lines(
        "{\n  \"type\": \"object\",\n  \"required\": [\n    \"z\"\n  ],\n  \"properties\": {\n    \"z\": {\n      \"type\": \"number\",\n      \
         \"maximum\": 1.50\n    },\n    \"a\": {\n      \"type\": \"string\"\n    }\n  }\n}",
    );
    for words in [&["tools", "--schema"][..], &["tools", "s/t", "--schema"]] {
        let ran = home.run(words);
        assert!(ran.stdout.contains(&expected), "{words:?}: {}", ran.stdout);
    }
}

/// Lines that do not fit the screen are broken between words.
#[test]
fn a_question_has_no_line_break_inside_a_word() {
    let words: Vec<String> = (100..160)
        .map(|number| format!("word-number-{number}"))
        .collect();
    let about = Value::from(words.join(" ")).to_string();
    let home = served(
        &Chaos::new()
            .tool("t", [Step::Answer])
            .define("t", "description", &about),
    );
    let mut terminal = home.run_in_terminal(&["call", "s/t"]);
    let screen = terminal.wait_for("[n] no");
    let shown: Vec<_> = screen
        .split_whitespace()
        .filter(|word| word.contains("word-") || word.contains("number-"))
        .collect();
    assert!(shown.len() > 10, "{screen}");
    assert!(
        shown
            .iter()
            .all(|word| words.iter().any(|whole| whole == word)),
        "{screen}"
    );
    terminal.send("n");
    assert_eq!(terminal.end().code, 5);
}
