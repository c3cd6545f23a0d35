//! The HTTP transport in this process, and a client of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test program uses its own part

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use switchboard_demo::http::HttpOptions;
use switchboard_demo::options::{Eras, Options};
use switchboard_demo::{Demo, HttpEdge};
use tokio::net::TcpListener;

pub const MODERN: &str = "2026-07-28";

/// Long enough for a busy machine; a test that gets this far has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server and a client of it.
pub struct Web {
    pub edge: HttpEdge,
    pub pool: reqwest::Client,
    pub session: Option<String>,
}

/// A whole response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

/// One event of a stream.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    pub event: Option<String>,
    pub retry: Option<u64>,
    pub data: Option<String>,
    /// A comment line.
    pub comment: bool,
}

/// A streaming response.
pub struct Events {
    response: Response,
    buffer: String,
}

impl Web {
    pub async fn start(http: HttpOptions) -> Self {
        Self::with(Eras::Both, http).await
    }

    pub async fn with(eras: Eras, http: HttpOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let demo = Demo::new(Options {
            eras,
            ..Options::default()
        });
        let edge = demo.serve_http(listener, http).unwrap();
        // Needed to build a pool, though no request here is encrypted. Fails if it is installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            edge,
            pool: reqwest::Client::builder().no_proxy().build().unwrap(),
            session: None,
        }
    }

    /// The same with a legacy session begun.
    pub async fn legacy(version: &str, http: HttpOptions) -> Self {
        let mut web = Self::start(http).await;
        web.begin(version).await;
        web
    }

    pub async fn begin(&mut self, version: &str) -> String {
        let reply = self.post(&[], &initialize(version)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let session = reply.header("mcp-session-id").to_owned();
        self.session = Some(session.clone());
        session
    }

    /// Any request; the usual headers of a POST come first, the session's where there is one.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Response {
        let mut all = HeaderMap::new();
        let mut set = |name: &str, value: &str| {
            let name: reqwest::header::HeaderName = name.parse().unwrap();
            all.remove(&name);
            if !value.is_empty() {
                all.insert(name, value.parse().unwrap());
            }
        };
        set("accept", "application/json, text/event-stream");
        if body.is_some() {
            set("content-type", "application/json");
        }
        if let Some(session) = &self.session {
            set("mcp-session-id", session);
        }
        headers.iter().for_each(|(name, value)| set(name, value));
        let request = self
            .pool
            .request(method, url)
            .headers(all)
            .body(body.unwrap_or_default());
        tokio::time::timeout(PATIENCE, request.send())
            .await
            .unwrap()
            .unwrap()
    }

    pub async fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        Reply::read(
            self.send(
                Method::POST,
                &self.edge.url(),
                headers,
                Some(message.to_string()),
            )
            .await,
        )
        .await
    }

    pub async fn post_stream(&self, headers: &[(&str, &str)], message: &Value) -> Events {
        Events::of(
            self.send(
                Method::POST,
                &self.edge.url(),
                headers,
                Some(message.to_string()),
            )
            .await,
        )
    }

    pub async fn get_stream(&self, headers: &[(&str, &str)]) -> Events {
        Events::of(
            self.send(Method::GET, &self.edge.url(), headers, None)
                .await,
        )
    }

    pub async fn get(&self, headers: &[(&str, &str)]) -> Reply {
        Reply::read(
            self.send(Method::GET, &self.edge.url(), headers, None)
                .await,
        )
        .await
    }

    pub async fn delete(&self) -> Reply {
        Reply::read(self.send(Method::DELETE, &self.edge.url(), &[], None).await).await
    }

    /// A modern request with all headers right, except those that `headers` names.
    pub async fn modern(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        let all = modern_headers(headers, message);
        let all: Vec<_> = all
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        self.post(&all, message).await
    }

    pub async fn modern_stream(&self, message: &Value) -> Events {
        let all = modern_headers(&[], message);
        let all: Vec<_> = all
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        self.post_stream(&all, message).await
    }
}

impl Reply {
    pub async fn read(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self {
            status,
            headers,
            text: tokio::time::timeout(PATIENCE, response.text())
                .await
                .unwrap()
                .unwrap(),
        }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status, error code and whose answer it is.
    pub fn refusal(&self) -> (u16, i64, Value) {
        let reply = self.json();
        (
            self.status,
            reply["error"]["code"].as_i64().unwrap_or(0),
            reply["id"].clone(),
        )
    }
}

impl Events {
    pub fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self {
            response,
            buffer: String::new(),
        }
    }

    /// The next event or comment; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let event = Event::parse(block);
                self.buffer = rest.to_owned();
                return Some(event);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk())
                .await
                .unwrap()
                .unwrap()?;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next message and its event's id.
    pub async fn message(&mut self) -> (Option<String>, Value) {
        loop {
            let event = self.next().await.expect("a message");
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                assert_eq!(event.event.as_deref(), Some("message"));
                return (event.id, serde_json::from_str(&data).unwrap());
            }
        }
    }

    /// Whether the stream has ended without further events.
    pub async fn has_ended(&mut self) -> bool {
        self.next().await.is_none()
    }
}

impl Event {
    fn parse(block: &str) -> Self {
        let mut event = Self::default();
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap();
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "id" => event.id = Some(value),
                "event" => event.event = Some(value),
                "retry" => event.retry = Some(value.parse().unwrap()),
                "data" => event.data = Some(value),
                "" => event.comment = true,
                field => panic!("unknown field {field}"),
            }
        }
        event
    }
}

pub fn initialize(version: &str) -> Value {
    let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    let info = json!({"name": "tester", "version": "1"});
    request(
        json!("init"),
        "initialize",
        json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}),
    )
}

pub fn request(id: Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(
        json!(id),
        "tools/call",
        json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}}),
    )
}

/// A modern request with its `_meta`.
pub fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    request(json!(id), method, params)
}

fn modern_headers(headers: &[(&str, &str)], message: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let name = if message["method"] == "resources/read" {
        &message["params"]["uri"]
    } else {
        &message["params"]["name"]
    };
    let mut all = vec![
        ("mcp-protocol-version".to_owned(), MODERN.to_owned()),
        ("mcp-method".to_owned(), text(&message["method"])),
        ("mcp-name".to_owned(), text(name)),
    ];
    all.extend(
        headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    all
}
