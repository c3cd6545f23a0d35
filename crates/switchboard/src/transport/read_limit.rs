//! Limits what is read from a server: a share per turn, so that other tasks run in between, and a
//! rate for what answers no request, so that backpressure stops a server that sends without pause.
//!
//! Answers are bounded by our own requests and cost nothing. Everything else is charged to the
//! connection, all of whose streams share one limit: bytes, and what messages and lines take to
//! handle besides. The constants are chosen so that a server that floods takes about one twentieth
//! of a core.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::Inbound;
use crate::caller::BoxFuture;
#[cfg(feature = "http")]
use crate::wire::events::{EventFrames, ServerEvent};

/// How much of what answers no request is read in a second, and how much of it at once after a
/// pause.
const COST_PER_SECOND: u64 = 32 * 1024 * 1024;
const BURST: Duration = Duration::from_millis(250);

/// A turn ends after this much.
const COST_PER_TURN: usize = 64 * 1024;

/// What a message costs that answers no request, and a line of an event stream, besides their
/// bytes.
const MESSAGE_COST: usize = 2 * 1024;
const LINE_COST: usize = 64;

/// A read costs no less than this.
const READ_COST: usize = 512;

/// What may stand around an answer: names and ids of events, line ends.
const FRAMING_BYTES: usize = 256;

/// An event stream is handled in pieces of this size at most, so that a turn can end between them.
#[cfg(feature = "http")]
pub(super) const PIECE_BYTES: usize = 4 * 1024;

/// The rate limit of one connection to a server.
#[derive(Debug)]
pub(super) struct ReadLimit {
    /// What was read so far is paid for at this time. It lies ahead of now by no more than the
    /// burst, or else readers wait.
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
    /// Charges this much; answers with the time before which nothing more is to be read, if that is
    /// not now.
    fn charge(&self, cost: usize) -> Option<Instant> {
        let now = Instant::now();
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        *paid_at = (*paid_at).max(now)
            + Duration::from_nanos(cost as u64 * 1_000_000_000 / COST_PER_SECOND);
        (*paid_at > now + BURST).then(|| *paid_at - BURST)
    }
}

/// What handling a part of a stream came to.
#[derive(Debug, Default)]
pub(super) struct Handled {
    /// All bytes that were handled for good: those of an incomplete message may yet be an answer.
    pub(super) bytes: usize,
    /// Lines of an event stream.
    lines: usize,
    answers: usize,
    answer_bytes: usize,
    others: usize,
}

impl Handled {
    /// Bytes that were thrown away.
    pub(super) fn discarded(bytes: usize) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Counts a message of this length: as an answer if `inbound` has more of them once it was
    /// delivered.
    pub(super) fn message(&mut self, bytes: usize, inbound: &dyn Inbound, deliver: impl FnOnce()) {
        let answers = inbound.answers();
        deliver();
        if inbound.answers() > answers {
            self.answers += 1;
            self.answer_bytes += bytes + FRAMING_BYTES;
        } else {
            self.others += 1;
        }
    }

    /// Whether this is as much as one turn may handle.
    pub(super) fn is_turn(&self) -> bool {
        self.others * MESSAGE_COST >= COST_PER_TURN
    }
}

/// Paces the reading of one stream.
#[derive(Debug)]
pub(super) struct Pacer<'a> {
    limit: &'a ReadLimit,
    turn_cost: usize,
    resume_at: Option<Instant>,
}

impl<'a> Pacer<'a> {
    pub(super) fn new(limit: &'a ReadLimit) -> Self {
        Self {
            limit,
            turn_cost: 0,
            resume_at: None,
        }
    }

    /// Counts a piece of this length, and what handling it came to.
    pub(super) fn count(&mut self, piece_bytes: usize, handled: &Handled) {
        let overhead = handled.others * MESSAGE_COST + handled.lines * LINE_COST;
        self.turn_cost += piece_bytes.max(READ_COST) + overhead;
        let mut cost = handled.bytes.saturating_sub(handled.answer_bytes);
        if handled.answers == 0 {
            cost += overhead + READ_COST.saturating_sub(piece_bytes);
        }
        if cost > 0 {
            self.resume_at = self.limit.charge(cost).or(self.resume_at);
        }
    }

    /// Cuts the events out of a piece of a stream and hands them on.
    #[cfg(feature = "http")]
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        frames: &mut EventFrames,
        inbound: &dyn Inbound,
        each: &mut dyn FnMut(ServerEvent<'_>),
    ) {
        let (mut handled, buffered) = (Handled::default(), frames.buffered());
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

    /// What to wait for before more is read, if anything. Boxed, since most reads wait for nothing.
    /// Dropping it loses nothing.
    pub(super) fn pause(&mut self) -> Option<BoxFuture<'_, ()>> {
        if self.resume_at.is_none() && self.turn_cost < COST_PER_TURN {
            return None;
        }
        Some(Box::pin(async {
            match self.resume_at {
                Some(at) => sleep_until(at).await,
                None => yield_now().await,
            }
            (self.resume_at, self.turn_cost) = (None, 0);
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads messages that answer nothing for a second of paused time, and says how many.
    async fn messages_in_a_second(limit: &ReadLimit) -> usize {
        let (mut pacer, began, mut count) = (Pacer::new(limit), Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(1) {
            pacer.count(
                100,
                &Handled {
                    bytes: 100,
                    others: 1,
                    ..Handled::default()
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
    async fn p2_what_answers_nothing_is_read_at_a_rate_and_never_caught_up() {
        let limit = ReadLimit::default();
        let first = messages_in_a_second(&limit).await;
        assert!((14_000..20_000).contains(&first), "{first}");
        // An hour of silence allows one burst, no more.
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
    async fn answers_and_incomplete_messages_end_turns_and_are_not_limited() {
        let limit = ReadLimit::default();
        let (mut pacer, began) = (Pacer::new(&limit), Instant::now());
        let mut turns = 0;
        for _ in 0..1_000 {
            pacer.count(PIECE_BYTES, &Handled::default());
            pacer.count(
                PIECE_BYTES,
                &Handled {
                    bytes: 2 * PIECE_BYTES,
                    answers: 1,
                    answer_bytes: 2 * PIECE_BYTES,
                    ..Handled::default()
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
