//! Token refreshes whose request was sent: they run to their end and are stored, whatever becomes
//! of the call that needed them. Where refresh tokens rotate, the old one is spent with the
//! request, so an answer that nobody stores is a lost login.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The refreshes under way. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Renewals(watch::Sender<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// How many have sent their request and not stored the answer.
    sent: usize,
    /// Counted up by [`Renewals::finish`]: what was being prepared before it sends nothing after
    /// it.
    round: u64,
}

impl Renewals {
    /// Waits until each refresh whose request was sent has been stored, at most this long. Those
    /// that are still being prepared give up.
    pub async fn finish(&self, limit: Duration) {
        self.0.send_modify(|counts| counts.round += 1);
        // At the limit the answer is given up: an authorization server that does not answer must
        // not keep a program from ending.
        let _ = timeout(
            limit,
            self.0.subscribe().wait_for(|counts| counts.sent == 0),
        )
        .await;
    }

    /// For one refresh that is about to be prepared.
    #[cfg(feature = "oauth")]
    pub(super) fn prepare(&self) -> Preparation {
        Preparation {
            renewals: self.clone(),
            round: self.0.borrow().round,
        }
    }
}

/// A refresh that has sent nothing yet.
#[cfg(feature = "oauth")]
pub(super) struct Preparation {
    renewals: Renewals,
    round: u64,
}

#[cfg(feature = "oauth")]
impl Preparation {
    /// Held while the request is under way and until its answer is stored; `None` where nothing may
    /// be sent any more.
    pub(super) fn send(self) -> Option<Sent> {
        let is_current = self.renewals.0.send_if_modified(|counts| {
            let is_current = counts.round == self.round;
            counts.sent += usize::from(is_current);
            is_current
        });
        is_current.then(|| Sent(self.renewals))
    }
}

/// The request of a refresh was sent, and its answer is not stored yet.
#[cfg(feature = "oauth")]
pub(super) struct Sent(Renewals);

#[cfg(feature = "oauth")]
impl Drop for Sent {
    fn drop(&mut self) {
        self.0.0.send_modify(|counts| counts.sent -= 1);
    }
}

#[cfg(all(test, feature = "oauth"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn what_was_sent_is_waited_for_and_what_was_not_is_never_sent() {
        let renewals = Renewals::default();
        let (early, sent) = (renewals.prepare(), renewals.prepare().send().unwrap());
        let finishing = tokio::spawn({
            let renewals = renewals.clone();
            async move { renewals.finish(Duration::from_secs(60)).await }
        });
        renewals
            .0
            .subscribe()
            .wait_for(|counts| counts.round == 1)
            .await
            .unwrap();
        assert!(early.send().is_none());
        assert!(!finishing.is_finished());
        drop(sent);
        finishing.await.unwrap();
        // A host that goes on after a stop renews as before.
        assert!(renewals.prepare().send().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_comes_is_waited_for_within_the_limit() {
        let renewals = Renewals::default();
        let _sent = renewals.prepare().send().unwrap();
        let begun = tokio::time::Instant::now();
        renewals.finish(Duration::from_secs(10)).await;
        assert_eq!(begun.elapsed().as_secs(), 10);
    }
}
