//! When a request is sent a second time (F22, P5): the server is busy and said until when, or the
//! answer was lost on its way.
//!
//! Either way it may have been executed, so only what does no harm twice is sent twice: lists,
//! handshakes, and calls of tools that the entry names in `idempotent_tools`. Of everything else it
//! is told what happened, with the time that the server named.

use std::time::Duration;

use tokio::time::Instant;

use super::RequestFault;
use super::pending::Answer;
use crate::transport::WireFault;

/// However soon a server wants to be asked again, it is left alone for so long.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// How long to wait before asking once more, if that is worth it and there is time for it before
/// `deadline`.
pub(super) fn pause(answer: &Answer, deadline: Instant) -> Option<Duration> {
    match answer {
        Err(RequestFault::Wire(WireFault::Lost(_))) => in_time(SHORTEST_WAIT, deadline),
        Err(RequestFault::Wire(fault)) => pause_if_busy(fault, deadline),
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

fn in_time(wait: Duration, deadline: Instant) -> Option<Duration> {
    let wait = wait.max(SHORTEST_WAIT);
    (Instant::now() + wait < deadline).then_some(wait)
}
