//! The core-agent dialect: `ok`, or `error` with `Err`; and files of several dialects at once.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use crate::fixture::{Fixture, entry, gemini, good};

/// An HTTP server that answers 404 to everything; ends with the test.
fn not_found() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(
                    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                );
            });
        }
    });
    port
}

/// S0-29: a missing program; S0-30: a server that answers 404. Each is `error` with `Err`, and the
/// rest of them work.
#[test]
fn s0_29_s0_30_failed_servers_are_in_error_and_the_others_work() {
    let fixture = Fixture::new();
    let mut works = entry(&good().launch());
    works["transport"] = "stdio".into();
    let file = json!({ "version": 1, "servers": {
        "gone": { "transport": "stdio", "command": "no-such-program-anywhere" },
        "far": { "transport": "http", "url": format!("http://127.0.0.1:{}/mcp", not_found()) },
        "works": works,
    }});
    fixture.write("project/.agents/mcp.json", &file.to_string());
    let ran = fixture.run(&["-c", ".agents/mcp.json", "status"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let blocks: Vec<_> = ran.stdout.split("\n\n").collect();
    let of = |name: &str| {
        *blocks
            .iter()
            .find(|block| block.contains(&format!(" {name} (")))
            .unwrap()
    };
    let gone = "🔌 gone (error)\n  Command: no-such-program-anywhere\n  Err: no program \"no-such-program-anywhere\" in PATH";
    assert!(of("gone").starts_with(gone), "{ran:?}");
    assert!(
        of("far").starts_with("🔌 far (error)\n")
            && of("far").contains("\n  Err: ")
            && of("far").contains("404"),
        "{ran:?}"
    );
    assert!(
        of("works").starts_with("📡 works (ok)\n") && of("works").ends_with("\n  Tools: works_ok"),
        "{ran:?}"
    );
    let ran = fixture.run(&["-c", ".agents/mcp.json", "call", "works_ok", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "fine\n"),
        "{ran:?}"
    );
}

/// C16: each server in the words of its own file, and one set of words for scripts.
#[test]
fn c16_files_of_several_dialects_are_shown_each_in_its_own_words() {
    let fixture = Fixture::new();
    let gone = |more: serde_json::Value| {
        let mut server = json!({ "command": "no-such-program-anywhere" });
        server
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        server
    };
    fixture.write(
        "project/.agents/mcp.json",
        &json!({ "servers": { "a": gone(json!({ "transport": "stdio" })) } }).to_string(),
    );
    fixture.write(
        "project/.gemini/settings.json",
        &gemini(json!({ "b": gone(json!({})) })),
    );
    fixture.write(
        "project/native.toml",
        "[servers.c]\ncommand = \"x\"\nenabled = false\n",
    );
    let files = [
        "-c",
        ".agents/mcp.json",
        "-c",
        ".gemini/settings.json",
        "-c",
        "native.toml",
    ];
    let document = fixture
        .run(&[&files[..], &["status", "--json"]].concat())
        .json();
    let words: Vec<_> = document["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| {
            json!([
                server["name"],
                server["dialect"],
                server["word"],
                server["status"]
            ])
        })
        .collect();
    assert_eq!(
        words,
        [
            json!(["a", "core-agent", "error", "DISCONNECTED"]),
            json!(["b", "gemini", "DISCONNECTED", "DISCONNECTED"]),
            json!(["c", "native", "DISABLED", "DISCONNECTED"])
        ]
    );
    let text = fixture.run(&[&files[..], &["status"]].concat()).stdout;
    for told in [
        "🔌 a (error)\n",
        "\n  Err: no program",
        "🔌 b (DISCONNECTED)\n",
        "\n  Error: no program",
        "c (DISABLED)\n",
        "\n  Reason: ",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
}
