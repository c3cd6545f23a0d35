//! When a request is sent a second time: the server is busy and named a time, or the response was
//! lost.
//!
//! Either way it may have been executed, so only what does no harm twice is sent twice: lists,
//! handshakes, and calls of tools that the entry names in `idempotent_tools`. Every other request
//! fails, with the time that the server named.

use std::time::Duration;

use tokio::time::Instant;

use super::RequestFault;
use crate::transport::WireFault;

/// The shortest pause before the second attempt.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// How long to wait before the second attempt, if one is worth it and can begin before `deadline`.
pub(super) fn pause(fault: &RequestFault, deadline: Instant) -> Option<Duration> {
    match fault {
        RequestFault::Wire(WireFault::Lost(_)) => in_time(SHORTEST_PAUSE, deadline),
        RequestFault::Wire(fault) => pause_if_busy(fault, deadline),
        _ => None,
    }
}

/// The same where only a busy server is worth it.
pub(super) fn pause_if_busy(fault: &WireFault, deadline: Instant) -> Option<Duration> {
    match fault {
        WireFault::Status {
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
