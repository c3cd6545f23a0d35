//! A channel of messages to one server. What travels is bytes of one JSON-RPC message each; this layer knows no tools.

use std::sync::Arc;

use crate::caller::Answering;
use crate::wire::{Incoming, Outgoing, RequestId};

/// The standard streams of a child process.
pub mod stdio;

/// Opens a channel. A library user can bring one of their own.
pub trait Connector: Send + Sync {
    /// Connects; from then on everything that arrives goes to `inbound`.
    fn connect<'a>(&'a self, inbound: Arc<dyn Inbound>) -> Answering<'a, Result<Arc<dyn Transport>, ConnectFault>>;
}

/// Why no channel came to be: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectFault(pub String);

/// The sending half.
pub trait Transport: Send + Sync {
    /// Queues one message. Never blocks; a request waits for [`ready`](Self::ready) first.
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed>;

    /// Whether the queue has room now.
    fn has_room(&self) -> bool;

    /// Waits until the queue has room.
    fn ready(&self) -> Answering<'_, ()>;

    /// Ends the channel: what is queued is written, then the server sees the end of its input.
    fn close(&self);
}

/// The channel is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

/// The receiving half: implemented by the session.
pub trait Inbound: Send + Sync {
    /// One message arrived.
    fn message(&self, message: Incoming);

    /// Something that is no message arrived; `sample` is the start of it.
    fn junk(&self, sample: &[u8]);

    /// A message past the bound was dropped; its id, where the scan found one.
    fn oversized(&self, id: Option<RequestId>);

    /// Nothing more will come. `reason` is one line, safe to show.
    fn closed(&self, reason: String);
}
