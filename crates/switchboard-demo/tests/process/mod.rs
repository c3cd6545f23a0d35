//! The real program over pipes, with a client of either era.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test program uses its own part

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

pub const MODERN: &str = "2026-07-28";

/// Long enough for a busy machine; a test that gets this far has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// One running server.
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    log: Receiver<String>,
    /// `None` before a legacy handshake and on a modern connection.
    version: Option<String>,
    /// What a modern request declares.
    capabilities: Value,
    last_id: u64,
}

impl Process {
    /// Starts it without a handshake.
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_switchboard-demo"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let messages = lines(child.stdout.take().unwrap(), |line| {
            serde_json::from_str(&line).unwrap()
        });
        let log = lines(child.stderr.take().unwrap(), |line| line);
        let stdin = child.stdin.take();
        Self {
            child,
            stdin,
            messages,
            log,
            version: None,
            capabilities: json!({}),
            last_id: 0,
        }
    }

    /// Starts it with a legacy handshake.
    pub fn legacy(version: &str, capabilities: Value, arguments: &[&str]) -> Self {
        let mut process = Self::start(arguments);
        process.shake_hands(version, capabilities);
        process
    }

    pub fn shake_hands(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "tester", "version": "1"},
        });
        self.version = Some(version.to_owned());
        let reply = self.request("initialize", params);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        reply["result"].clone()
    }

    /// Starts it; every request carries the modern `_meta`.
    pub fn modern(capabilities: Value, arguments: &[&str]) -> Self {
        let mut process = Self::start(arguments);
        process.capabilities = capabilities;
        process
    }

    /// One of each era, for what must be the same in both.
    pub fn both(arguments: &[&str]) -> [Self; 2] {
        [
            Self::legacy("2025-11-25", json!({}), arguments),
            Self::modern(json!({}), arguments),
        ]
    }

    pub fn is_modern(&self) -> bool {
        self.version.is_none()
    }

    pub fn meta(&self) -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
        })
    }

    pub fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    pub fn send_text(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{text}\n").as_bytes()).unwrap();
    }

    /// Sends without the newline that ends a message.
    pub fn send_unfinished(&mut self, text: &str) {
        self.stdin
            .as_mut()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    /// Sends a request, with `_meta` in the modern era, and returns its id.
    pub fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        self.last_id += 1;
        if self.is_modern() {
            let mut meta = self.meta();
            for (key, value) in params["_meta"].as_object().into_iter().flatten() {
                meta[key] = value.clone();
            }
            params["_meta"] = meta;
        }
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The next message, whatever it is.
    pub fn next(&mut self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("a message")
    }

    /// Sends a request; the next message must be its reply.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let reply = self.next();
        assert_eq!(reply["id"], id, "{reply}");
        reply
    }

    /// The result of a request, without what every modern result carries (which is checked here).
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let reply = self.request(method, params);
        self.plain(&reply)
    }

    pub fn plain(&self, reply: &Value) -> Value {
        let mut result = reply["result"].clone();
        assert!(result.is_object(), "{reply}");
        if self.is_modern() {
            let fields = result.as_object_mut().unwrap();
            assert_eq!(
                fields.remove("resultType"),
                Some(json!("complete")),
                "{reply}"
            );
            let meta = fields.remove("_meta").unwrap();
            assert_eq!(
                meta["io.modelcontextprotocol/serverInfo"]["name"],
                "switchboard-demo"
            );
        }
        result
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The text of a tool result that has one text only.
    pub fn words(&mut self, tool: &str, arguments: Value) -> String {
        words(&self.call(tool, arguments))
    }

    /// Code and data of the error that a request ends with.
    pub fn error(&mut self, method: &str, params: Value) -> (i64, Value) {
        error(&self.request(method, params))
    }

    /// The next line on its stderr.
    pub fn next_log(&mut self) -> String {
        self.log.recv_timeout(PATIENCE).expect("a line on stderr")
    }

    /// Closes its input and waits for its end; returns its last output.
    pub fn end(mut self) -> (ExitStatus, Vec<Value>) {
        drop(self.stdin.take());
        let rest = self.messages.iter().collect();
        (self.child.wait().unwrap(), rest)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn words(result: &Value) -> String {
    let text = result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no words in {result}"));
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
    text.to_owned()
}

pub fn error(reply: &Value) -> (i64, Value) {
    assert_eq!(reply.get("result"), None, "{reply}");
    assert!(reply["error"]["message"].is_string(), "{reply}");
    (
        reply["error"]["code"].as_i64().unwrap(),
        reply["error"]["data"].clone(),
    )
}

fn lines<T: Send + 'static>(
    from: impl Read + Send + 'static,
    make: fn(String) -> T,
) -> Receiver<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(make(line)).is_err() {
                return;
            }
        }
    });
    receiver
}
