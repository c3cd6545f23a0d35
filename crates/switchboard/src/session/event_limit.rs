//! Limits the messages of a server that become events: an event wakes every reader, and the gateway's
//! reader a client. A server that sends without pause would make each of them run for each message,
//! and would push other events out of the bounded queue.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::lock;

/// The sustained rate, as the time that one event takes up.
const TIME_PER_EVENT: Duration = Duration::from_millis(10);

/// The limit of one kind of event of one session.
#[derive(Debug)]
pub(super) struct EventLimit {
    /// How many may be sent at once after a pause.
    burst: u32,
    /// When everything sent so far is paid for.
    paid_at: Mutex<Instant>,
}

impl EventLimit {
    pub(super) fn new(burst: u32) -> Self {
        Self {
            burst,
            paid_at: Mutex::new(Instant::now()),
        }
    }

    /// Whether one more event may be sent now; counts it, if so.
    pub(super) fn allows(&self) -> bool {
        let now = Instant::now();
        let mut paid_at = lock(&self.paid_at);
        let next = (*paid_at).max(now) + TIME_PER_EVENT;
        let is_allowed = next <= now + TIME_PER_EVENT * self.burst;
        if is_allowed {
            *paid_at = next;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn p2_messages_become_events_at_a_limited_rate() {
        let limit = EventLimit::new(50);
        let sent = || (0..1_000).filter(|_| limit.allows()).count();
        assert_eq!(sent(), 50);
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(sent(), 10);
        // An hour without messages allows one burst, no more.
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(sent(), 50);
    }
}
