//! What `switchboard serve` lists: schemas that strict clients take, and a search in place of a
//! long list. The real program, spoken to line by line.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use support::Home;
use switchboard_testkit::{Chaos, KilledOnDrop, Step};

/// The program with a client at its standard streams.
struct Served {
    _child: KilledOnDrop,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

impl Served {
    /// Starts it, and waits until the servers' tools are listed.
    fn start(home: &Home, words: &[&str], client: &str) -> Self {
        let mut child = home
            .command(&[&["serve"], words].concat())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut served = Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            _child: KilledOnDrop(child),
            last_id: 0,
        };
        served.request(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": client, "version": "1"}}),
        );
        served.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        served
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.message();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn message(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn tools(&mut self) -> Vec<Value> {
        let listed = self.request("tools/list", json!({}));
        listed["result"]["tools"].as_array().unwrap().clone()
    }

    /// The list once it has this tool.
    fn tools_with(&mut self, name: &str) -> Vec<Value> {
        loop {
            let tools = self.tools();
            if tools.iter().any(|tool| tool["name"] == name) {
                return tools;
            }
            while self.message()["method"] != "notifications/tools/list_changed" {}
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.request("tools/call", params)
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
}

const ODD: &str = r#"{"type":"object","properties":{"any":true,"n":{"type":"integer"}},"oneOf":[{"required":["n"]},{"required":["any"]}]}"#;

fn odd(home: &Home) {
    let server = Chaos::new()
        .tool("t", Step::text("ok"))
        .define("t", "inputSchema", ODD)
        .define("t", "description", "\"Does t.\"");
    home.user_file(&format!("{}trust = true\n", server.entry("s").render()));
}

#[test]
fn a_schema_that_strict_clients_reject_is_repaired_in_the_list_and_calls_use_the_original() {
    let home = Home::new();
    odd(&home);
    let mut served = Served::start(&home, &[], "test");
    let tools = served.tools_with("mcp__s__t");
    assert_eq!(
        tools[0]["inputSchema"],
        json!({"type": "object", "properties": {"any": {}, "n": {"type": "integer"}}})
    );
    assert_eq!(
        tools[0]["description"],
        "Does t.\nNeeds exactly one of these sets of arguments: n; or any"
    );
    assert_eq!(text(&served.call("mcp__s__t", json!({"n": 1}))), "ok");
    // Neither set: the server's own schema does not take it.
    let refused = served.call("mcp__s__t", json!({}));
    assert_eq!(refused["result"]["isError"], true, "{refused}");

    let examined = home.run(&["doctor"]);
    for told in [
        "t: /inputSchema/oneOf in what `serve` lists: its properties are listed side by side",
        "t: /inputSchema/properties/any in what `serve` lists: `true` is listed as {}",
    ] {
        assert!(examined.stdout.contains(told), "{examined:?}");
    }

    let mut served = Served::start(&home, &["--schemas", "as-is"], "test");
    let tools = served.tools_with("mcp__s__t");
    assert_eq!(
        tools[0]["inputSchema"],
        serde_json::from_str::<Value>(ODD).unwrap()
    );
}

#[test]
fn tools_are_found_by_a_search_and_called_by_name_while_the_list_stays() {
    let home = Home::with_demo("trust = true\n[servers.other]\ncommand = \"/nowhere\"\n");
    let mut served = Served::start(&home, &["--tools", "search"], "test");
    let names = |tools: Vec<Value>| -> Vec<String> {
        tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(served.tools()), ["search_tools", "call_tool"]);
    let found = loop {
        let found = served.call("search_tools", json!({"query": "echo"}));
        if text(&found).contains("mcp__demo__echo") {
            break text(&found).to_owned();
        }
        // The demo server is still starting.
        while served.message()["method"] != "notifications/tools/list_changed" {}
    };
    assert!(
        found.starts_with("Tools of demo:\n- mcp__demo__echo"),
        "{found}"
    );
    assert!(found.contains("arguments: {"), "{found}");
    for name in ["demo/echo", "echo", "mcp__demo__echo"] {
        let found = served.call(
            "search_tools",
            json!({"query": name, "limit": 1, "detail": "names"}),
        );
        assert_eq!(
            text(&found),
            "Tools of demo:\n- mcp__demo__echo\n",
            "{name}"
        );
    }
    assert_eq!(names(served.tools()), ["search_tools", "call_tool"]);

    let called = served.call(
        "call_tool",
        json!({"name": "mcp__demo__echo", "arguments": {"message": "hi"}}),
    );
    assert!(text(&called).contains("hi"), "{called}");
    // A tool that is not listed is called by its own name as well.
    let direct = served.call("mcp__demo__echo", json!({"message": "hi"}));
    assert_eq!(direct["result"], called["result"]);
    let unknown = served.call(
        "call_tool",
        json!({"name": "mcp__demo__ecko", "arguments": {}}),
    );
    assert_eq!(unknown["result"]["isError"], true, "{unknown}");
    assert!(text(&unknown).contains("mcp__demo__echo"), "{unknown}");
    let none = served.call("search_tools", json!({"query": "zzzz"}));
    assert!(text(&none).contains("- demo ("), "{none}");
}

/// Rules hold for the tool that is called, whatever it is called through.
#[test]
fn a_rule_sees_the_tool_behind_call_tool() {
    let home = Home::with_demo("trust = true\n[permissions]\ndeny = [\"demo/echo\"]\n");
    let mut served = Served::start(&home, &["--tools", "search"], "test");
    let denied = served.call(
        "call_tool",
        json!({"name": "demo/echo", "arguments": {"message": "hi"}}),
    );
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    assert!(text(&denied).contains("denied"), "{denied}");
}

#[test]
fn auto_searches_a_long_list_for_clients_without_a_search_of_their_own() {
    let home = Home::new();
    let server = Chaos::new().fill(600).tool("t", Step::text("ok"));
    home.user_file(&format!("{}trust = true\n", server.entry("s").render()));
    let mut served = Served::start(&home, &["--tools", "auto"], "test");
    served.tools_with("call_tool");
    for client in ["claude-code", "codex-mcp-client", "Visual Studio Code"] {
        let mut served = Served::start(&home, &["--tools", "auto"], client);
        assert!(served.tools_with("mcp__s__t").len() > 600, "{client}");
    }
    odd(&home);
    let mut served = Served::start(&home, &["--tools", "auto"], "test");
    assert_eq!(served.tools_with("mcp__s__t").len(), 1);
}
