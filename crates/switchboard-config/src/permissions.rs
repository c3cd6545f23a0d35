//! The sections `[permissions]` and `[security]`, merged over all files.

use std::path::PathBuf;
use std::sync::Arc;

use super::Dialect;
use crate::name::ServerName;

/// `[permissions]`, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// What holds where no rule does.
    pub mode: Mode,
    /// `server` or `server/tool`, a glob per part.
    pub allow: Vec<RuleText>,
    /// Always asked.
    pub ask: Vec<RuleText>,
    /// Never allowed.
    pub deny: Vec<RuleText>,
    /// Some file says something about permissions, if only that they are asked about. Where none
    /// does, a dialect whose document calls the gate optional has none
    /// ([`DialectProfile::ungated_by_default`]).
    pub configured: bool,
}

/// A rule as written, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// The spelling.
    pub text: String,
    /// The kind of file it stands in: only that kind's spellings count.
    pub dialect: Dialect,
    /// The file it stands in.
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
    /// Definitions that changed since they were pinned are not covered by `allow` rules and
    /// `trust`.
    pub locked: bool,
}

impl Security {
    /// Which list keeps a server from running, if one does.
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
