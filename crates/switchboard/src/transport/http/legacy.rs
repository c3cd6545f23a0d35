//! What a legacy session is made of, and what each of its messages says of it in headers.

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue};

use super::endpoint::Endpoint;
use super::headers::{PROTOCOL_VERSION, SESSION_ID};

/// A legacy session. Replaced as a whole when it is begun anew.
#[derive(Clone)]
pub(super) struct Legacy {
    /// The id that the server gave, if it gave one.
    pub(super) id: Option<HeaderValue>,
    pub(super) version: Option<HeaderValue>,
    /// The headers of every legacy POST, with both of these.
    pub(super) headers: HeaderMap,
    /// Our own words, to begin anew with: the id of `initialize`, its bytes, and those of
    /// `notifications/initialized`.
    pub(super) initialize: Option<(u64, Bytes)>,
    pub(super) initialized: Option<Bytes>,
}

impl Legacy {
    /// Nothing is agreed yet.
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        Self {
            id: None,
            version: None,
            headers: endpoint.posting.clone(),
            initialize: None,
            initialized: None,
        }
    }

    /// These headers, and what each message of the session says of it.
    pub(super) fn beside(&self, headers: &HeaderMap) -> HeaderMap {
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
