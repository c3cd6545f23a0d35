//! Counts a server's requests in flight: a server that a reload replaces stops after the last one.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The bit that is set once no new request may begin.
const CLOSED_BIT: usize = 1 << (usize::BITS - 1);

/// The number of requests in flight of one server; shared by all its handles.
#[derive(Debug, Default)]
pub(crate) struct InFlightCount {
    /// The count and `CLOSED_BIT`.
    count: AtomicUsize,
    /// Notified when the last request of a closed server ends. Only one task waits for it.
    drained: Notify,
}

impl InFlightCount {
    /// Counts a request that begins. False if the server is being removed; then nothing is counted.
    pub(crate) fn begin(&self) -> bool {
        let is_open = self.count.fetch_add(1, Ordering::AcqRel) & CLOSED_BIT == 0;
        if !is_open {
            self.end();
        }
        is_open
    }

    /// Counts a request that ended.
    pub(crate) fn end(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == CLOSED_BIT + 1 {
            self.drained.notify_one();
        }
    }

    /// Prevents new requests.
    pub(crate) fn close(&self) {
        self.count.fetch_or(CLOSED_BIT, Ordering::AcqRel);
    }

    /// Waits until a closed server has no request in flight.
    pub(crate) async fn drained(&self) {
        while self.count.load(Ordering::Acquire) != CLOSED_BIT {
            self.drained.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_closed_server_is_drained_by_its_last_request_and_accepts_no_new_one() {
        let uses = Arc::new(InFlightCount::default());
        assert_eq!((uses.begin(), uses.begin()), (true, true));
        uses.close();
        assert!(!uses.begin(), "closed");
        let waiting = tokio::spawn({
            let uses = uses.clone();
            async move { uses.drained().await }
        });
        uses.end();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "one is left");
        uses.end();
        waiting.await.expect("it ends by itself");
        assert!(!uses.begin(), "closed for good");
        uses.drained().await;
    }
}
