//! A peer on every transport that records what it receives, byte for byte, and sends scripted
//! messages.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard::config::Environment;
use switchboard::session::Era;
use switchboard::transport::Connector;
use switchboard::transport::http::{HttpConnector, HttpStack};
use switchboard::transport::sse::SseConnector;
use switchboard::transport::stdio::StdioConnector;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::Notify;

use crate::example::Example;

mod http;

/// The longest message, in either direction.
const MAX_BYTES: usize = 1 << 20;

/// The transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Stdio,
    /// Streamable HTTP, each response a JSON document.
    HttpJson,
    /// Streamable HTTP, each response an event stream.
    HttpEvents,
    /// HTTP+SSE, the transport of 2024-11-05.
    Sse,
}

impl Wire {
    pub const ALL: [Self; 4] = [Self::Stdio, Self::HttpJson, Self::HttpEvents, Self::Sse];

    /// Whether the server can send this at all: a JSON document is only the response, and a stream
    /// responds to the one request that opened it, so that it cannot carry a batch of responses.
    pub fn carries(self, example: &Example) -> bool {
        match self {
            Self::Stdio | Self::Sse => true,
            Self::HttpJson => example.is_answer(),
            Self::HttpEvents => example.kind != "JSONRPCBatchResponse",
        }
    }

    /// Whether the transport has this era.
    pub fn has(self, era: Era) -> bool {
        self != Self::Sse || era == Era::Legacy
    }
}

/// One connection and its peer.
pub struct Peer {
    pub connector: Box<dyn Connector>,
    pub script: Arc<Script>,
}

impl Peer {
    pub async fn start(wire: Wire, corpus: &[Example]) -> Self {
        let script = Arc::new(Script {
            corpus: corpus.to_vec(),
            received: Mutex::default(),
            arrived: Notify::new(),
        });
        let connector: Box<dyn Connector> = match wire {
            Wire::Stdio => Box::new(stdio(script.clone())),
            Wire::HttpJson | Wire::HttpEvents => Box::new(HttpConnector::new(
                stack(),
                http::serve(wire, script.clone()).await,
            )),
            Wire::Sse => Box::new(SseConnector::new(
                stack(),
                http::serve(wire, script.clone()).await,
            )),
        };
        Self { connector, script }
    }
}

/// The script of the peer: the corpus, and what it has received.
pub struct Script {
    corpus: Vec<Example>,
    received: Mutex<Vec<String>>,
    /// Notified with each message.
    arrived: Notify,
}

/// The reaction to a message: messages before the response, and the response.
#[derive(Default)]
pub struct Reaction {
    pub before: Vec<String>,
    pub answer: Option<String>,
}

impl Script {
    /// The messages since the last call.
    pub fn take_received(&self) -> Vec<String> {
        std::mem::take(&mut self.received.lock().unwrap())
    }

    /// The next message.
    pub async fn received(&self) -> String {
        loop {
            let first = {
                let mut received = self.received.lock().unwrap();
                if received.is_empty() {
                    None
                } else {
                    Some(received.remove(0))
                }
            };
            match first {
                Some(first) => return first,
                None => self.arrived.notified().await,
            }
        }
    }

    /// `corpus/say` and `prompts/get` name the example to send, by its index.
    pub fn react(&self, body: &str) -> Reaction {
        #[derive(Deserialize)]
        struct Message<'a> {
            #[serde(borrow, default)]
            id: Option<&'a RawValue>,
            #[serde(default)]
            method: String,
            #[serde(default)]
            params: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Place {
            corpus_index: usize,
        }
        #[derive(Deserialize)]
        struct Arguments {
            arguments: Place,
        }
        self.received.lock().unwrap().push(body.to_owned());
        self.arrived.notify_one();
        let message: Message<'_> = serde_json::from_str(body).unwrap();
        let (Some(id), false) = (message.id, message.method.is_empty()) else {
            return Reaction::default();
        };
        let answer = |result: &str| {
            Some(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
                id.get()
            ))
        };
        let params = message.params.map_or("{}", RawValue::get);
        // A handshake of a session, not one of the corpus.
        let is_ours = params.contains(r#""name":"switchboard""#);
        let place = match message.method.as_str() {
            "corpus/say" => serde_json::from_str::<Place>(params).ok(),
            "prompts/get" => serde_json::from_str::<Arguments>(params)
                .ok()
                .map(|params| params.arguments),
            _ => None,
        };
        match (
            message.method.as_str(),
            place.map(|place| &self.corpus[place.corpus_index]),
        ) {
            (_, Some(example)) if example.is_answer() => Reaction {
                before: Vec::new(),
                answer: Some(example.with_id(id.get().parse().unwrap())),
            },
            (_, Some(example)) => Reaction {
                before: vec![example.text.clone()],
                answer: answer("{}"),
            },
            ("initialize", None) if is_ours => {
                let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"corpus","version":"1"}}"#;
                Reaction {
                    before: Vec::new(),
                    answer: answer(hello),
                }
            }
            ("server/discover", None) if is_ours => {
                let hello = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}"#;
                Reaction {
                    before: Vec::new(),
                    answer: answer(hello),
                }
            }
            _ => Reaction {
                before: Vec::new(),
                answer: answer("{}"),
            },
        }
    }
}

fn stack() -> HttpStack {
    HttpStack::new(&Environment::new(std::iter::empty::<(String, String)>())).unwrap()
}

/// One line for each message; ends with the connection.
fn stdio(script: Arc<Script>) -> StdioConnector {
    let (to_peer, from_host) = pipe::pipe().unwrap();
    let (mut to_host, from_peer) = pipe::pipe().unwrap();
    tokio::spawn(async move {
        let mut lines = BufReader::new(from_host).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Reaction { before, answer } = script.react(&line);
            for message in before.into_iter().chain(answer) {
                to_host
                    .write_all(format!("{message}\n").as_bytes())
                    .await
                    .unwrap();
            }
        }
    });
    StdioConnector::new(to_peer, from_peer, MAX_BYTES)
}
