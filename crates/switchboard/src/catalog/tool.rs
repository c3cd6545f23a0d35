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
    pub(crate) server_place: usize,
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
