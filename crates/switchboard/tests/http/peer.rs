//! The scripted peer: accepts connections, passes each request to the test, and writes what the
//! test sends.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::support::TIMEOUT;

/// The server's side.
pub(crate) struct Peer {
    pub(crate) port: u16,
    asked: mpsc::UnboundedReceiver<ReceivedRequest>,
    accepting: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One request, and its connection.
pub(crate) struct ReceivedRequest {
    /// `POST /mcp`.
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    says: mpsc::UnboundedSender<PeerAction>,
    closed: mpsc::UnboundedReceiver<()>,
}

enum PeerAction {
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

    /// Accepts no more connections: the port refuses them while the socket is kept.
    pub(crate) async fn refuse_connections(mut self) -> TcpSocket {
        self.accepting.abort();
        // The listener is dropped with its task.
        let _ = (&mut self.accepting).await;
        bind_without_listening(SocketAddr::from(([127, 0, 0, 1], self.port)))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> ReceivedRequest {
        tokio::time::timeout(TIMEOUT, self.asked.recv())
            .await
            .expect("a request comes")
            .unwrap()
    }

    /// The next request, which must be a POST of this method.
    pub(crate) async fn expect(&mut self, method: &str) -> ReceivedRequest {
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
    pub(crate) async fn expect_line(&mut self, line: &str) -> ReceivedRequest {
        let asked = self.next().await;
        assert_eq!(asked.line, line, "{}", asked.body);
        asked
    }

    /// Asserts that there were no further requests so far.
    pub(crate) fn expect_nothing(&mut self) {
        assert!(self.asked.try_recv().is_err());
    }

    /// Performs the handshake as a legacy server with this session id and no stream of its own.
    pub(crate) async fn handshake_without_stream(&mut self, session: Option<&str>) {
        self.handshake(session).await;
        self.expect_line("GET /mcp").await.status(405, "");
    }

    /// Performs the handshake as a legacy server.
    pub(crate) async fn handshake(&mut self, session: Option<&str>) {
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

    /// Performs the handshake as a modern server.
    pub(crate) async fn discover(&mut self) {
        let asked = self.expect("server/discover").await;
        asked.json(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}));
    }
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Responds with exactly this text.
    pub(crate) fn raw(self, text: &str) -> Self {
        self.send(text);
        let _ = self.says.send(PeerAction::Done);
        self
    }

    pub(crate) fn send(&self, text: &str) {
        self.send_bytes(text.as_bytes().to_vec());
    }

    pub(crate) fn send_bytes(&self, bytes: Vec<u8>) {
        let _ = self.says.send(PeerAction::Bytes(bytes));
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

    /// Responds with this result.
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

    /// Opens an event stream that ends with the connection.
    pub(crate) fn stream(&self) {
        self.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        );
    }

    /// Sends an event with a message.
    pub(crate) fn event(&self, id: Option<&str>, message: &Value) {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.send(&format!("event: message\n{id}data: {message}\n\n"));
    }

    /// Sends the response as an event.
    pub(crate) fn event_result(&self, id: Option<&str>, of: &Value, result: Value) {
        self.event(id, &json!({"jsonrpc": "2.0", "id": of, "result": result}));
    }

    pub(crate) fn close(self) {
        let _ = self.says.send(PeerAction::Close);
    }

    /// Resets the connection (RST).
    pub(crate) fn reset(self) {
        let _ = self.says.send(PeerAction::Reset);
    }

    /// Waits until the other side has closed the connection, without a timeout.
    pub(crate) async fn closed_eventually(&mut self) {
        self.closed.recv().await;
    }

    /// Waits until the other side has closed the connection.
    pub(crate) async fn closed(&mut self) {
        tokio::time::timeout(TIMEOUT, self.closed.recv())
            .await
            .expect("the connection is closed");
    }
}

/// A socket that nobody can connect to, while no other test gets its port.
pub(crate) fn bind_without_listening(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    // Connections of an earlier listener may still be open.
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

async fn serve(mut stream: TcpStream, asks: mpsc::UnboundedSender<ReceivedRequest>) {
    let mut buffer = Vec::new();
    loop {
        let Some((line, headers, body)) = read_request(&mut stream, &mut buffer).await else {
            return;
        };
        let (says, mut output) = mpsc::unbounded_channel();
        let (goes, closed) = mpsc::unbounded_channel();
        if asks
            .send(ReceivedRequest {
                line,
                headers,
                body,
                says,
                closed,
            })
            .is_err()
        {
            return;
        }
        let mut sink = [0; 256];
        loop {
            tokio::select! {
                send = output.recv() => match send {
                    Some(PeerAction::Bytes(bytes)) => if stream.write_all(&bytes).await.is_err() {
                        let _ = goes.send(());
                        return;
                    },
                    Some(PeerAction::Done) => break,
                    Some(PeerAction::Close) | None => return,
                    Some(PeerAction::Reset) => {
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
