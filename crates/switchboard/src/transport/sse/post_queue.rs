//! The queue of messages to post. Requests wait for room in it; responses to the server wait only
//! for other one-way messages.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::sync::lock;
use crate::transport::{Closed, MAX_UNACCEPTED};
use crate::wire::Outgoing;

/// Requests wait while this many messages are queued or in flight.
const MAX_IN_FLIGHT: usize = 256;

/// Responses to the server wait while this many one-way messages are queued or in flight. They do
/// not wait for requests, which the server may hold until it has its responses.
const MAX_ONE_WAY: usize = 64;

/// The queue. The transport adds messages, the connection's task takes them.
#[derive(Default)]
pub(super) struct PostQueue {
    queue: Mutex<PostQueueState>,
    /// Notified when a command was added or the queue was closed, for the connection's task.
    command_added: Notify,
    /// Notified when a message has finished or the queue was closed, for those who wait.
    room_freed: Notify,
}

#[derive(Default)]
struct PostQueueState {
    commands: VecDeque<PostCommand>,
    /// Requests that are queued or in flight.
    requests: usize,
    /// Notifications and responses that are queued or in flight.
    one_way: usize,
    closed: bool,
}

/// A command for the connection's task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PostCommand {
    /// Post a message.
    Post(QueuedMessage),
    /// Abort the POST of this cancelled request.
    Cancel(u64),
}

/// A queued message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueuedMessage {
    /// The id, if it is a request.
    pub(super) id: Option<u64>,
    pub(super) body: Bytes,
    /// Whether it is a response to a request of the server.
    pub(super) is_answer: bool,
    /// Whether it is `notifications/initialized`, which no message may overtake.
    pub(super) is_exclusive: bool,
}

impl PostCommand {
    pub(super) fn message(message: Outgoing<'_>) -> Self {
        let Outgoing {
            id, method, body, ..
        } = message;
        Self::Post(QueuedMessage {
            id,
            body: Bytes::copy_from_slice(body),
            is_answer: id.is_none() && method.is_none(),
            is_exclusive: method == Some("notifications/initialized"),
        })
    }
}

/// Why a command was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PutFault {
    /// The queue is closed.
    Closed,
    /// Too many one-way messages are queued or in flight.
    Unaccepted,
}

impl From<PutFault> for Closed {
    fn from(_: PutFault) -> Self {
        Self
    }
}

impl PostQueue {
    pub(super) fn put(&self, command: PostCommand) -> Result<(), PutFault> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(PutFault::Closed);
        }
        match &command {
            PostCommand::Post(QueuedMessage { id: Some(_), .. }) => queue.requests += 1,
            PostCommand::Post(_) if queue.one_way >= MAX_UNACCEPTED => {
                return Err(PutFault::Unaccepted);
            }
            PostCommand::Post(_) => queue.one_way += 1,
            PostCommand::Cancel(_) => {}
        }
        queue.commands.push_back(command);
        drop(queue);
        self.command_added.notify_one();
        Ok(())
    }

    /// The next command; `None` once the queue is closed and empty. Cancel-safe.
    pub(super) async fn take(&self) -> Option<PostCommand> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(command) = queue.commands.pop_front() {
                    return Some(command);
                }
                if queue.closed {
                    return None;
                }
            }
            self.command_added.notified().await;
        }
    }

    /// Waits until the queue is closed.
    pub(super) async fn closed(&self) {
        self.until(|queue| queue.lock().closed).await;
    }

    /// Releases the room of a message that was posted or cancelled.
    pub(super) fn finished(&self, is_request: bool) {
        let mut queue = self.lock();
        let PostQueueState {
            requests, one_way, ..
        } = &mut *queue;
        let count = if is_request { requests } else { one_way };
        *count = count.saturating_sub(1);
        drop(queue);
        self.room_freed.notify_waiters();
    }

    pub(super) fn has_room(&self) -> bool {
        let queue = self.lock();
        queue.closed || queue.requests + queue.one_way < MAX_IN_FLIGHT
    }

    pub(super) async fn wait_for_room(&self) {
        self.until(Self::has_room).await;
    }

    /// Waits for room among the one-way messages. All waiters proceed at once; their number is
    /// bounded by the open requests of the server.
    pub(super) async fn wait_for_one_way_room(&self) {
        let has_room = |queue: &Self| {
            let queue = queue.lock();
            queue.closed || queue.one_way < MAX_ONE_WAY
        };
        self.until(has_room).await;
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            let room_freed = self.room_freed.notified();
            tokio::pin!(room_freed);
            room_freed.as_mut().enable();
            if holds(self) {
                return;
            }
            room_freed.await;
        }
    }

    /// Accepts no more commands. Queued ones can still be taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.command_added.notify_one();
        self.room_freed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, PostQueueState> {
        lock(&self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_messages_that_the_server_does_not_accept_are_limited() {
        let queue = PostQueue::default();
        let put = |id| {
            queue.put(PostCommand::Post(QueuedMessage {
                id,
                body: Bytes::new(),
                is_answer: id.is_none(),
                is_exclusive: false,
            }))
        };
        assert_eq!(
            (0..MAX_UNACCEPTED).filter(|_| put(None).is_ok()).count(),
            MAX_UNACCEPTED
        );
        assert_eq!(put(None), Err(PutFault::Unaccepted));
        assert_eq!(put(Some(1)), Ok(()), "requests wait for room instead");
        queue.finished(false);
        assert_eq!(put(None), Ok(()));
    }
}
