//! Servers and rules that a program configures in its own code. No file has them, so they are added
//! to each configuration that is loaded.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{Config, Dialect, RuleText, ServerConfig, Source};

/// Servers and rules configured in code.
#[derive(Debug, Default)]
pub(crate) struct SettingsInCode {
    /// In the order in which they were configured.
    pub(crate) servers: Vec<Arc<ServerConfig>>,
    pub(crate) allow: Vec<RuleText>,
    pub(crate) ask: Vec<RuleText>,
    pub(crate) deny: Vec<RuleText>,
}

impl SettingsInCode {
    /// Adds them to a configuration. A server replaces one of the same name.
    pub(crate) fn add_to(&self, config: &mut Config) {
        for server in &self.servers {
            config.servers.insert(server.name.clone(), server.clone());
        }
        let permissions = &mut config.permissions;
        if [&self.allow, &self.ask, &self.deny]
            .iter()
            .any(|rules| !rules.is_empty())
        {
            (permissions.configured, permissions.only_unwatched) = (true, false);
        }
        permissions.allow.extend_from_slice(&self.allow);
        permissions.ask.extend_from_slice(&self.ask);
        permissions.deny.extend_from_slice(&self.deny);
    }
}

/// A rule in the syntax of the native file.
pub(crate) fn rule_in_code(rule: impl Into<String>) -> RuleText {
    RuleText {
        text: rule.into(),
        client: None,
        dialect: Dialect::Native,
        file: code_file(),
        line: 0,
    }
}

/// The file name in diagnostics of servers and rules in code.
fn code_file() -> Arc<PathBuf> {
    Source::code().file
}
