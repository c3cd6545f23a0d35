//! The options of the HTTP transport.

use std::time::Duration;

/// How long the body of a request may take to arrive.
pub(super) const BODY_LIMIT: Duration = Duration::from_secs(30);

/// How the transport behaves; the default is a well-behaved server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// How quick requests are answered.
    pub answers: Answers,
    /// Which stream carries questions to a legacy peer.
    pub questions: Questions,
    /// The token that `Authorization: Bearer …` must have; `None` admits everybody.
    pub token: Option<String>,
    /// Origins of web pages that are admitted, besides those of this machine.
    pub origins: Vec<String>,
    /// How often an idle stream sends a keep-alive.
    pub keep_alive: Duration,
    /// The `retry` of a stream: how long a legacy peer waits before it resumes.
    pub retry: Duration,
    /// The largest body that is accepted, in bytes.
    pub max_body_bytes: usize,
    /// The most sessions; beyond it, the least recently used one is dropped.
    pub max_sessions: usize,
}

/// How quick requests are answered. Slow ones always get a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// As one JSON document.
    Json,
    /// As a stream of events.
    Sse,
}

/// Which stream carries questions to a legacy peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Questions {
    /// The stream that answers the call, which shows which call a question belongs to.
    Post,
    /// The shared stream, which belongs to no call.
    Get,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            answers: Answers::Json,
            questions: Questions::Post,
            token: None,
            origins: Vec::new(),
            keep_alive: Duration::from_secs(15),
            retry: Duration::from_millis(500),
            max_body_bytes: 64 << 20,
            max_sessions: 1024,
        }
    }
}
