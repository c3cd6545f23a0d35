//! HTTP+SSE, the wire of 2024-11-05: one long stream of events in, a POST for each message out.

use std::sync::Arc;

use super::http::{HttpStack, HttpTarget};
use super::{ConnectFault, Connector, Inbound, Transport};
use crate::caller::Answering;

/// Connects to one endpoint: opens the stream and waits for its `endpoint` event.
#[derive(Debug)]
pub struct SseConnector {
    #[allow(dead_code)]
    stack: HttpStack,
    #[allow(dead_code)]
    target: HttpTarget,
}

impl SseConnector {
    /// To this endpoint over this stack.
    pub fn new(stack: HttpStack, target: HttpTarget) -> Self {
        Self { stack, target }
    }
}

impl Connector for SseConnector {
    fn connect<'a>(&'a self, inbound: Arc<dyn Inbound>) -> Answering<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        let _ = inbound;
        todo!()
    }
}
