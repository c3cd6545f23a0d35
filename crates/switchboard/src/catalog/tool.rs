//! A tool that can be called: its identity, its names, its definition and its server's entry.

use std::sync::Arc;

use serde_json::{Value, json};

use super::ToolDefinition;
use super::rule_matches::RuleMatchCache;
use crate::config::{Fingerprint, ServerConfig};
use crate::name::{ExposedName, ToolId};

/// A tool that can be called.
#[derive(Debug)]
pub struct Tool {
    /// The identity.
    pub id: ToolId,
    /// The name a model sees.
    pub exposed: ExposedName,
    /// As the server defined it.
    pub definition: Arc<ToolDefinition>,
    /// The configuration entry of its server.
    pub server: Arc<ServerConfig>,
    /// The launch that its grants are bound to.
    pub launch: Fingerprint,
    /// The call may be sent again after a lost response.
    pub idempotent: bool,
    /// Its index in the catalog.
    pub(crate) place: usize,
    /// The index of its server among the catalog's sources.
    pub(crate) server_place: usize,
    /// The rules that match it, cached by the gate.
    pub(crate) rule_matches: RuleMatchCache,
    /// What it does, where it is a tool of this program that says so.
    pub(crate) effect: Option<ToolEffect>,
}

impl Tool {
    /// What it does, where it is a tool of this program that says so.
    pub fn effect(&self) -> Option<ToolEffect> {
        self.effect
    }

    /// Whether it is a tool of this program, and not a server's.
    pub fn is_host_tool(&self) -> bool {
        self.id.server.is_host()
    }
}

/// What a tool of this program does, for a caller that approves some effects without asking. A
/// server's tool has none: what its server says of it (`readOnlyHint`) decides nothing.
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
    /// The annotations of the protocol that say the same.
    pub(crate) fn annotations(self) -> Value {
        json!({
            "readOnlyHint": matches!(self, Self::Read | Self::Network),
            "destructiveHint": matches!(self, Self::Edit | Self::Execute),
            "openWorldHint": matches!(self, Self::Execute | Self::Network),
        })
    }
}
