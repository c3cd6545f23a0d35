//! The entry of a server as it is now. All connections to the server share it, so a changed entry
//! reaches each of them.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::{Protocol, ServerConfig};

/// Clones share the entry.
#[derive(Debug, Clone)]
pub(super) struct CurrentConfig {
    /// Replaced by one with the same launch.
    entry: Arc<ArcSwap<ServerConfig>>,
    /// Applies instead of the entry's.
    protocol: Option<Protocol>,
}

impl CurrentConfig {
    pub(super) fn new(entry: Arc<ServerConfig>) -> Self {
        Self {
            entry: Arc::new(ArcSwap::new(entry)),
            protocol: None,
        }
    }

    /// The same entry with another protocol.
    pub(super) fn with_protocol(&self, protocol: Protocol) -> Self {
        Self {
            entry: self.entry.clone(),
            protocol: Some(protocol),
        }
    }

    pub(super) fn get(&self) -> Arc<ServerConfig> {
        let entry = self.entry.load_full();
        match self.protocol {
            None => entry,
            Some(protocol) => Arc::new(ServerConfig {
                protocol,
                ..(*entry).clone()
            }),
        }
    }

    pub(super) fn set(&self, entry: Arc<ServerConfig>) {
        self.entry.store(entry);
    }
}
