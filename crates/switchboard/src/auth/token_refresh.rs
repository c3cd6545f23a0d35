//! Token refreshes in flight: they run to completion and are stored even if the call that needed
//! them is cancelled. Where refresh tokens rotate, the old token is used up by the request, so an
//! unstored response is a lost login.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The refreshes in flight. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenRefreshes(watch::Sender<RefreshCounts>);

#[derive(Debug, Default)]
struct RefreshCounts {
    /// The number of refreshes that were sent and are not stored yet.
    sent: usize,
    /// Incremented by [`TokenRefreshes::finish`]: refreshes prepared before it are not sent after
    /// it.
    round: u64,
}

impl TokenRefreshes {
    /// Waits until each sent refresh is stored, at most this long. Refreshes that are still being
    /// prepared are abandoned.
    pub(crate) async fn finish(&self, limit: Duration) {
        self.0.send_modify(|counts| counts.round += 1);
        // Gives up at the limit: an unresponsive authorization server must not keep the program
        // from exiting.
        let _ = timeout(
            limit,
            self.0.subscribe().wait_for(|counts| counts.sent == 0),
        )
        .await;
    }

    /// Registers a refresh that is about to be prepared.
    #[cfg(feature = "oauth")]
    pub(super) fn prepare(&self) -> RefreshPreparation {
        RefreshPreparation {
            refreshes: self.clone(),
            round: self.0.borrow().round,
        }
    }
}

/// A refresh that is not sent yet.
#[cfg(feature = "oauth")]
pub(super) struct RefreshPreparation {
    refreshes: TokenRefreshes,
    round: u64,
}

#[cfg(feature = "oauth")]
impl RefreshPreparation {
    /// Marks the refresh as sent until the guard is dropped, after storing the response; `None` if
    /// nothing may be sent any more.
    pub(super) fn send(self) -> Option<RefreshInFlight> {
        let is_current = self.refreshes.0.send_if_modified(|counts| {
            let is_current = counts.round == self.round;
            counts.sent += usize::from(is_current);
            is_current
        });
        is_current.then(|| RefreshInFlight(self.refreshes))
    }
}

/// A refresh that was sent and is not stored yet.
#[cfg(feature = "oauth")]
pub(super) struct RefreshInFlight(TokenRefreshes);

#[cfg(feature = "oauth")]
impl Drop for RefreshInFlight {
    fn drop(&mut self) {
        self.0.0.send_modify(|counts| counts.sent -= 1);
    }
}

#[cfg(all(test, feature = "oauth"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn sent_refreshes_are_awaited_and_prepared_ones_are_never_sent() {
        let refreshes = TokenRefreshes::default();
        let (early, sent) = (refreshes.prepare(), refreshes.prepare().send().unwrap());
        let finishing = tokio::spawn({
            let refreshes = refreshes.clone();
            async move { refreshes.finish(Duration::from_secs(60)).await }
        });
        refreshes
            .0
            .subscribe()
            .wait_for(|counts| counts.round == 1)
            .await
            .unwrap();
        assert!(early.send().is_none());
        assert!(!finishing.is_finished());
        drop(sent);
        finishing.await.unwrap();
        // A host that continues after a stop refreshes as before.
        assert!(refreshes.prepare().send().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_response_is_awaited_up_to_the_limit() {
        let refreshes = TokenRefreshes::default();
        let _sent = refreshes.prepare().send().unwrap();
        let begun = tokio::time::Instant::now();
        refreshes.finish(Duration::from_secs(10)).await;
        assert_eq!(begun.elapsed().as_secs(), 10);
    }
}
