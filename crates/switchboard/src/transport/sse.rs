//! HTTP+SSE, the wire of 2024-11-05: one long stream of events in, a POST for each message out.
//!
//! One task drives a connection and owns all of it: it opens the stream, learns from the first
//! event where messages go, and then reads and posts until either side ends. Leaves one request
//! (login, redirects, headers) to `http::endpoint`.

use std::sync::Arc;

use self::outbox::{Item, Outbox};
use super::http::endpoint::Endpoint;
use super::http::{HttpStack, HttpTarget};
use super::{
    Closed, ConnectFault, Connector, Inbound, MessageKind, Transport, TransportProperties,
    supervised,
};
use crate::caller::BoxFuture;
use crate::wire::Outgoing;

mod driving;
mod outbox;
mod stream;

/// Connects to one endpoint: opens the stream and waits for its `endpoint` event.
#[derive(Debug)]
pub struct SseConnector {
    stack: HttpStack,
    target: HttpTarget,
}

impl SseConnector {
    /// To this endpoint over this stack.
    pub fn new(stack: HttpStack, target: HttpTarget) -> Self {
        Self { stack, target }
    }
}

impl Connector for SseConnector {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        // Nothing is waited for: what keeps the stream from opening is told to the first request,
        // which can tell one fault from another.
        Box::pin(async move {
            let endpoint = Endpoint::new(&self.stack, &self.target)?;
            let answering = Endpoint::new(&self.stack.for_answers(), &self.target)?;
            let outbox = Arc::new(Outbox::default());
            // Owned by the transport: it ends soon after that closes, once what was queued has
            // left.
            let driving = driving::drive(endpoint, answering, outbox.clone(), inbound.clone());
            tokio::spawn(supervised(inbound, driving));
            Ok(Arc::new(SseTransport { outbox }) as Arc<dyn Transport>)
        })
    }
}

/// The sending half, and the owner of the task.
struct SseTransport {
    outbox: Arc<Outbox>,
}

impl Transport for SseTransport {
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed> {
        self.outbox.put(Item::message(message))
    }

    fn wait_for_room(&self, kind: MessageKind) -> Option<BoxFuture<'_, ()>> {
        match kind {
            MessageKind::Request if self.outbox.has_room() => None,
            MessageKind::Request => Some(Box::pin(self.outbox.ready())),
            MessageKind::Response => Some(Box::pin(self.outbox.ready_to_answer())),
        }
    }

    fn cancel(&self, id: u64) -> bool {
        // The stream serves all requests, so only a message can tell the server.
        let _ = self.outbox.put(Item::Forget(id));
        false
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.outbox.close();
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
        self.outbox.close();
    }
}
