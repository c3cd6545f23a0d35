//! Opens further connections to a server: the per-caller ones and the one of the other era.

use std::sync::Arc;

use tokio::sync::Notify;

use super::current_config::CurrentConfig;
use super::endpoint::SharedCredentials;
use super::launch_store::LaunchStore;
use super::stderr::ServerStderr;
use super::{ConnectStep, ServerHandle, ServerResources, State, TaskSetup, endpoint};
use crate::caller::CallerId;
use crate::config::Protocol;
use crate::session::Subscriptions;
use crate::store::{LogFile, MemoryStore};
use crate::transport::Connector;

#[derive(Clone)]
pub(super) struct ConnectionFactory {
    pub(super) config: CurrentConfig,
    pub(super) resources: ServerResources,
    /// The library user's transport, if there is one.
    pub(super) connector: Option<Arc<dyn Connector>>,
    pub(super) log: Option<LogFile>,
    /// Subscriptions and log level, shared by all connections.
    pub(super) subscriptions: Subscriptions,
    pub(super) credentials: SharedCredentials,
}

impl ConnectionFactory {
    /// A copy that opens connections of this protocol only.
    pub(super) fn with_protocol(&self, protocol: Protocol) -> Self {
        Self {
            config: self.config.with_protocol(protocol),
            ..self.clone()
        }
    }

    /// Opens a connection of one caller, like the shared one. Its state changes are not published;
    /// its notices are.
    pub(super) fn connect_for(&self, caller: CallerId) -> ServerHandle {
        let server = self.task_setup();
        let server = TaskSetup {
            roots: server.roots.for_connection_of(caller),
            ..server
        };
        ServerHandle::spawn_task(server, State::connecting(ConnectStep::Starting))
    }

    /// Like [`connect_for`](Self::connect_for), but for all callers, and remembers nothing: the
    /// remembered era and catalog are those of the shared connection.
    pub(super) fn connect_unremembered(&self) -> ServerHandle {
        let server = self.task_setup();
        let server = TaskSetup {
            launch_store: LaunchStore::new(Arc::new(MemoryStore::default()), server.launch),
            ..server
        };
        ServerHandle::spawn_task(server, State::connecting(ConnectStep::Starting))
    }

    /// The setup of a further connection.
    pub(super) fn task_setup(&self) -> TaskSetup {
        let config = self.config.get();
        let stderr = ServerStderr::new(self.log.clone(), config.dialect.profile().drops_info_lines);
        let endpoint = match &self.connector {
            Some(connector) => Arc::new(endpoint::ConnectorEndpoint(connector.clone())),
            None => endpoint::endpoint_for(&config, &self.resources, &stderr, &self.credentials),
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
