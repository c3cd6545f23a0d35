//! When a request is sent a second time: the server is busy and named a delay, or the response was
//! lost.
//!
//! In both cases the request may have been executed, so only idempotent requests are repeated:
//! lists, handshakes, and calls of tools that the entry names in `idempotent_tools`. Every other
//! request fails, with the delay that the server named.

use std::time::Duration;

use tokio::time::Instant;

use super::RequestFault;
use crate::transport::TransportFault;

/// The shortest delay before the second attempt.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The delay before a second attempt, if one may succeed and can begin before `deadline`.
pub(super) fn pause(fault: &RequestFault, deadline: Instant) -> Option<Duration> {
    match fault {
        RequestFault::Transport(TransportFault::Lost(_)) => in_time(SHORTEST_PAUSE, deadline),
        RequestFault::Transport(fault) => pause_if_busy(fault, deadline),
        _ => None,
    }
}

/// The delay before a second attempt, for a busy server only.
pub(super) fn pause_if_busy(fault: &TransportFault, deadline: Instant) -> Option<Duration> {
    match fault {
        TransportFault::Status {
            status: 429 | 503,
            retry_after: Some(wait),
            ..
        } => in_time(*wait, deadline),
        _ => None,
    }
}

fn in_time(pause: Duration, deadline: Instant) -> Option<Duration> {
    let pause = pause.max(SHORTEST_PAUSE);
    (Instant::now() + pause < deadline).then_some(pause)
}
