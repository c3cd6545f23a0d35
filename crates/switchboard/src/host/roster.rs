//! The servers of one configuration, with the gate that goes with them: one picture, replaced whole
//! by a reload.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::builtin::Own;
use crate::call::CallError;
use crate::catalog::Tool;
use crate::config::{Config, ConfigErrors, ProjectPermissions};
use crate::gate::Gate;
use crate::name::ServerName;
use crate::server::ServerHandle;
use crate::store::Store;
use crate::trust::{self, TrustState};

/// What one configuration comes to.
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

/// A server that somebody uses: a reload that replaces it waits until this is gone. Keeps to the
/// picture that it was found in.
#[derive(Debug)]
pub(crate) struct Held {
    roster: Arc<Roster>,
    /// Index into its servers.
    place: usize,
    counted: bool,
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
        own: &Own,
        store: &dyn Store,
    ) -> Result<Gate, ConfigErrors> {
        let accepted = |project: &ProjectPermissions| {
            trust::permissions_trust_state(project, store) == TrustState::Trusted
        };
        Gate::compile_with(config, &own.names(config.servers.values()), &accepted)
    }

    /// Where the server of this name stands.
    pub(crate) fn place(&self, name: &ServerName) -> Result<usize, CallError> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| CallError::UnknownServer {
                server: name.clone(),
            })
    }

    /// The server of this name.
    pub(crate) fn server(&self, name: &ServerName) -> Result<&ServerHandle, CallError> {
        Ok(&self.servers[self.place(name)?])
    }

    /// Where the server that offers a tool stands. In a catalog of ours that is known; a caller may
    /// have listed from another's.
    pub(crate) fn place_of(&self, tool: &Tool) -> Result<usize, CallError> {
        match self.servers.get(tool.server_place) {
            Some(server) if server.config.name == tool.id.server => Ok(tool.server_place),
            _ => self.place(&tool.id.server),
        }
    }

    /// Begins to use a server; `None` if a reload has taken it out.
    pub(crate) fn hold(self: &Arc<Self>, place: usize) -> Option<Held> {
        let server = self.servers.get(place)?;
        server.uses.begin().then(|| Held {
            roster: self.clone(),
            place,
            counted: true,
        })
    }
}

impl Held {
    /// While a person is asked, the server is not in use: it need not wait for them.
    pub(crate) fn release(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.uses.end();
        }
    }

    /// Uses it again. False if a reload has taken it out meanwhile.
    pub(crate) fn retake(&mut self) -> bool {
        self.counted = self.counted || self.uses.begin();
        self.counted
    }

    /// Whether it is the one that this picture has.
    pub(crate) fn is_in(&self, roster: &Roster) -> bool {
        roster
            .server(&self.config.name)
            .is_ok_and(|server| Arc::ptr_eq(&server.uses, &self.uses))
    }
}

impl Deref for Held {
    type Target = ServerHandle;

    fn deref(&self) -> &ServerHandle {
        &self.roster.servers[self.place]
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}
