//! The library user's own transports, by the names of their entries.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::config::{Config, ConfigErrors, Diagnostic};
use crate::name::ServerName;
use crate::transport::Connector;

/// Transports that are used instead of the entries' endpoints. Empty by default.
#[derive(Clone, Default)]
pub(crate) struct Connectors(BTreeMap<String, Arc<dyn Connector>>);

impl Connectors {
    /// Sets the transport of a server; replaces an earlier one.
    pub(crate) fn insert(&mut self, server: &str, connector: Arc<dyn Connector>) {
        self.0.insert(server.to_owned(), connector);
    }

    pub(super) fn of(&self, server: &ServerName) -> Option<Arc<dyn Connector>> {
        self.0.get(server.as_str()).cloned()
    }

    /// Reports connectors without an entry: an error of the embedding program.
    pub(crate) fn check(&self, config: &Config) -> Result<(), ConfigErrors> {
        let unused = self
            .0
            .keys()
            .filter(|name| !config.servers.contains_key(name.as_str()));
        let errors: Vec<_> = unused
            .map(|name| {
                let message = format!(
                    "no server {name:?} is configured; give its entry the name of its connector"
                );
                Diagnostic::in_code("connectors", message)
            })
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(ConfigErrors(errors))
        }
    }
}

impl fmt::Debug for Connectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
