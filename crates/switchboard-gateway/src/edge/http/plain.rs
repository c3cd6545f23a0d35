//! Plain requests: POSTs to `/mcp` that state the length of their body.
//!
//! Nearly all requests are plain. A connection reads the head, which mostly is that of its last
//! request, then the body, and writes the response, without hyper. The first request that is unusual
//! in any way, or would be refused, goes to hyper with all bytes that were read of it.
//!
//! A call from HTTP to a stdio server took 45,900 instructions so, and about 60,000 through hyper
//! (`bench/baseline/gateway_instructions.py`).

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use hyper::Response;
use hyper::body::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connection::{BodyFault, ClientStream, HttpExchange, ServedConnection, ServedTransport};
use super::{HttpBody, HttpState, post, response};
use crate::refusal::RefusalReason;
use head::{NextHead, PlainHead};
use response_head::ResponseHeads;

mod head;
mod response_head;

/// How much is read at once.
const READ_BYTES: usize = 8 << 10;

/// A document, or a chunk, of at most this size is copied, so that one piece is written.
const MAX_COPIED_BYTES: usize = 16 << 10;

/// Serves plain requests. Returns what was read of the first request that is not plain; `None` once
/// the connection has ended.
pub(super) async fn serve(
    state: &Arc<HttpState>,
    connection: &ServedConnection,
    stream: &mut ClientStream,
) -> Option<BytesMut> {
    let mut plain = PlainConnection {
        state,
        connection,
        stream,
        buffer: BytesMut::new(),
        heads: ResponseHeads::default(),
        out: Vec::new(),
    };
    let mut head = PlainHead::default();
    loop {
        let is_admissible = match plain.read_head(&mut head).await? {
            NextHead::Plain => is_admissible(state, &head),
            next => next == NextHead::Repeated,
        };
        let exchange = is_admissible.then(|| admit(state, connection, &head));
        let Some(mut exchange) = exchange.flatten() else {
            return Some(plain.buffer);
        };
        let was_read = plain.buffer.len() >= head.length() + head.body_length;
        let body = match plain.read_body(&head).await {
            Ok(body) => body,
            Err(fault) => {
                // What follows on the connection is the rest of the body.
                let refusal = exchange.refuse_body(fault);
                let _ = plain.respond(refusal, true).await;
                return None;
            }
        };
        if !was_read {
            exchange.arrived = Instant::now();
        }
        let handling = post::handle(&exchange, body);
        let mut response = plain.unless_disconnected(handling).await?;
        if let Some(page) = state.admission.allowed_page(&head.headers) {
            response = response::readable_by(response, page);
        }
        let is_last = connection.is_closing.load(Ordering::Relaxed);
        plain.respond(response, is_last).await.ok()?;
        if is_last {
            return None;
        }
    }
}

/// Whether the head alone is no reason to refuse the request. The same head need not be checked again.
fn is_admissible(state: &HttpState, head: &PlainHead) -> bool {
    let transport = ServedTransport::of_path(&head.path).map(|(transport, _)| transport);
    transport == Some(ServedTransport::Streamable)
        && state.admission.check_source(&head.headers).is_ok()
        && post::check_content(&head.headers).is_ok()
}

/// The request, if it is from a known client and not too large.
fn admit<'a>(
    state: &'a Arc<HttpState>,
    connection: &'a ServedConnection,
    head: &'a PlainHead,
) -> Option<HttpExchange<'a>> {
    let limits = &state.limits;
    let is_too_large = head.length() > limits.max_head_bytes
        || head.header_count() > limits.max_headers
        || head.body_length > limits.max_body_bytes;
    if is_too_large {
        return None;
    }
    let (_, name) = ServedTransport::of_path(&head.path)?;
    let (head_number, arrived) = (Some(head.number), Instant::now());
    let authenticated = connection.authenticate(state, &head.headers, head_number, arrived);
    Some(HttpExchange {
        state,
        connection,
        principal: authenticated.ok()?,
        selection: state.selection(name)?,
        headers: &head.headers,
        head_number,
        path: &head.path,
        arrived,
    })
}

/// A connection that has sent only plain requests so far.
struct PlainConnection<'a> {
    state: &'a Arc<HttpState>,
    connection: &'a ServedConnection,
    stream: &'a mut ClientStream,
    /// What was read and is not handled yet.
    buffer: BytesMut,
    heads: ResponseHeads,
    /// What is written next.
    out: Vec<u8>,
}

impl PlainConnection<'_> {
    /// Reads the head of the next request; `None` if there is none. The head and what follows it stay
    /// in the buffer.
    async fn read_head(&mut self, head: &mut PlainHead) -> Option<NextHead> {
        let (state, connection) = (self.state, self.connection);
        let mut is_idle = true;
        let reading = async {
            loop {
                is_idle = self.buffer.is_empty();
                match head.read_next(&self.buffer) {
                    NextHead::Incomplete => self.read_more().await?,
                    next => return Some(next),
                }
            }
        };
        let read = connection.timer.timeout(state.limits.head_timeout, reading);
        let read = read.await;
        if read.is_none() && !is_idle {
            state.refused(RefusalReason::TooSlow, connection.peer, None, "");
        }
        read.flatten()
    }

    /// Reads what comes of a head; `None` at the end of the connection, or if the edge closes: no request
    /// is lost that a client could take for begun.
    async fn read_more(&mut self) -> Option<()> {
        self.buffer.reserve(READ_BYTES);
        let mut reading = pin!(self.stream.read_buf(&mut self.buffer));
        poll_fn(|context| match reading.as_mut().poll(context) {
            Poll::Ready(Ok(1..)) => Poll::Ready(Some(())),
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending if self.connection.is_closing.load(Ordering::Relaxed) => {
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Takes head and body from the buffer, and returns the body.
    async fn read_body(&mut self, head: &PlainHead) -> Result<Bytes, BodyFault> {
        self.buffer.advance(head.length());
        let length = head.body_length;
        if self.buffer.len() >= length {
            // Copied: as a part of the buffer it would keep the buffer from being reused.
            let body = Bytes::copy_from_slice(&self.buffer[..length]);
            self.buffer.advance(length);
            return Ok(body);
        }
        // Not into the buffer, which would keep the memory for the largest body of the connection.
        let mut body = std::mem::take(&mut self.buffer);
        let connection = self.connection;
        let mut reading = pin!(async {
            while body.len() < length {
                let rest = (length - body.len()) as u64;
                let read = (&mut *self.stream).take(rest).read_buf(&mut body).await;
                if !matches!(read, Ok(1..)) {
                    return Err(BodyFault::Broken);
                }
            }
            Ok(body.freeze())
        });
        // No request is lost that a client could take for begun.
        let reading = poll_fn(|context| match reading.as_mut().poll(context) {
            Poll::Pending if connection.is_closing.load(Ordering::Relaxed) => {
                Poll::Ready(Err(BodyFault::Closing))
            }
            read => read,
        });
        let timeout = self.state.limits.body_timeout;
        let read = connection.timer.timeout(timeout, reading).await;
        read.unwrap_or(Err(BodyFault::TooSlow))
    }

    /// The output of `work`; `None` if the client disconnects before.
    async fn unless_disconnected<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_disconnected(context).map(|()| None),
        })
        .await
    }

    /// Completes when the client disconnects. A client that sends its next request early is read from
    /// only until a part of that request is there.
    fn poll_disconnected(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.buffer.is_empty() {
            return Poll::Pending;
        }
        self.buffer.reserve(READ_BYTES);
        match pin!(self.stream.read_buf(&mut self.buffer)).poll(context) {
            Poll::Ready(Ok(1..)) | Poll::Pending => Poll::Pending,
            Poll::Ready(_) => Poll::Ready(()),
        }
    }

    /// Writes a response. The last one says so.
    async fn respond(&mut self, response: Response<HttpBody>, is_last: bool) -> io::Result<()> {
        let (parts, body) = response.into_parts();
        self.out.clear();
        let length = body.size_hint().exact();
        let content = (body.content_type(), length);
        self.heads.write(&mut self.out, &parts, content, is_last);
        match body.into_whole() {
            Ok(document) => self.write_with(document, b"").await,
            Err(pieces) => self.respond_in_pieces(pieces).await,
        }
    }

    /// Writes the pieces of a body as they come.
    async fn respond_in_pieces(&mut self, mut body: HttpBody) -> io::Result<()> {
        self.stream.write_all(&self.out).await?;
        loop {
            let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let next = self.unless_disconnected(next).await;
            let next = next.ok_or(io::ErrorKind::ConnectionReset)?;
            self.out.clear();
            let Some(Ok(frame)) = next else {
                return self.stream.write_all(b"0\r\n\r\n").await;
            };
            // An empty chunk would end the body.
            if let Ok(piece) = frame.into_data()
                && !piece.is_empty()
            {
                response_head::push_chunk_size(&mut self.out, piece.len());
                self.write_with(piece, b"\r\n").await?;
            }
        }
    }

    /// Writes what is written next, then `piece`, then `end`. A large piece is not copied: the
    /// connection would keep the memory for it.
    async fn write_with(&mut self, piece: Bytes, end: &'static [u8]) -> io::Result<()> {
        if piece.len() <= MAX_COPIED_BYTES {
            self.out.extend_from_slice(&piece);
            self.out.extend_from_slice(end);
            return self.stream.write_all(&self.out).await;
        }
        let mut pieces = Buf::chain(&self.out[..], piece).chain(end);
        self.stream.write_all_buf(&mut pieces).await
    }
}
