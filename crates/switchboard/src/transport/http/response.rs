//! A response from our own pool or from the shared stack: status, headers, and a body that is read
//! in parts.

use std::io;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::HeaderName;
use url::Url;

use super::direct::DirectResponse;

/// A response whose body is still to be read.
pub(in crate::transport) struct HttpResponse {
    source: ResponseSource,
    /// The URL after redirects, if there were any.
    pub(in crate::transport) final_url: Option<Box<Url>>,
}

enum ResponseSource {
    Direct(DirectResponse),
    Pooled(Box<reqwest::Response>),
}

/// Why a body could not be read.
pub(in crate::transport) enum BodyError {
    Direct(io::Error),
    Pooled(reqwest::Error),
}

impl HttpResponse {
    pub(in crate::transport) fn status(&self) -> StatusCode {
        match &self.source {
            ResponseSource::Direct(response) => response.head.status,
            ResponseSource::Pooled(response) => response.status(),
        }
    }

    /// The first value of a header.
    pub(in crate::transport) fn header(&self, name: &HeaderName) -> Option<&[u8]> {
        match &self.source {
            ResponseSource::Direct(response) => response.head.header(name),
            ResponseSource::Pooled(response) => response.headers().get(name).map(AsRef::as_ref),
        }
    }

    /// The values of a header that are printable text.
    pub(in crate::transport) fn text_headers(&self, name: &HeaderName) -> Vec<&str> {
        let values: Vec<&[u8]> = match &self.source {
            ResponseSource::Direct(response) => response.head.headers(name).collect(),
            ResponseSource::Pooled(response) => response
                .headers()
                .get_all(name)
                .iter()
                .map(AsRef::as_ref)
                .collect(),
        };
        let is_plain = |value: &&[u8]| value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
        values
            .into_iter()
            .filter(is_plain)
            .filter_map(|value| std::str::from_utf8(value).ok())
            .collect()
    }

    /// The first value of a header, if it is text.
    pub(in crate::transport) fn text_header(&self, name: &HeaderName) -> Option<&str> {
        self.header(name)
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// How much of the body remains, if known.
    pub(super) fn remaining(&self) -> Option<u64> {
        match &self.source {
            ResponseSource::Direct(response) => response.head.framing.remaining(),
            ResponseSource::Pooled(response) => response.content_length(),
        }
    }

    /// As [`chunk`](Self::chunk), if the data was already read. Always `None` for the shared stack.
    pub(super) fn buffered_chunk(&mut self) -> Option<Result<Option<Bytes>, BodyError>> {
        match &mut self.source {
            ResponseSource::Direct(response) => response
                .buffered_chunk()
                .map(|chunk| chunk.map_err(BodyError::Direct)),
            ResponseSource::Pooled(_) => None,
        }
    }

    /// The next part of the body as soon as there is any; `None` at its end. Cancel-safe.
    pub(in crate::transport) async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        match &mut self.source {
            ResponseSource::Direct(response) => response.chunk().await.map_err(BodyError::Direct),
            ResponseSource::Pooled(response) => response.chunk().await.map_err(BodyError::Pooled),
        }
    }
}

impl From<DirectResponse> for HttpResponse {
    fn from(response: DirectResponse) -> Self {
        Self {
            source: ResponseSource::Direct(response),
            final_url: None,
        }
    }
}

impl From<reqwest::Response> for HttpResponse {
    fn from(response: reqwest::Response) -> Self {
        Self {
            source: ResponseSource::Pooled(Box::new(response)),
            final_url: None,
        }
    }
}
