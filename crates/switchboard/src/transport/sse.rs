//! HTTP+SSE, the transport of 2024-11-05: one long event stream for receiving, a POST for each
//! message sent.
//!
//! One task (`connection`) owns a connection: it opens the `stream`, whose first event names the
//! URL to post to, then reads events and posts queued messages (`post_queue`) until either side
//! ends. Each request (login, redirects, headers) is sent by `http::endpoint`.

use std::sync::Arc;

use self::post_queue::{PostCommand, PostQueue, PutFault};
use super::http::endpoint::McpEndpoint;
use super::http::{HttpStack, HttpTarget};
use super::{
    Closed, ConnectFault, Connector, Inbound, MessageKind, Transport, TransportProperties,
    supervised, unaccepted,
};
use crate::future::BoxFuture;
use crate::wire::Outgoing;

mod connection;
mod post_queue;
mod stream;

/// Connects to one endpoint: opens the stream and waits for its `endpoint` event.
#[derive(Debug)]
pub struct SseConnector {
    stack: HttpStack,
    target: HttpTarget,
}

impl SseConnector {
    /// A connector for this endpoint.
    pub fn new(stack: HttpStack, target: HttpTarget) -> Self {
        Self { stack, target }
    }
}

impl Connector for SseConnector {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        // Returns at once: a stream that cannot be opened fails the first request, which
        // distinguishes the faults.
        Box::pin(async move {
            let (endpoint, reply_endpoint) =
                McpEndpoint::with_reply_endpoint(&self.stack, &self.target)?;
            let queue = Arc::new(PostQueue::default());
            // Ends soon after the transport is closed, once the queued messages were sent.
            let driving = connection::run(endpoint, reply_endpoint, queue.clone(), inbound.clone());
            tokio::spawn(supervised(inbound.clone(), driving));
            Ok(Arc::new(SseTransport { queue, inbound }) as Arc<dyn Transport>)
        })
    }
}

/// The sending half. Closing its queue ends the connection's task.
struct SseTransport {
    queue: Arc<PostQueue>,
    inbound: Arc<dyn Inbound>,
}

impl Transport for SseTransport {
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed> {
        let queued = self.queue.put(PostCommand::message(message));
        if queued == Err(PutFault::Unaccepted) {
            self.inbound.closed(unaccepted());
        }
        Ok(queued?)
    }

    fn wait_for_room(&self, kind: MessageKind) -> Option<BoxFuture<'_, ()>> {
        match kind {
            MessageKind::Request if self.queue.has_room() => None,
            MessageKind::Request => Some(Box::pin(self.queue.wait_for_room())),
            MessageKind::Response => Some(Box::pin(self.queue.wait_for_one_way_room())),
        }
    }

    fn cancel(&self, id: u64) -> bool {
        // All requests share the stream, so the server must be sent a notification.
        let _ = self.queue.put(PostCommand::Cancel(id));
        false
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.queue.close();
        Box::pin(async {})
    }

    fn properties(&self) -> TransportProperties {
        TransportProperties {
            sends_headers: false,
            needs_keep_alive: true,
        }
    }
}

impl Drop for SseTransport {
    fn drop(&mut self) {
        self.queue.close();
    }
}
