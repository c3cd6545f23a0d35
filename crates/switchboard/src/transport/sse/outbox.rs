//! What is to be posted, in order: a queue that requests wait for room in, and answers only for
//! other answers.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::sync::lock;
use crate::transport::Closed;
use crate::wire::Outgoing;

/// Requests wait while so many messages are queued or being posted.
const MAX_UNDER_WAY: usize = 256;

/// Answers to questions wait while so many messages are, that are no requests: a server may hold
/// every request until it has its answer.
const MAX_NOTES: usize = 64;

/// The queue. The transport puts in, the driving task takes out.
#[derive(Default)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    /// Rung when something was put in, or the channel closes. The driving task holds the other
    /// end.
    filled: Notify,
    /// Rung when a message is over. Whoever waits for room holds the other end.
    freed: Notify,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Requests queued or being posted.
    requests: usize,
    /// The same of notifications and answers.
    notes: usize,
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
    /// It answers a question of the server.
    pub(super) is_answer: bool,
    /// Nothing may overtake `notifications/initialized`.
    pub(super) goes_alone: bool,
}

impl Item {
    pub(super) fn message(message: Outgoing<'_>) -> Self {
        let Outgoing {
            id, method, body, ..
        } = message;
        Self::Post(Message {
            id,
            body: Bytes::copy_from_slice(body),
            is_answer: id.is_none() && method.is_none(),
            goes_alone: method == Some("notifications/initialized"),
        })
    }
}

impl Outbox {
    pub(super) fn put(&self, item: Item) -> Result<(), Closed> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(Closed);
        }
        match &item {
            Item::Post(Message { id: Some(_), .. }) => queue.requests += 1,
            Item::Post(_) => queue.notes += 1,
            Item::Forget(_) => {}
        }
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
        self.until(|outbox| outbox.lock().closed).await;
    }

    /// One message was posted, or never will be.
    pub(super) fn over(&self, is_request: bool) {
        let mut queue = self.lock();
        let Queue {
            requests, notes, ..
        } = &mut *queue;
        let count = if is_request { requests } else { notes };
        *count = count.saturating_sub(1);
        drop(queue);
        self.freed.notify_waiters();
    }

    pub(super) fn has_room(&self) -> bool {
        let queue = self.lock();
        queue.closed || queue.requests + queue.notes < MAX_UNDER_WAY
    }

    pub(super) async fn ready(&self) {
        self.until(Self::has_room).await;
    }

    /// Waits for room among the notes. Those who waited go on together; there are no more of them
    /// than questions may be open.
    pub(super) async fn ready_to_answer(&self) {
        let has_room = |outbox: &Self| {
            let queue = outbox.lock();
            queue.closed || queue.notes < MAX_NOTES
        };
        self.until(has_room).await;
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if holds(self) {
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
        lock(&self.queue)
    }
}
