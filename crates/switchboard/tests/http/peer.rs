//! The scripted peer: accepts connections, hands each request to the test, writes what the test
//! says.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::support::HANGS;

/// The server's side.
pub(crate) struct Peer {
    pub(crate) port: u16,
    asked: mpsc::UnboundedReceiver<Asked>,
    accepting: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One request, and the connection that it came on.
pub(crate) struct Asked {
    /// `POST /mcp`.
    pub(crate) line: String,
    /// Names in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    says: mpsc::UnboundedSender<Say>,
    gone: mpsc::UnboundedReceiver<()>,
}

enum Say {
    Bytes(Vec<u8>),
    /// The response is complete: the next request may come.
    Done,
    Close,
    Reset,
}

impl Peer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asks, asked) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, asks.clone()));
            }
        });
        Self {
            port,
            asked,
            accepting,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The next request of ours.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::time::timeout(HANGS, self.asked.recv())
            .await
            .expect("a request comes")
            .unwrap()
    }

    /// The next request, which must be a POST of this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Asked {
        let asked = self.next().await;
        assert_eq!(
            (asked.line.as_str(), asked.body["method"].as_str()),
            ("POST /mcp", Some(method)),
            "{}",
            asked.body
        );
        asked
    }

    /// The next request, which must be this line without a message.
    pub(crate) async fn expect_line(&mut self, line: &str) -> Asked {
        let asked = self.next().await;
        assert_eq!(asked.line, line, "{}", asked.body);
        asked
    }

    /// Nothing more was asked so far.
    pub(crate) fn quiet(&mut self) {
        assert!(self.asked.try_recv().is_err());
    }

    /// Shakes hands as a legacy server that gives this session, and offers no stream of its own.
    pub(crate) async fn welcome(&mut self, session: Option<&str>) {
        self.begin(session).await;
        self.expect_line("GET /mcp").await.status(405, "");
    }

    /// Shakes hands as a legacy server.
    pub(crate) async fn begin(&mut self, session: Option<&str>) {
        let asked = self.expect("initialize").await;
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "peer", "version": "1"}});
        let header = session
            .map(|id| format!("Mcp-Session-Id: {id}\r\n"))
            .unwrap_or_default();
        asked.json_with(&header, result);
        self.expect("notifications/initialized")
            .await
            .status(202, "");
    }

    /// Shakes hands as a modern server.
    pub(crate) async fn discover(&mut self) {
        let asked = self.expect("server/discover").await;
        asked.json(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}));
    }
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The whole response is this text.
    pub(crate) fn raw(self, text: &str) -> Self {
        self.say(text);
        let _ = self.says.send(Say::Done);
        self
    }

    pub(crate) fn say(&self, text: &str) {
        self.say_bytes(text.as_bytes().to_vec());
    }

    pub(crate) fn say_bytes(&self, bytes: Vec<u8>) {
        let _ = self.says.send(Say::Bytes(bytes));
    }

    pub(crate) fn status(self, status: u16, body: &str) {
        self.status_with(status, "", body);
    }

    pub(crate) fn status_with(self, status: u16, headers: &str, body: &str) {
        self.raw(&format!(
            "HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    }

    /// An answer with this result.
    pub(crate) fn json(self, result: Value) {
        self.json_with("", result);
    }

    pub(crate) fn json_with(self, headers: &str, result: Value) {
        let body = json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}).to_string();
        self.status_with(
            200,
            &format!("Content-Type: application/json\r\n{headers}"),
            &body,
        );
    }

    /// Opens a stream of events that ends with the connection.
    pub(crate) fn stream(&self) {
        self.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    }

    /// One event with a message.
    pub(crate) fn event(&self, id: Option<&str>, message: &Value) {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.say(&format!("event: message\n{id}data: {message}\n\n"));
    }

    /// The answer as an event.
    pub(crate) fn event_result(&self, id: Option<&str>, of: &Value, result: Value) {
        self.event(id, &json!({"jsonrpc": "2.0", "id": of, "result": result}));
    }

    pub(crate) fn close(self) {
        let _ = self.says.send(Say::Close);
    }

    /// Ends the connection with an RST.
    pub(crate) fn reset(self) {
        let _ = self.says.send(Say::Reset);
    }

    /// The same, however long it takes.
    pub(crate) async fn gone_at_last(&mut self) {
        self.gone.recv().await;
    }

    /// Waits until the other side has closed the connection.
    pub(crate) async fn gone(&mut self) {
        tokio::time::timeout(HANGS, self.gone.recv())
            .await
            .expect("the connection is closed");
    }
}

async fn serve(mut stream: TcpStream, asks: mpsc::UnboundedSender<Asked>) {
    let mut buffer = Vec::new();
    loop {
        let Some((line, headers, body)) = read_request(&mut stream, &mut buffer).await else {
            return;
        };
        let (says, mut said) = mpsc::unbounded_channel();
        let (goes, gone) = mpsc::unbounded_channel();
        if asks
            .send(Asked {
                line,
                headers,
                body,
                says,
                gone,
            })
            .is_err()
        {
            return;
        }
        let mut sink = [0; 256];
        loop {
            tokio::select! {
                say = said.recv() => match say {
                    Some(Say::Bytes(bytes)) => if stream.write_all(&bytes).await.is_err() {
                        let _ = goes.send(());
                        return;
                    },
                    Some(Say::Done) => break,
                    Some(Say::Close) | None => return,
                    Some(Say::Reset) => {
                        let _ = stream.set_zero_linger();
                        return;
                    }
                },
                read = stream.read(&mut sink) => match read {
                    Ok(0) | Err(_) => {
                        let _ = goes.send(());
                        return;
                    }
                    Ok(count) => buffer.extend_from_slice(&sink[..count]),
                },
            }
        }
    }
}

async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> Option<(String, BTreeMap<String, String>, Value)> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines
        .next()
        .unwrap()
        .trim_end_matches(" HTTP/1.1")
        .to_owned();
    let headers: BTreeMap<_, _> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&buffer[end..end + length]).unwrap_or(Value::Null);
    buffer.drain(..end + length);
    Some((line, headers, body))
}
