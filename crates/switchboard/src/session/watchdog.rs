//! Ends requests that are late: one timer for a whole session, so that a call does not pay for one
//! of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::receiver::Receiver;

/// When to look next, and the bell for a deadline that comes before that.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// What `next_nanos` counts from.
    born: Instant,
    /// The next look; `u64::MAX` while it looks or sleeps without end, so that every new deadline
    /// rings.
    next_nanos: AtomicU64,
    rung: Notify,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self {
            born: Instant::now(),
            next_nanos: AtomicU64::new(u64::MAX),
            rung: Notify::new(),
        }
    }
}

impl Watchdog {
    /// A request that is in the table must be looked at by then.
    pub(super) fn look_by(&self, deadline: Instant) {
        if self.nanos(deadline) < self.next_nanos.load(Ordering::SeqCst) {
            self.rung.notify_one();
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.born).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The watching task. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Watching(AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts watching over the requests of a session.
pub(super) fn start(receiver: &Arc<Receiver>) -> Watching {
    Watching(receiver.spawn(watch(Arc::downgrade(receiver))))
}

async fn watch(receiver: Weak<Receiver>) {
    /// Sleeping without end, in practice: a ring wakes it.
    const IDLE: Duration = Duration::from_secs(24 * 60 * 60);
    loop {
        let Some(receiver) = receiver.upgrade() else {
            return;
        };
        let watchdog = &receiver.watchdog;
        // From here a new deadline rings, even while we look; the bell remembers one ring.
        watchdog.next_nanos.store(u64::MAX, Ordering::SeqCst);
        let next = receiver.end_late(Instant::now());
        if let Some(next) = next {
            watchdog
                .next_nanos
                .store(watchdog.nanos(next), Ordering::SeqCst);
        }
        tokio::select! {
            () = watchdog.rung.notified() => {}
            () = sleep_until(next.unwrap_or_else(|| Instant::now() + IDLE)) => {}
        }
    }
}
