//! The state of a legacy session, and the headers that its messages carry.

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue};

use super::endpoint::McpEndpoint;
use super::headers::{PROTOCOL_VERSION, SESSION_ID};

/// A legacy session. Replaced as a whole when it is renewed.
#[derive(Clone)]
pub(super) struct LegacyHttpSession {
    /// The session id, if the server assigned one.
    pub(super) id: Option<HeaderValue>,
    pub(super) version: Option<HeaderValue>,
    /// The headers of every legacy POST, including id and version.
    pub(super) headers: HeaderMap,
    /// To renew the session: the id and body of `initialize`, and the body of
    /// `notifications/initialized`.
    pub(super) initialize: Option<(u64, Bytes)>,
    pub(super) initialized: Option<Bytes>,
}

impl LegacyHttpSession {
    /// The state before the handshake.
    pub(super) fn new(endpoint: &McpEndpoint) -> Self {
        Self {
            id: None,
            version: None,
            headers: endpoint.post_headers.clone(),
            initialize: None,
            initialized: None,
        }
    }

    /// Adds the session's headers to these.
    pub(super) fn add_headers(&self, headers: &HeaderMap) -> HeaderMap {
        let mut headers = headers.clone();
        if let Some(id) = &self.id {
            headers.insert(SESSION_ID, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(PROTOCOL_VERSION, version.clone());
        }
        headers
    }
}
