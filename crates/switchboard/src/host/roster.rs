//! The servers of one configuration and its gate: one immutable snapshot, replaced as a whole by a
//! reload. Leases of servers, and the snapshot of servers and catalog that a call loads.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use super::{HostState, MAX_RELOADS};
use crate::catalog::{Catalog, Tool};
use crate::config::{Config, ConfigErrors, ProjectPermissions};
use crate::gate::Gate;
use crate::host_tools::RegisteredTools;
use crate::name::ServerName;
use crate::server::ServerHandle;
use crate::store::Store;
use crate::trust::{self, TrustState};

/// The servers of one configuration and their gate.
#[derive(Debug)]
pub(crate) struct Roster {
    /// Incremented with each replacement.
    pub(crate) number: u64,
    /// The configuration in force.
    pub(crate) config: Arc<Config>,
    /// In config order.
    pub(crate) servers: Arc<[ServerHandle]>,
    /// Index into `servers`.
    by_name: HashMap<ServerName, usize>,
    pub(crate) gate: Gate,
}

/// The servers, and what they offer: one snapshot, so that a call loads both at once.
#[derive(Debug)]
pub(crate) struct CurrentServers {
    /// Replaced by a reload.
    pub(crate) roster: Arc<Roster>,
    /// Replaced when a server offers something else, and after a reload.
    pub(crate) catalog: Arc<Catalog>,
}

impl CurrentServers {
    /// Whether the catalog has the present offerings of all servers, and names all tools that can
    /// be named now.
    pub(super) fn is_up_to_date(&self) -> bool {
        let Self { roster, catalog } = self;
        let shows_all = (0..roster.servers.len()).all(|index| roster.is_shown_by(catalog, index));
        let is_settled = |index: usize| {
            let server = roster.servers.get(index);
            server.is_none_or(|server| server.is_settled_at(&server.snapshot()))
        };
        // A roster without servers is shown by a catalog of its own, too.
        let is_of_roster = catalog.generation > 0 && catalog.roster == roster.number;
        is_of_roster && shows_all && !catalog.can_name_more(is_settled)
    }
}

/// Why a server could not be leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseError {
    /// No server of this name is configured.
    UnknownServer(ServerName),
    /// Consecutive reloads replaced it each time.
    Replaced(ServerName),
}

/// The right to use a server: a reload that replaces the server waits until no lease is left. Keeps
/// the roster that the server was found in.
#[derive(Debug)]
pub(crate) struct ServerLease {
    roster: Arc<Roster>,
    /// Index into the roster's servers.
    index: usize,
    /// Whether the lease counts as in flight now.
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

    /// Compiles the rules of a configuration, or reports their errors. A rule may also name one of
    /// these host tools.
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

    /// The index of the server that offers a tool. A catalog of this roster has it; the tool may be
    /// from the catalog of another roster.
    pub(crate) fn index_for(&self, tool: &Tool) -> Result<usize, LeaseError> {
        match self.servers.get(tool.server_index) {
            Some(server)
                if Arc::ptr_eq(&server.config, &tool.server)
                    || server.config.name == tool.id.server =>
            {
                Ok(tool.server_index)
            }
            _ => self.index_of(&tool.id.server),
        }
    }

    /// Whether the catalog has the present offerings of the server at this index.
    pub(super) fn is_shown_by(&self, catalog: &Catalog, index: usize) -> bool {
        let (shown, server) = (catalog.offerings().get(index), self.servers.get(index));
        catalog.roster == self.number
            && shown
                .zip(server)
                .is_some_and(|((_, shown), server)| server.offers_still(shown))
    }

    /// A lease of a server; `None` if a reload has removed it.
    pub(crate) fn lease(self: &Arc<Self>, index: usize) -> Option<ServerLease> {
        let server = self.servers.get(index)?;
        server.in_flight.begin().then(|| ServerLease {
            roster: self.clone(),
            index,
            is_counted: true,
        })
    }
}

impl HostState {
    /// The current servers and catalog. Not to be held across an await.
    pub(crate) fn current(&self) -> arc_swap::Guard<Arc<CurrentServers>> {
        self.current.load()
    }

    /// The current servers and gate.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        self.current.load().roster.clone()
    }

    /// A lease of the server of this name.
    pub(crate) fn lease(&self, name: &ServerName) -> Result<ServerLease, LeaseError> {
        for _ in 0..MAX_RELOADS {
            let roster = self.roster();
            // A server that cannot be leased was replaced by a reload, which stores the new roster
            // before it closes the old server.
            if let Some(lease) = roster.lease(roster.index_of(name)?) {
                return Ok(lease);
            }
        }
        Err(LeaseError::Replaced(name.clone()))
    }

    /// The current catalog.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.current.load().catalog.clone()
    }

    /// The current servers, with a catalog that includes the current offerings of this tool's server.
    pub(crate) fn current_for(&self, tool: &Tool) -> arc_swap::Guard<Arc<CurrentServers>> {
        let current = self.current.load();
        if current
            .roster
            .is_shown_by(&current.catalog, tool.server_index)
        {
            return current;
        }
        self.rebuild();
        self.current.load()
    }
}

impl ServerLease {
    /// The roster that the server was found in.
    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Stops counting as in flight: a reload need not wait for a person's answer.
    pub(crate) fn suspend(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            self.in_flight.end();
        }
    }

    /// Counts as in flight again. False if a reload has removed the server.
    pub(crate) fn resume(&mut self) -> bool {
        self.is_counted = self.is_counted || self.in_flight.begin();
        self.is_counted
    }

    /// Whether this roster has the same server.
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
