//! The caller's time limit for a whole call.

use std::time::Duration;

use tokio::time::Instant;

use crate::catalog::Tool;
use crate::config::Timeouts;

/// The caller's own limit for the whole call, if there is one. The time that a person takes to
/// approve does not count.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallDeadline {
    limit: Option<Duration>,
    /// The start of the limit.
    pub(super) since: Option<Instant>,
}

impl CallDeadline {
    pub(super) fn start(limit: Option<Duration>) -> Self {
        Self {
            limit,
            since: limit.map(|_| Instant::now()),
        }
    }

    /// Excludes the time since `start`.
    pub(super) fn exclude_since(&mut self, start: Instant) {
        self.since = self.since.map(|since| since + start.elapsed());
    }

    /// `wait`, or the rest of the limit if that is less.
    pub(super) fn within(self, wait: Duration) -> Duration {
        match (self.limit, self.since) {
            (Some(limit), Some(since)) => wait.min(limit.saturating_sub(since.elapsed())),
            _ => wait,
        }
    }

    /// The entry's deadlines, with the caller's own maximum if there is one.
    pub(super) fn timeouts(self, tool: &Tool) -> Timeouts {
        let mut timeouts = tool.server.timeouts;
        if let Some(limit) = self.limit {
            // If the entry has one deadline for the whole call, the caller's replaces it.
            let is_absolute = timeouts.call == timeouts.call_max;
            timeouts.call_max = limit;
            timeouts.call = if is_absolute {
                limit
            } else {
                timeouts.call.min(limit)
            };
        }
        timeouts
    }
}
