//! The deadline that a caller gives to the whole of a call.

use std::time::Duration;

use tokio::time::Instant;

use crate::catalog::Tool;
use crate::config::Timeouts;

/// The caller's own limit for the whole call, if it gave one. The time that a person takes to
/// approve does not count.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallDeadline {
    limit: Option<Duration>,
    /// When the limit began to count.
    pub(super) since: Option<Instant>,
}

impl CallDeadline {
    pub(super) fn start(limit: Option<Duration>) -> Self {
        Self {
            limit,
            since: limit.map(|_| Instant::now()),
        }
    }

    /// The time since `start` does not count.
    pub(super) fn exclude_since(&mut self, start: Instant) {
        self.since = self.since.map(|since| since + start.elapsed());
    }

    /// `wait`, or what is left of the limit if that is less.
    pub(super) fn within(self, wait: Duration) -> Duration {
        match (self.limit, self.since) {
            (Some(limit), Some(since)) => wait.min(limit.saturating_sub(since.elapsed())),
            _ => wait,
        }
    }

    /// The entry's deadlines, with the caller's own maximum where it gave one.
    pub(super) fn timeouts(self, tool: &Tool) -> Timeouts {
        let mut timeouts = tool.server.timeouts;
        if let Some(limit) = self.limit {
            // Where the entry has one deadline for the whole call, the caller's takes its place.
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
