//! A channel of messages to one server. What travels is bytes of one JSON-RPC message each; this
//! layer knows no tools.

use std::sync::Arc;
use std::time::Duration;

use crate::auth::NeedsLogin;
use crate::caller::BoxFuture;
use crate::panics::catch_panic;
use crate::wire::{Incoming, Outgoing, RawJson, RequestId};

mod read_limit;

/// The standard streams of a child process.
pub mod stdio;

/// Streamable HTTP, in both eras.
#[cfg(feature = "http")]
pub mod http;

/// HTTP+SSE, the wire of 2024-11-05.
#[cfg(feature = "http")]
pub mod sse;

/// Opens a channel. A library user can bring one of their own.
pub trait Connector: Send + Sync {
    /// Connects; from then on everything that arrives goes to `inbound`.
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>>;
}

/// Runs a task that a channel needs: if it panics, the channel is closed.
async fn supervised(inbound: Arc<dyn Inbound>, task: impl Future<Output = ()>) {
    if let Err(panicked) = catch_panic(task).await {
        inbound.closed(panicked.to_string());
    }
}

/// Why no channel came to be: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectFault(pub String);

/// The sending half.
pub trait Transport: Send + Sync {
    /// Queues one message. Never blocks; a request waits for [`ready`](Self::ready) first.
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed>;

    /// Sends a request for somebody who waits for its answer. Where something comes back, the
    /// request gets no further than that is polled; once the wait is over, what is left of it
    /// goes to [`leave`](Self::leave).
    fn ask(&self, message: Outgoing<'_>) -> Result<Option<BoxFuture<'static, ()>>, Closed> {
        self.send(message).map(|()| None)
    }

    /// Takes back what is left of a request that nobody polls any more.
    fn leave(&self, id: u64, rest: BoxFuture<'static, ()>) {
        drop((id, rest));
    }

    /// Whether the queue has room now.
    fn has_room(&self) -> bool;

    /// Waits until the queue has room.
    fn ready(&self) -> BoxFuture<'_, ()>;

    /// Waits until the answer to a question of the server has room. Never for a request to end: it
    /// may wait for this very answer.
    fn ready_to_answer(&self) -> BoxFuture<'_, ()> {
        self.ready()
    }

    /// Ends the channel: what is queued is written, then the server sees the end of its input.
    fn close(&self);

    /// Waits until a closed channel has said its last words. They have a deadline of their own.
    fn farewell(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    /// Nobody waits for the answer to this request any more. True where the wire itself tells the
    /// server so, and a message would be wrong.
    fn forget(&self, id: u64) -> bool {
        let _ = id;
        false
    }

    /// The handshake is over: from now on this is what legacy messages speak.
    fn agreed(&self, agreed: Agreed<'_>) {
        let _ = agreed;
    }

    /// Whether the server can be gone for good while this wire shows nothing of it: a stream that
    /// is only read, and that a server without power never ends.
    fn may_end_unseen(&self) -> bool {
        false
    }

    /// Whether this wire says in headers what stands [beside](crate::wire::RequestMetadata) a modern
    /// message. Streamable HTTP does.
    fn says_headers(&self) -> bool {
        self.marks_origin()
    }

    /// Whether this wire can say which request a message of the server belongs to. Single-stream
    /// wires cannot.
    fn marks_origin(&self) -> bool {
        false
    }
}

/// What a handshake came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed<'a> {
    /// Each message says what it speaks; there is no session.
    pub modern: bool,
    /// The revision.
    pub version: &'a str,
}

/// Where a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From the stream that answers this request of ours.
    Answer(u64),
    /// From a stream that belongs to no request.
    Shared,
}

/// Why a wire brings no answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireFault {
    /// The request did not leave: no connection came to be. It may be sent again.
    #[error("{0}")]
    NotSent(String),
    /// It left, and no answer came: it may have been executed.
    #[error("{0}")]
    Lost(String),
    /// HTTP answered with a status that is no answer.
    #[error("HTTP {status}{said}")]
    Status {
        /// Which.
        status: u16,
        /// The start of what it said beside, for people: empty, or `: …`, safe to show.
        said: String,
        /// When it wants to be asked again, where it said so.
        retry_after: Option<Duration>,
        /// The JSON-RPC error object in the body, where there was one.
        error: Option<RawJson>,
    },
    /// A person must log in first.
    #[error("{0}")]
    NeedsLogin(NeedsLogin),
}

impl WireFault {
    /// The same with the server's words filtered.
    pub(crate) fn redacted(self, redact: impl Fn(&str) -> String) -> Self {
        match self {
            Self::NotSent(fact) => Self::NotSent(redact(&fact)),
            Self::Lost(fact) => Self::Lost(redact(&fact)),
            Self::Status {
                status,
                said,
                retry_after,
                error,
            } => {
                let error = error.filter(|error| redact(error.as_str()) == error.as_str());
                Self::Status {
                    status,
                    said: redact(&said),
                    retry_after,
                    error,
                }
            }
            Self::NeedsLogin(NeedsLogin { reason }) => Self::NeedsLogin(NeedsLogin {
                reason: redact(&reason),
            }),
        }
    }
}

/// The channel is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

/// The receiving half: implemented by the session.
pub trait Inbound: Send + Sync {
    /// One message arrived.
    fn message(&self, message: Incoming, origin: Origin);

    /// How many answers have come so far that a request waited for. Everything else is read at a
    /// limited rate.
    fn answers(&self) -> u64 {
        0
    }

    /// No answer to this request will come.
    fn failed(&self, id: u64, fault: WireFault);

    /// The server had forgotten the session and a new one was begun: what was told to the old one
    /// must be told again.
    fn renewed(&self);

    /// Nobody listened for a while: what the server said unasked meanwhile is lost.
    fn missed(&self) {}

    /// Something that is no message arrived; `sample` is the start of it.
    fn junk(&self, sample: &[u8]);

    /// A message past the bound was dropped; its id, where the scan found one.
    fn oversized(&self, id: Option<RequestId>);

    /// Nothing more will come. `reason` is one line, safe to show.
    fn closed(&self, reason: String);
}
