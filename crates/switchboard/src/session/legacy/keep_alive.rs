//! Detects that a server is gone where the transport does not: an idle session is pinged, and two
//! consecutive pings without a response end it.
//!
//! Only idle sessions are pinged, since a server that is busy with a call may answer nothing else,
//! and the call has its own deadlines. The modern era has no `ping`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use crate::session::RequestFault;
use crate::session::peer::Peer;
use crate::session::receiver::{Receiver, TaskGuard};
use crate::transport::{Transport, TransportFault};

/// A server that was silent for this long is pinged.
const PING_AFTER: Duration = Duration::from_secs(30);

/// How long to wait for the response to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// The number of consecutive pings without a response that end the session.
const MAX_MISSED: u32 = 2;

/// Starts the pings if the transport needs them.
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
        sleep(PING_AFTER).await;
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
                "the server does not respond: {MAX_MISSED} consecutive pings got no response"
            ));
        }
    }
}

/// A JSON-RPC error is a response too.
fn is_no_response(fault: &RequestFault) -> bool {
    matches!(
        fault,
        RequestFault::Timeout { .. }
            | RequestFault::Transport(TransportFault::NotSent(_) | TransportFault::Lost(_))
    )
}
