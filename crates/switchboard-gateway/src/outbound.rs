//! Messages to a client, in a queue that is bounded by number and by bytes.
//!
//! An [`Outbound`] is the sending end; an edge writes what its [`OutboundQueue`] returns. A client
//! that does not read is disconnected: its queue ends.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use switchboard::sync::lock;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How many messages may wait.
const MAX_MESSAGES: usize = 1024;

/// While fewer bytes wait, another message of any size is accepted.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Log messages that belong to no request are dropped while this much waits.
const MAX_MESSAGES_FOR_LOGS: usize = 64;
const MAX_BYTES_FOR_LOGS: usize = 64 * 1024;

/// How long a response waits for room before its reader counts as too slow.
const SLOW_READER: Duration = Duration::from_secs(30);

/// The room for this many messages stays allocated while none waits.
const KEPT_CAPACITY: usize = 32;

/// Sends messages to a client: those of one request, or those that belong to none. Clones share the
/// queue; it ends when all of them are gone.
#[derive(Debug)]
pub struct Outbound(Arc<OutboundState>);

/// The state that both ends share. Small while nothing waits, because each unused session has one.
#[derive(Debug)]
struct OutboundState {
    waiting: Mutex<WaitingMessages>,
    /// How many `Outbound` there are.
    senders: AtomicUsize,
    /// Whether more than half of the queue is used. Readers of a client's messages look at it for each
    /// message, so it is no part of what is locked.
    is_half_used: AtomicBool,
    /// Wakes the senders that wait for room.
    room: Notify,
    /// Wakes the senders that wait until the reader is gone.
    closed: Notify,
    meter: Arc<OutboundMeter>,
}

#[derive(Debug, Default)]
struct WaitingMessages {
    /// The oldest message, if none waited when it came. Most queues carry one message in all, which
    /// needs no allocation so.
    first: Option<Bytes>,
    /// Those that came after it.
    others: VecDeque<Bytes>,
    /// The sum of their lengths.
    bytes: usize,
    /// Wakes the reader: a message came, the last sender went, or the client is cut off.
    reader: Option<Waker>,
    /// Nothing follows.
    is_ended: bool,
    /// The reader is gone.
    is_closed: bool,
    /// The client was found to read too slowly.
    is_cut_off: bool,
}

impl WaitingMessages {
    fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        if self.count() == 0 {
            self.first = Some(message);
        } else {
            self.others.push_back(message);
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        let message = self.first.take().or_else(|| self.others.pop_front())?;
        self.bytes -= message.len();
        if self.others.is_empty() && self.others.capacity() > KEPT_CAPACITY {
            self.others = VecDeque::new();
        }
        Some(message)
    }
}

/// Counts over all queues of a gateway.
#[derive(Debug, Default)]
pub struct OutboundMeter {
    waiting: AtomicUsize,
    cut_off: AtomicU64,
}

impl OutboundMeter {
    /// How many messages wait to be written to clients.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many clients were disconnected because they read too slowly.
    pub fn cut_off_readers(&self) -> u64 {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// Counts one more.
    pub(crate) fn count_cut_off(&self) {
        self.cut_off.fetch_add(1, Ordering::Relaxed);
    }
}

/// The receiving end, which an edge writes to its client.
#[derive(Debug)]
pub struct OutboundQueue(Arc<OutboundState>);

impl Outbound {
    /// A queue for one client, or for one response to it.
    pub fn channel() -> (Self, OutboundQueue) {
        Self::metered(&Arc::default())
    }

    /// The same, counted by a meter.
    pub(crate) fn metered(meter: &Arc<OutboundMeter>) -> (Self, OutboundQueue) {
        let state = Arc::new(OutboundState {
            waiting: Mutex::default(),
            senders: AtomicUsize::new(1),
            is_half_used: AtomicBool::new(false),
            room: Notify::new(),
            closed: Notify::new(),
            meter: meter.clone(),
        });
        (Self(state.clone()), OutboundQueue(state))
    }

    /// For a client that gets messages only through its requests: everything else is dropped.
    pub(crate) fn nowhere() -> Self {
        static NOWHERE: LazyLock<Outbound> = LazyLock::new(|| Outbound::channel().0);
        NOWHERE.clone()
    }

    /// Sends a response. Waits for room, so that many large responses do not fill the memory; a
    /// client that reads nothing for half a minute is disconnected.
    pub async fn respond(&self, message: Bytes) {
        let Err(mut message) = self.0.try_send(message) else {
            return;
        };
        let waiting = async {
            loop {
                let room = self.0.room.notified();
                tokio::pin!(room);
                // Enabled before the attempt, so that a wake-up between attempt and wait is not lost.
                room.as_mut().enable();
                match self.0.try_send(message) {
                    Ok(()) => return,
                    Err(refused) => message = refused,
                }
                room.await;
            }
        };
        if timeout(SLOW_READER, waiting).await.is_err() {
            self.0.cut_off();
        }
    }

    /// Sends a response, or returns it if there is no room for it.
    pub(crate) fn try_send(&self, message: Bytes) -> Result<(), Bytes> {
        self.0.try_send(message)
    }

    /// Sends a notification or a question. A client whose queue is full is disconnected.
    pub fn send(&self, message: Bytes) {
        if self.0.try_send(message).is_err() {
            self.0.cut_off();
        }
    }

    /// Sends a notification such as `list_changed`, unless the same one is already in the queue.
    pub(crate) fn send_once(&self, message: Bytes) {
        let is_waiting = {
            let waiting = self.0.lock();
            waiting.first.as_ref() == Some(&message) || waiting.others.contains(&message)
        };
        if !is_waiting {
            self.send(message);
        }
    }

    /// Sends a log message of a request, unless half of the queue is used: a server that logs much
    /// disconnects no client.
    pub(crate) fn send_request_log(&self, message: Bytes) {
        if self.has_room() {
            self.send(message);
        }
    }

    /// Sends progress. If half of the queue is used, it takes the place of progress that waits: of a
    /// message that begins with the same `prefix_len` bytes. Dropped if the queue is full.
    pub(crate) fn send_progress(&self, message: Bytes, prefix_len: usize) {
        if !self.has_room() && self.0.replace_waiting(&message, prefix_len) {
            return;
        }
        let _ = self.0.try_send(message);
    }

    /// Sends a log message, unless others wait. So no client is disconnected because a server logs,
    /// and a client that reads only responses costs little memory.
    pub(crate) fn send_log(&self, message: Bytes) {
        let has_room = {
            let waiting = self.0.lock();
            waiting.count() < MAX_MESSAGES_FOR_LOGS && waiting.bytes < MAX_BYTES_FOR_LOGS
        };
        if has_room {
            self.send(message);
        }
    }

    /// Whether at most half of the queue is used.
    pub(crate) fn has_room(&self) -> bool {
        !self.0.is_half_used.load(Ordering::Acquire)
    }

    /// Waits until at most half of the queue is used.
    pub(crate) async fn until_room(&self) {
        loop {
            let room = self.0.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }

    /// Nothing follows: the queue ends after the messages that wait, also if clones are left.
    pub(crate) fn end(&self) {
        let mut waiting = self.0.lock();
        waiting.is_ended = true;
        self.0.wake_reader(waiting);
    }

    /// Whether both send to the same client, or to the same response.
    pub(crate) fn is_same_queue(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the client still reads.
    pub fn is_open(&self) -> bool {
        let waiting = self.0.lock();
        !waiting.is_closed && !waiting.is_cut_off
    }

    /// Waits until the client has disconnected.
    pub async fn closed(&self) {
        loop {
            let closed = self.0.closed.notified();
            tokio::pin!(closed);
            closed.as_mut().enable();
            if self.0.lock().is_closed {
                return;
            }
            closed.await;
        }
    }
}

impl Clone for Outbound {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.wake_reader(self.0.lock());
        }
    }
}

impl OutboundState {
    fn lock(&self) -> MutexGuard<'_, WaitingMessages> {
        lock(&self.waiting)
    }

    /// Returns the message if there is no room for it.
    fn try_send(&self, message: Bytes) -> Result<(), Bytes> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            // A client that is gone gets nothing.
            return Ok(());
        }
        if waiting.count() >= MAX_MESSAGES || waiting.bytes >= MAX_BYTES {
            return Err(message);
        }
        waiting.push(message);
        self.note_room(&waiting);
        self.meter.waiting.fetch_add(1, Ordering::Relaxed);
        self.wake_reader(waiting);
        Ok(())
    }

    /// Puts a message in the place of the last one that begins with the same bytes; false if there is
    /// none.
    fn replace_waiting(&self, message: &Bytes, prefix_len: usize) -> bool {
        let mut waiting = self.lock();
        let waiting = &mut *waiting;
        let prefix = &message[..prefix_len];
        let mut others = waiting.others.iter_mut().rev();
        let Some(same) = others.find(|other| other.starts_with(prefix)) else {
            return false;
        };
        waiting.bytes = waiting.bytes - same.len() + message.len();
        *same = message.clone();
        self.note_room(waiting);
        true
    }

    fn note_room(&self, waiting: &WaitingMessages) {
        let is_half_used = waiting.count() > MAX_MESSAGES / 2 || waiting.bytes > MAX_BYTES / 2;
        self.is_half_used.store(is_half_used, Ordering::Release);
    }

    fn cut_off(&self) {
        let mut waiting = self.lock();
        if !std::mem::replace(&mut waiting.is_cut_off, true) {
            self.meter.count_cut_off();
        }
        self.wake_reader(waiting);
    }

    fn take_next(&self, mut waiting: MutexGuard<'_, WaitingMessages>) -> Option<Bytes> {
        if waiting.is_cut_off {
            return None;
        }
        let message = waiting.pop()?;
        self.note_room(&waiting);
        drop(waiting);
        self.meter.waiting.fetch_sub(1, Ordering::Relaxed);
        self.room.notify_waiters();
        Some(message)
    }

    fn wake_reader(&self, mut waiting: MutexGuard<'_, WaitingMessages>) {
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl OutboundQueue {
    /// The next message; `None` once all senders are gone, or the client must be disconnected.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The same for a task that waits for other things, too.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut waiting = self.0.lock();
        if waiting.is_cut_off {
            return Poll::Ready(None);
        }
        if waiting.count() > 0 {
            return Poll::Ready(self.0.take_next(waiting));
        }
        // The last sender lowers the count before it takes the lock to wake the reader.
        if waiting.is_ended || self.0.senders.load(Ordering::Acquire) == 0 {
            return Poll::Ready(None);
        }
        waiting.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// No message wakes the reader until the queue is polled again.
    pub(crate) fn stop_waking(&mut self) {
        self.0.lock().reader = None;
    }

    /// The next message that waits already, if the client reads fast enough.
    pub fn try_next(&mut self) -> Option<Bytes> {
        self.0.take_next(self.0.lock())
    }

    /// Completes when the client is found to read too slowly.
    pub(crate) async fn until_cut_off(&mut self) {
        poll_fn(|context| {
            let mut waiting = self.0.lock();
            if waiting.is_cut_off {
                return Poll::Ready(());
            }
            waiting.reader = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// The edge found that the client does not read.
    pub(crate) fn cut_off(&mut self) {
        self.0.cut_off();
    }

    /// What waits in the queue, for whoever does not read it.
    pub(crate) fn unread(&self) -> UnreadMessages {
        UnreadMessages(self.0.clone())
    }

    /// Whether the client read too slowly.
    pub fn is_cut_off(&self) -> bool {
        self.0.lock().is_cut_off
    }
}

impl Drop for OutboundQueue {
    fn drop(&mut self) {
        let unread = {
            let mut waiting = self.0.lock();
            waiting.is_closed = true;
            waiting.bytes = 0;
            let unread = (waiting.first.take(), std::mem::take(&mut waiting.others));
            self.0.note_room(&waiting);
            unread
        };
        let count = usize::from(unread.0.is_some()) + unread.1.len();
        self.0.meter.waiting.fetch_sub(count, Ordering::Relaxed);
        self.0.closed.notify_waiters();
        self.0.room.notify_waiters();
    }
}

/// The messages that wait in a queue.
#[derive(Debug)]
pub(crate) struct UnreadMessages(Arc<OutboundState>);

impl UnreadMessages {
    /// The sum of their lengths.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// Whether no message follows those that wait.
    pub(crate) fn is_complete(&self) -> bool {
        let waiting = self.0.lock();
        waiting.is_ended || waiting.is_cut_off || self.0.senders.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_disconnected_and_keeps_no_more_than_the_bound() {
        let meter = Arc::default();
        let (outbound, mut queue) = Outbound::metered(&meter);
        for _ in 0..=MAX_MESSAGES {
            outbound.send(Bytes::from_static(b"{}"));
        }
        assert!(!outbound.is_open());
        assert_eq!(queue.next().await, None);
        assert_eq!(meter.waiting(), MAX_MESSAGES);
        drop(queue);
        assert_eq!((meter.waiting(), meter.cut_off_readers()), (0, 1));

        let (outbound, mut queue) = Outbound::channel();
        let large = Bytes::from(vec![b' '; MAX_BYTES + 1]);
        outbound.respond(large.clone()).await;
        outbound.respond(large).await;
        assert!(queue.is_cut_off());
        assert_eq!(queue.next().await, None);
    }

    /// Sessions that nobody listens to must not grow with each change and each log message.
    #[tokio::test]
    async fn what_a_client_that_does_not_listen_is_sent_stays_small() {
        let (outbound, mut queue) = Outbound::channel();
        for _ in 0..2 * MAX_MESSAGES {
            outbound.send_once(Bytes::from_static(b"tools changed"));
            outbound.send_once(Bytes::from_static(b"prompts changed"));
            outbound.send_log(Bytes::from_static(b"log"));
        }
        assert!(outbound.is_open(), "it is not disconnected");
        drop(outbound);
        let mut received = Vec::new();
        while let Some(message) = queue.next().await {
            received.push(message);
        }
        let logs = vec![Bytes::from_static(b"log"); MAX_MESSAGES_FOR_LOGS - 2];
        assert_eq!(received[..2], ["tools changed", "prompts changed"]);
        assert_eq!(received[2..], logs);
    }

    /// A server may send much during a call, faster than its client reads.
    #[tokio::test]
    async fn floods_of_logs_and_progress_disconnect_no_client_and_the_newest_progress_stays() {
        let (outbound, mut queue) = Outbound::channel();
        for number in 0..3 * MAX_MESSAGES {
            outbound.send_request_log(Bytes::from_static(b"log"));
            for token in ["a", "b"] {
                let message = format!("progress {token} {number}");
                outbound.send_progress(Bytes::from(message), "progress a ".len());
            }
        }
        assert!(outbound.is_open(), "it is not disconnected");
        outbound.send(Bytes::from_static(b"question"));
        drop(outbound);
        let mut received = Vec::new();
        while let Some(message) = queue.next().await {
            received.push(message);
        }
        let last = 3 * MAX_MESSAGES - 1;
        for message in [
            format!("progress a {last}"),
            format!("progress b {last}"),
            "question".to_owned(),
        ] {
            assert!(
                received.contains(&Bytes::from(message.clone())),
                "{message}"
            );
        }
        assert!(received.len() < MAX_MESSAGES, "{}", received.len());
    }

    #[tokio::test]
    async fn a_response_waits_for_a_reader_that_is_busy() {
        let (outbound, mut queue) = Outbound::channel();
        let large = Bytes::from(vec![b' '; MAX_BYTES]);
        outbound.respond(large.clone()).await;
        let waiting = tokio::spawn({
            let (outbound, large) = (outbound.clone(), large.clone());
            async move { outbound.respond(large).await }
        });
        assert_eq!(queue.next().await.as_ref(), Some(&large));
        assert_eq!(queue.next().await.as_ref(), Some(&large));
        waiting.await.expect("it was sent");
        drop(outbound);
        assert_eq!(queue.next().await, None);
    }
}
