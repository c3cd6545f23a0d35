//! Limits reading from a server: an amount per turn, so that other tasks run in between, and a rate
//! for everything but responses, so that a server that sends continuously meets backpressure.
//!
//! Responses are bounded by our own requests and are not limited. Everything else is charged to the
//! connection, whose streams share one limit: its bytes, and a fixed cost for each message and
//! line. The constants let a flooding server use about one twentieth of a core.

use std::sync::Mutex;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::Inbound;
use crate::future::BoxFuture;
use crate::sync::lock;
#[cfg(feature = "http")]
use crate::wire::events::{EventFrames, ServerEvent};

/// The limit per second, and how much of it may be used at once after a pause.
const COST_PER_SECOND: u64 = 32 * 1024 * 1024;
const BURST: Duration = Duration::from_millis(250);

/// The cost after which other tasks get a turn.
const COST_PER_TURN: usize = 64 * 1024;

/// The number of messages that are not responses after which other tasks get a turn. Handling one takes
/// some microseconds, for which the calls of other servers wait.
const OTHERS_PER_TURN: usize = 4;

/// The cost of a message that is not a response, and of a line of an event stream, in addition to
/// their bytes.
const MESSAGE_COST: usize = 2 * 1024;
const LINE_COST: usize = 64;

/// The minimum cost of a read.
const READ_COST: usize = 512;

/// Allowance for the framing of a response: event names and ids, line ends.
const FRAMING_BYTES: usize = 256;

/// An event stream is handled in parts of at most this size, so that a turn can end between them.
#[cfg(feature = "http")]
pub(super) const PIECE_BYTES: usize = 4 * 1024;

/// The rate limit of one connection to a server.
#[derive(Debug)]
pub(super) struct ReadLimit {
    /// When everything read so far is paid for. Readers wait while it is ahead of now by more than
    /// the burst.
    paid_at: Mutex<Instant>,
}

impl Default for ReadLimit {
    fn default() -> Self {
        Self {
            paid_at: Mutex::new(Instant::now()),
        }
    }
}

impl ReadLimit {
    /// Charges a cost; returns the time until which readers must wait, if any.
    fn charge(&self, cost: usize) -> Option<Instant> {
        let now = Instant::now();
        let mut paid_at = lock(&self.paid_at);
        *paid_at = (*paid_at).max(now)
            + Duration::from_nanos(cost as u64 * 1_000_000_000 / COST_PER_SECOND);
        (*paid_at > now + BURST).then(|| *paid_at - BURST)
    }
}

/// What was read and handled.
#[derive(Debug, Default)]
pub(super) struct ReadUsage {
    /// Bytes of complete messages: an incomplete one may become a response.
    pub(super) bytes: usize,
    /// Lines of an event stream.
    lines: usize,
    answers: usize,
    answer_bytes: usize,
    others: usize,
}

impl ReadUsage {
    /// Usage for bytes that were dropped.
    pub(super) fn discarded(bytes: usize) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// How many responses were delivered.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// Delivers and counts a message, or a batch, of this length. `deliver` returns how many
    /// messages there were: as many of them are responses as `inbound` then reports more. What is
    /// not a message counts as one.
    pub(super) fn message(
        &mut self,
        bytes: usize,
        inbound: &dyn Inbound,
        deliver: impl FnOnce() -> usize,
    ) {
        let before = inbound.awaited_responses();
        let count = deliver().max(1);
        let answers = usize::try_from(inbound.awaited_responses() - before).unwrap_or(count);
        if answers > 0 {
            self.answers += answers;
            self.answer_bytes += bytes + FRAMING_BYTES;
        }
        self.others += count.saturating_sub(answers);
    }

    /// Whether the usage fills a turn.
    pub(super) fn fills_turn(&self) -> bool {
        self.others >= OTHERS_PER_TURN
    }
}

/// Applies the limits to one stream.
#[derive(Debug)]
pub(super) struct Pacer<'a> {
    limit: &'a ReadLimit,
    turn_cost: usize,
    turn_others: usize,
    resume_at: Option<Instant>,
}

impl<'a> Pacer<'a> {
    pub(super) fn new(limit: &'a ReadLimit) -> Self {
        Self {
            limit,
            turn_cost: 0,
            turn_others: 0,
            resume_at: None,
        }
    }

    /// Counts a part of this length and what it contained.
    pub(super) fn count(&mut self, piece_bytes: usize, handled: &ReadUsage) {
        let overhead = handled.others * MESSAGE_COST + handled.lines * LINE_COST;
        self.turn_cost += piece_bytes.max(READ_COST) + overhead;
        self.turn_others += handled.others;
        let mut cost = handled.bytes.saturating_sub(handled.answer_bytes);
        if handled.answers == 0 {
            cost += overhead + READ_COST.saturating_sub(piece_bytes);
        }
        if cost > 0 {
            self.resume_at = self.limit.charge(cost).or(self.resume_at);
        }
    }

    /// Parses the events in a part of a stream and passes them on; `each` returns how many messages
    /// there were.
    #[cfg(feature = "http")]
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        frames: &mut EventFrames,
        inbound: &dyn Inbound,
        each: &mut dyn FnMut(ServerEvent<'_>) -> usize,
    ) {
        let (mut handled, buffered) = (ReadUsage::default(), frames.buffered());
        let lines = frames.push(piece, &mut |event| {
            let bytes = match &event {
                ServerEvent::Event { data, .. } => data.as_ref().len(),
                ServerEvent::Oversized(_) => 0,
            };
            handled.message(bytes, inbound, || each(event));
        });
        handled.lines = lines;
        handled.bytes = (buffered + piece.len()).saturating_sub(frames.buffered());
        self.count(piece.len(), &handled);
    }

    /// The pause before reading more, if one is needed. Boxed, since most reads need none.
    /// Cancel-safe.
    pub(super) fn pause(&mut self) -> Option<BoxFuture<'_, ()>> {
        if self.resume_at.is_none()
            && self.turn_cost < COST_PER_TURN
            && self.turn_others < OTHERS_PER_TURN
        {
            return None;
        }
        Some(Box::pin(async {
            match self.resume_at {
                Some(at) => sleep_until(at).await,
                None => yield_now().await,
            }
            (self.resume_at, self.turn_cost, self.turn_others) = (None, 0, 0);
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads messages that are not responses for a second of paused time; returns their number.
    async fn messages_in_a_second(limit: &ReadLimit) -> usize {
        let (mut pacer, began, mut count) = (Pacer::new(limit), Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(1) {
            pacer.count(
                100,
                &ReadUsage {
                    bytes: 100,
                    others: 1,
                    ..ReadUsage::default()
                },
            );
            count += 1;
            if let Some(pause) = pacer.pause() {
                pause.await;
            }
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn p2_messages_other_than_responses_are_read_at_a_limited_rate() {
        let limit = ReadLimit::default();
        let first = messages_in_a_second(&limit).await;
        assert!((14_000..20_000).contains(&first), "{first}");
        // An hour of idle time allows one burst, no more.
        tokio::time::advance(Duration::from_secs(3600)).await;
        let later = messages_in_a_second(&limit).await;
        assert!((14_000..20_000).contains(&later), "{later}");
    }

    #[tokio::test(start_paused = true)]
    async fn p2_streams_of_one_connection_share_its_limit() {
        let limit = ReadLimit::default();
        let (one, other) = tokio::join!(messages_in_a_second(&limit), messages_in_a_second(&limit));
        assert!(
            (14_000..20_000).contains(&(one + other)),
            "{one} and {other}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn p2_other_tasks_get_a_turn_after_every_few_messages() {
        let limit = ReadLimit::default();
        let mut pacer = Pacer::new(&limit);
        let message = || ReadUsage {
            bytes: 100,
            others: 1,
            ..ReadUsage::default()
        };
        let mut pauses = 0;
        for _ in 0..40 {
            pacer.count(100, &message());
            if let Some(pause) = pacer.pause() {
                pause.await;
                pauses += 1;
            }
        }
        assert_eq!(pauses, 40 / OTHERS_PER_TURN);
    }

    /// A batch costs as much as its messages would one by one.
    #[cfg(feature = "http")]
    #[tokio::test(start_paused = true)]
    async fn p2_each_message_of_a_batch_counts_against_the_rate() {
        use crate::transport::http::standalone_stream::deliver;
        use crate::transport::{MessageOrigin, TransportFault};
        use crate::wire::{Incoming, OversizedMessage};

        struct Ignore;
        impl Inbound for Ignore {
            fn message(&self, _: Incoming, _: MessageOrigin) {}
            fn failed(&self, _: u64, _: TransportFault) {}
            fn session_renewed(&self) {}
            fn not_a_message(&self, _: &[u8]) {}
            fn oversized(&self, _: Option<OversizedMessage>) {}
            fn closed(&self, _: String) {}
        }

        let batch = vec![r#"{"method":"n"}"#; 100].join(",");
        let event = format!("data: [{batch}]\n\n");
        let (limit, began) = (ReadLimit::default(), Instant::now());
        let (mut pacer, mut frames) = (Pacer::new(&limit), EventFrames::new(1 << 20));
        let mut batches = 0;
        while began.elapsed() < Duration::from_secs(1) {
            pacer.push(event.as_bytes(), &mut frames, &Ignore, &mut |event| {
                deliver(event, &Ignore)
            });
            batches += 1;
            if let Some(pause) = pacer.pause() {
                pause.await;
            }
        }
        assert!((140..210).contains(&batches), "{batches}");
    }

    #[tokio::test(start_paused = true)]
    async fn responses_and_incomplete_messages_end_turns_and_are_not_limited() {
        let limit = ReadLimit::default();
        let (mut pacer, began) = (Pacer::new(&limit), Instant::now());
        let mut turns = 0;
        for _ in 0..1_000 {
            pacer.count(PIECE_BYTES, &ReadUsage::default());
            pacer.count(
                PIECE_BYTES,
                &ReadUsage {
                    bytes: 2 * PIECE_BYTES,
                    answers: 1,
                    answer_bytes: 2 * PIECE_BYTES,
                    ..ReadUsage::default()
                },
            );
            if let Some(pause) = pacer.pause() {
                pause.await;
                turns += 1;
            }
        }
        assert_eq!((turns, began.elapsed()), (125, Duration::ZERO));
    }
}
