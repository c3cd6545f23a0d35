//! What is to be posted, in order: a queue that requests wait for room in.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::transport::Closed;
use crate::wire::Outgoing;

/// Requests wait while so many messages are queued or being posted.
const MAX_UNDER_WAY: usize = 256;

/// The queue. The transport puts in, the driving task takes out.
#[derive(Default)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    /// Rung when something was put in, or the channel closes. The driving task holds the other end.
    filled: Notify,
    /// Rung when a message is over. Requests that wait for room hold the other end.
    freed: Notify,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Messages queued or being posted.
    under_way: usize,
    closed: bool,
}

/// What the driving task is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// Post a message.
    Post(Message),
    /// Nobody waits for the answer to this request: its POST need not go on.
    Forget(u64),
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// The id, of a request.
    pub(super) id: Option<u64>,
    pub(super) body: Bytes,
    /// Nothing may overtake `notifications/initialized`.
    pub(super) goes_alone: bool,
}

impl Item {
    pub(super) fn message(message: Outgoing<'_>) -> Self {
        let Outgoing { id, method, body, .. } = message;
        Self::Post(Message { id, body: Bytes::copy_from_slice(body), goes_alone: method == Some("notifications/initialized") })
    }
}

impl Outbox {
    pub(super) fn put(&self, item: Item) -> Result<(), Closed> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(Closed);
        }
        queue.under_way += usize::from(matches!(item, Item::Post(_)));
        queue.items.push_back(item);
        drop(queue);
        self.filled.notify_one();
        Ok(())
    }

    /// The next thing to do; `None` once the queue is closed and empty. Cancel-safe.
    pub(super) async fn take(&self) -> Option<Item> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(item) = queue.items.pop_front() {
                    return Some(item);
                }
                if queue.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Waits for the end. What is queued then is of no use.
    pub(super) async fn closed(&self) {
        loop {
            let rung = self.freed.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            if self.lock().closed {
                return;
            }
            rung.await;
        }
    }

    /// One message was posted, or never will be.
    pub(super) fn over(&self) {
        let mut queue = self.lock();
        queue.under_way = queue.under_way.saturating_sub(1);
        drop(queue);
        self.freed.notify_waiters();
    }

    pub(super) fn has_room(&self) -> bool {
        let queue = self.lock();
        queue.closed || queue.under_way < MAX_UNDER_WAY
    }

    pub(super) async fn ready(&self) {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    /// Takes nothing more. What is queued stays to be taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
        self.freed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
