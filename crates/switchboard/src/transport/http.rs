//! Streamable HTTP, in both eras: each message is a POST, answers come as JSON or as a stream of
//! events.
//!
//! A POST is carried by whoever waits for its answer, or else is one task, which the channel owns
//! and ends. Where things are: `endpoint` sends one request (login, redirects), `channel`
//! keeps what is under way, `exchange` is one message and its answer, `answer` reads it, `renewal`
//! begins a forgotten session anew, `listening` holds the stream that a legacy server may speak on,
//! `closing` ends it all. Below the endpoint, `stack` is the pool for every server; `direct` is the
//! short way to a plain one, over connections (`line`) whose answers `head` and `framing` read.

use std::fmt;
use std::sync::Arc;

use self::channel::Channel;
use self::endpoint::Endpoint;
use super::{
    Closed, ConnectFault, Connector, Delivery, Inbound, MessageKind, Transport, TransportProperties,
};
use crate::auth::Credentials;
use crate::caller::BoxFuture;
use crate::revision::{Era, Revision};
use crate::secret::Secret;
use crate::wire::Outgoing;

pub use self::stack::HttpStack;

mod answer;
mod channel;
mod closing;
mod direct;
pub(super) mod endpoint;
mod exchange;
mod framing;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod head;
pub(super) mod headers;
mod legacy;
mod line;
pub(super) mod listening;
pub(super) mod refusal;
mod renewal;
pub(super) mod request;
pub(super) mod response;
pub(crate) mod stack;
pub(crate) mod trouble;

/// Which endpoint, and what to say to it.
#[derive(Clone)]
pub struct HttpTarget {
    /// The endpoint, expanded.
    pub url: url::Url,
    /// Sent with each request.
    pub headers: Vec<(String, Secret)>,
    /// What to authorize with.
    pub credentials: Arc<dyn Credentials>,
    /// The longest message, event or body accepted.
    pub max_message_bytes: usize,
}

impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest of the URL may hold a key.
        f.debug_struct("HttpTarget")
            .field("host", &self.url.host_str())
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Connects to one endpoint, as often as wanted.
#[derive(Debug)]
pub struct HttpConnector {
    stack: HttpStack,
    target: HttpTarget,
}

impl HttpConnector {
    /// To this endpoint over this stack.
    pub fn new(stack: HttpStack, target: HttpTarget) -> Self {
        Self { stack, target }
    }
}

impl Connector for HttpConnector {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        // Nothing is said yet: the first message opens the first connection.
        Box::pin(async move {
            let endpoint = Endpoint::new(&self.stack, &self.target)?;
            let answering = Endpoint::new(&self.stack.for_answers(), &self.target)?;
            Ok(
                Arc::new(HttpTransport(Channel::new(endpoint, answering, inbound)))
                    as Arc<dyn Transport>,
            )
        })
    }
}

/// The sending half, and the owner of every task of the channel.
struct HttpTransport(Arc<Channel>);

impl Transport for HttpTransport {
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed> {
        exchange::send(&self.0, message)
    }

    fn send_request(&self, message: Outgoing<'_>) -> Result<Option<Delivery>, Closed> {
        exchange::send_request(&self.0, message)
    }

    fn wait_for_room(&self, kind: MessageKind) -> Option<BoxFuture<'_, ()>> {
        match kind {
            MessageKind::Request if self.0.has_room() => None,
            MessageKind::Request => Some(Box::pin(self.0.ready())),
            MessageKind::Response => Some(Box::pin(self.0.ready_to_answer())),
        }
    }

    fn cancel(&self, id: u64) -> bool {
        self.0.forget(id)
    }

    fn negotiated(&self, revision: Revision) {
        self.0.negotiated(revision);
        if revision.era() == Era::Legacy {
            listening::start(&self.0);
        }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        closing::close(&self.0);
        let channel = self.0.clone();
        Box::pin(async move { channel.over().await })
    }

    fn properties(&self) -> TransportProperties {
        TransportProperties {
            sends_headers: true,
            needs_keep_alive: false,
        }
    }
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        closing::close(&self.0);
    }
}
