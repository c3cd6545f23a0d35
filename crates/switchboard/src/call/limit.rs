//! How long a call may take in all, where its caller said so.

use std::time::Duration;

use tokio::time::Instant;

use crate::catalog::Tool;
use crate::config::Timeouts;

/// The caller's own limit for all of a call, if it gave one. The time that a person takes to
/// approve is not counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    most: Option<Duration>,
    /// From when it is counted.
    pub(super) since: Option<Instant>,
}

impl Limit {
    pub(super) fn start(most: Option<Duration>) -> Self {
        Self {
            most,
            since: most.map(|_| Instant::now()),
        }
    }

    /// What has passed since then is not counted.
    pub(super) fn put_off(&mut self, since: Instant) {
        self.since = self.since.map(|counted| counted + since.elapsed());
    }

    /// What may be waited, if it were `wait` without the limit.
    pub(super) fn within(self, wait: Duration) -> Duration {
        match (self.most, self.since) {
            (Some(most), Some(since)) => wait.min(most.saturating_sub(since.elapsed())),
            _ => wait,
        }
    }

    /// The entry's deadlines, with the caller's own maximum where it gave one.
    pub(super) fn timeouts(self, tool: &Tool) -> Timeouts {
        let mut timeouts = tool.server.timeouts;
        if let Some(most) = self.most {
            // Where the entry has one deadline for the whole call, the caller's takes its place.
            let is_absolute = timeouts.call == timeouts.call_max;
            timeouts.call_max = most;
            timeouts.call = if is_absolute {
                most
            } else {
                timeouts.call.min(most)
            };
        }
        timeouts
    }
}
