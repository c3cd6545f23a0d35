//! The configuration as a whole: every file read and merged.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use super::{
    Diagnostic, EntryValue, GatewayConfig, Location, ModelEntry, Permissions, ProjectPermissions,
    Security, ServerConfig,
};
use crate::name::{ServerName, Style};

/// The configuration that a host runs on: all files, merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// In the order of the files, which decides precedence where names collide. A project's entry
    /// replaces a user's entry of the same name as a whole.
    pub servers: IndexMap<ServerName, Arc<ServerConfig>>,
    /// Rules and mode. A project's file contributes only what is stricter.
    pub permissions: Permissions,
    /// What project files would allow without asking; in force once a person has accepted it.
    pub project_permissions: Vec<ProjectPermissions>,
    /// Files that have permissions alone, each after the file of the servers that it belongs to.
    pub permissions_files: Vec<(Arc<PathBuf>, Arc<PathBuf>)>,
    /// Which servers may run at all.
    pub security: Security,
    /// The naming style of tools.
    pub naming: Style,
    /// The model for `chat` and `run`, if one of the user's files sets it.
    pub model: Option<ModelEntry>,
    /// How the gateway works.
    pub gateway: GatewayConfig,
    /// Findings that do not prevent loading: unknown fields, ignored settings of a project's file.
    pub warnings: Vec<Diagnostic>,
    /// The location of each value that is set, by dotted field: `servers.git.command`,
    /// `permissions.mode`.
    pub locations: BTreeMap<String, Location>,
    /// The values of each entry with their locations, under the names that its file uses.
    pub values: BTreeMap<ServerName, Vec<EntryValue>>,
    /// Entries that were replaced by one of the same name in a file of higher precedence, nearest
    /// first, with their values.
    pub shadowed: Vec<(Arc<ServerConfig>, Vec<EntryValue>)>,
}

/// Servers of an embedder that reads no files; everything else has its default. Of two with the
/// same name the later one counts.
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
    /// The naming style of a server's tools.
    pub fn naming_of(&self, server: &ServerConfig) -> Style {
        server.dialect.profile().naming.unwrap_or(self.naming)
    }

    /// Whether the permissions in these two files count as those of one file: they are the same
    /// file, or a file of servers and its permissions file.
    pub fn have_one_policy(&self, file: &Path, other: &Path) -> bool {
        let is_pair = |one: &Path, two: &Path| {
            let mut pairs = self.permissions_files.iter();
            pairs.any(|(servers, permissions)| {
                servers.as_path() == one && permissions.as_path() == two
            })
        };
        file == other || is_pair(file, other) || is_pair(other, file)
    }

    /// Removes the servers whose URL is that of a gateway at this address, and returns their names:
    /// that gateway would connect to itself.
    pub fn leave_out_gateway_at(&mut self, address: SocketAddr) -> Vec<ServerName> {
        let servers = self.servers.values();
        let names: Vec<_> = servers
            .filter(|server| server.is_gateway_at(address))
            .map(|server| server.name.clone())
            .collect();
        for name in &names {
            self.servers.shift_remove(name);
            self.values.remove(name);
        }
        names
    }

    /// The servers whose tools must be known before the tools of this one can be named: itself, and
    /// in the style in which the first server keeps the bare name, every server before it.
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
