//! The event stream of one connection: opened with a GET; its first event names the URL to post
//! messages to, the others carry messages.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use tokio::time::timeout;
use url::Url;

use crate::transport::http::endpoint::McpEndpoint;
use crate::transport::http::request::HttpRequest;
use crate::transport::http::response::HttpResponse;
use crate::transport::http::standalone_stream::deliver;
use crate::transport::http::{connection_fault, status_fault};
use crate::transport::read_limit::{PIECE_BYTES, Pacer, ReadLimit};
use crate::transport::{Inbound, TransportFault};
use crate::untrusted::quoted;
use crate::wire::events::{EventFrames, ServerEvent};

/// The deadline for opening the stream and receiving its first event.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);

/// An open stream.
pub(super) struct SseStream<'a> {
    response: HttpResponse,
    frames: EventFrames,
    pacer: Pacer<'a>,
    /// Data that was read and not handled yet.
    unhandled: Bytes,
    address: String,
    /// The URL to post messages to.
    pub(super) messages: Url,
}

impl<'a> SseStream<'a> {
    /// Opens the stream and waits for its `endpoint` event. Messages right after it go to
    /// `inbound`.
    pub(super) async fn open(
        endpoint: &McpEndpoint,
        inbound: &dyn Inbound,
        limit: &'a ReadLimit,
    ) -> Result<Self, TransportFault> {
        match timeout(OPEN_DEADLINE, Self::begin(endpoint, inbound, limit)).await {
            Ok(opened) => opened,
            Err(_) => Err(TransportFault::Lost(format!(
                "no `endpoint` event from {} within {} s",
                endpoint.address,
                OPEN_DEADLINE.as_secs()
            ))),
        }
    }

    async fn begin(
        endpoint: &McpEndpoint,
        inbound: &dyn Inbound,
        limit: &'a ReadLimit,
    ) -> Result<Self, TransportFault> {
        let response = endpoint
            .send(HttpRequest::get(&endpoint.url, &endpoint.get_headers))
            .await?;
        if !response.status().is_success() {
            return Err(status_fault::read(response, None).await);
        }
        let kind = response
            .header(&CONTENT_TYPE)
            .map(|kind| String::from_utf8_lossy(kind).into_owned());
        let kind = kind.unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("text/event-stream") {
            return Err(status_fault::wrong_content_type(response, essence).await);
        }
        let frames = EventFrames::new(endpoint.max_message_bytes);
        let base = response
            .final_url
            .as_deref()
            .unwrap_or(&endpoint.url)
            .clone();
        let address = endpoint.address.clone();
        let mut stream = Self {
            response,
            frames,
            pacer: Pacer::new(limit),
            unhandled: Bytes::new(),
            address,
            messages: base,
        };
        let mut messages = None;
        loop {
            match stream.piece().await {
                Ok(Some(piece)) => stream.pacer.push(
                    &piece,
                    &mut stream.frames,
                    inbound,
                    &mut |event| match event {
                        ServerEvent::Event {
                            name: "endpoint",
                            data,
                            ..
                        } if messages.is_none() => {
                            messages = Some(destination(&stream.messages, data.as_ref()));
                            0
                        }
                        event => deliver(event, inbound),
                    },
                ),
                Ok(None) => {
                    let fact = format!(
                        "{} ended the stream before its `endpoint` event",
                        endpoint.address
                    );
                    return Err(TransportFault::Lost(fact));
                }
                Err(fault) => return Err(fault),
            }
            if let Some(messages) = messages {
                stream.messages = messages?;
                return Ok(stream);
            }
        }
    }

    /// Reads and passes each message to `inbound`; returns the reason when the stream has ended.
    /// Cancel-safe.
    pub(super) async fn read(&mut self, inbound: &dyn Inbound) -> String {
        loop {
            match self.piece().await {
                Ok(Some(piece)) => {
                    self.pacer
                        .push(&piece, &mut self.frames, inbound, &mut |event| {
                            deliver(event, inbound)
                        })
                }
                Ok(None) => return format!("{} ended the stream", self.address),
                Err(fault) => return fault.to_string(),
            }
        }
    }

    /// The next part to handle, within the read limit; `None` at the end. Cancel-safe.
    async fn piece(&mut self) -> Result<Option<Bytes>, TransportFault> {
        if let Some(pause) = self.pacer.pause() {
            pause.await;
        }
        if self.unhandled.is_empty() {
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.unhandled = chunk,
                Ok(None) => return Ok(None),
                Err(error) => return Err(connection_fault::body_fault(&error, &self.address)),
            }
        }
        Ok(Some(
            self.unhandled
                .split_to(self.unhandled.len().min(PIECE_BYTES)),
        ))
    }
}

/// The URL to post messages to. It must be within the origin of the stream, since the server's
/// credentials are sent there.
fn destination(base: &Url, data: &[u8]) -> Result<Url, TransportFault> {
    let refused = |fact: String| {
        TransportFault::NotSent(format!(
            "its `endpoint` event {fact}; nothing was sent there"
        ))
    };
    let text = String::from_utf8_lossy(data);
    let text = text.trim();
    let mut url = base
        .join(text)
        .map_err(|_| refused(format!("is not a valid URL: {}", quoted(text))))?;
    if url.origin() != base.origin() {
        return Err(refused(format!(
            "names another origin, {}",
            quoted(&url.origin().ascii_serialization())
        )));
    }
    // These cannot fail on a URL of this origin, which has a host.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// T22: a server cannot redirect messages, and the token in their headers, to another origin.
    #[test]
    fn t22_messages_are_posted_only_within_the_origin_of_the_stream() {
        let base = Url::parse("https://example.com/a/sse?key=1").unwrap();
        let check = |data: &str, expected: Result<&str, &str>| {
            let got = destination(&base, data.as_bytes()).map(String::from);
            let expected = expected
                .map(str::to_owned)
                .map_err(|fact| TransportFault::NotSent(fact.to_owned()));
            assert_eq!(got, expected, "{data}");
        };
        check(
            "/messages?sessionId=7",
            Ok("https://example.com/messages?sessionId=7"),
        );
        check(" messages\n", Ok("https://example.com/a/messages"));
        check("?s=1", Ok("https://example.com/a/sse?s=1"));
        check(
            "https://user:word@example.com/m#x",
            Ok("https://example.com/m"),
        );
        let other = |origin: &str| {
            format!(
                "its `endpoint` event names another origin, \"{origin}\"; nothing was sent there"
            )
        };
        check(
            "https://evil.example/m",
            Err(&other("https://evil.example")),
        );
        check("//evil.example/m", Err(&other("https://evil.example")));
        check("http://example.com/m", Err(&other("http://example.com")));
        check(
            "https://example.com:444/m",
            Err(&other("https://example.com:444")),
        );
        check("data:text/plain,x", Err(&other("null")));
        check(
            "https://[",
            Err("its `endpoint` event is not a valid URL: \"https://[\"; nothing was sent there"),
        );
    }
}
