//! A channel of JSON-RPC messages to one server. Knows no tools.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::future::BoxFuture;
use crate::panics::catch_panic;
use crate::revision::Revision;
use crate::wire::{Incoming, Outgoing, RawJson, RequestId};

pub use credentials::{AuthRejection, Credentials, NeedsLogin, NoCredentials};

mod credentials;
mod read_limit;

/// The standard streams of a child process.
pub mod stdio;

/// Streamable HTTP, in both eras.
#[cfg(feature = "http")]
pub mod http;

/// HTTP+SSE, the wire of 2024-11-05.
#[cfg(feature = "http")]
pub mod sse;

/// Opens a channel. A library user can implement one.
pub trait Connector: Send + Sync {
    /// Connects. Whatever arrives goes to `inbound`.
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

/// Why a channel could not be opened: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectFault(pub String);

/// The sending half. A library user's own needs `send`, `wait_for_room` and `close`.
pub trait Transport: Send + Sync {
    /// Queues one message. Never blocks; a request waits for [room](Self::wait_for_room) first.
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed>;

    /// Sends a request whose response somebody waits for. Where each request is an exchange of its
    /// own (HTTP), that exchange comes back as a [`Delivery`], and the waiter carries it out: no
    /// task is spawned and woken for a call.
    fn send_request(&self, message: Outgoing<'_>) -> Result<Option<Delivery>, Closed> {
        self.send(message).map(|()| None)
    }

    /// `None` if there is room for such a message now; otherwise waits until there is.
    fn wait_for_room(&self, kind: MessageKind) -> Option<BoxFuture<'_, ()>>;

    /// Nobody waits for the response to this request any more. True where the wire itself tells the
    /// server so, and a `notifications/cancelled` would be wrong.
    fn cancel(&self, id: u64) -> bool {
        let _ = id;
        false
    }

    /// The handshake is over, and agreed on this revision.
    fn negotiated(&self, revision: Revision) {
        let _ = revision;
    }

    /// Ends the channel: what is queued is written, then the server sees the end of its input. The
    /// future waits until that is done, within a deadline of its own; nobody has to poll it.
    fn close(&self) -> BoxFuture<'static, ()>;

    /// What the session must know of this wire.
    fn properties(&self) -> TransportProperties {
        TransportProperties::default()
    }
}

/// What waits for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A request of ours.
    Request,
    /// Our response to a request of the server. It never waits for one of our requests to end:
    /// the server may hold that until it has this response.
    Response,
}

/// How a wire differs from a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransportProperties {
    /// Modern requests repeat in [headers](crate::wire::RequestMetadata) what they are about, as on
    /// Streamable HTTP.
    pub sends_headers: bool,
    /// The server can be gone for good without this wire showing it: a stream that is only read,
    /// which a server without power never ends. Such a session is kept alive by pings.
    pub needs_keep_alive: bool,
}

/// A request that was sent and whose exchange is not over. Whoever waits for the response polls it.
/// Dropped before its end, the rest goes to its [owner](DeliveryOwner).
pub struct Delivery {
    id: u64,
    /// `None` once it has ended.
    work: Option<BoxFuture<'static, ()>>,
    owner: Arc<dyn DeliveryOwner>,
}

/// Finishes or drops what is left of a [`Delivery`] that nobody polls any more.
pub trait DeliveryOwner: Send + Sync {
    /// The rest of the request with this id.
    fn abandoned(&self, id: u64, rest: BoxFuture<'static, ()>);
}

impl Delivery {
    /// The work of the request with this id.
    pub fn new(id: u64, work: BoxFuture<'static, ()>, owner: Arc<dyn DeliveryOwner>) -> Self {
        Self {
            id,
            work: Some(work),
            owner,
        }
    }
}

impl Future for Delivery {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        if let Some(work) = &mut self.work {
            ready!(work.as_mut().poll(task));
            self.work = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(rest) = self.work.take() {
            self.owner.abandoned(self.id, rest);
        }
    }
}

/// Which stream a message of the server came on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageOrigin {
    /// The stream of the response to this request of ours.
    Response(u64),
    /// A stream that belongs to no request.
    Shared,
}

/// Why the transport brings no response to a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireFault {
    /// The request was not sent: there was no connection. It may be sent again.
    #[error("{0}")]
    NotSent(String),
    /// It was sent, and no response came: it may have been executed.
    #[error("{0}")]
    Lost(String),
    /// An HTTP status instead of a response.
    #[error("HTTP {status}{detail}")]
    Status {
        /// The status.
        status: u16,
        /// The start of the body, for people: empty, or `: …`, safe to show.
        detail: String,
        /// `Retry-After`, if the server sent it.
        retry_after: Option<Duration>,
        /// The JSON-RPC error object in the body, if there was one.
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
                detail,
                retry_after,
                error,
            } => {
                let error = error.filter(|error| redact(error.as_str()) == error.as_str());
                Self::Status {
                    status,
                    detail: redact(&detail),
                    retry_after,
                    error,
                }
            }
            Self::NeedsLogin(NeedsLogin { reason, hint }) => Self::NeedsLogin(NeedsLogin {
                reason: redact(&reason),
                hint,
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
    fn message(&self, message: Incoming, origin: MessageOrigin);

    /// How many responses have come that a request waited for. Everything else is read at a limited
    /// rate.
    fn awaited_responses(&self) -> u64 {
        0
    }

    /// No response to this request will come.
    fn failed(&self, id: u64, fault: WireFault);

    /// The server had lost the session and a new one was begun: subscriptions must be made again.
    fn session_renewed(&self);

    /// No stream was open for a while: notifications may have been missed.
    fn notifications_missed(&self) {}

    /// Something arrived that is not a message; `sample` is the start of it.
    fn not_a_message(&self, sample: &[u8]);

    /// A message that exceeds the bound was dropped; its id, if one was found.
    fn oversized(&self, id: Option<RequestId>);

    /// Nothing more will come. `reason` is one line, safe to show.
    fn closed(&self, reason: String);
}
