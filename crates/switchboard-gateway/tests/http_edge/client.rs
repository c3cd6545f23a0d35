//! A running edge, and connections that send bytes as they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_gateway::edge::http::{HttpEdge, HttpEdgeSettings, HttpLimits, NoRoutes};
use switchboard_gateway::tokens::ClientTokens;
use switchboard_gateway::{
    Approvals, DenyUnasked, Gateway, GatewaySettings, Recorder, Refusal, RefusalReason,
    ServerSelection,
};
use switchboard_testkit::Scratch;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::support::{PATIENCE, host};

/// An edge of a gateway, with the token of one client.
pub(crate) struct TestEdge {
    pub(crate) edge: HttpEdge,
    pub(crate) token: String,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) scratch: Scratch,
}

/// The refusals that were recorded.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Vec<RefusalReason>>);

impl Refusals {
    /// Those since the last time.
    pub(crate) fn take(&self) -> Vec<RefusalReason> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Recorder for Refusals {
    fn request_refused(&self, refusal: &Refusal) {
        self.0.lock().unwrap().push(refusal.reason);
    }
}

impl TestEdge {
    /// An edge of these servers.
    pub(crate) async fn start(tables: &str, limits: HttpLimits) -> Self {
        Self::start_with_origins(tables, limits, &[]).await
    }

    /// The same with decisions on calls whose client cannot be asked.
    pub(crate) async fn start_with_approvals(tables: &str, approvals: Arc<dyn Approvals>) -> Self {
        Self::start_with(tables, HttpLimits::default(), &[], approvals).await
    }

    /// The same for web pages of these origins, too.
    pub(crate) async fn start_with_origins(
        tables: &str,
        limits: HttpLimits,
        origins: &[&str],
    ) -> Self {
        Self::start_with(tables, limits, origins, Arc::new(DenyUnasked::default())).await
    }

    async fn start_with(
        tables: &str,
        limits: HttpLimits,
        origins: &[&str],
        approvals: Arc<dyn Approvals>,
    ) -> Self {
        let scratch = Scratch::new();
        let refusals = Arc::new(Refusals::default());
        let settings = GatewaySettings {
            recorder: refusals.clone(),
            approvals,
            ..GatewaySettings::default()
        };
        let gateway = Gateway::new(host(&scratch, tables).await, settings);
        let tokens = ClientTokens::new(&scratch.path("state"));
        let token = tokens.create("tester").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = HttpEdgeSettings {
            tokens,
            selection: ServerSelection::All,
            routes: Arc::new(NoRoutes),
            hosts: Vec::new(),
            origins: origins.iter().map(|&origin| origin.to_owned()).collect(),
            public_url: None,
            limits,
        };
        Self {
            edge: HttpEdge::serve(gateway, listener, settings).unwrap(),
            token,
            refusals,
            scratch,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.edge.address()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// The lines of a good POST, but for the length of its body.
    pub(crate) fn post_lines(&self, path: &str) -> String {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n",
            self.edge.address(),
            self.token
        )
    }

    /// A POST with these lines in addition, each with its end.
    pub(crate) fn post(&self, path: &str, lines: &str, body: &str) -> String {
        let length = body.len();
        let head = self.post_lines(path);
        format!("{head}{lines}Content-Length: {length}\r\n\r\n{body}")
    }

    /// A request that only hyper serves: the rest of its connection is hyper's, too.
    pub(crate) fn hyper_request(&self) -> String {
        let address = self.edge.address();
        format!("GET /nothing HTTP/1.1\r\nHost: {address}\r\n\r\n")
    }

    /// Sends bytes on a connection of their own; returns all responses.
    pub(crate) async fn send(&self, bytes: &str) -> Vec<TestResponse> {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        read_responses(&mut stream).await
    }

    /// A GET of an event stream with these lines in addition.
    pub(crate) fn get(&self, path: &str, token: &str, lines: &str) -> String {
        let address = self.edge.address();
        format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Accept: text/event-stream\r\n{lines}\r\n"
        )
    }

    /// Opens a legacy session; returns the line that names it.
    pub(crate) async fn open_session(&self) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "by hand", "version": "1"},
        });
        let initialize = request(0, "initialize", params);
        let post = self.post("/mcp", "Connection: close\r\n", &initialize);
        let opened = self.send(&post).await;
        format!(
            "Mcp-Session-Id: {}\r\n",
            opened[0].headers["mcp-session-id"]
        )
    }
}

/// A response: status, headers but the date, and body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// Reads until the connection ends.
pub(crate) async fn read_responses(stream: &mut (impl AsyncRead + Unpin)) -> Vec<TestResponse> {
    let mut bytes = Vec::new();
    let reading = async {
        // A connection that was reset has ended, too.
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut piece).await {
            bytes.extend_from_slice(&piece[..count]);
        }
    };
    let ended = timeout(PATIENCE, reading).await;
    ended.expect("the connection ends");
    let mut rest = bytes.as_slice();
    let mut responses = Vec::new();
    while !rest.is_empty() {
        let (response, after) = parse_response(rest);
        responses.push(response);
        rest = after;
    }
    responses
}

fn parse_response(bytes: &[u8]) -> (TestResponse, &[u8]) {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("{:?}", String::from_utf8_lossy(bytes)));
    let (head, mut rest) = (
        std::str::from_utf8(&bytes[..end]).unwrap(),
        &bytes[end + 4..],
    );
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let mut headers: BTreeMap<_, _> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    headers.remove("date");
    let mut body = Vec::new();
    if headers.contains_key("transfer-encoding") {
        loop {
            let end = rest
                .windows(2)
                .position(|window| window == b"\r\n")
                .unwrap();
            let digits = std::str::from_utf8(&rest[..end]).unwrap();
            let size = usize::from_str_radix(digits, 16).unwrap();
            body.extend_from_slice(&rest[end + 2..end + 2 + size]);
            rest = &rest[end + 2 + size + 2..];
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = headers.get("content-length") {
        let length = length.parse().unwrap();
        body.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    let response = TestResponse {
        status: status.parse().unwrap(),
        headers,
        body: String::from_utf8(body).unwrap(),
    };
    (response, rest)
}

pub(crate) fn request(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Limits that a test can wait for.
pub(crate) fn short_limits() -> HttpLimits {
    HttpLimits {
        head_timeout: Duration::from_millis(700),
        body_timeout: Duration::from_millis(700),
        write_timeout: Duration::from_secs(2),
        max_body_bytes: 1 << 20,
        ..HttpLimits::default()
    }
}

/// Reads until these bytes have come, and nothing after them.
pub(crate) async fn until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    let reading = async {
        while !read.ends_with(end) {
            let count = stream.read_buf(&mut read).await.unwrap();
            assert_ne!(count, 0, "{:?}", String::from_utf8_lossy(&read));
        }
    };
    timeout(PATIENCE, reading).await.expect("the bytes come");
    read
}
