//! A channel of JSON-RPC messages to one server. Independent of what the messages are about.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::future::BoxFuture;
use crate::panics::catch_panic;
use crate::revision::Revision;
use crate::wire::{Incoming, Outgoing, OversizedMessage, RawJson, RequestId};

pub use credentials::{AuthRejection, Credentials, NeedsLogin, NoCredentials};

mod credentials;
mod deliver;
mod read_limit;

/// The standard streams of a child process.
pub mod stdio;

/// Streamable HTTP, in both eras.
#[cfg(feature = "http")]
pub mod http;

/// HTTP+SSE, the transport of 2024-11-05.
#[cfg(feature = "http")]
pub mod sse;

/// The most notifications and responses to the server in flight over HTTP, each on a connection of
/// its own: a server that accepts none would use up the host's file descriptors.
#[cfg(feature = "http")]
const MAX_UNACCEPTED: usize = 512;

/// Why a channel ends that has reached [`MAX_UNACCEPTED`].
#[cfg(feature = "http")]
fn unaccepted() -> String {
    format!("it accepts no notifications and responses: {MAX_UNACCEPTED} are in flight")
}

/// Opens a channel. A library user can implement one.
pub trait Connector: Send + Sync {
    /// Connects. Messages from the server go to `inbound`.
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>>;
}

/// Runs a task that a channel needs: if the task panics, the channel is closed.
async fn supervised(inbound: Arc<dyn Inbound>, task: impl Future<Output = ()>) {
    if let Err(panicked) = catch_panic(task).await {
        inbound.closed(panicked.to_string());
    }
}

/// Why a channel could not be opened: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectFault(pub String);

/// The sending half. An implementation needs `send`, `wait_for_room` and `close`, and calls
/// [`Inbound`] for everything that arrives, and when the channel ends.
pub trait Transport: Send + Sync {
    /// Queues one message. Never blocks; a request waits for [room](Self::wait_for_room) first.
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed>;

    /// Sends a request whose response a caller waits for. If each request is an exchange of its own
    /// (HTTP), that exchange is returned as a [`Delivery`], which the waiter polls: no task is
    /// spawned and woken for a call.
    fn send_request(&self, message: Outgoing<'_>) -> Result<Option<Delivery>, Closed> {
        self.send(message).map(|()| None)
    }

    /// `None` if there is room for such a message now; otherwise waits for room.
    fn wait_for_room(&self, kind: MessageKind) -> Option<BoxFuture<'_, ()>>;

    /// The caller no longer waits for the response to this request. True if the transport itself
    /// cancels it on the server, so that `notifications/cancelled` must not be sent.
    fn cancel(&self, id: u64) -> bool {
        let _ = id;
        false
    }

    /// The handshake is complete and has negotiated this revision.
    fn negotiated(&self, revision: Revision) {
        let _ = revision;
    }

    /// Closes the channel: queued messages are written, then the server sees the end of its input.
    /// The future waits until that is done, within its own deadline; it need not be polled.
    fn close(&self) -> BoxFuture<'static, ()>;

    /// How this transport differs from a pipe.
    fn properties(&self) -> TransportProperties {
        TransportProperties::default()
    }
}

/// The kind of message that waits for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A request to the server.
    Request,
    /// A response to a request of the server. It never waits for one of our requests to end: the
    /// server may not answer that before it has this response.
    Response,
}

/// How a transport differs from a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransportProperties {
    /// Modern requests repeat their method, name and parameters in
    /// [headers](crate::wire::RequestMetadata), as on Streamable HTTP.
    pub sends_headers: bool,
    /// The transport may not detect that the server is gone: a stream that is only read does not
    /// end when the server loses power. Such a session is kept alive by pings.
    pub needs_keep_alive: bool,
}

/// A request that was sent and whose exchange is not complete. The waiter for the response polls
/// it. If it is dropped early, its [owner](DeliveryOwner) gets the remaining work.
pub struct Delivery {
    id: u64,
    /// `None` once the exchange is complete.
    work: Option<BoxFuture<'static, ()>>,
    owner: Arc<dyn DeliveryOwner>,
}

/// Completes or drops the remaining work of a dropped [`Delivery`].
pub trait DeliveryOwner: Send + Sync {
    /// The remaining work of the request with this id.
    fn abandoned(&self, id: u64, rest: BoxFuture<'static, ()>);
}

impl Delivery {
    /// The exchange of the request with this id.
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

/// The stream that a message of the server came on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageOrigin {
    /// The stream of the response to this request of ours.
    Response(u64),
    /// A stream that belongs to no request.
    Shared,
}

/// Why the transport brought no response to a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportFault {
    /// The request was not sent: there was no connection. It may be sent again.
    #[error("{0}")]
    NotSent(String),
    /// The request was sent, and no response came: it may have been executed.
    #[error("{0}")]
    Lost(String),
    /// An HTTP status instead of a response.
    #[error("HTTP {status}{detail}")]
    Status {
        /// The status.
        status: u16,
        /// The start of the body for display: empty, or `: …`, safe to show.
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

impl TransportFault {
    /// Whether the server may have executed the request, or may still be executing it.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::NeedsLogin(_) => false,
            Self::Lost(_) => true,
            // Other client errors are refusals.
            Self::Status { status, error, .. } => {
                error.is_none() && (*status == 408 || !(400..500).contains(status))
            }
        }
    }

    /// Redacts the server's texts.
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
    /// A message arrived.
    fn message(&self, message: Incoming, origin: MessageOrigin);

    /// The number of responses so far that a request waited for. Everything else is read at a
    /// limited rate.
    fn awaited_responses(&self) -> u64 {
        0
    }

    /// No response to this request will come.
    fn failed(&self, id: u64, fault: TransportFault);

    /// The server lost the session and a new one was begun: subscriptions must be made again.
    fn session_renewed(&self);

    /// No stream was open for a while: notifications may have been missed.
    fn notifications_missed(&self) {}

    /// Data arrived that is not a message; `sample` is the start of it.
    fn not_a_message(&self, sample: &[u8]);

    /// A message over the size limit was dropped; its id, if one was found.
    fn oversized(&self, message: Option<OversizedMessage>);

    /// A message over the size limit was dropped on the stream of the response to this request. It
    /// may not be the response, so the server may still execute the request.
    fn oversized_on_stream(&self, id: u64) {
        self.oversized(Some(OversizedMessage::Response(RequestId::Number(id))));
    }

    /// The channel has ended. `reason` is one line, safe to show.
    fn closed(&self, reason: String);
}
