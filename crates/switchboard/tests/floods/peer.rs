//! The flooding peer: plain threads that write as fast as the other side reads, over pipes and
//! sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// What is sent repeatedly. `ID` is replaced by the id of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Comments,
    HugeComment,
    Notifications,
    Progress,
    Logs,
    Pings,
    UnknownIds,
    HugeLines,
    ListChanges,
    /// Chunks of one byte each; only over HTTP.
    TinyChunks,
}

impl Kind {
    pub(crate) const ALL: [Self; 10] = [
        Self::Comments,
        Self::HugeComment,
        Self::Notifications,
        Self::Progress,
        Self::Logs,
        Self::Pings,
        Self::UnknownIds,
        Self::HugeLines,
        Self::ListChanges,
        Self::TinyChunks,
    ];

    fn message(self, id: u64) -> String {
        let notification = |method: &str, params: Value| {
            json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
        };
        match self {
            Self::Comments | Self::HugeComment | Self::TinyChunks => String::new(),
            Self::Notifications => notification("notifications/x", json!({})),
            Self::Progress => notification(
                "notifications/progress",
                json!({"progressToken": id, "progress": 1}),
            ),
            Self::Logs => notification(
                "notifications/message",
                json!({"level": "info", "data": "x"}),
            ),
            Self::Pings => json!({"jsonrpc": "2.0", "id": "flood", "method": "ping"}).to_string(),
            Self::UnknownIds => {
                json!({"jsonrpc": "2.0", "id": 1_000_000, "result": {}}).to_string()
            }
            Self::HugeLines => notification("notifications/x", json!({"pad": "x".repeat(900_000)})),
            Self::ListChanges => notification("notifications/tools/list_changed", json!({})),
        }
    }

    /// A block of messages as events.
    fn events(self, id: u64) -> Vec<u8> {
        match self {
            Self::Comments => repeated(":\n"),
            Self::HugeComment => vec![b':'; 64 * 1024],
            Self::TinyChunks => repeated("1\r\n:\r\n1\r\n\n\r\n"),
            _ => repeated(&format!("data: {}\n\n", self.message(id))),
        }
    }

    /// A block of messages as lines.
    fn lines(self, id: u64) -> Vec<u8> {
        match self {
            Self::Comments | Self::TinyChunks => repeated("\n"),
            Self::HugeComment => vec![b' '; 64 * 1024],
            _ => repeated(&format!("{}\n", self.message(id))),
        }
    }
}

/// Repeats the text to at least 64 KiB.
fn repeated(text: &str) -> Vec<u8> {
    text.repeat(64 * 1024 / text.len() + 1).into_bytes()
}

/// The flooded stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    /// Streamable HTTP: the response to `resources/read`.
    Response,
    /// Streamable HTTP: the response to `initialize`.
    Handshake,
    /// Streamable HTTP: the stream that belongs to no request.
    Get,
    /// HTTP+SSE: the one stream, after `resources/read`.
    Sse,
    /// None: each request gets its response.
    Nowhere,
}

/// Bytes sent by a flood.
pub(crate) type Sent = Arc<AtomicU64>;

/// A server over HTTP. Its threads end when the other side closes.
pub(crate) struct Peer {
    pub(crate) port: u16,
    pub(crate) sent: Sent,
}

struct Shared {
    at: Where,
    kind: Kind,
    sent: Sent,
    /// The open stream of HTTP+SSE.
    stream: Mutex<Option<TcpStream>>,
}

impl Peer {
    pub(crate) fn start(at: Where, kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sent = Sent::default();
        let shared = Arc::new(Shared {
            at,
            kind,
            sent: sent.clone(),
            stream: Mutex::default(),
        });
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), shared.clone());
                thread::spawn(move || shared.serve(&stream));
            }
        });
        Self { port, sent }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream);
        while let Some((line, body)) = request(&mut reader) {
            let method = body["method"].as_str().unwrap_or_default();
            let answer = body
                .get("id")
                .filter(|_| !method.is_empty())
                .map(|id| answer(method, id));
            match (self.at, line.split(' ').next().unwrap(), method) {
                (Where::Response, "POST", "resources/read")
                | (Where::Handshake, "POST", "initialize") => {
                    return self.flood(stream, body["id"].as_u64().unwrap());
                }
                (Where::Get, "POST", "resources/read") => {}
                (Where::Get, "GET", _) => return self.flood(stream, 2),
                (Where::Sse, "GET", _) => {
                    // Set first: messages may be posted as soon as the endpoint is known.
                    *self.stream.lock().unwrap() = Some(stream.try_clone().unwrap());
                    let mut out = stream;
                    out.write_all(head(false).as_bytes()).unwrap();
                    out.write_all(b"event: endpoint\ndata: /messages\n\n")
                        .unwrap();
                }
                (_, "GET", _) => respond(stream, 405, ""),
                (Where::Sse, _, _) => {
                    respond(stream, 202, "");
                    let events = self
                        .stream
                        .lock()
                        .unwrap()
                        .as_ref()
                        .unwrap()
                        .try_clone()
                        .unwrap();
                    if method == "resources/read" {
                        let (kind, sent) = (self.kind, self.sent.clone());
                        thread::spawn(move || flood_with(&events, &kind.events(2), &sent));
                    } else if let Some(answer) = answer {
                        let _ = (&events).write_all(format!("data: {answer}\n\n").as_bytes());
                    }
                }
                _ => match answer {
                    Some(answer) => respond(stream, 200, &answer),
                    None => respond(stream, 202, ""),
                },
            }
        }
    }

    fn flood(&self, mut stream: &TcpStream, id: u64) {
        stream
            .write_all(head(self.kind == Kind::TinyChunks).as_bytes())
            .unwrap();
        flood_with(stream, &self.kind.events(id), &self.sent);
    }
}

/// A server over two pipes: floods after `resources/read`.
pub(crate) fn over_pipes(
    input: impl Read + Send + 'static,
    mut output: impl Write + Send + 'static,
    kind: Kind,
) -> Sent {
    let sent = Sent::default();
    let counter = sent.clone();
    thread::spawn(move || {
        let mut lines = BufReader::new(input).lines();
        while let Some(Ok(line)) = lines.next() {
            let body: Value = serde_json::from_str(&line).unwrap();
            let method = body["method"].as_str().unwrap_or_default();
            if method == "resources/read" {
                // Keeps reading, so that only its output floods.
                thread::spawn(move || while lines.next().is_some_and(|line| line.is_ok()) {});
                return flood_with(output, &kind.lines(body["id"].as_u64().unwrap()), &counter);
            } else if let Some(id) = body.get("id") {
                output
                    .write_all(format!("{}\n", answer(method, id)).as_bytes())
                    .unwrap();
            }
        }
    });
    sent
}

/// Writes a block repeatedly, until the other side closes.
fn flood_with(mut to: impl Write, block: &[u8], sent: &Sent) {
    let mut at = 0;
    while let Ok(count @ 1..) = to.write(&block[at..]) {
        at = (at + count) % block.len();
        sent.fetch_add(count as u64, Ordering::Relaxed);
    }
}

fn answer(method: &str, id: &Value) -> String {
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "peer", "version": "1"},
        }),
        "resources/read" => json!({"contents": [{"uri": "a:b", "text": "x"}]}),
        _ => json!({"tools": []}),
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn head(is_chunked: bool) -> String {
    let framing = if is_chunked {
        "Transfer-Encoding: chunked"
    } else {
        "Connection: close"
    };
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}\r\n\r\n")
}

fn respond(mut stream: &TcpStream, status: u16, body: &str) {
    let kind = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/json\r\n"
    };
    let _ = stream.write_all(
        format!(
            "HTTP/1.1 {status} X\r\n{kind}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    );
}

/// The first line of the next request, and its message.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, Value)> {
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|&count| count > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        } else if first.is_empty() {
            first = line.to_owned();
        } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, serde_json::from_slice(&body).unwrap_or_default()))
}
