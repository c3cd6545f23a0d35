//! The outgoing buffer of a connection: many writers fill it, one transport empties it.
//!
//! All messages between two writes leave in one write. Owns the order of messages; leaves the
//! writing to the transport.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::rpc::Fault;

/// Above this many waiting bytes the transport stops reading, so that a peer that does not read cannot
/// fill our memory.
pub const FULL_BYTES: usize = 8 << 20;

/// A handle to one buffer of outgoing messages, each ended by a newline.
#[derive(Clone, Default)]
pub struct OutgoingBuffer(Arc<Buffer>);

#[derive(Default)]
struct Buffer {
    waiting: Mutex<Vec<u8>>,
    /// Whether nothing more will come.
    has_ended: AtomicBool,
    /// Whether the transport shall drop its connection once, as a bad network would.
    hangs_up: AtomicBool,
    /// Notified when the buffer turns from empty to filled; the transport waits on it.
    filled: Notify,
    /// Notified when the transport took everything; a reader that found the buffer full waits on
    /// it.
    emptied: Notify,
}

/// What the transport takes from the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutgoingItem {
    /// Messages.
    Messages,
    /// Drop the connection; more messages may follow on the next one.
    HangUp,
    /// Nothing, and nothing more will come.
    End,
}

impl std::fmt::Debug for OutgoingBuffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OutgoingBuffer")
            .field("waiting_bytes", &self.waiting().len())
            .finish()
    }
}

impl OutgoingBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one message: what `write` appends, and a newline.
    pub fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.waiting();
        let was_empty = waiting.is_empty();
        write(&mut waiting);
        waiting.push(b'\n');
        drop(waiting);
        if was_empty {
            self.0.filled.notify_one();
        }
    }

    /// Whether so much waits that no more requests should be read.
    pub fn is_full(&self) -> bool {
        self.waiting().len() >= FULL_BYTES
    }

    /// Waits until there is room.
    pub async fn has_room(&self) {
        while self.is_full() {
            self.0.emptied.notified().await;
        }
    }

    /// Marks the end: the transport writes what waits, and ends.
    pub fn end(&self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.filled.notify_one();
    }

    /// Whether nothing more will come.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.has_ended.load(Ordering::Acquire)
    }

    /// Lets the transport drop its connection after the messages that wait now. Later ones wait for
    /// the next connection.
    pub(crate) fn hang_up(&self) {
        self.0.hangs_up.store(true, Ordering::Release);
        self.0.filled.notify_one();
    }

    /// All messages, if no more will come: a response that needs no stream.
    pub(crate) fn take_whole(&self) -> Option<Vec<u8>> {
        self.has_ended()
            .then(|| std::mem::take(&mut *self.waiting()))
    }

    /// Waits until something is there, and swaps it into `taken`, which must be empty; false when
    /// nothing more will come.
    pub async fn take(&self, taken: &mut Vec<u8>) -> bool {
        loop {
            match self.take_next(taken).await {
                OutgoingItem::Messages => return true,
                OutgoingItem::End => return false,
                // This transport ends with its connection.
                OutgoingItem::HangUp => {}
            }
        }
    }

    /// The same for a transport that can drop its connection. Cancel-safe.
    pub(crate) async fn take_next(&self, taken: &mut Vec<u8>) -> OutgoingItem {
        debug_assert!(
            taken.is_empty(),
            "the transport writes everything before it takes more"
        );
        loop {
            let has_ended = self.has_ended();
            let hangs_up = self.0.hangs_up.load(Ordering::Acquire);
            std::mem::swap(&mut *self.waiting(), taken);
            if !taken.is_empty() {
                self.0.emptied.notify_one();
                return OutgoingItem::Messages;
            }
            if hangs_up && self.0.hangs_up.swap(false, Ordering::AcqRel) {
                return OutgoingItem::HangUp;
            }
            if has_ended {
                return OutgoingItem::End;
            }
            self.0.filled.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<u8>> {
        // A panic while a message was appended leaves one broken line at worst, which the peer
        // skips.
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the reply to one request goes: straight out, or into the one array that answers its batch.
#[derive(Debug, Clone)]
pub(crate) struct Replies {
    pub(crate) outlet: OutgoingBuffer,
    batch: Option<Arc<Mutex<Batch>>>,
    /// Whether the buffer is for these replies only, and ends with the last of them.
    ends_outlet: bool,
}

#[derive(Debug)]
struct Batch {
    /// Requests of the batch that are not settled yet.
    open: usize,
    replies: Vec<u8>,
}

impl Replies {
    /// Each reply on its own.
    pub(crate) fn single(outlet: &OutgoingBuffer) -> Self {
        Self {
            outlet: outlet.clone(),
            batch: None,
            ends_outlet: false,
        }
    }

    /// `open` requests whose replies are sent together, as JSON-RPC requires, when the last of them
    /// is settled.
    pub(crate) fn batch(outlet: &OutgoingBuffer, open: usize) -> Self {
        let batch = Some(Arc::new(Mutex::new(Batch {
            open,
            replies: Vec::new(),
        })));
        Self {
            outlet: outlet.clone(),
            batch,
            ends_outlet: false,
        }
    }

    /// The same, and the buffer ends with the last reply.
    pub(crate) fn ending(self) -> Self {
        Self {
            ends_outlet: true,
            ..self
        }
    }

    /// Settles one request with what `write` appends.
    pub(crate) fn settle(&self, write: impl FnOnce(&mut Vec<u8>)) {
        match &self.batch {
            None => {
                self.outlet.push(write);
                self.end_outlet();
            }
            Some(batch) => self.settle_in(batch, |replies| {
                if !replies.is_empty() {
                    replies.push(b',');
                }
                write(replies);
            }),
        }
    }

    /// Settles one request with a JSON-RPC error.
    pub(crate) fn settle_with_fault(&self, id: &str, fault: &Fault) {
        self.settle(|out| fault.write(out, id));
    }

    /// Settles one request that gets no reply, because it was cancelled.
    pub(crate) fn settle_silently(&self) {
        match &self.batch {
            None => self.end_outlet(),
            Some(batch) => self.settle_in(batch, |_| {}),
        }
    }

    /// Settles a message that gets no reply.
    pub(crate) fn settle_nothing(&self) {
        self.end_outlet();
    }

    fn end_outlet(&self) {
        if self.ends_outlet {
            self.outlet.end();
        }
    }

    fn settle_in(&self, batch: &Mutex<Batch>, write: impl FnOnce(&mut Vec<u8>)) {
        let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut batch.replies);
        batch.open -= 1;
        if batch.open > 0 {
            return;
        }
        if !batch.replies.is_empty() {
            let replies = std::mem::take(&mut batch.replies);
            self.outlet.push(|out| {
                out.push(b'[');
                out.extend_from_slice(&replies);
                out.push(b']');
            });
        }
        self.end_outlet();
    }
}
