//! Operations that rules decide on as if they were tools of a server, though no list has them:
//! sampling, and reading resources.

use std::sync::Arc;

use serde_json::Value;

use super::CallError;
use crate::catalog::{RuleMatchCache, Tool, ToolDefinition};
use crate::host::HostState;
use crate::name::{ExposedName, ServerName, ToolId};
use crate::wire::RawJson;

impl HostState {
    /// Such a tool, for the gate.
    pub(super) fn unlisted(&self, server: &ServerName, definition: &Value) -> Result<Tool, String> {
        let roster = self.roster();
        let handle = roster
            .server(server)
            .map_err(|error| CallError::from(error).to_string())?;
        let definition =
            ToolDefinition::parse(&RawJson::from_value(definition)).map_err(|(_, fault)| fault)?;
        let id = ToolId {
            server: server.clone(),
            tool: definition.name.clone(),
        };
        let exposed = ExposedName::unlisted(&id.shown().to_string());
        Ok(Tool {
            id,
            exposed,
            definition: Arc::new(definition),
            server: handle.config.clone(),
            launch: handle.launch,
            idempotent: false,
            place: usize::MAX,
            server_index: usize::MAX,
            rule_matches: RuleMatchCache::default(),
            effect: None,
        })
    }
}
