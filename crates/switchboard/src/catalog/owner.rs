//! Which servers can own a tool name, and so must run before it can be resolved by
//! [`Catalog::resolve`].

use std::sync::Arc;

use super::Catalog;
use crate::config::{Config, ServerConfig};
use crate::name::ServerName;

/// The servers that can own a tool name.
#[derive(Debug, Clone)]
pub enum PossibleOwners<'a> {
    /// The name is `server/tool` of this server.
    Named(&'a Arc<ServerConfig>),
    /// The servers whose tools can have this exposed name, in config order.
    AnyOf(Vec<&'a Arc<ServerConfig>>),
}

impl PossibleOwners<'_> {
    /// Whether the server is one of them.
    pub fn contains(&self, server: &ServerName) -> bool {
        match self {
            Self::Named(owner) => owner.name == *server,
            Self::AnyOf(owners) => owners.iter().any(|owner| owner.name == *server),
        }
    }

    /// Whether only one server can own the name.
    pub fn is_one(&self) -> bool {
        match self {
            Self::Named(_) => true,
            Self::AnyOf(owners) => owners.len() == 1,
        }
    }
}

/// The configured servers that can own this name, as `server/tool` or as an exposed name. The
/// others need not be started to find the tool.
pub fn possible_owners<'a>(config: &'a Config, name: &str) -> PossibleOwners<'a> {
    let mut servers = config.servers.values();
    let named = servers.find(|server| {
        name.strip_prefix(server.name.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    });
    if let Some(server) = named {
        return PossibleOwners::Named(server);
    }
    let can_name =
        |server: &&Arc<ServerConfig>| config.naming_of(server).can_name(&server.name, name);
    PossibleOwners::AnyOf(config.servers.values().filter(can_name).collect())
}

/// The server to start first for this name: the one it names, the one that has it in a `cached`
/// catalog, the only one that can own it, or the only one whose prefix it has.
pub fn likely_owner<'a>(
    config: &'a Config,
    cached: impl FnOnce() -> Catalog,
    name: &str,
) -> Option<&'a Arc<ServerConfig>> {
    let able = match possible_owners(config, name) {
        PossibleOwners::Named(server) => return Some(server),
        PossibleOwners::AnyOf(able) => able,
    };
    let has_prefix =
        |server: &&Arc<ServerConfig>| config.naming_of(server).may_name(&server.name, name);
    let cached = cached();
    let cached = cached.resolve(name).ok();
    cached
        .and_then(|tool| config.servers.get(&tool.id.server))
        .or_else(|| only(able.into_iter()))
        .or_else(|| only(config.servers.values().filter(has_prefix)))
}

fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    let first = found.next();
    if found.next().is_some() { None } else { first }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::{ConfigFile, Scope, load};

    fn config() -> Config {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switchboard.toml");
        let text = "[servers.files]\ncommand = 'a'\n[servers.files-2]\ncommand = 'b'\n";
        std::fs::write(&path, text).unwrap();
        load(&[ConfigFile::new(path, Scope::Given)]).unwrap()
    }

    #[test]
    fn a_name_has_the_owners_that_its_form_allows() {
        let config = config();
        let check = |name: &str, is_named: bool, able: &[&str], likely: Option<&str>| {
            let owners = possible_owners(&config, name);
            assert_eq!(
                matches!(owners, PossibleOwners::Named(_)),
                is_named,
                "{name}"
            );
            for server in config.servers.keys() {
                assert_eq!(
                    owners.contains(server),
                    able.contains(&server.as_str()),
                    "{name}, {server}"
                );
            }
            let found = likely_owner(&config, Catalog::default, name);
            assert_eq!(found.map(|server| server.name.as_str()), likely, "{name}");
        };
        check("files/read", true, &["files"], Some("files"));
        check("files-2/read", true, &["files-2"], Some("files-2"));
        check("mcp__files__read", false, &["files"], Some("files"));
        check("mcp__files-2__read", false, &["files-2"], Some("files-2"));
        check("mcp__other__read", false, &[], None);
        check("other/read", false, &[], None);
        check("read", false, &[], None);
    }
}
