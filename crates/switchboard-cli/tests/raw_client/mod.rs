//! A minimal client: lists a server's tools with `initialize` and `tools/list`, page by page.
#![allow(unreachable_pub, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdout, Stdio};

use serde_json::{Value, json};
use switchboard_testkit::Launch;

/// Every tool that the server lists to a client with form and URL elicitation, as the command line
/// declares it.
pub fn tools(launch: &Launch) -> Vec<String> {
    let mut child = launch
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut say = |message: Value| writeln!(stdin, "{message}").unwrap();
    say(
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}, "url": {}}},
            "clientInfo": {"name": "by-hand", "version": "0"},
        }}),
    );
    answer(&mut stdout, 0);
    say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut names = Vec::new();
    let mut cursor = Value::Null;
    for id in 1.. {
        let params = if cursor.is_null() {
            json!({})
        } else {
            json!({ "cursor": cursor })
        };
        say(json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params}));
        let page = answer(&mut stdout, id);
        names.extend(
            page["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned()),
        );
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    names
}

fn answer(stdout: &mut BufReader<ChildStdout>, id: u64) -> Value {
    loop {
        let mut line = String::new();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the server ended");
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"] == id && message.get("method").is_none() {
            return message["result"].clone();
        }
    }
}
