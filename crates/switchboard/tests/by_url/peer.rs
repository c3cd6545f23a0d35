//! A server over raw TCP that speaks one transport at a time, and records its requests.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::dual_era;

/// The behaviour of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Modern,
    /// Streamable HTTP with `initialize`.
    Legacy,
    /// Legacy with a session, whose end it does not acknowledge.
    LegacySession,
    /// HTTP+SSE; a POST to its URL is answered with this status.
    Sse(u16),
    /// Every request is answered with this status and body.
    Always(u16, &'static str),
    /// Modern, but calls are answered with 401.
    ModernWithoutCalls,
    /// Modern, but the first request of this method is answered with this status, these headers and
    /// this body; `"ID"` in it becomes the id of the request.
    ModernBut(&'static str, String, String),
    /// HTTP+SSE with this `endpoint` event.
    SseAt(&'static str),
    /// HTTP+SSE that asks over the stream for each read, and answers the POST only when it has the
    /// answer.
    SseThatAsks,
    /// A POST is answered with 404, and a GET never.
    SseThatHangs,
    /// Both eras, with tools that ask in either way.
    DualEra(DualEra),
    /// Nothing is answered.
    Hangs,
}

/// Options of a server of both eras.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DualEra {
    /// Whether it cannot ask over a legacy connection either.
    pub(crate) is_stateless: bool,
    /// Whether its tools have another definition over a legacy connection.
    pub(crate) differs: bool,
}

pub(crate) struct Peer {
    pub(crate) port: u16,
    stage: Arc<PeerState>,
    accepting: AbortHandle,
}

struct PeerState {
    kind: Mutex<Kind>,
    seen: watch::Sender<Vec<Seen>>,
    /// The open streams of HTTP+SSE, by session.
    streams: Mutex<HashMap<String, mpsc::UnboundedSender<String>>>,
    /// The answers to the questions of [`Kind::SseThatAsks`] and [`Kind::DualEra`].
    answers: watch::Sender<HashSet<String>>,
    /// How long the POST of `notifications/initialized` takes.
    initialized_takes: Mutex<Duration>,
}

/// A recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// `POST /mcp initialize`, `GET /mcp`.
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Peer {
    pub(crate) async fn start(kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stage = Arc::new(PeerState {
            kind: Mutex::new(kind),
            seen: watch::Sender::new(Vec::new()),
            streams: Mutex::default(),
            answers: watch::Sender::default(),
            initialized_takes: Mutex::default(),
        });
        let shared = stage.clone();
        let accepting = tokio::spawn(async move {
            // Dropped with this task, and the connections with it.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone()));
            }
        });
        Self {
            port,
            stage,
            accepting: accepting.abort_handle(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Changes the behaviour.
    pub(crate) fn become_kind(&self, kind: Kind) {
        self.stage.become_kind(kind);
    }

    pub(crate) fn take_initialized_slowly(&self, takes: Duration) {
        *self.stage.initialized_takes.lock().unwrap() = takes;
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.stage.seen.borrow().clone()
    }

    /// The requests since the last time that show how the transport was detected: probes,
    /// handshakes, and streams if requested.
    pub(crate) fn handshakes(&self, streams: bool) -> Vec<String> {
        let taken = self.stage.seen.send_replace(Vec::new());
        let tells = |line: &String| {
            line.ends_with("server/discover")
                || line.ends_with(" initialize")
                || (streams && line.starts_with("GET"))
        };
        taken
            .into_iter()
            .map(|seen| seen.line)
            .filter(tells)
            .collect()
    }

    /// Waits for a request.
    pub(crate) async fn until_seen(&self, line: &str) {
        let mut seen = self.stage.seen.subscribe();
        seen.wait_for(|seen| seen.iter().any(|seen| seen.line == line))
            .await
            .unwrap();
    }

    /// Ends every open stream.
    pub(crate) fn disconnect(&self) {
        self.stage.streams.lock().unwrap().clear();
    }
}

async fn serve(stream: TcpStream, stage: Arc<PeerState>) {
    let mut stream = BufReader::new(stream);
    while let Some((line, headers, body)) = read(&mut stream).await {
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let output = if method.is_empty() {
            line.clone()
        } else {
            format!("{line} {method}")
        };
        let is_in_session = headers.contains_key("mcp-session-id");
        stage.seen.send_modify(|seen| {
            seen.push(Seen {
                line: output,
                headers,
            })
        });
        let kind = stage.kind.lock().unwrap().clone();
        let answer = match kind {
            Kind::Hangs => return std::future::pending().await,
            Kind::Always(status, body) => status_with(status, body),
            Kind::ModernWithoutCalls if method == "tools/call" => status_with(401, ""),
            Kind::ModernBut(refused, head, body) if method == refused => {
                stage.become_kind(Kind::Modern);
                let body = body.replace("\"ID\"", &message["id"].to_string());
                format!(
                    "HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
            }
            Kind::Modern | Kind::ModernWithoutCalls | Kind::ModernBut(..) => modern(&message),
            Kind::LegacySession if line.starts_with("DELETE") => {
                return std::future::pending().await;
            }
            Kind::LegacySession => {
                legacy(&line, &message).replacen("\r\n", "\r\nMcp-Session-Id: s1\r\n", 1)
            }
            Kind::Legacy => legacy(&line, &message),
            Kind::SseThatHangs if line.starts_with("GET") => return std::future::pending().await,
            Kind::SseThatHangs => status_with(404, ""),
            Kind::Sse(status) if line == "POST /mcp" => status_with(status, "Cannot POST /mcp"),
            Kind::Sse(_) if line == "GET /mcp" => {
                return stage.events(stream, "messages?session=").await;
            }
            Kind::SseAt(place) if line == "GET /mcp" => return stage.events(stream, place).await,
            Kind::SseThatAsks if line == "GET /mcp" => {
                return stage.events(stream, "messages?session=").await;
            }
            Kind::SseThatAsks => stage.ask_back(&line, &message).await,
            Kind::Sse(_) | Kind::SseAt(_) => stage.posted(&line, &message).await,
            Kind::DualEra(options) => {
                if method.is_empty() && !message["id"].is_null() {
                    stage.answered(&message);
                }
                let answer_to = stage.answer_to(format!("about {}", message["id"]));
                let reply = dual_era::reply(
                    stream.get_mut(),
                    &line,
                    is_in_session,
                    &message,
                    options,
                    answer_to,
                );
                let reply = reply.await;
                // The end of a stream is the end of its connection.
                if reply.starts_with("data:") {
                    let _ = stream.write_all(reply.as_bytes()).await;
                    return;
                }
                reply
            }
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(
    stream: &mut BufReader<TcpStream>,
) -> Option<(String, HashMap<String, String>, Vec<u8>)> {
    let mut first = String::new();
    stream
        .read_line(&mut first)
        .await
        .ok()
        .filter(|read| *read > 0)?;
    let mut headers: HashMap<String, String> = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        // A repeated header is recorded as such.
        let all = headers.entry(name.to_ascii_lowercase()).or_default();
        *all = if all.is_empty() {
            value.to_owned()
        } else {
            format!("{all}, {value}")
        };
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let words: Vec<_> = first.split_whitespace().collect();
    Some((words.get(..2)?.join(" "), headers, body))
}

impl PeerState {
    fn become_kind(&self, kind: Kind) {
        *self.kind.lock().unwrap() = kind;
    }

    /// Opens a stream: the endpoint, then the responses, until the test disconnects.
    async fn events(&self, mut stream: BufReader<TcpStream>, place: &str) {
        let (says, mut said) = mpsc::unbounded_channel();
        let session = {
            let mut streams = self.streams.lock().unwrap();
            let session = format!("s{}", self.seen.borrow().len());
            streams.insert(session.clone(), says);
            session
        };
        let place = if place.ends_with('=') {
            format!("{place}{session}")
        } else {
            place.to_owned()
        };
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        let mut text = format!("{head}: hello\n\nevent: endpoint\ndata: {place}\n\n");
        loop {
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
            let Some(next) = said.recv().await else {
                return;
            };
            text = next;
        }
    }

    /// Answers a read over the stream once its question is answered, and only then answers the
    /// POST.
    async fn ask_back(&self, line: &str, message: &Value) -> String {
        if message["method"].is_null() {
            self.answered(message);
            return status_with(202, "Accepted");
        }
        if message["method"] != "resources/read" {
            return self.posted(line, message).await;
        }
        let question = format!("about {}", message["id"]);
        let params =
            json!({"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}});
        self.push(line, &json!({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params}));
        self.answer_to(question).await;
        self.push(
            line,
            &json!({"jsonrpc": "2.0", "id": message["id"], "result": {"contents": []}}),
        );
        status_with(202, "Accepted")
    }

    /// Records the answer to a question.
    fn answered(&self, message: &Value) {
        let question = message["id"].as_str().unwrap_or_default().to_owned();
        self.answers
            .send_modify(|answers| answers.extend([question]));
    }

    /// Waits for the answer to a question. The same id may be used again later.
    async fn answer_to(&self, question: String) {
        self.answers
            .subscribe()
            .wait_for(|answers| answers.contains(&question))
            .await
            .unwrap();
        self.answers
            .send_modify(|answers| _ = answers.remove(&question));
    }

    fn push(&self, line: &str, message: &Value) {
        let streams = self.streams.lock().unwrap();
        if let Some(stream) = line
            .split_once("session=")
            .and_then(|(_, session)| streams.get(session))
        {
            stream
                .send(format!("event: message\ndata: {message}\n\n"))
                .unwrap();
        }
    }

    /// Answers over the stream.
    async fn posted(&self, line: &str, message: &Value) -> String {
        if message["method"] == "notifications/initialized" {
            let takes = *self.initialized_takes.lock().unwrap();
            tokio::time::sleep(takes).await;
            self.seen.send_modify(|seen| {
                seen.push(Seen {
                    line: "initialized is taken".into(),
                    headers: HashMap::new(),
                })
            });
        }
        let session = line
            .split_once("session=")
            .map(|(_, session)| session.to_owned())
            .unwrap_or_default();
        let streams = self.streams.lock().unwrap();
        let Some(stream) = streams.get(&session) else {
            return status_with(404, "no such session");
        };
        // A call is never answered: its stream ends first.
        if let (Some(answer), false) = (answer(message), message["method"] == "tools/call") {
            stream
                .send(format!("event: message\ndata: {answer}\n\n"))
                .unwrap();
        }
        status_with(202, "Accepted")
    }
}

fn modern(message: &Value) -> String {
    match message["method"].as_str() {
        Some("initialize") => status_with(
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"no headers"}}"#,
        ),
        _ => json_with(200, &answer(message).unwrap_or_default()),
    }
}

fn legacy(line: &str, message: &Value) -> String {
    match message["method"].as_str() {
        _ if line.starts_with("GET") => status_with(405, ""),
        Some("server/discover") => status_with(
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#,
        ),
        _ if message["id"].is_null() => status_with(202, ""),
        _ => json_with(200, &answer(message).unwrap_or_default()),
    }
}

fn answer(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "server/discover" => {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "1"}}),
        "tools/list" => {
            json!({"resultType": "complete", "tools": [{"name": "one", "inputSchema": {"type": "object"}}]})
        }
        "tools/call" => {
            json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})
        }
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

pub(crate) fn json_with(status: u16, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) fn status_with(status: u16, body: &str) -> String {
    let kind = if body.starts_with('<') {
        "text/html"
    } else {
        "application/json"
    };
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
