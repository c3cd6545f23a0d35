//! Finds out that a server is gone where the wire does not tell: while nothing is under way it is
//! pinged, and two pings in a row that bring nothing end the session.
//!
//! Only on a legacy session, since `ping` is gone from the modern era; and only while idle, since a
//! server that is busy with a call may answer nothing else, and the call has deadlines of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::link::{Link, Request};
use super::receiver::Receiver;
use super::{Era, RequestFault};
use crate::transport::{Transport, WireFault};

/// A server that was silent for so long is pinged.
const SILENCE: Duration = Duration::from_secs(30);

/// How long it may take to answer that.
const PATIENCE: Duration = Duration::from_secs(20);

/// So many pings in a row that bring nothing mean that nobody is there.
const MISSES: u32 = 2;

/// The task that pings. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Pulse(AbortHandle);

impl Drop for Pulse {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts to look after a legacy session on a wire that may fall silent for ever.
pub(super) fn start(link: &Link, era: Era) -> Option<Pulse> {
    let is_needed = era == Era::Legacy && link.transport.properties().needs_keep_alive;
    is_needed.then(|| {
        let feeling = feel(
            link.receiver.heard(),
            Arc::downgrade(&link.receiver),
            Arc::downgrade(&link.transport),
        );
        Pulse(link.receiver.spawn(feeling))
    })
}

async fn feel(mut heard: u64, receiver: Weak<Receiver>, transport: Weak<dyn Transport>) {
    let mut missed = 0;
    loop {
        sleep(SILENCE).await;
        let (Some(receiver), Some(transport)) = (receiver.upgrade(), transport.upgrade()) else {
            return;
        };
        let link = Link {
            receiver,
            transport,
        };
        let now = link.receiver.heard();
        if std::mem::replace(&mut heard, now) != now || !link.receiver.pending.is_idle() {
            missed = 0;
            continue;
        }
        let answer = link
            .request(Request::new(Era::Legacy, "ping", &[]), PATIENCE)
            .await;
        match answer {
            Err(RequestFault::Closed(_)) => return,
            Err(fault) if is_silence(&fault) => missed += 1,
            _ => missed = 0,
        }
        if missed == MISSES {
            return link.receiver.end(&format!(
                "nobody answers: {MISSES} pings in a row brought nothing"
            ));
        }
    }
}

/// A no is an answer too: whoever says it is alive.
fn is_silence(fault: &RequestFault) -> bool {
    matches!(
        fault,
        RequestFault::Timeout { .. }
            | RequestFault::Wire(WireFault::NotSent(_) | WireFault::Lost(_))
    )
}
