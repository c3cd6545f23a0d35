//! A response, over a connection of our own or from the shared stack: status, headers, and a body
//! that comes piece by piece.

use std::io;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::HeaderName;
use url::Url;

use super::direct::Answer;

/// A response whose body is still to be read.
pub(in crate::transport) struct Response {
    came: Came,
    /// Where redirects led, if there were any.
    pub(in crate::transport) moved: Option<Box<Url>>,
}

enum Came {
    Direct(Answer),
    Stack(Box<reqwest::Response>),
}

/// A body that ended too soon, or cannot be read.
pub(in crate::transport) enum Broken {
    Direct(io::Error),
    Stack(reqwest::Error),
}

impl Response {
    pub(in crate::transport) fn status(&self) -> StatusCode {
        match &self.came {
            Came::Direct(answer) => answer.head.status,
            Came::Stack(response) => response.status(),
        }
    }

    /// The first value of a header.
    pub(in crate::transport) fn header(&self, name: &HeaderName) -> Option<&[u8]> {
        match &self.came {
            Came::Direct(answer) => answer.head.header(name),
            Came::Stack(response) => response.headers().get(name).map(AsRef::as_ref),
        }
    }

    /// The values of a header that are text.
    pub(in crate::transport) fn texts(&self, name: &HeaderName) -> Vec<&str> {
        let values: Vec<&[u8]> = match &self.came {
            Came::Direct(answer) => answer.head.headers(name).collect(),
            Came::Stack(response) => response
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
    pub(in crate::transport) fn text(&self, name: &HeaderName) -> Option<&str> {
        self.header(name)
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// How much of the body is to come, where that was said.
    pub(super) fn left(&self) -> Option<u64> {
        match &self.came {
            Came::Direct(answer) => answer.head.framing.left(),
            Came::Stack(response) => response.content_length(),
        }
    }

    /// The same as [`chunk`](Self::chunk), if it need not be waited for and anybody knows.
    pub(super) fn at_hand(&mut self) -> Option<Result<Option<Bytes>, Broken>> {
        match &mut self.came {
            Came::Direct(answer) => answer.at_hand().map(|chunk| chunk.map_err(Broken::Direct)),
            Came::Stack(_) => None,
        }
    }

    /// The next piece of the body, as soon as there is any; `None` at its end. Dropping this loses
    /// nothing.
    pub(in crate::transport) async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        match &mut self.came {
            Came::Direct(answer) => answer.chunk().await.map_err(Broken::Direct),
            Came::Stack(response) => response.chunk().await.map_err(Broken::Stack),
        }
    }
}

impl From<Answer> for Response {
    fn from(answer: Answer) -> Self {
        Self {
            came: Came::Direct(answer),
            moved: None,
        }
    }
}

impl From<reqwest::Response> for Response {
    fn from(response: reqwest::Response) -> Self {
        Self {
            came: Came::Stack(Box::new(response)),
            moved: None,
        }
    }
}
