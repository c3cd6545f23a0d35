//! The servers of one configuration and its gate: one immutable snapshot, replaced as a whole by a
//! reload.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::builtin::RegisteredTools;
use crate::catalog::Tool;
use crate::config::{Config, ConfigErrors, ProjectPermissions};
use crate::gate::Gate;
use crate::name::ServerName;
use crate::server::ServerHandle;
use crate::store::Store;
use crate::trust::{self, TrustState};

/// The servers of one configuration and their gate.
#[derive(Debug)]
pub(crate) struct Roster {
    /// Grows by one with each replacement.
    pub(crate) number: u64,
    /// What is in force.
    pub(crate) config: Arc<Config>,
    /// In config order.
    pub(crate) servers: Arc<[ServerHandle]>,
    /// Index into `servers`.
    by_name: HashMap<ServerName, usize>,
    pub(crate) gate: Gate,
}

/// Why there is no lease of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseError {
    /// No server of this name is configured.
    UnknownServer(ServerName),
    /// One reload after another replaced it.
    Replaced(ServerName),
}

/// The right to use a server: a reload that replaces the server waits until no lease is left. It
/// keeps the roster that the server was found in.
#[derive(Debug)]
pub(crate) struct ServerLease {
    roster: Arc<Roster>,
    /// Index into its servers.
    index: usize,
    /// It counts as in flight now.
    is_counted: bool,
}

impl Roster {
    pub(crate) fn new(
        number: u64,
        config: Arc<Config>,
        servers: Vec<ServerHandle>,
        gate: Gate,
    ) -> Self {
        let by_name = servers
            .iter()
            .enumerate()
            .map(|(index, server)| (server.config.name.clone(), index))
            .collect();
        Self {
            number,
            config,
            servers: servers.into(),
            by_name,
            gate,
        }
    }

    /// The rules of a configuration, or what is wrong with them. A rule may also name one of these
    /// tools.
    pub(crate) fn gate_of(
        config: &Config,
        own: &RegisteredTools,
        store: &dyn Store,
    ) -> Result<Gate, ConfigErrors> {
        let accepted = |project: &ProjectPermissions| {
            trust::permissions_trust_state(project, store) == TrustState::Trusted
        };
        Gate::compile_with(config, &own.names(config.servers.values()), &accepted)
    }

    /// The index of the server of this name.
    pub(crate) fn index_of(&self, name: &ServerName) -> Result<usize, LeaseError> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| LeaseError::UnknownServer(name.clone()))
    }

    /// The server of this name.
    pub(crate) fn server(&self, name: &ServerName) -> Result<&ServerHandle, LeaseError> {
        Ok(&self.servers[self.index_of(name)?])
    }

    /// The index of the server that offers a tool. A catalog of this roster knows it; a caller may
    /// have listed from the catalog of another.
    pub(crate) fn index_for(&self, tool: &Tool) -> Result<usize, LeaseError> {
        match self.servers.get(tool.server_place) {
            Some(server) if server.config.name == tool.id.server => Ok(tool.server_place),
            _ => self.index_of(&tool.id.server),
        }
    }

    /// A lease of a server; `None` if a reload has taken it out.
    pub(crate) fn lease(self: &Arc<Self>, index: usize) -> Option<ServerLease> {
        let server = self.servers.get(index)?;
        server.in_flight.begin().then(|| ServerLease {
            roster: self.clone(),
            index,
            is_counted: true,
        })
    }
}

impl ServerLease {
    /// While a person is asked, a reload need not wait for the answer.
    pub(crate) fn suspend(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            self.in_flight.end();
        }
    }

    /// Counts as in flight again. False if a reload has taken the server out meanwhile.
    pub(crate) fn resume(&mut self) -> bool {
        self.is_counted = self.is_counted || self.in_flight.begin();
        self.is_counted
    }

    /// Whether its server is the one that this roster has.
    pub(crate) fn is_in(&self, roster: &Roster) -> bool {
        roster
            .server(&self.config.name)
            .is_ok_and(|server| Arc::ptr_eq(&server.in_flight, &self.in_flight))
    }
}

impl Deref for ServerLease {
    type Target = ServerHandle;

    fn deref(&self) -> &ServerHandle {
        &self.roster.servers[self.index]
    }
}

impl Drop for ServerLease {
    fn drop(&mut self) {
        self.suspend();
    }
}
