//! The scripted peer: accepts connections, hands each request to the test, writes what the test says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::auth::{Credentials, NoCredentials};
use switchboard::caller::{Answering, Approval, ApprovalRequest, Caller, CallerId, ElicitAnswer, Elicitation, Offers};
use switchboard::config::{Environment, Protocol, Timeouts};
use switchboard::name::ServerName;
use switchboard::secret::Secret;
use switchboard::session::{OpenFault, OpenOptions, RequestFault, Session};
use switchboard::transport::http::{HttpConnector, HttpStack, HttpTarget};
use switchboard::wire::RawJson;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Nothing in these tests takes so long unless it hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(20);

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
        Self { port, asked, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The next request of ours.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::time::timeout(HANGS, self.asked.recv()).await.expect("a request comes").unwrap()
    }

    /// The next request, which must be a POST of this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Asked {
        let asked = self.next().await;
        assert_eq!((asked.line.as_str(), asked.body["method"].as_str()), ("POST /mcp", Some(method)), "{}", asked.body);
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
        let header = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        asked.json_with(&header, result);
        self.expect("notifications/initialized").await.status(202, "");
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
        self.raw(&format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()));
    }

    /// An answer with this result.
    pub(crate) fn json(self, result: Value) {
        self.json_with("", result);
    }

    pub(crate) fn json_with(self, headers: &str, result: Value) {
        let body = json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}).to_string();
        self.status_with(200, &format!("Content-Type: application/json\r\n{headers}"), &body);
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
        tokio::time::timeout(HANGS, self.gone.recv()).await.expect("the connection is closed");
    }
}

async fn serve(mut stream: TcpStream, asks: mpsc::UnboundedSender<Asked>) {
    let mut buffer = Vec::new();
    loop {
        let Some((line, headers, body)) = read_request(&mut stream, &mut buffer).await else { return };
        let (says, mut said) = mpsc::unbounded_channel();
        let (goes, gone) = mpsc::unbounded_channel();
        if asks.send(Asked { line, headers, body, says, gone }).is_err() {
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

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, BTreeMap<String, String>, Value)> {
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
    let line = lines.next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    let headers: BTreeMap<_, _> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&buffer[end..end + length]).unwrap_or(Value::Null);
    buffer.drain(..end + length);
    Some((line, headers, body))
}

pub(crate) fn target(url: &str) -> HttpTarget {
    HttpTarget {
        url: url.parse().unwrap(),
        headers: Vec::new(),
        credentials: Arc::new(NoCredentials),
        max_message_bytes: 1 << 20,
    }
}

pub(crate) fn target_with(url: &str, headers: &[(&str, &str)]) -> HttpTarget {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
    HttpTarget { headers, ..target(url) }
}

pub(crate) fn authorized(url: &str, credentials: Arc<dyn Credentials>) -> HttpTarget {
    HttpTarget { credentials, ..target(url) }
}

pub(crate) fn connector(target: HttpTarget) -> HttpConnector {
    connector_in(&[], target)
}

/// In an environment of these variables.
pub(crate) fn connector_in(variables: &[(&str, &str)], target: HttpTarget) -> HttpConnector {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    HttpConnector::new(HttpStack::new(&Environment::new(variables)).unwrap(), target)
}

pub(crate) fn options(protocol: Protocol) -> OpenOptions {
    OpenOptions {
        protocol,
        offers: Offers { elicit_form: true, ..Offers::default() },
        connect_timeout: HANGS,
        max_message_bytes: 1 << 20,
        ..OpenOptions::new(ServerName::new("peer").unwrap())
    }
}

/// Opens a session in a task of its own, so that the test can play the server.
pub(crate) fn open(target: HttpTarget, protocol: Protocol) -> JoinHandle<Result<Arc<Session>, OpenFault>> {
    tokio::spawn(async move { Session::open(&connector(target), options(protocol)).await })
}

/// An open legacy session, and its peer.
pub(crate) async fn legacy(session: Option<&str>) -> (Arc<Session>, Peer) {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    peer.welcome(session).await;
    (opening.await.unwrap().unwrap(), peer)
}

/// An open modern session, and its peer.
pub(crate) async fn modern() -> (Arc<Session>, Peer) {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Modern);
    peer.discover().await;
    (opening.await.unwrap().unwrap(), peer)
}

/// A request under way.
pub(crate) type Reading = JoinHandle<Result<RawJson, RequestFault>>;

/// Reads a resource in a task of its own.
pub(crate) fn read(session: &Arc<Session>, uri: &str) -> Reading {
    read_within(session, uri, Timeouts::default())
}

pub(crate) fn read_within(session: &Arc<Session>, uri: &str, timeouts: Timeouts) -> Reading {
    let (session, uri) = (session.clone(), uri.to_owned());
    tokio::spawn(async move {
        let caller: Arc<dyn Caller> = Arc::new(Agreeable);
        session.read(&uri, &caller, timeouts).await
    })
}

/// A result of `resources/read`, and what a caller sees of it.
pub(crate) fn contents(text: &str) -> Value {
    json!({"contents": [{"uri": "a:b", "text": text}]})
}

pub(crate) fn seen(text: &str) -> Result<Value, RequestFault> {
    Ok(contents(text))
}

/// What came of a reading.
pub(crate) async fn outcome(reading: Reading) -> Result<Value, RequestFault> {
    let outcome = tokio::time::timeout(HANGS, reading).await.expect("the request ends").unwrap();
    outcome.map(|result| result.to_value().unwrap())
}

/// A caller that accepts every form.
struct Agreeable;

impl Caller for Agreeable {
    fn id(&self) -> CallerId {
        CallerId::new("test")
    }

    fn offers(&self) -> Offers {
        Offers { elicit_form: true, ..Offers::default() }
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> Answering<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    fn elicit<'a>(&'a self, _: &'a Elicitation) -> Answering<'a, ElicitAnswer> {
        Box::pin(async { ElicitAnswer::Accept(serde_json::Map::new()) })
    }
}
