//! Merges files: an entry replaces those of the same name in files of lower precedence, deny rules
//! add up.

use std::sync::Arc;

use indexmap::map::Entry;

use crate::fields::SERVERS;
use crate::name::ServerName;
use crate::policy::{GatewayPolicy, Policy, WithLocation};
use crate::{
    Config, Dialect, EntryValue, GatewayConfig, Location, Mode, ProjectPermissions, Scope,
    ServerConfig, ShadowedEntry,
};

/// Adds the servers of a file of lower precedence than those before it, without the gateway's own
/// entry.
pub(super) fn merge_servers(config: &mut Config, servers: Vec<(ServerConfig, Vec<EntryValue>)>) {
    for (server, values) in servers {
        if server.is_gateway() {
            continue;
        }
        match config.servers.entry(server.name.clone()) {
            Entry::Vacant(free) => {
                let named = |value: &EntryValue| {
                    (
                        format!("{}.{}.{}", SERVERS.name, server.name, value.field),
                        value.location.clone(),
                    )
                };
                config
                    .locations
                    .extend(values.iter().filter(|value| !value.is_part).map(named));
                config.values.insert(server.name.clone(), values);
                free.insert(Arc::new(server));
            }
            Entry::Occupied(mut taken) => {
                let shadows = &mut Arc::make_mut(taken.get_mut()).source.shadows;
                let replaced = ShadowedEntry {
                    file: server.source.file.clone(),
                    scope: server.source.scope,
                };
                // A project must not hide the user's entry behind one of its own.
                let is_project = |entry: &ShadowedEntry| entry.scope == Scope::Project;
                if shadows
                    .as_ref()
                    .is_none_or(|known| is_project(known) && !is_project(&replaced))
                {
                    *shadows = Some(replaced);
                }
                config.shadowed.push((Arc::new(server), values));
            }
        }
    }
}

/// The user's file of highest precedence that sets a value decides; deny rules add up; a project's
/// file can only make the result stricter.
pub(super) fn merge_policies(config: &mut Config, policies: Vec<(Scope, Policy)>) {
    let mut mode = None;
    let mut projects_mode = None;
    let mut naming = None;
    let mut allow_servers = None;
    let mut deny_servers = Vec::new();
    let mut locked = None;
    let mut gateway = GatewayPolicy::default();
    let mut mode_dialects = Vec::new();
    let mut is_watched_configured = false;
    for (scope, policy) in policies {
        let is_watched = policy
            .dialect
            .is_none_or(|dialect| dialect.profile().watched);
        is_watched_configured |= policy.configured && is_watched;
        let location = policy.mode.as_ref().map(|(_, location)| location.clone());
        mode_dialects.extend(location.zip(policy.dialect));
        if scope == Scope::Project {
            projects_mode = strictest(projects_mode, policy.mode);
        } else {
            mode = mode.or(policy.mode);
        }
        naming = naming.or(policy.naming);
        config.model = config.model.take().or(policy.model);
        allow_servers = allow_servers.or(policy.allow_servers);
        deny_servers.extend(policy.deny_servers);
        locked = locked.or(policy.locked);
        gateway = gateway.or(policy.gateway);
        config.permissions.configured |= policy.configured;
        config.permissions.allow.extend(policy.allow);
        config.permissions.ask.extend(policy.ask);
        config.permissions.deny.extend(policy.deny);
    }
    config.permissions.only_unwatched = config.permissions.configured && !is_watched_configured;
    config.gateway = gateway.or_default();
    let mut projects = std::mem::take(&mut config.project_permissions);
    projects
        .iter_mut()
        .for_each(|project| drop_overridden(project, config, projects_mode.is_some()));
    projects.retain(|project| !project.is_empty());
    config.project_permissions = projects;
    let locations = &mut config.locations;
    let mut set_location = |field: &str, location: Location| {
        locations.entry(field.to_owned()).or_insert(location);
    };
    // A project's `yolo` is not among these modes, so a project's mode is the default or stricter.
    if let Some((mode, location)) = strictest(mode, projects_mode) {
        let of_file = |(known, _): &&(Location, Dialect)| *known == location;
        let found = mode_dialects.iter().find(of_file);
        config.permissions.mode_dialect = found.map(|(_, dialect)| *dialect);
        config.permissions.mode = mode;
        set_location("permissions.mode", location);
    }
    if let Some((style, location)) = naming {
        config.naming = style;
        set_location("naming.style", location);
    }
    if let Some((names, location)) = allow_servers {
        config.security.allow_servers = names;
        set_location("security.allow_servers", location);
    }
    for (names, location) in deny_servers {
        config.security.deny_servers.extend(names);
        set_location("security.deny_servers", location);
    }
    if let Some((_, location)) = locked {
        config.security.locked = true;
        set_location("security.locked", location);
    }
}

impl GatewayPolicy {
    /// Each setting of this file, or else of the other.
    fn or(self, other: Self) -> Self {
        Self {
            audit_arguments: self.audit_arguments.or(other.audit_arguments),
            lost_server_grace: self.lost_server_grace.or(other.lost_server_grace),
            public_url: self.public_url.or(other.public_url),
        }
    }

    fn or_default(self) -> GatewayConfig {
        let defaults = GatewayConfig::default();
        GatewayConfig {
            audit_arguments: self.audit_arguments.unwrap_or_default(),
            lost_server_grace: self.lost_server_grace.unwrap_or(defaults.lost_server_grace),
            public_url: self.public_url,
        }
    }
}

/// Removes what has no effect after merging: servers that another file replaced, and missing
/// permissions if another file has some.
fn drop_overridden(project: &mut ProjectPermissions, config: &Config, is_stricter: bool) {
    let file = project.file.clone();
    let is_here = |name: &ServerName| {
        let server = config.servers.get(name);
        server.is_some_and(|server| server.source.file == file)
    };
    project.trusted.retain(is_here);
    project
        .ungated
        .retain(|name| !config.permissions.configured && is_here(name));
    project.yolo.take_if(|_| is_stricter);
}

/// The stricter of two modes; the first if they are equal.
fn strictest(
    one: Option<WithLocation<Mode>>,
    other: Option<WithLocation<Mode>>,
) -> Option<WithLocation<Mode>> {
    let rank = |with_location: &WithLocation<Mode>| match with_location.0 {
        Mode::Yolo => 0,
        Mode::Ask => 1,
        Mode::Deny => 2,
    };
    other.into_iter().chain(one).max_by_key(rank)
}
