//! A running gateway, and a client that speaks HTTP by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Home, PROGRAM};

/// Longer than any limit of the gateway; a test that passes never waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// `serve --http` with the demo server behind it, which may run everything.
pub(crate) struct Gateway {
    pub(crate) home: Home,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    child: Child,
    /// What it printed on stderr until it listened.
    pub(crate) printed: String,
    /// Reads the rest until it ends, so that the pipe never fills.
    rest: Option<JoinHandle<String>>,
    /// Its configuration.
    pub(crate) config: String,
    /// What the demo server received.
    record: std::path::PathBuf,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        Self::start_with("[permissions]\nallow = [\"*\"]\n", &[])
    }

    pub(crate) fn start_with(more: &str, words: &[&str]) -> Self {
        Self::start_with_environment(more, words, &[])
    }

    /// With these variables in addition.
    pub(crate) fn start_with_environment(
        more: &str,
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let home = Home::new();
        let record = home.path("received.jsonl");
        let script = format!("tee -a {} | {PROGRAM} __demo-server", record.display());
        let config =
            format!("[servers.demo]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n{more}");
        home.user_file(&config);
        let made = home.run(&["token", "new", "tester"]);
        assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""));
        let token = made.stdout.trim_end().to_owned();
        let (child, address, printed, rest) = serve(&home, words, environment);
        Self {
            home,
            address,
            token,
            child,
            printed,
            rest: Some(rest),
            config,
            record,
        }
    }

    /// Kills it, as a crash would, and starts another.
    pub(crate) fn restart_after_kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let (child, address, printed, rest) = serve(&self.home, &[], &[]);
        (self.child, self.address, self.printed) = (child, address, printed);
        self.rest = Some(rest);
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// What it printed on stderr after it listened, once it has ended.
    pub(crate) fn last_words(&mut self) -> String {
        self.rest.take().unwrap().join().unwrap()
    }

    /// Waits until this many `tools/call` requests have reached the server, and no more did.
    #[track_caller]
    pub(crate) fn assert_calls(&self, expected: usize) {
        let deadline = Instant::now() + PATIENCE;
        // What the server received is recorded a moment after it has received it.
        while self.calls() < expected && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(self.calls(), expected);
    }

    /// Waits until the audit log has a refusal for this reason.
    #[track_caller]
    pub(crate) fn assert_audited(&self, reason: &str) {
        self.assert_refusals(reason, 1);
    }

    /// Waits until the audit log has at least so many refusals for this reason.
    #[track_caller]
    pub(crate) fn assert_refusals(&self, reason: &str, least: usize) {
        let refusals = || {
            let refusals = self.refusals();
            refusals.iter().filter(|rule| *rule == reason).count()
        };
        let deadline = Instant::now() + PATIENCE;
        while refusals() < least {
            let found = refusals();
            assert!(
                Instant::now() < deadline,
                "{found} of {least} {reason} are in the audit log"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The reasons of all refusals in the audit log.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let file = self.home.path("state/switchboard/audit/audit.jsonl");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let lines = text.lines();
        let lines = lines.filter_map(|line| serde_json::from_str(line).ok());
        let refusals = lines.filter(|line: &Value| line["event"] == "refused");
        let reasons = refusals.filter_map(|line| line["rule"].as_str().map(str::to_owned));
        reasons.collect()
    }

    pub(crate) fn calls(&self) -> usize {
        let record = std::fs::read_to_string(&self.record).unwrap_or_default();
        record.matches("\"tools/call\"").count()
    }

    /// The headers that every good request has.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        [
            ("Host", self.address.to_string()),
            ("Authorization", format!("Bearer {}", self.token)),
            ("Content-Type", "application/json".into()),
            ("Accept", "application/json, text/event-stream".into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// Sends a request with these headers in addition, or instead of those of the same name.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        changed: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut headers = self.headers();
        for (name, value) in changed {
            headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            if !value.is_empty() {
                headers.push(((*name).to_owned(), (*value).to_owned()));
            }
        }
        let mut stream = self.open(method, path, &headers, body);
        Answer::read(&mut stream)
    }

    /// Sends a request and returns the connection.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: &str,
    ) -> TcpStream {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut stream = self.connect();
        stream.write_all(head.as_bytes()).unwrap();
        // A gateway that refuses may close before it has read the body.
        let _ = stream.write_all(body.as_bytes());
        stream
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Opens a legacy session; returns its id.
    pub(crate) fn initialize(&self, path: &str) -> String {
        let answer = self.send("POST", path, &[], &initialize("2025-11-25"));
        assert_eq!(answer.status, 200, "{answer:?}");
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        let session = [("Mcp-Session-Id", id.as_str())];
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(self.send("POST", path, &session, note).status, 202);
        id
    }

    /// A tool's name that contains this word, once the server has listed it.
    pub(crate) fn tool(&self, path: &str, session: &str, word: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let list = request(1, "tools/list", json!({}));
            let answer = self.send("POST", path, &[("Mcp-Session-Id", session)], &list);
            let tools = answer.json()["result"]["tools"].clone();
            let names = tools.as_array().unwrap().iter();
            let mut names = names.map(|tool| tool["name"].as_str().unwrap().to_owned());
            if let Some(name) = names.find(|name| name.ends_with(word)) {
                return name;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no tool {word}");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.pid());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Starts the program; returns once it listens, with what it printed until then.
fn serve(
    home: &Home,
    words: &[&str],
    environment: &[(&str, &str)],
) -> (Child, SocketAddr, String, JoinHandle<String>) {
    let mut command = home.command(&["serve"]);
    command.envs(environment.iter().copied());
    if !words.contains(&"--http") {
        command.args(["--http", "127.0.0.1:0"]);
    }
    let mut child = command.args(words).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut printed = String::new();
    let address = loop {
        let mut line = String::new();
        assert_ne!(
            lines.read_line(&mut line).unwrap(),
            0,
            "it ended: {printed}"
        );
        printed.push_str(&line);
        let address = line.split_once("http://").map(|(_, rest)| rest);
        if let Some(address) = address.and_then(|rest| rest.split('/').next()) {
            break address.trim().parse().unwrap();
        }
    };
    let rest = std::thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = lines.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    });
    (child, address, printed, rest)
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Reads until the response or the connection ends; status 0 if nothing came.
    pub(crate) fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        let mut piece = vec![0; 64 << 10];
        while !is_whole_response(&bytes)
            && let Ok(count @ 1..) = stream.read(&mut piece)
        {
            bytes.extend_from_slice(&piece[..count]);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers: Vec<_> = headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let is_chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Self {
            status: status.and_then(|status| status.parse().ok()).unwrap_or(0),
            headers,
            body: if is_chunked {
                unchunked(body)
            } else {
                body.to_owned()
            },
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The messages of an event stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

fn is_whole_response(bytes: &[u8]) -> bool {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let Some((head, body)) = end.map(|end| bytes.split_at(end + 4)) else {
        return false;
    };
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => body.len() >= length.parse().unwrap(),
        None => body == b"0\r\n\r\n" || body.ends_with(b"\r\n0\r\n\r\n"),
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").unwrap_or("");
    }
    whole
}

pub(crate) fn request(id: u64, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

pub(crate) fn initialize(version: &str) -> String {
    let params = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": { "name": "by hand", "version": "1" },
    });
    request(0, "initialize", params)
}

/// The params of a modern request.
pub(crate) fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}
