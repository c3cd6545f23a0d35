//! Finds out that a server is gone where the transport does not show it: while nothing is in flight
//! it is pinged, and two pings in a row without a response end the session.
//!
//! Only while idle, since a server that is busy with a call may answer nothing else, and the call
//! has deadlines of its own. The modern era has no `ping`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use crate::session::RequestFault;
use crate::session::peer::Peer;
use crate::session::receiver::{Receiver, TaskGuard};
use crate::transport::{Transport, WireFault};

/// A server that was silent for so long is pinged.
const SILENCE: Duration = Duration::from_secs(30);

/// How long it may take to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How many pings in a row may get no response.
const MAX_MISSED: u32 = 2;

/// Starts the pings where the transport needs them.
pub(super) fn start(peer: &Peer) -> Option<TaskGuard> {
    peer.transport.properties().needs_keep_alive.then(|| {
        let (receiver, transport) = (
            Arc::downgrade(&peer.receiver),
            Arc::downgrade(&peer.transport),
        );
        let pinging = run(peer.receiver.received(), receiver, transport);
        peer.receiver.spawn(pinging)
    })
}

async fn run(mut received: u64, receiver: Weak<Receiver>, transport: Weak<dyn Transport>) {
    let mut missed = 0;
    loop {
        sleep(SILENCE).await;
        let (Some(receiver), Some(transport)) = (receiver.upgrade(), transport.upgrade()) else {
            return;
        };
        let peer = Peer {
            receiver,
            transport,
        };
        let now = peer.receiver.received();
        if std::mem::replace(&mut received, now) != now || !peer.receiver.pending.is_empty() {
            missed = 0;
            continue;
        }
        match peer
            .request(super::request("ping", &[]), PING_TIMEOUT)
            .await
        {
            Err(RequestFault::Closed(_)) => return,
            Err(fault) if is_no_response(&fault) => missed += 1,
            _ => missed = 0,
        }
        if missed == MAX_MISSED {
            return peer.receiver.end(&format!(
                "nobody answers: {MAX_MISSED} pings in a row brought nothing"
            ));
        }
    }
}

/// An error of the server is a response too: it is alive.
fn is_no_response(fault: &RequestFault) -> bool {
    matches!(
        fault,
        RequestFault::Timeout { .. }
            | RequestFault::Wire(WireFault::NotSent(_) | WireFault::Lost(_))
    )
}
