//! The sections `[permissions]`, `[security]` and `[gateway]`, merged over all files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Dialect;
use crate::name::ServerName;

/// Mode and rules, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Applies where no rule matches.
    pub mode: Mode,
    /// The dialect of the file that sets the mode, if one does.
    pub mode_dialect: Option<Dialect>,
    /// Rules that allow: `server` or `server/tool`, a glob per part.
    pub allow: Vec<RuleText>,
    /// Rules that always ask.
    pub ask: Vec<RuleText>,
    /// Rules that deny.
    pub deny: Vec<RuleText>,
    /// Whether any file has a permissions section. If none has, dialects with
    /// [`ungated_by_default`](crate::DialectProfile::ungated_by_default) do not ask.
    pub configured: bool,
    /// Whether all permissions sections are in files that are not
    /// [`watched`](crate::DialectProfile::watched).
    pub only_unwatched: bool,
}

/// A rule as written, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// The rule's text.
    pub text: String,
    /// The authenticated client of the gateway that the rule is limited to; `None` means every
    /// caller.
    pub client: Option<String>,
    /// The dialect of its file, which decides the syntax.
    pub dialect: Dialect,
    /// Its file.
    pub file: Arc<PathBuf>,
    /// 1-based.
    pub line: usize,
}

impl RuleText {
    /// The rule in quotes, with its client.
    pub fn quoted(&self) -> String {
        match &self.client {
            None => format!("{:?}", self.text),
            Some(client) => format!("{:?} for client {client:?}", self.text),
        }
    }
}

/// `[gateway]`: how the gateway works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayConfig {
    /// What the audit log records of arguments.
    pub audit_arguments: AuditArguments,
    /// How long the tools of a server that is down stay listed.
    pub lost_server_grace: Duration,
    /// Where clients reach it from outside.
    pub public_url: Option<String>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            audit_arguments: AuditArguments::default(),
            lost_server_grace: Duration::from_secs(300),
            public_url: None,
        }
    }
}

/// What the audit log of the gateway records of a call's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditArguments {
    /// The names and the types of the values.
    #[default]
    Shape,
    /// The arguments as they are, without known secrets.
    Full,
    /// Nothing.
    None,
}

/// The gate's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Ask, unless a rule or a grant says otherwise.
    #[default]
    Ask,
    /// Allow, unless a rule denies.
    Yolo,
    /// Deny everything.
    Deny,
}

/// `[security]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// If not empty, only these servers run.
    pub allow_servers: Vec<String>,
    /// These never run, whatever the allow list says.
    pub deny_servers: Vec<String>,
    /// Whether `allow` rules and `trust` cover only the definitions that were pinned.
    pub locked: bool,
}

impl Security {
    /// Why a server may not run, if a list excludes it.
    pub fn blocks(&self, server: &ServerName) -> Option<&'static str> {
        let names = |list: &[String]| list.iter().any(|name| name == server.as_str());
        if names(&self.deny_servers) {
            Some("the deny list under [security] names it")
        } else if !self.allow_servers.is_empty() && !names(&self.allow_servers) {
            Some("the allow list under [security] does not name it")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Config, ConfigFile, Scope, load};

    fn loaded(scope: Scope, text: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switchboard.toml");
        std::fs::write(&path, text).unwrap();
        load(&[ConfigFile::new(path, scope)]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_may_name_a_client_of_the_gateway() {
        let text = "[permissions]\nallow = ['git', { tool = 'fs/read', client = 'codex' }]\n\
                    ask = [{ client = 'gemini' }]\n";
        let permissions = loaded(Scope::User, text).unwrap().permissions;
        let quoted = |rules: &[RuleText]| rules.iter().map(RuleText::quoted).collect::<Vec<_>>();
        assert_eq!(
            quoted(&permissions.allow),
            ["\"git\"", "\"fs/read\" for client \"codex\""]
        );
        assert_eq!(quoted(&permissions.ask), ["\"*\" for client \"gemini\""]);
        assert_eq!(permissions.ask[0].line, 3);
    }

    #[test]
    fn a_rule_without_its_client_is_an_error_with_its_line() {
        for rule in [
            "{ tool = 'fs' }",
            "{ tool = 1, client = 'c' }",
            "{ client = ' ' }",
            "1",
        ] {
            let error =
                loaded(Scope::User, &format!("[permissions]\ndeny = [{rule}]\n")).unwrap_err();
            assert!(
                error.contains("switchboard.toml:2") && error.contains("client = \"codex\""),
                "{error}"
            );
        }
    }

    #[test]
    fn only_a_users_own_file_decides_how_the_gateway_works() {
        let text = "[gateway]\naudit_arguments = 'full'\nlost_server_grace = '90s'\npublic_url = 'https://example.com'\n";
        let of = |scope| loaded(scope, text).unwrap();
        let own = GatewayConfig {
            audit_arguments: AuditArguments::Full,
            lost_server_grace: Duration::from_secs(90),
            public_url: Some("https://example.com".to_owned()),
        };
        assert_eq!(of(Scope::User).gateway, own);
        let project = of(Scope::Project);
        assert_eq!(project.gateway, GatewayConfig::default());
        let warnings = project.warnings.iter().map(ToString::to_string);
        let ignored = warnings.filter(|warning| warning.contains("only your own file"));
        assert_eq!(ignored.count(), 3);
    }
}
