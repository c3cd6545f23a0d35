//! Counts the requests of callers that are under way on a session, so that a server can be
//! restarted when there are none.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// How many there are.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    count: AtomicUsize,
    /// Rung when the last one ends.
    idle: Notify,
}

/// One request; it is counted until this is dropped.
pub(super) struct InFlightRequest<'a>(&'a InFlight);

impl InFlight {
    pub(super) fn begin(&self) -> InFlightRequest<'_> {
        self.count.fetch_add(1, Ordering::AcqRel);
        InFlightRequest(self)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Waits until there is none. Cancel-safe.
    pub(super) async fn idle(&self) {
        loop {
            let ended = self.idle.notified();
            tokio::pin!(ended);
            // Before the look, so that an end between the look and the wait is not missed.
            ended.as_mut().enable();
            if self.is_idle() {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
