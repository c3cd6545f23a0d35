//! The sections `[permissions]` and `[security]`, merged over all files.

use std::path::PathBuf;
use std::sync::Arc;

use super::Dialect;
use crate::name::ServerName;

/// Mode and rules, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Applies where no rule matches.
    pub mode: Mode,
    /// Rules that allow: `server` or `server/tool`, a glob per part.
    pub allow: Vec<RuleText>,
    /// Rules that always ask.
    pub ask: Vec<RuleText>,
    /// Rules that deny.
    pub deny: Vec<RuleText>,
    /// Whether any file has a permissions section. If none has, dialects with
    /// [`ungated_by_default`](crate::DialectProfile::ungated_by_default) do not ask.
    pub configured: bool,
}

/// A rule as written, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// The rule's text.
    pub text: String,
    /// The dialect of its file, which decides the syntax.
    pub dialect: Dialect,
    /// Its file.
    pub file: Arc<PathBuf>,
    /// 1-based.
    pub line: usize,
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
