//! The shared state of one HTTP channel: the messages in flight and their limit, the legacy
//! session, and the receiver of what arrives.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use reqwest::header::HeaderValue;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::endpoint::McpEndpoint;
use super::exchange::MAX_IDLE;
use super::legacy_session::LegacyHttpSession;
use crate::future::BoxFuture;
use crate::panics::catch_panic;
use crate::revision::{Era, Revision};
use crate::sync::lock;
use crate::transport::read_limit::ReadLimit;
use crate::transport::{
    Closed, DeliveryOwner, Inbound, MAX_UNACCEPTED, TransportFault, unaccepted,
};

/// Requests wait while this many messages are in flight.
const MAX_IN_FLIGHT: usize = 256;

/// Responses to the server's requests wait while this many one-way messages are in flight.
const MAX_ONE_WAY: usize = 64;

/// One channel. Shared by the transport and each message in flight.
pub(super) struct Channel {
    pub(super) endpoint: McpEndpoint,
    /// The same endpoint over other connections, which our requests cannot block.
    pub(super) reply_endpoint: McpEndpoint,
    pub(super) inbound: Arc<dyn Inbound>,
    /// Shared by all streams of the channel.
    pub(super) read_limit: ReadLimit,
    /// The runtime of the tasks: a request may be cancelled outside of any runtime.
    pub(super) runtime: Handle,
    legacy: Mutex<Arc<LegacyHttpSession>>,
    /// Whether the handshake negotiated the modern era.
    is_modern: AtomicBool,
    /// False while `notifications/initialized` is in flight: no message may overtake it.
    sends_allowed: watch::Sender<bool>,
    in_flight: Mutex<InFlightMessages>,
    /// The number of one-way messages in flight; watched by responses that wait for room.
    one_way: watch::Sender<usize>,
    /// Notified when the last message has finished, for the task that closes the channel.
    drained: Notify,
    /// True once the channel is closed.
    is_finished: watch::Sender<bool>,
    /// Held by the request that re-initializes the session.
    pub(super) renewal_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct InFlightMessages {
    messages: HashMap<MessageKey, Option<AbortHandle>, foldhash::fast::RandomState>,
    /// The waiters for room, in order: only the first may proceed, so that none is overtaken.
    queue: VecDeque<Arc<Notify>>,
    /// The number of the last one-way message.
    last_one_way: u64,
    /// The task that reads the standalone stream of a legacy server.
    stream_task: Option<AbortHandle>,
    closed: bool,
}

/// Identifies a message in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MessageKey {
    Request(u64),
    /// A notification, or a response to the server.
    OneWay(u64),
}

impl Channel {
    pub(super) fn new(
        endpoint: McpEndpoint,
        reply_endpoint: McpEndpoint,
        inbound: Arc<dyn Inbound>,
    ) -> Arc<Self> {
        let legacy = LegacyHttpSession::new(&endpoint);
        Arc::new(Self {
            endpoint,
            reply_endpoint,
            inbound,
            read_limit: ReadLimit::default(),
            runtime: Handle::current(),
            legacy: Mutex::new(Arc::new(legacy)),
            is_modern: AtomicBool::new(false),
            sends_allowed: watch::Sender::new(true),
            in_flight: Mutex::default(),
            one_way: watch::Sender::new(0),
            drained: Notify::new(),
            is_finished: watch::Sender::new(false),
            renewal_lock: tokio::sync::Mutex::default(),
        })
    }

    /// Reserves room for a message, until the reservation is dropped. Too many one-way messages end
    /// the channel.
    pub(super) fn reserve(self: &Arc<Self>, id: Option<u64>) -> Result<Reservation, Closed> {
        let mut in_flight = lock(&self.in_flight);
        if in_flight.closed {
            return Err(Closed);
        }
        if id.is_none() && *self.one_way.borrow() >= MAX_UNACCEPTED {
            // Whoever is told may cancel requests, which takes the lock.
            drop(in_flight);
            self.inbound.closed(unaccepted());
            return Err(Closed);
        }
        let key = id.map_or_else(
            || {
                self.one_way.send_modify(|one_way| *one_way += 1);
                in_flight.last_one_way += 1;
                MessageKey::OneWay(in_flight.last_one_way)
            },
            MessageKey::Request,
        );
        in_flight.messages.insert(key, None);
        Ok(Reservation {
            channel: self.clone(),
            key,
        })
    }

    /// Continues a message in a task of the channel.
    pub(super) fn spawn(&self, key: MessageKey, work: BoxFuture<'static, ()>) {
        // Spawned without holding the lock: during the runtime's shutdown the task is dropped at
        // once, which releases its reservation.
        let inbound = self.inbound.clone();
        let supervised = async move {
            if let (Err(panicked), MessageKey::Request(id)) = (catch_panic(work).await, key) {
                inbound.failed(id, TransportFault::Lost(panicked.to_string()));
            }
        };
        let task = self.runtime.spawn(supervised).abort_handle();
        match lock(&self.in_flight).messages.get_mut(&key) {
            Some(slot) => *slot = Some(task),
            // The message has finished already, or was cancelled.
            None => task.abort(),
        }
    }

    /// Cancels a request: the server sees its stream close. True if this era cancels that way.
    pub(super) fn cancel(&self, id: u64) -> bool {
        if let Some(task) = self.release(MessageKey::Request(id)) {
            task.abort();
        }
        self.is_modern.load(Ordering::Relaxed)
    }

    /// Releases the room of a message; returns its task, if the message was in flight and has one.
    fn release(&self, key: MessageKey) -> Option<AbortHandle> {
        let mut in_flight = lock(&self.in_flight);
        let task = in_flight.messages.remove(&key);
        if task.is_some() && matches!(key, MessageKey::OneWay(_)) {
            self.one_way.send_modify(|one_way| *one_way -= 1);
        }
        in_flight.wake_next();
        if in_flight.closed && in_flight.messages.is_empty() {
            self.drained.notify_one();
        }
        task.flatten()
    }

    pub(super) fn has_room(&self) -> bool {
        let in_flight = lock(&self.in_flight);
        in_flight.closed || (in_flight.queue.is_empty() && in_flight.has_room())
    }

    /// Waits for room, after those who have waited longer.
    pub(super) async fn wait_for_room(&self) {
        let notify = Arc::new(Notify::new());
        {
            let mut in_flight = lock(&self.in_flight);
            in_flight.queue.push_back(notify.clone());
            in_flight.wake_next();
        }
        let waiter = RoomWaiter {
            channel: self,
            notify,
        };
        loop {
            waiter.notify.notified().await;
            let in_flight = lock(&self.in_flight);
            let is_first = in_flight
                .queue
                .front()
                .is_some_and(|first| Arc::ptr_eq(first, &waiter.notify));
            if in_flight.closed || (is_first && in_flight.has_room()) {
                return;
            }
        }
    }

    /// Waits for room among the one-way messages. All waiters proceed at once; their number is
    /// bounded by the open requests of the server.
    pub(super) async fn wait_for_one_way_room(&self) {
        // The sender lives as long as this channel.
        let _ = self
            .one_way
            .subscribe()
            .wait_for(|one_way| *one_way < MAX_ONE_WAY)
            .await;
    }

    /// The current legacy session.
    pub(super) fn legacy(&self) -> Arc<LegacyHttpSession> {
        lock(&self.legacy).clone()
    }

    /// Changes the legacy session, and the headers of every POST with it.
    pub(super) fn set_legacy(&self, change: impl FnOnce(&mut LegacyHttpSession)) {
        let mut legacy = lock(&self.legacy);
        let legacy = Arc::make_mut(&mut legacy);
        change(legacy);
        legacy.headers = legacy.add_headers(&self.endpoint.post_headers);
    }

    pub(super) fn negotiated(&self, revision: Revision) {
        let is_modern = revision.era() == Era::Modern;
        self.is_modern.store(is_modern, Ordering::Relaxed);
        if !is_modern {
            let version = HeaderValue::from_static(revision.as_str());
            self.set_legacy(|legacy| legacy.version = Some(version));
        }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.is_modern.load(Ordering::Relaxed)
    }

    /// Makes other messages wait until the returned guard is dropped.
    pub(super) fn block_sends(self: &Arc<Self>) -> SendBlock {
        self.sends_allowed.send_replace(false);
        SendBlock(self.clone())
    }

    /// Waits while sending is blocked.
    pub(super) async fn wait_for_sends(&self) {
        if !*self.sends_allowed.borrow() {
            // The sender lives as long as this channel.
            let _ = self
                .sends_allowed
                .subscribe()
                .wait_for(|sends_allowed| *sends_allowed)
                .await;
        }
    }

    /// Sets the task that reads the standalone stream, and aborts the old one.
    pub(super) fn set_stream_task(&self, task: AbortHandle) {
        let mut in_flight = lock(&self.in_flight);
        if in_flight.closed {
            task.abort();
        } else if let Some(before) = in_flight.stream_task.replace(task) {
            before.abort();
        }
    }

    /// Aborts every request and accepts no more messages. False if the channel was closing already.
    pub(super) fn begin_close(&self) -> bool {
        let mut in_flight = lock(&self.in_flight);
        if std::mem::replace(&mut in_flight.closed, true) {
            return false;
        }
        let mut ended: Vec<_> = in_flight.stream_task.take().into_iter().collect();
        in_flight.messages.retain(|key, task| {
            let is_one_way = matches!(key, MessageKey::OneWay(_));
            ended.extend(task.take_if(|_| !is_one_way));
            is_one_way
        });
        in_flight
            .queue
            .iter()
            .for_each(|notify| notify.notify_one());
        if in_flight.messages.is_empty() {
            self.drained.notify_one();
        }
        drop(in_flight);
        ended.iter().for_each(AbortHandle::abort);
        true
    }

    /// Waits until every message has finished, after [`begin_close`](Self::begin_close).
    pub(super) async fn wait_drained(&self) {
        self.drained.notified().await;
    }

    /// Marks the channel as closed and wakes the waiters.
    pub(super) fn mark_closed(&self) {
        self.is_finished.send_replace(true);
    }

    /// Waits until the channel is closed.
    pub(super) async fn wait_closed(&self) {
        // The sender lives as long as this channel.
        let _ = self
            .is_finished
            .subscribe()
            .wait_for(|is_finished| *is_finished)
            .await;
    }

    /// Aborts the messages that have not finished.
    pub(super) fn abort_all(&self) {
        let ended = std::mem::take(&mut lock(&self.in_flight).messages);
        self.one_way.send_replace(0);
        ended.into_values().flatten().for_each(|task| task.abort());
    }
}

/// After the waiter got its response or was dropped, a task completes the exchange, unless the
/// request was cancelled.
impl DeliveryOwner for Channel {
    fn abandoned(&self, id: u64, rest: BoxFuture<'static, ()>) {
        let key = MessageKey::Request(id);
        let is_under_way = lock(&self.in_flight).messages.contains_key(&key);
        if is_under_way {
            self.spawn(key, Box::pin(async { drop(timeout(MAX_IDLE, rest).await) }));
        }
    }
}

/// Blocks messages until it is dropped.
pub(super) struct SendBlock(Arc<Channel>);

impl Drop for SendBlock {
    fn drop(&mut self) {
        self.0.sends_allowed.send_replace(true);
    }
}

/// Releases the room of a message when dropped.
pub(super) struct Reservation {
    channel: Arc<Channel>,
    pub(super) key: MessageKey,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.channel.release(self.key);
    }
}

/// A waiter for room. When dropped, it wakes the next one, whether or not it has sent.
struct RoomWaiter<'a> {
    channel: &'a Channel,
    notify: Arc<Notify>,
}

impl Drop for RoomWaiter<'_> {
    fn drop(&mut self) {
        let mut in_flight = lock(&self.channel.in_flight);
        match in_flight.queue.front() {
            Some(first) if Arc::ptr_eq(first, &self.notify) => drop(in_flight.queue.pop_front()),
            _ => in_flight
                .queue
                .retain(|notify| !Arc::ptr_eq(notify, &self.notify)),
        }
        in_flight.wake_next();
    }
}

impl InFlightMessages {
    fn has_room(&self) -> bool {
        self.messages.len() < MAX_IN_FLIGHT
    }

    /// Wakes the longest waiter, if there is room.
    fn wake_next(&self) {
        if let Some(notify) = self.queue.front()
            && self.has_room()
        {
            notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::Environment;
    use crate::transport::http::{HttpStack, HttpTarget};
    use crate::transport::{MessageOrigin, NoCredentials};
    use crate::wire::{Incoming, OversizedMessage};

    #[derive(Default)]
    struct ClosedReasons(Mutex<Vec<String>>);

    impl Inbound for ClosedReasons {
        fn message(&self, _: Incoming, _: MessageOrigin) {}
        fn failed(&self, _: u64, _: TransportFault) {}
        fn session_renewed(&self) {}
        fn not_a_message(&self, _: &[u8]) {}
        fn oversized(&self, _: Option<OversizedMessage>) {}
        fn closed(&self, reason: String) {
            lock(&self.0).push(reason);
        }
    }

    /// A server may send pings and accept no response.
    #[tokio::test]
    async fn a_channel_ends_when_too_many_one_way_messages_are_not_accepted() {
        let target = HttpTarget {
            url: "http://127.0.0.1:9/mcp".parse().unwrap(),
            headers: Vec::new(),
            credentials: Arc::new(NoCredentials),
            max_message_bytes: 1024,
        };
        let stack = HttpStack::new(&Environment::default()).unwrap();
        let (endpoint, replies) = McpEndpoint::with_reply_endpoint(&stack, &target).unwrap();
        let closed = Arc::new(ClosedReasons::default());
        let channel = Channel::new(endpoint, replies, closed.clone());
        let reserve = |_| channel.reserve(None).ok();
        let mut in_flight: Vec<_> = (0..MAX_UNACCEPTED).map_while(reserve).collect();
        assert_eq!(in_flight.len(), MAX_UNACCEPTED);
        in_flight.pop();
        in_flight.extend(channel.reserve(None).ok());
        assert!(lock(&closed.0).is_empty());
        assert_eq!(channel.reserve(None).err(), Some(Closed));
        assert_eq!(*lock(&closed.0), [unaccepted()]);
    }
}
