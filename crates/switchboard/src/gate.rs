//! Allow, ask or deny, from rules, grants and pins. Pure: no async, no I/O. And `Permit`, without which nothing is called.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::catalog::Tool;
use crate::config::{Config, ConfigErrors, Diagnostic, Mode, Scope};
use crate::name::ServerName;

pub use grants::{Grant, Grants};
pub use permit::Permit;
use rules::Rule;

mod diff;
mod grants;
mod permit;
mod rules;
mod spelling;

/// Compiled rules and mode.
pub struct Gate {
    mode: Mode,
    /// Some file speaks of permissions.
    configured: bool,
    /// Allow rules and trust hold only for the definition that was pinned.
    locked: bool,
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
    warnings: Vec<Diagnostic>,
    /// Tells this gate's rulings from those of another.
    number: u64,
}

/// Which rules of a gate hold for a tool: they never change, so each tool is matched once and remembers it.
#[derive(Debug, Default)]
pub(crate) struct Ruling(OnceLock<(u64, Matched)>);

/// Counts gates.
static GATES: AtomicU64 = AtomicU64::new(0);

/// The first rule of each kind that holds for a pair, as an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Matched {
    allow: Option<usize>,
    ask: Option<usize>,
    deny: Option<usize>,
}

/// What the gate says of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow {
        /// The rule, mode or grant.
        because: Arc<str>,
    },
    /// Ask the caller.
    Ask {
        /// The rule, or that none applies.
        because: String,
        /// An explicit `ask` rule: only once or no.
        once_only: bool,
        /// A grant exists but is bound to something else: what was, what is.
        changed: Option<Vec<String>>,
    },
    /// It may not.
    Deny {
        /// The rule or mode.
        rule: String,
    },
}

/// What is asked of the gate.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The tool, with its launch and definition.
    pub tool: &'a Tool,
    /// `--yes` for this call.
    pub yes: bool,
}

impl Gate {
    /// Compiles the rules against the configured server names. An ambiguous `allow` is an error that lists its readings.
    pub fn compile(config: &Config) -> Result<Self, ConfigErrors> {
        Self::compile_beside(config, &[])
    }

    /// As [`compile`](Self::compile), beside tools of these names that are no server's: a rule may be the name of one.
    pub fn compile_beside(config: &Config, own: &[&str]) -> Result<Self, ConfigErrors> {
        let servers: Vec<&ServerName> = config.servers.keys().collect();
        let permissions = &config.permissions;
        let mut found = rules::Findings::default();
        let gate = Self {
            mode: permissions.mode,
            configured: permissions.configured,
            locked: config.security.locked,
            allow: rules::compile("allow", &permissions.allow, &servers, own, &mut found),
            ask: rules::compile("ask", &permissions.ask, &servers, own, &mut found),
            deny: rules::compile("deny", &permissions.deny, &servers, own, &mut found),
            warnings: found.warnings,
            number: GATES.fetch_add(1, Ordering::Relaxed),
        };
        if found.errors.is_empty() { Ok(gate) } else { Err(ConfigErrors(found.errors)) }
    }

    /// Rules that match no configured server: likely a slip of the pen.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Decides on one call, in the order that ARCHITECTURE.md gives.
    pub fn decide(&self, question: Question<'_>, grants: &Grants) -> Decision {
        let tool = question.tool;
        let matched = self.matched(tool);
        if let Some(rule) = matched.deny {
            return Decision::Deny { rule: self.deny[rule].shown.to_string() };
        }
        if self.mode == Mode::Deny {
            return Decision::Deny { rule: "mode deny".to_owned() };
        }
        if self.mode == Mode::Yolo {
            return Decision::Allow { because: "mode yolo".into() };
        }
        if question.yes {
            return Decision::Allow { because: "yes was said beforehand".into() };
        }
        if let Some(rule) = matched.ask {
            let changed = grants.change_of(tool);
            return Decision::Ask { because: self.ask[rule].shown.to_string(), once_only: true, changed };
        }
        // Where locked, a rule and trust cover the definition that was first seen, as a grant covers the one it was given for.
        if !self.locked || !grants.is_unlike_its_pin(tool) {
            if let Some(rule) = matched.allow {
                return Decision::Allow { because: self.allow[rule].shown.clone() };
            }
            if tool.server.trust {
                return Decision::Allow { because: format!("`trust` is set for server \"{}\"", tool.id.server).into() };
            }
            if self.is_optional_for(tool) {
                return Decision::Allow { because: "no gate configured".into() };
            }
        }
        if grants.covers(tool) {
            return Decision::Allow { because: "remembered answer".into() };
        }
        let changed = grants.change_of(tool);
        let because = if changed.is_some() { "it changed since it was approved" } else { "no rule applies" };
        Decision::Ask { because: because.to_owned(), once_only: false, changed }
    }

    /// Whether a tool should be pinned when it is first seen ([`Grants::pin`]), so that a later change is noticed: to be asked about,
    /// where locked, and to be shown, where its server is trusted.
    pub fn wants_pin(&self, tool: &Tool) -> bool {
        self.locked || tool.server.trust
    }

    /// Whether a changed definition is shown and not asked about (C19).
    pub fn only_shows_changes(&self, tool: &Tool) -> bool {
        !self.locked && tool.server.trust
    }

    /// S0-27: where nothing speaks of permissions, and the document of the server's file calls the gate optional. A project's file
    /// widens nothing, so it does not do so by silence either.
    fn is_optional_for(&self, tool: &Tool) -> bool {
        let server = &tool.server;
        !self.configured && server.dialect.rules().ungated_by_default && server.source.scope != Scope::Project
    }

    fn matched(&self, tool: &Tool) -> Matched {
        let find = || {
            let first = |rules: &[Rule]| rules.iter().position(|rule| rule.matches(tool));
            Matched { allow: first(&self.allow), ask: first(&self.ask), deny: first(&self.deny) }
        };
        match tool.ruling.0.get_or_init(|| (self.number, find())) {
            (number, matched) if *number == self.number => *matched,
            // Another gate was asked first: its answer is not ours.
            _ => find(),
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("mode", &self.mode)
            .field("configured", &self.configured)
            .field("locked", &self.locked)
            .field("allow", &self.allow)
            .field("ask", &self.ask)
            .field("deny", &self.deny)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
