//! A tool that can be called: its identity, its names, its definition, its server's entry, the rules
//! that match it, and whether it is still offered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::ToolDefinition;
use crate::config::{Fingerprint, ServerConfig};
use crate::name::{ExposedName, ToolId};

/// A tool that can be called.
#[derive(Debug)]
pub struct Tool {
    /// The server and the tool's name there.
    pub id: ToolId,
    /// The name that a model sees.
    pub exposed: ExposedName,
    /// The server's definition.
    pub definition: Arc<ToolDefinition>,
    /// The configuration entry of the server.
    pub server: Arc<ServerConfig>,
    /// The launch that its grants are bound to.
    pub launch: Fingerprint,
    /// Whether the call may be sent again after a lost response.
    pub idempotent: bool,
    /// The tool's index in the catalog.
    pub(crate) place: usize,
    /// The index of its server among the catalog's sources.
    pub(crate) server_index: usize,
    /// The rules that match it, cached by the gate.
    pub(crate) rule_matches: RuleMatchCache,
    /// The declared effect of a host tool.
    pub(crate) effect: Option<ToolEffect>,
}

impl Tool {
    /// The declared effect of a host tool; `None` for a server's tool.
    pub fn effect(&self) -> Option<ToolEffect> {
        self.effect
    }

    /// Whether this is a host tool, not a server's.
    pub fn is_host_tool(&self) -> bool {
        self.id.server.is_host()
    }
}

/// Caches how a gate's configuration concerns a tool, whoever calls it: each tool is matched once.
/// Rules that name a client are matched for each call.
#[derive(Debug, Default)]
pub(crate) struct RuleMatchCache(OnceLock<(u64, MatchedRules)>);

/// The first rule of each kind that matches a tool, as an index, and what applies to its server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MatchedRules {
    pub(crate) allow: Option<usize>,
    pub(crate) ask: Option<usize>,
    pub(crate) deny: Option<usize>,
    /// Whether `trust` is set for its server.
    pub(crate) is_trusted: bool,
    /// Whether calls of its server's tools are allowed because no file has permissions.
    pub(crate) is_ungated: bool,
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

/// Whether a definition is still offered. Shared with equal definitions in later lists. Checked
/// right before each call is sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offer(Arc<OfferState>);

#[derive(Debug, Default)]
struct OfferState {
    /// Set permanently by the server's task, when a list no longer contains the definition.
    is_withdrawn: AtomicBool,
    /// Set and cleared by the host: whether the configuration hides the tool.
    is_hidden: AtomicBool,
}

impl Offer {
    pub(crate) fn withdraw(&self) {
        self.0.is_withdrawn.store(true, Ordering::Release);
    }

    pub(crate) fn hide(&self, is_hidden: bool) {
        self.0.is_hidden.store(is_hidden, Ordering::Release);
    }
}

impl ToolDefinition {
    /// Whether the server still lists this definition and the configuration exposes the tool.
    pub(crate) fn is_offered(&self) -> bool {
        let OfferState {
            is_withdrawn,
            is_hidden,
        } = &*self.offer.0;
        !is_withdrawn.load(Ordering::Acquire) && !is_hidden.load(Ordering::Acquire)
    }
}

/// The effect of a host tool, for a caller that approves some effects without asking. A server's
/// tool has none: the server's own claim (`readOnlyHint`) decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolEffect {
    /// It reads files and changes nothing.
    Read,
    /// It changes files.
    Edit,
    /// It runs programs.
    Execute,
    /// It reaches other machines.
    Network,
}

impl ToolEffect {
    /// The equivalent annotations of the protocol.
    pub(crate) fn annotations(self) -> Value {
        json!({
            "readOnlyHint": matches!(self, Self::Read | Self::Network),
            "destructiveHint": matches!(self, Self::Edit | Self::Execute),
            "openWorldHint": matches!(self, Self::Execute | Self::Network),
        })
    }
}
