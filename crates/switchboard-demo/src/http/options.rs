//! The options of the HTTP transport.

use std::time::Duration;

/// How long the body of a request may take to come.
pub(super) const BODY_LIMIT: Duration = Duration::from_secs(30);

/// How the edge behaves; the default is what a good server does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// How quick requests are answered.
    pub answers: Answers,
    /// Where questions to a legacy peer are put.
    pub questions: Questions,
    /// What must stand in `Authorization: Bearer …`; anybody may come in when `None`.
    pub token: Option<String>,
    /// Origins of web pages that may come in, besides those of this machine.
    pub origins: Vec<String>,
    /// How often a silent stream says that it is alive.
    pub keep_alive: Duration,
    /// The `retry` of a stream: how long a legacy peer waits before it resumes.
    pub retry: Duration,
    /// The longest body that is taken.
    pub max_body_bytes: usize,
    /// Beyond so many, the session that was silent the longest is forgotten.
    pub max_sessions: usize,
}

/// How quick requests are answered. What takes time is always a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// As one JSON document.
    Json,
    /// As a stream of events.
    Sse,
}

/// Where questions to a legacy peer are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Questions {
    /// On the stream that answers the call, which says whose they are.
    Post,
    /// On the stream that belongs to no call.
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
