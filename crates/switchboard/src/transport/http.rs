//! Streamable HTTP, in both eras: each message is a POST, and its response is JSON or an event
//! stream.
//!
//! `exchange` sends one message and `response_reader` reads its response; the caller that waits for
//! the response polls this future, or else a task of the `channel` does, which holds all messages
//! in flight and the `legacy_session`. `renewal` re-initializes a session that the server has
//! forgotten, `standalone_stream` reads the GET stream of a legacy server, `close` ends a channel.
//!
//! One request: `endpoint` authorizes it and follows redirects, `request`, `headers` and `response`
//! are its parts, `status_fault` and `connection_fault` describe its failures. It is sent over
//! `stack`, the pool that all servers share, or over `direct`, our own pool of plain HTTP
//! connections (`connection`), whose responses `head` and `framing` parse.

use std::fmt;
use std::sync::Arc;

use self::channel::Channel;
use self::endpoint::McpEndpoint;
use super::{
    Closed, ConnectFault, Connector, Delivery, Inbound, MessageKind, Transport, TransportProperties,
};
use crate::future::BoxFuture;
use crate::revision::{Era, Revision};
use crate::secret::Secret;
use crate::transport::Credentials;
use crate::wire::Outgoing;

pub use self::stack::{HttpStack, reqwest_builder};

mod channel;
mod close;
mod connection;
pub(crate) mod connection_fault;
mod direct;
pub(super) mod endpoint;
mod exchange;
mod framing;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod head;
pub(super) mod headers;
mod legacy_session;
mod renewal;
pub(super) mod request;
pub(super) mod response;
mod response_reader;
pub(crate) mod stack;
pub(super) mod standalone_stream;
pub(super) mod status_fault;

/// An endpoint and how to reach it.
#[derive(Clone)]
pub struct HttpTarget {
    /// The URL, with references resolved.
    pub url: url::Url,
    /// Sent with each request.
    pub headers: Vec<(String, Secret)>,
    /// Authorizes each request.
    pub credentials: Arc<dyn Credentials>,
    /// The longest message, event or body accepted.
    pub max_message_bytes: usize,
}

impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest of the URL may contain a secret.
        f.debug_struct("HttpTarget")
            .field("host", &self.url.host_str())
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Connects to one endpoint.
#[derive(Debug)]
pub struct HttpConnector {
    stack: HttpStack,
    target: HttpTarget,
}

impl HttpConnector {
    /// A connector for this endpoint.
    pub fn new(stack: HttpStack, target: HttpTarget) -> Self {
        Self { stack, target }
    }
}

impl Connector for HttpConnector {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        // Sends nothing: the first message opens the first connection.
        Box::pin(async move {
            let (endpoint, reply_endpoint) =
                McpEndpoint::with_reply_endpoint(&self.stack, &self.target)?;
            Ok(Arc::new(HttpTransport(Channel::new(
                endpoint,
                reply_endpoint,
                inbound,
            ))) as Arc<dyn Transport>)
        })
    }
}

/// The sending half. It owns the channel's tasks: dropping it aborts them.
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
            MessageKind::Request => Some(Box::pin(self.0.wait_for_room())),
            MessageKind::Response => Some(Box::pin(self.0.wait_for_one_way_room())),
        }
    }

    fn cancel(&self, id: u64) -> bool {
        self.0.cancel(id)
    }

    fn negotiated(&self, revision: Revision) {
        self.0.negotiated(revision);
        if revision.era() == Era::Legacy {
            standalone_stream::start(&self.0);
        }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        close::close(&self.0);
        let channel = self.0.clone();
        Box::pin(async move { channel.wait_closed().await })
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
        close::close(&self.0);
    }
}
