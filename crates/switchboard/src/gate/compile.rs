//! Compiles the permissions of a configuration into a gate.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Gate, rules};
use crate::config::{
    Config, ConfigErrors, Mode, ProjectPermissions, RuleText, Scope, ServerConfig,
};
use crate::name::ServerName;

/// The number of the next gate.
static GATES: AtomicU64 = AtomicU64::new(0);

impl Gate {
    /// Compiles the rules against the configured server names. An ambiguous `allow` is an error
    /// that lists its readings.
    pub fn compile(config: &Config) -> Result<Self, ConfigErrors> {
        Self::compile_with(config, &[], &|_| false)
    }

    /// Like [`compile`](Self::compile), with the names of the host tools, which rules may also
    /// name, and with the `accepted` permissions of project files, which count as if they were in
    /// the user's file.
    pub fn compile_with(
        config: &Config,
        own: &[&str],
        accepted: &dyn Fn(&ProjectPermissions) -> bool,
    ) -> Result<Self, ConfigErrors> {
        let servers: Vec<&ServerName> = config.servers.keys().collect();
        let permissions = &config.permissions;
        let accepted: Vec<ProjectPermissions> = config
            .project_permissions
            .iter()
            .filter(|project| accepted(project))
            .cloned()
            .collect();
        let projects_yolo = accepted.iter().find_map(|project| project.yolo.as_ref());
        let (mode, yolo) = match (permissions.mode, projects_yolo) {
            (Mode::Ask, Some(place)) => (Mode::Yolo, Some(place)),
            (Mode::Yolo, _) => (Mode::Yolo, config.locations.get("permissions.mode")),
            (mode, _) => (mode, None),
        };
        let allow: Vec<RuleText> = permissions
            .allow
            .iter()
            .chain(accepted.iter().flat_map(|project| &project.allow))
            .cloned()
            .collect();
        let mut found = rules::Findings::default();
        let allow = rules::compile("allow", &allow, &servers, own, &mut found);
        let ask = rules::compile("ask", &permissions.ask, &servers, own, &mut found);
        let mut deny = rules::compile("deny", &permissions.deny, &servers, own, &mut found);
        if let Some(place) = yolo {
            found
                .warnings
                .extend(rules::skip_denies(&mut deny, place, config));
        }
        let names_clients = permissions
            .allow
            .iter()
            .chain(&permissions.ask)
            .chain(&permissions.deny)
            .any(|rule| rule.client.is_some())
            || accepted
                .iter()
                .any(|project| project.allow.iter().any(|rule| rule.client.is_some()));
        let gate = Self {
            names_clients,
            mode,
            trusted: names_where(config, |server| {
                server.trust || accepted.iter().any(|project| project.trusts(server))
            }),
            ungated: names_where(config, |server| {
                let is_accepted = || {
                    accepted
                        .iter()
                        .any(|project| project.leaves_ungated(server))
                };
                !permissions.configured
                    && server.dialect.profile().ungated_by_default
                    && (server.source.scope != Scope::Project || is_accepted())
            }),
            locked: config.security.locked,
            allow,
            ask,
            deny,
            accepted,
            warnings: found.warnings,
            number: GATES.fetch_add(1, Ordering::Relaxed),
        };
        if found.errors.is_empty() {
            Ok(gate)
        } else {
            Err(ConfigErrors(found.errors))
        }
    }
}

fn names_where(config: &Config, is_wanted: impl Fn(&ServerConfig) -> bool) -> HashSet<ServerName> {
    let servers = config.servers.values();
    let wanted = servers.filter(|server| is_wanted(server));
    wanted.map(|server| server.name.clone()).collect()
}
