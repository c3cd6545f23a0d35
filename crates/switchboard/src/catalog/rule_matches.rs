//! Which rules of a gate match a tool, cached by the tool.

use std::sync::OnceLock;

/// Caches which rules of a gate match a tool, whoever calls it: each tool is matched once. Rules
/// that name a client are matched for each call.
#[derive(Debug, Default)]
pub(crate) struct RuleMatchCache(OnceLock<(u64, MatchedRules)>);

/// The first rule of each kind that matches a tool, as an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MatchedRules {
    pub(crate) allow: Option<usize>,
    pub(crate) ask: Option<usize>,
    pub(crate) deny: Option<usize>,
}

impl RuleMatchCache {
    /// The rules of the gate with this number, computed by `find` if they are not cached.
    pub(crate) fn get_or_find(&self, gate: u64, find: impl Fn() -> MatchedRules) -> MatchedRules {
        match self.0.get_or_init(|| (gate, find())) {
            (number, matched) if *number == gate => *matched,
            // The cache belongs to another gate.
            _ => find(),
        }
    }
}
