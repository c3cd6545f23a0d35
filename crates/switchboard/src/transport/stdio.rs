//! The standard streams of a child process as a channel of messages.

use std::sync::Arc;

use tokio::net::unix::pipe;

use super::{ConnectFault, Connector, Inbound, Transport};
use crate::caller::Answering;

/// Opens a channel over a child's pipes; once.
#[derive(Debug)]
pub struct StdioConnector {}

impl StdioConnector {
    /// Takes the pipes; a line longer than `max_message_bytes` is dropped.
    pub fn new(stdin: pipe::Sender, stdout: pipe::Receiver, max_message_bytes: usize) -> Self {
        let _ = (stdin, stdout, max_message_bytes);
        todo!()
    }
}

impl Connector for StdioConnector {
    fn connect<'a>(&'a self, inbound: Arc<dyn Inbound>) -> Answering<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        let _ = inbound;
        todo!()
    }
}
