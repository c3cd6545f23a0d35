//! What a project's file would allow without asking, which applies only after a person has accepted
//! it.

use std::path::PathBuf;
use std::sync::Arc;

use super::fingerprint::FingerprintHasher;
use super::policy::Policy;
use super::{Dialect, Fingerprint, Location, Mode, RuleText, ServerConfig};
use crate::name::ServerName;

/// What a project's file would allow without asking. Not in force until a person has accepted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPermissions {
    /// The file of the servers; its folder is absolute and without symbolic links.
    pub file: Arc<PathBuf>,
    /// Its dialect.
    pub dialect: Dialect,
    /// Where it sets the mode `yolo`.
    pub yolo: Option<Location>,
    /// Its allow rules.
    pub allow: Vec<RuleText>,
    /// Its servers with `trust = true`.
    pub trusted: Vec<ServerName>,
    /// Its servers, if it has no permissions section and its dialect then asks nothing.
    pub ungated: Vec<ServerName>,
    /// Its ask and deny rules, one per line. They always apply. Removing one ends an earlier
    /// acceptance, which took it into account.
    pub exceptions: Vec<String>,
}

impl ProjectPermissions {
    /// Moves what a file would allow without asking out of its policies (its own, and that of its
    /// permissions file).
    pub(super) fn collect(
        file: &Arc<PathBuf>,
        dialect: Dialect,
        policies: &mut [Policy],
        servers: &[ServerName],
        trusted: Vec<ServerName>,
    ) -> Self {
        let asks_nothing = dialect.profile().ungated_by_default
            && !policies.iter().any(|policy| policy.configured);
        // As with the user's own files, the first that sets a mode decides.
        let mode = policies.iter_mut().find(|policy| policy.mode.is_some());
        let yolo = mode.and_then(|policy| policy.mode.take_if(|(mode, _)| *mode == Mode::Yolo));
        policies
            .iter_mut()
            .for_each(|policy| drop(policy.mode.take_if(|(mode, _)| *mode == Mode::Yolo)));
        let line = |list: &str, rule: &RuleText| format!("{list} {}", rule.quoted());
        let ask_rules = policies
            .iter()
            .flat_map(|policy| &policy.ask)
            .map(|rule| line("ask", rule));
        let deny_rules = policies
            .iter()
            .flat_map(|policy| &policy.deny)
            .map(|rule| line("deny", rule));
        let exceptions = ask_rules.chain(deny_rules).collect();
        Self {
            file: file.clone(),
            dialect,
            yolo: yolo.map(|(_, location)| location),
            allow: policies
                .iter_mut()
                .flat_map(|policy| std::mem::take(&mut policy.allow))
                .collect(),
            trusted,
            ungated: if asks_nothing {
                servers.to_vec()
            } else {
                Vec::new()
            },
            exceptions,
        }
    }

    /// Whether there is nothing to accept.
    pub fn is_empty(&self) -> bool {
        self.lines().is_empty()
    }

    /// One fact per line, for a person. Every text from the file is quoted, so that no line can
    /// imitate another.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.yolo.is_some() {
            lines.push(
                "mode \"yolo\": no tool of any server is asked about, your own servers included"
                    .to_owned(),
            );
        }
        lines.extend(
            self.allow
                .iter()
                .map(|rule| format!("allow {}: every tool that this matches", rule.quoted())),
        );
        lines.extend(
            self.trusted
                .iter()
                .map(|name| format!("trust of server {name:?}: every tool of it")),
        );
        lines.extend(
            self.ungated
                .iter()
                .map(|name| format!("no permissions in the file: every tool of server {name:?}")),
        );
        lines
    }

    /// What an acceptance is bound to: the file and everything that it would allow.
    pub fn key(&self) -> Fingerprint {
        use std::os::unix::ffi::OsStrExt;
        let mut digest = FingerprintHasher::new("switchboard permissions 1");
        digest.part("file", self.file.as_os_str().as_bytes());
        digest.part("kind", self.dialect.profile().name.as_bytes());
        digest.list("lines", self.lines().iter().map(String::as_bytes));
        digest.finish()
    }

    /// Whether it allows all tools of a server by `trust`.
    pub fn trusts(&self, server: &ServerConfig) -> bool {
        self.file == server.source.file && self.trusted.contains(&server.name)
    }

    /// Whether it allows all tools of a server by having no permissions section.
    pub fn leaves_ungated(&self, server: &ServerConfig) -> bool {
        self.file == server.source.file && self.ungated.contains(&server.name)
    }
}
