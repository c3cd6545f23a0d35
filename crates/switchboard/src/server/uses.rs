//! Who uses a server now: a server that is replaced ends when its last call has.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Set once no new use may begin.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Counts the uses of one server; all its handles share it.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// How many there are, and the mark above.
    count: AtomicUsize,
    /// Rung when the last use of a closed server ends. Only one waits for it.
    drained: Notify,
}

impl Uses {
    /// One more. False if the server is on its way out: then nothing was counted.
    pub(crate) fn begin(&self) -> bool {
        let is_open = self.count.fetch_add(1, Ordering::AcqRel) & CLOSED == 0;
        if !is_open {
            self.end();
        }
        is_open
    }

    /// One less.
    pub(crate) fn end(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == CLOSED + 1 {
            self.drained.notify_one();
        }
    }

    /// From here on no use begins.
    pub(crate) fn close(&self) {
        self.count.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Waits until a closed server is used by nobody.
    pub(crate) async fn drained(&self) {
        while self.count.load(Ordering::Acquire) != CLOSED {
            self.drained.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_closed_server_is_drained_when_its_last_use_ends_and_takes_no_new_one() {
        let uses = Arc::new(Uses::default());
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
