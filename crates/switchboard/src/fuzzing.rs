//! Private parsers as plain functions, for the fuzz targets in `fuzz/`. Not part of the library's
//! API.

use std::sync::Arc;

pub use crate::auth::fuzzing::{read_callback, read_challenge, trusted_metadata_addresses};
use crate::caller::CallerId;
use crate::catalog::{Tool, ToolDefinition};
use crate::config::Config;
pub use crate::config::fuzzing::{EditedText, add_server, is_json_text, load_text};
use crate::gate::{Decision, DecisionRequest, Gate, Grants};
use crate::name::{Style, ToolId};
pub use crate::transport::http::fuzzing::{ParsedBody, ParsedResponse, read_http_response};
use crate::wire::RawJson;

/// The decision of a gate on a tool of a configured server, without grants.
pub fn decide(gate: &Gate, config: &Config, server: &str, tool: &str) -> Option<Decision> {
    let (_, server) = config
        .servers
        .iter()
        .find(|(name, _)| name.as_str() == server)?;
    let raw =
        RawJson::from_value(&serde_json::json!({"name": tool, "inputSchema": {"type": "object"}}));
    let definition = Arc::new(ToolDefinition::parse(&raw).ok()?);
    let id = ToolId {
        server: server.name.clone(),
        tool: definition.name.clone(),
    };
    let exposed = Style::Mcp.expose(std::slice::from_ref(&id)).pop()?.ok()?;
    let (launch, server) = (server.fingerprint(), server.clone());
    let tool = Tool {
        id,
        exposed,
        definition,
        server,
        launch,
        idempotent: false,
        place: 0,
        server_index: 0,
        rule_matches: Default::default(),
        effect: None,
    };
    Some(gate.decide(
        DecisionRequest {
            tool: &tool,
            caller: &CallerId::new("fuzz"),
            pre_approved: false,
        },
        &Grants::default(),
    ))
}
