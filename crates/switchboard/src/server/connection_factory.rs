//! Begins further connections to a server beside the shared one: those of callers' own, and the one
//! of the other era.

use std::sync::Arc;

use tokio::sync::Notify;

use super::memory::Memory;
use super::stderr::ServerStderr;
use super::{Means, ServerHandle, Supervised, connecting_now, reach};
use crate::config::{Protocol, ServerConfig};
use crate::session::Wishes;
use crate::store::{LogFile, MemoryStore};
use crate::transport::Connector;

#[derive(Clone)]
pub(super) struct ConnectionFactory {
    pub(super) config: Arc<ServerConfig>,
    pub(super) means: Means,
    /// A library user's own transport, where there is one.
    pub(super) connector: Option<Arc<dyn Connector>>,
    pub(super) log: Option<LogFile>,
    /// Shared with the shared session.
    pub(super) wishes: Wishes,
}

impl ConnectionFactory {
    /// The same, for connections of one era.
    pub(super) fn with_protocol(&self, protocol: Protocol) -> Self {
        let config = ServerConfig {
            protocol,
            ..(*self.config).clone()
        };
        Self {
            config: Arc::new(config),
            ..self.clone()
        }
    }

    /// A connection like the shared one. Its states are nobody else's business, what its server
    /// says is.
    pub(super) fn begin(&self) -> ServerHandle {
        ServerHandle::supervise(self.supervised(), connecting_now())
    }

    /// The same, but what is learnt from it is not remembered: it is no sign of what the shared one
    /// should begin with or offers.
    pub(super) fn begin_unremembered(&self) -> ServerHandle {
        let server = self.supervised();
        let server = Supervised {
            memory: Memory::new(Arc::new(MemoryStore::default()), server.launch),
            ..server
        };
        ServerHandle::supervise(server, connecting_now())
    }

    fn supervised(&self) -> Supervised {
        let stderr = ServerStderr::new(
            self.log.clone(),
            self.config.dialect.profile().drops_info_lines,
        );
        let reach = match &self.connector {
            Some(connector) => Arc::new(reach::ByConnector(connector.clone())),
            None => reach::reach(&self.config, &self.means, &stderr),
        };
        Supervised {
            log: self.log.clone(),
            stderr,
            changed: Arc::new(Notify::new()),
            wishes: self.wishes.clone(),
            own: true,
            ..Supervised::new(self.config.clone(), &self.means, reach)
        }
    }
}
