//! The configuration as a whole: every file read and merged.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

use super::{Diagnostic, EntryValue, Permissions, ProjectPermissions, Security, ServerConfig};
use crate::name::{ServerName, Style};

/// Every file read, merged: what the host runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// In config order, which decides precedence where names meet. A project's entry has replaced
    /// a user's of the same name whole.
    pub servers: IndexMap<ServerName, Arc<ServerConfig>>,
    /// Rules and mode. Of a project's file only what tightens them is here.
    pub permissions: Permissions,
    /// What project files would let run without asking: it counts once a person has accepted it.
    pub project_permissions: Vec<ProjectPermissions>,
    /// Which servers may run at all.
    pub security: Security,
    /// How tools are named.
    pub naming: Style,
    /// What deserves attention but does not stop us: unknown fields, ignored settings of a project
    /// file.
    pub warnings: Vec<Diagnostic>,
    /// Where each value that is set stands, by dotted field: `servers.git.command`,
    /// `permissions.mode`.
    pub locations: BTreeMap<String, Location>,
    /// What each entry says and where, as its file calls it; for `why`.
    pub values: BTreeMap<ServerName, Vec<EntryValue>>,
    /// The entries that one of the same name in a higher file replaced, nearest first, each with
    /// what it says.
    pub shadowed: Vec<(Arc<ServerConfig>, Vec<EntryValue>)>,
}

/// Servers of an embedder that reads no files; all else as an empty file leaves it. Of two with one
/// name the later one holds.
impl FromIterator<ServerConfig> for Config {
    fn from_iter<I: IntoIterator<Item = ServerConfig>>(servers: I) -> Self {
        let servers = servers
            .into_iter()
            .map(|server| (server.name.clone(), Arc::new(server)))
            .collect();
        Self {
            servers,
            ..Self::default()
        }
    }
}

impl Config {
    /// How a server's tools are named.
    pub fn naming_of(&self, server: &ServerConfig) -> Style {
        server.dialect.profile().naming.unwrap_or(self.naming)
    }

    /// The servers whose tools must be known before those of this one have their names: itself, and
    /// where the first in the file keeps a bare name (S2-27) every one before it.
    pub fn needed_to_name(&self, server: &ServerConfig) -> Vec<ServerName> {
        match (
            self.naming_of(server),
            self.servers.get_index_of(&server.name),
        ) {
            (Style::FirstWins, Some(place)) => {
                self.servers.keys().take(place + 1).cloned().collect()
            }
            _ => vec![server.name.clone()],
        }
    }
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file, as it was given.
    pub file: Arc<PathBuf>,
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
}
