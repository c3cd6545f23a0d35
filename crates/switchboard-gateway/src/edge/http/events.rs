//! Messages as server-sent events, on streams that a legacy client can resume.
//!
//! An [`EventStream`] numbers the messages of one queue and stores the last ones; an [`EventReader`] is
//! the connection that carries it. A client that resumes gets a new reader, and the old one ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use switchboard::sync::lock;
use tokio::sync::{Notify, watch};

use crate::outbound::{OutboundQueue, UnreadMessages};

/// How much of a resumable stream is stored, in addition to the last event.
const MAX_KEPT_BYTES: usize = 256 << 10;

/// How often an idle stream sends a comment, so that no proxy closes it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a client waits before it resumes.
pub(super) const RETRY_MS: u64 = 1000;

/// Many small messages are sent in chunks of this size.
const PIECE_BYTES: usize = 64 << 10;

/// The messages to one client in one order.
#[derive(Debug)]
pub(super) struct EventStream {
    /// Its name in event ids; `None` for a stream that cannot be resumed.
    number: Option<u64>,
    queue: tokio::sync::Mutex<OutboundQueue>,
    /// What no reader has taken from the queue.
    unread: UnreadMessages,
    log: Mutex<EventLog>,
    /// The number of the last reader. One that sees another number than its own ends.
    last_reader: AtomicU64,
    /// Wakes readers: the number changed.
    replaced: Notify,
    /// How many readers there are; more than one only until those that were replaced have ended.
    readers: AtomicUsize,
}

#[derive(Debug, Default)]
struct EventLog {
    /// The number of the last event.
    last: u64,
    kept: VecDeque<(u64, Bytes)>,
    kept_bytes: usize,
    /// When the end of the queue was noticed.
    ended: Option<Instant>,
}

impl EventStream {
    pub(super) fn new(number: Option<u64>, queue: OutboundQueue) -> Arc<Self> {
        Arc::new(Self {
            number,
            unread: queue.unread(),
            queue: tokio::sync::Mutex::new(queue),
            log: Mutex::default(),
            last_reader: AtomicU64::new(0),
            replaced: Notify::new(),
            readers: AtomicUsize::new(0),
        })
    }

    /// A connection that carries the stream from now on. It begins with `first`, then with the kept
    /// events after number `after`, if that is given.
    pub(super) fn read(self: &Arc<Self>, first: Vec<u8>, after: Option<u64>) -> EventReader {
        self.readers.fetch_add(1, Ordering::Relaxed);
        EventReader {
            number: self.replace_reader(),
            stream: self.clone(),
            first,
            after,
            end: None,
            on_end: None,
        }
    }

    fn kept_after(&self, after: u64) -> Vec<u8> {
        let log = self.log();
        let missed = log.kept.iter().filter(|(number, _)| *number > after);
        missed
            .flat_map(|(_, event)| event.iter().copied())
            .collect()
    }

    /// The event with the id to resume from, which 2025-11-25 requires.
    pub(super) fn priming(&self) -> Vec<u8> {
        let last = self.log().last;
        self.number.map_or(Vec::new(), |number| {
            format!("id: {number}-{last}\nretry: {RETRY_MS}\ndata:\n\n").into_bytes()
        })
    }

    /// Ends the connection that carries the stream, and keeps the stream.
    pub(super) fn interrupt(&self) {
        self.replace_reader();
    }

    /// Ends the reader that there is; returns the number of the next.
    fn replace_reader(&self) -> u64 {
        let number = self.last_reader.fetch_add(1, Ordering::AcqRel) + 1;
        self.replaced.notify_waiters();
        number
    }

    /// Completes when this reader was replaced.
    async fn is_replaced(&self, reader: u64) {
        loop {
            let replaced = self.replaced.notified();
            tokio::pin!(replaced);
            // Before the check, so that a change between the check and the wait is not missed.
            replaced.as_mut().enable();
            if self.last_reader.load(Ordering::Acquire) != reader {
                return;
            }
            replaced.await;
        }
    }

    /// Whether no message follows those that are stored.
    pub(super) fn has_ended(&self) -> bool {
        self.unread.is_complete()
    }

    /// Whether the stream was found to have ended longer than this time ago.
    pub(super) fn ended_before(&self, time: Duration) -> bool {
        if !self.has_ended() {
            return false;
        }
        let ended = *self.log().ended.get_or_insert_with(Instant::now);
        ended.elapsed() > time
    }

    /// Whether a connection carries it.
    pub(super) fn has_reader(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    /// How much is stored for a client that resumes, with what no connection has carried yet.
    pub(super) fn kept_bytes(&self) -> usize {
        self.unread.bytes() + self.log().kept_bytes
    }

    /// Forgets the events that were kept for a client that resumes.
    pub(super) fn forget_kept(&self) {
        let mut log = self.log();
        log.kept = VecDeque::new();
        log.kept_bytes = 0;
    }

    /// Numbers a message and appends its event.
    pub(super) fn append(&self, events: &mut Vec<u8>, message: &[u8]) {
        let begin = events.len();
        let mut log = self.log();
        if let Some(stream) = self.number {
            log.last += 1;
            let id = format!("id: {stream}-{}\n", log.last);
            events.extend_from_slice(id.as_bytes());
        }
        events.extend_from_slice(b"event: message\ndata: ");
        // A message is one line of JSON; a client's pretty-printed text could pass through us.
        let lines = message.split(|byte| matches!(byte, b'\n' | b'\r'));
        for (index, line) in lines.enumerate() {
            events.extend_from_slice(if index == 0 { b"" } else { b"\ndata: " });
            events.extend_from_slice(line);
        }
        events.extend_from_slice(b"\n\n");
        if self.number.is_some() {
            let event = Bytes::copy_from_slice(&events[begin..]);
            let last = log.last;
            log.kept_bytes += event.len();
            log.kept.push_back((last, event));
            while log.kept_bytes > MAX_KEPT_BYTES && log.kept.len() > 1 {
                let dropped = log.kept.pop_front().map_or(0, |(_, event)| event.len());
                log.kept_bytes -= dropped;
            }
        }
    }

    fn log(&self) -> MutexGuard<'_, EventLog> {
        lock(&self.log)
    }
}

/// The stream and the number in an event id of ours.
pub(super) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

/// One connection that carries a stream.
pub(super) struct EventReader {
    stream: Arc<EventStream>,
    number: u64,
    first: Vec<u8>,
    /// The kept events after this number come next.
    after: Option<u64>,
    /// Set for streams of requests.
    end: Option<EndConditions>,
    on_end: Option<OnEnd>,
}

/// What ends a stream, besides its client and its last message.
pub(super) struct EndConditions {
    /// Becomes true when the edge closes.
    closing: watch::Receiver<bool>,
    /// Whether the token that the stream was opened with is still valid.
    is_admitted: Box<dyn FnMut() -> bool + Send>,
    at_closing: AtClosing,
}

/// What happens to a stream when the edge closes.
enum AtClosing {
    End,
    /// This is run, and makes the stream end after a last message.
    Drain(Box<dyn FnOnce() + Send>),
    Draining,
}

impl EndConditions {
    pub(super) fn new(
        closing: watch::Receiver<bool>,
        is_admitted: impl FnMut() -> bool + Send + 'static,
    ) -> Self {
        Self {
            closing,
            is_admitted: Box::new(is_admitted),
            at_closing: AtClosing::End,
        }
    }

    /// When the edge closes, the stream is not ended but `drain` is run, which makes it end after a
    /// last message.
    pub(super) fn draining_with(mut self, drain: impl FnOnce() + Send + 'static) -> Self {
        self.at_closing = AtClosing::Drain(Box::new(drain));
        self
    }
}

/// Runs when the connection is gone, for whatever reason.
struct OnEnd(Option<Box<dyn FnOnce() + Send>>);

impl Drop for OnEnd {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

impl EventReader {
    pub(super) fn on_end(mut self, run: impl FnOnce() + Send + 'static) -> Self {
        self.on_end = Some(OnEnd(Some(Box::new(run))));
        self
    }

    pub(super) fn ends_with(mut self, end: EndConditions) -> Self {
        self.end = Some(end);
        self
    }

    /// The next piece of the body; `None` at its end.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first).into());
        }
        let piece = tokio::select! {
            biased;
            () = self.stream.is_replaced(self.number) => None,
            piece = next_piece(&self.stream, &mut self.after) => piece,
            () = is_closing(&mut self.end) => None,
            () = tokio::time::sleep(KEEP_ALIVE) => Some(Bytes::from_static(b":\n\n")),
        };
        // After the wait, in which the token may have been revoked.
        let is_admitted = |end: &mut EndConditions| (end.is_admitted)();
        piece.filter(|_| self.end.as_mut().is_none_or(is_admitted))
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.stream.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The kept events after the given number, if that is given; then what waits in the queue, as events.
async fn next_piece(stream: &EventStream, after: &mut Option<u64>) -> Option<Bytes> {
    // A reader that was replaced may have taken a message until now. It keeps it before it unlocks.
    let mut queue = stream.queue.lock().await;
    if let Some(after) = after.take() {
        let missed = stream.kept_after(after);
        if !missed.is_empty() {
            return Some(missed.into());
        }
    }
    let Some(message) = queue.next().await else {
        stream.log().ended.get_or_insert_with(Instant::now);
        return None;
    };
    let mut events = Vec::with_capacity(message.len() + 64);
    stream.append(&mut events, &message);
    while events.len() < PIECE_BYTES
        && let Some(message) = queue.try_next()
    {
        stream.append(&mut events, &message);
    }
    Some(events.into())
}

/// Completes when the edge closes, unless the stream ends by itself then.
async fn is_closing(end: &mut Option<EndConditions>) {
    let Some(end) = end else {
        return std::future::pending().await;
    };
    // The sender ends with the edge.
    let _ = end.closing.wait_for(|closing| *closing).await;
    match std::mem::replace(&mut end.at_closing, AtClosing::Draining) {
        AtClosing::End => {}
        AtClosing::Drain(drain) => {
            drain();
            std::future::pending().await
        }
        AtClosing::Draining => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::Outbound;

    /// The old connection may take a message until its task notices that it was replaced.
    #[tokio::test]
    async fn an_event_between_two_readers_of_a_stream_comes_to_the_second() {
        let (outbound, queue) = Outbound::channel();
        let stream = EventStream::new(Some(1), queue);
        let _first = stream.read(Vec::new(), None);
        let mut second = stream.read(b"begin".to_vec(), Some(0));
        stream.append(&mut Vec::new(), b"between");
        outbound.send(Bytes::from_static(b"after"));
        drop(outbound);
        let mut received = Vec::new();
        while let Some(piece) = second.next().await {
            received.extend_from_slice(&piece);
        }
        let event = |number, data| format!("id: 1-{number}\nevent: message\ndata: {data}\n\n");
        let expected = ["begin", &event(1, "between"), &event(2, "after")].concat();
        assert_eq!(String::from_utf8_lossy(&received), expected);
    }
}
