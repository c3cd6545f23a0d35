//! Begins further connections to a server beside the shared one: those of callers' own, and the one
//! of the other era.

use std::sync::Arc;

use tokio::sync::Notify;

use super::launch_store::LaunchStore;
use super::stderr::ServerStderr;
use super::{ServerHandle, ServerResources, TaskSetup, connecting_now, endpoint};
use crate::config::{Protocol, ServerConfig};
use crate::session::Subscriptions;
use crate::store::{LogFile, MemoryStore};
use crate::transport::Connector;

#[derive(Clone)]
pub(super) struct ConnectionFactory {
    pub(super) config: Arc<ServerConfig>,
    pub(super) resources: ServerResources,
    /// A library user's own transport, where there is one.
    pub(super) connector: Option<Arc<dyn Connector>>,
    pub(super) log: Option<LogFile>,
    /// Shared with the shared session.
    pub(super) subscriptions: Subscriptions,
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
    pub(super) fn connect(&self) -> ServerHandle {
        ServerHandle::spawn_task(self.task_setup(), connecting_now())
    }

    /// The same, but what is learnt from it is not remembered: it is no sign of what the shared one
    /// should begin with or offers.
    pub(super) fn connect_unremembered(&self) -> ServerHandle {
        let server = self.task_setup();
        let server = TaskSetup {
            launch_store: LaunchStore::new(Arc::new(MemoryStore::default()), server.launch),
            ..server
        };
        ServerHandle::spawn_task(server, connecting_now())
    }

    fn task_setup(&self) -> TaskSetup {
        let stderr = ServerStderr::new(
            self.log.clone(),
            self.config.dialect.profile().drops_info_lines,
        );
        let endpoint = match &self.connector {
            Some(connector) => Arc::new(endpoint::ConnectorEndpoint(connector.clone())),
            None => endpoint::endpoint_for(&self.config, &self.resources, &stderr),
        };
        TaskSetup {
            log: self.log.clone(),
            stderr,
            changed: Arc::new(Notify::new()),
            subscriptions: self.subscriptions.clone(),
            is_further_connection: true,
            ..TaskSetup::new(self.config.clone(), &self.resources, endpoint)
        }
    }
}
