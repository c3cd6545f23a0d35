//! The progress of one request, as its client gets it: the server's, and the gateway's own while a
//! call waits for approval.

/// How much each of the gateway's own progress notifications adds: little, so that the server's
/// progress, which begins later, is larger.
const OWN_PROGRESS_STEP: f64 = 0.001;

/// The progress that was sent to the client: each notification must have a larger one.
#[derive(Debug, Default)]
pub(super) struct SentProgress {
    last: f64,
    /// Whether some of it was the gateway's own. Otherwise the server's is sent as it is.
    has_own: bool,
}

impl SentProgress {
    /// The next progress of the gateway's own.
    pub(super) fn next_own(&mut self) -> f64 {
        self.has_own = true;
        self.last = (self.last + OWN_PROGRESS_STEP).max(self.last.next_up());
        self.last
    }

    /// Records the server's progress. Returns a larger one if it would not increase.
    pub(super) fn replace(&mut self, progress: f64) -> Option<f64> {
        if self.has_own && progress <= self.last {
            return Some(self.next_own());
        }
        self.last = progress;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_increases_when_the_servers_follows_that_of_the_gateway() {
        let mut sent = SentProgress::default();
        // A server's progress is not judged while it is alone.
        assert_eq!([sent.replace(1.0), sent.replace(1.0)], [None, None]);
        assert_eq!(
            [sent.next_own(), sent.next_own()],
            [1.001, 1.0019999999999998]
        );
        let larger = sent.replace(1.0).unwrap_or_default();
        assert!(larger > 1.002 && larger < 1.004, "{larger}");
        assert_eq!(sent.replace(2.0), None);
        assert_eq!(sent.replace(1e300), None);
        assert!(sent.next_own() > 1e300);
    }

    #[test]
    fn the_gateways_own_progress_counts_up_from_zero() {
        let mut sent = SentProgress::default();
        assert_eq!([sent.next_own(), sent.next_own()], [0.001, 0.002]);
        assert_eq!(sent.replace(0.0), Some(0.003));
        assert_eq!(sent.replace(0.5), None);
    }
}
