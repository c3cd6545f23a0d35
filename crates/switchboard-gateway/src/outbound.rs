//! Messages to a client, in a queue that is bounded by number and by bytes.
//!
//! An [`Outbound`] is the sending end; an edge writes what its [`OutboundQueue`] returns. A client
//! that does not read is disconnected: its queue ends.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

/// How many messages may wait.
const MAX_MESSAGES: usize = 1024;

/// How many bytes may wait. One message may be larger, if it waits alone.
const MAX_BYTES: u32 = 32 * 1024 * 1024;

/// How long a response waits for room before its reader counts as too slow.
const SLOW_READER: Duration = Duration::from_secs(30);

/// Sends messages to a client: those of one request, or those that belong to none. Clones share the
/// queue; it ends when all of them are gone.
#[derive(Debug, Clone)]
pub struct Outbound(Arc<OutboundSender>);

/// What the clones share.
#[derive(Debug)]
struct OutboundSender {
    sender: mpsc::Sender<OutboundMessage>,
    room: Arc<Semaphore>,
    reader: Arc<SlowReader>,
    meter: Arc<OutboundMeter>,
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
}

/// The receiving end, which an edge writes to its client.
#[derive(Debug)]
pub struct OutboundQueue {
    receiver: mpsc::Receiver<OutboundMessage>,
    reader: Arc<SlowReader>,
}

#[derive(Debug)]
struct OutboundMessage {
    bytes: Bytes,
    /// Released when the message is taken from the queue.
    _room: OwnedSemaphorePermit,
    _counted: CountedMessage,
}

/// Counts a message while it waits.
#[derive(Debug)]
struct CountedMessage(Arc<OutboundMeter>);

impl CountedMessage {
    fn new(meter: &Arc<OutboundMeter>) -> Self {
        meter.waiting.fetch_add(1, Ordering::Relaxed);
        Self(meter.clone())
    }
}

impl Drop for CountedMessage {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the client read too slowly.
#[derive(Debug, Default)]
struct SlowReader {
    is_cut_off: AtomicBool,
    cut_off: Notify,
}

impl Outbound {
    /// A queue for one client, or for one response to it.
    pub fn channel() -> (Self, OutboundQueue) {
        Self::metered(&Arc::default())
    }

    /// The same, counted.
    pub(crate) fn metered(meter: &Arc<OutboundMeter>) -> (Self, OutboundQueue) {
        let (sender, receiver) = mpsc::channel(MAX_MESSAGES);
        let reader = Arc::<SlowReader>::default();
        let outbound = Self(Arc::new(OutboundSender {
            sender,
            room: Arc::new(Semaphore::new(MAX_BYTES as usize)),
            reader: reader.clone(),
            meter: meter.clone(),
        }));
        (outbound, OutboundQueue { receiver, reader })
    }

    /// For a client that gets messages only through its requests: everything else is dropped.
    pub(crate) fn nowhere() -> Self {
        static NOWHERE: LazyLock<Outbound> = LazyLock::new(|| Outbound::channel().0);
        NOWHERE.clone()
    }

    /// Sends a response. It waits for room, so that many large responses do not fill the memory; a
    /// client that makes none in half a minute is disconnected.
    pub async fn respond(&self, message: Bytes) {
        let Err(message) = self.try_send(message) else {
            return;
        };
        let waiting = async {
            let room = self.0.room.clone().acquire_many_owned(cost(&message)).await;
            let (Ok(room), Ok(place)) = (room, self.0.sender.reserve().await) else {
                return;
            };
            place.send(OutboundMessage {
                bytes: message,
                _room: room,
                _counted: CountedMessage::new(&self.0.meter),
            });
        };
        if timeout(SLOW_READER, waiting).await.is_err() {
            self.cut_off();
        }
    }

    /// Sends a notification or a question. A client whose queue is full is disconnected.
    pub fn send(&self, message: Bytes) {
        if self.try_send(message).is_err() {
            self.cut_off();
        }
    }

    /// Whether the client still reads.
    pub fn is_open(&self) -> bool {
        !self.0.sender.is_closed() && !self.0.reader.is_cut_off.load(Ordering::Relaxed)
    }

    /// Waits until the client has disconnected.
    pub async fn closed(&self) {
        self.0.sender.closed().await;
    }

    fn try_send(&self, message: Bytes) -> Result<(), Bytes> {
        let Ok(room) = self.0.room.clone().try_acquire_many_owned(cost(&message)) else {
            return Err(message);
        };
        let queued = OutboundMessage {
            bytes: message,
            _room: room,
            _counted: CountedMessage::new(&self.0.meter),
        };
        match self.0.sender.try_send(queued) {
            // The client has disconnected.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(queued)) => Err(queued.bytes),
        }
    }

    fn cut_off(&self) {
        if !self.0.reader.is_cut_off.swap(true, Ordering::Relaxed) {
            self.0.meter.cut_off.fetch_add(1, Ordering::Relaxed);
        }
        self.0.reader.cut_off.notify_one();
    }
}

/// How much of the room a message takes.
fn cost(message: &Bytes) -> u32 {
    u32::try_from(message.len()).map_or(MAX_BYTES, |length| length.min(MAX_BYTES))
}

impl OutboundQueue {
    /// The next message; `None` once all senders are gone, or the client must be disconnected.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        if self.is_cut_off() {
            return None;
        }
        tokio::select! {
            biased;
            message = self.receiver.recv() => message.map(|message| message.bytes),
            () = self.reader.cut_off.notified() => None,
        }
    }

    /// The next message that waits already.
    pub fn try_next(&mut self) -> Option<Bytes> {
        self.receiver.try_recv().ok().map(|message| message.bytes)
    }

    /// Whether the client read too slowly.
    pub fn is_cut_off(&self) -> bool {
        self.reader.is_cut_off.load(Ordering::Relaxed)
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
        let large = Bytes::from(vec![b' '; MAX_BYTES as usize + 1]);
        outbound.respond(large.clone()).await;
        outbound.respond(large).await;
        assert!(queue.is_cut_off());
        assert_eq!(queue.next().await, None);
    }

    #[tokio::test]
    async fn a_response_waits_for_a_reader_that_is_busy() {
        let (outbound, mut queue) = Outbound::channel();
        let large = Bytes::from(vec![b' '; MAX_BYTES as usize]);
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
