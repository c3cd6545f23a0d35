//! Messages as server-sent events, and streams that can be resumed.
//!
//! A [`Stream`] numbers its events and stores the last ones; a [`Reader`] is one connection that
//! carries it. Resuming creates a new reader, and the old one ends.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::StatusCode;
use hyper::body::{Body, Frame};
use hyper::header::{self, HeaderValue};
use tokio::sync::watch;

use super::{Response, respond_with_body};
use crate::outgoing::{OutgoingBuffer, OutgoingItem};

/// How much of a resumable stream is stored, in addition to the last event.
const KEPT_BYTES: usize = 256 << 10;

/// Before each event that carries a message.
const EVENT: &[u8] = b"event: message\n";

/// A response with complete messages, each ended by a newline, as events.
pub(super) fn respond_with_whole(messages: &[u8]) -> Response {
    respond_with(Either::Left(Full::new(whole(messages).into())))
}

fn respond_with(body: Either<Full<Bytes>, EventBody>) -> Response {
    let mut response = respond_with_body(StatusCode::OK, "text/event-stream", body);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies would hold events back otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn whole(messages: &[u8]) -> Vec<u8> {
    let mut events = Vec::with_capacity(messages.len() + 64);
    for message in lines(messages) {
        append(&mut events, None, message);
    }
    events
}

fn lines(messages: &[u8]) -> impl Iterator<Item = &[u8]> {
    messages
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .filter(|line| !line.is_empty())
}

fn append(events: &mut Vec<u8>, id: Option<(u64, u64)>, message: &[u8]) {
    if let Some((stream, number)) = id {
        events.extend_from_slice(format!("id: {stream}-{number}\n").as_bytes());
    }
    events.extend_from_slice(EVENT);
    events.extend_from_slice(b"data: ");
    events.extend_from_slice(message);
    events.extend_from_slice(b"\n\n");
}

/// The messages to one peer, in order.
#[derive(Debug)]
pub(super) struct Stream {
    /// Its name in event ids; `None` for one that cannot be resumed.
    number: Option<u64>,
    outlet: OutgoingBuffer,
    log: Mutex<Log>,
    /// Incremented for each new reader; the reader before it ends.
    turn: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Log {
    /// How many events there were.
    count: u64,
    kept: VecDeque<(u64, Bytes)>,
    kept_bytes: usize,
}

impl Stream {
    pub(super) fn resumable(number: u64, outlet: OutgoingBuffer) -> Arc<Self> {
        Arc::new(Self {
            number: Some(number),
            outlet,
            log: Mutex::default(),
            turn: watch::Sender::new(0),
        })
    }

    pub(super) fn plain(outlet: OutgoingBuffer) -> Arc<Self> {
        Arc::new(Self {
            number: None,
            outlet,
            log: Mutex::default(),
            turn: watch::Sender::new(0),
        })
    }

    /// A connection that carries the stream from now on; the one before it ends. It begins with
    /// `first`, then with what came after the event `after`, where one is given.
    pub(super) fn read(
        self: &Arc<Self>,
        mut first: Vec<u8>,
        after: Option<u64>,
        keep_alive: Duration,
    ) -> Reader {
        let mut seen = 0;
        self.turn.send_modify(|turn| {
            *turn += 1;
            seen = *turn;
        });
        if let Some(after) = after {
            let log = self.log();
            log.kept
                .iter()
                .filter(|(number, _)| *number > after)
                .for_each(|(_, event)| first.extend_from_slice(event));
        }
        let mut turn = self.turn.subscribe();
        turn.mark_unchanged();
        Reader {
            stream: self.clone(),
            seen,
            turn,
            first,
            keep_alive,
            closing: None,
            on_end: None,
        }
    }

    /// The event with the id to resume from and the retry delay.
    pub(super) fn priming(&self, retry: Duration) -> Vec<u8> {
        let Some(number) = self.number else {
            return Vec::new();
        };
        format!(
            "id: {number}-{}\nretry: {}\ndata:\n\n",
            self.log().count,
            retry.as_millis()
        )
        .into_bytes()
    }

    /// Drops the connection and keeps the stream.
    pub(super) fn interrupt(&self) {
        self.turn.send_modify(|turn| *turn += 1);
    }

    /// Ends the stream.
    pub(super) fn end(&self) {
        self.outlet.end();
        self.interrupt();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.outlet.has_ended()
    }

    /// Numbers messages and stores them.
    fn pass(&self, messages: &[u8]) -> Bytes {
        let Some(stream) = self.number else {
            return whole(messages).into();
        };
        let mut log = self.log();
        let mut events = Vec::with_capacity(messages.len() + 64);
        for message in lines(messages) {
            log.count += 1;
            let begin = events.len();
            append(&mut events, Some((stream, log.count)), message);
            let event = Bytes::copy_from_slice(&events[begin..]);
            let number = log.count;
            log.kept_bytes += event.len();
            log.kept.push_back((number, event));
            while log.kept_bytes > KEPT_BYTES && log.kept.len() > 1 {
                let dropped = log.kept.pop_front().map_or(0, |(_, event)| event.len());
                log.kept_bytes -= dropped;
            }
        }
        events.into()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stream and the number in an event id of ours.
pub(super) fn parse_id(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

/// One connection that carries a stream.
pub(super) struct Reader {
    stream: Arc<Stream>,
    /// The number of this reader.
    seen: u64,
    turn: watch::Receiver<u64>,
    first: Vec<u8>,
    keep_alive: Duration,
    /// Ends the stream when the edge stops.
    closing: Option<OnClosing>,
    on_end: Option<OnEnd>,
}

/// The signal that the edge stops, and what to run then.
type OnClosing = (watch::Receiver<bool>, Box<dyn FnOnce() + Send>);

/// Runs when a connection is gone, for whatever reason.
pub(super) struct OnEnd(pub(super) Option<Box<dyn FnOnce() + Send>>);

impl Drop for OnEnd {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

impl Reader {
    pub(super) fn on_end(mut self, run: impl FnOnce() + Send + 'static) -> Self {
        self.on_end = Some(OnEnd(Some(Box::new(run))));
        self
    }

    pub(super) fn on_closing(
        mut self,
        closing: watch::Receiver<bool>,
        run: impl FnOnce() + Send + 'static,
    ) -> Self {
        self.closing = Some((closing, Box::new(run)));
        self
    }

    pub(super) fn into_response(self) -> Response {
        respond_with(Either::Right(EventBody {
            reader: Some(self),
            next: None,
        }))
    }

    /// The next piece of the body; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first).into());
        }
        let mut taken = Vec::new();
        loop {
            if *self.turn.borrow_and_update() != self.seen {
                return None;
            }
            tokio::select! {
                biased;
                // The sender lives in the stream, which we hold.
                _ = self.turn.changed() => {}
                found = self.stream.outlet.take_next(&mut taken) => return match found {
                    OutgoingItem::Messages => Some(self.stream.pass(&taken)),
                    OutgoingItem::HangUp | OutgoingItem::End => None,
                },
                () = is_closing(&mut self.closing) => {
                    if let Some((_, run)) = self.closing.take() {
                        run();
                    }
                }
                () = tokio::time::sleep(self.keep_alive) => return Some(Bytes::from_static(b":\n\n")),
            }
        }
    }
}

async fn is_closing(closing: &mut Option<OnClosing>) {
    match closing {
        Some((closing, _)) => _ = closing.wait_for(|closing| *closing).await,
        None => std::future::pending().await,
    }
}

/// A future that returns the reader with the bytes that it read.
type Next = Pin<Box<dyn Future<Output = (Reader, Option<Bytes>)> + Send>>;

/// A reader as the body of a response. Either field is set until the end.
pub(super) struct EventBody {
    reader: Option<Reader>,
    next: Option<Next>,
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let Some(mut reader) = self.reader.take() {
            self.next = Some(Box::pin(async move {
                let next = reader.next().await;
                (reader, next)
            }));
        }
        let Some(next) = &mut self.next else {
            return Poll::Ready(None);
        };
        let (reader, bytes) = ready!(next.as_mut().poll(task));
        self.next = None;
        self.reader = bytes.is_some().then_some(reader);
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
