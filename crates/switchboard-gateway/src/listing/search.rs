//! `search_tools` and `call_tool`: what a client is offered in place of a long list.
//!
//! A search has no state, so the list never changes and works in both eras.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use switchboard::RawJson;
use switchboard::catalog::search::{MAX_FOUND, ToolSearch, ToolText};
use switchboard::catalog::{Catalog, Tool};

use super::ToolListing;
use crate::params::RequestParams;
use crate::reply;

pub(crate) const SEARCH_TOOL: &str = "search_tools";
pub(crate) const CALL_TOOL: &str = "call_tool";

/// A list that is longer than this is searched with [`ToolListing::Auto`]: 5 % of 200,000 tokens, at
/// four bytes each.
const LONG_LIST_BYTES: usize = 200_000 / 20 * 4;

/// How many of the tools found are shown with their schemas.
const WITH_SCHEMA: usize = 5;

/// Clients that search tools themselves and load definitions on demand: a second search would hide
/// the tools from theirs.
const DEFERRING: [&str; 4] = ["claude-code", "codex", "vscode", "Visual Studio Code"];

/// Whether a client is offered the search.
pub(crate) fn applies(listing: ToolListing, list_bytes: usize, client_names: &[&str]) -> bool {
    let defers = || {
        client_names
            .iter()
            .any(|name| DEFERRING.iter().any(|known| name.starts_with(known)))
    };
    match listing {
        ToolListing::All => false,
        ToolListing::Search => true,
        ToolListing::Auto => list_bytes > LONG_LIST_BYTES && !defers(),
    }
}

/// The definitions of the two tools, for a search of these tools.
pub(crate) fn definitions<'a>(listed: impl Iterator<Item = &'a Arc<Tool>>) -> [Value; 2] {
    let mut servers: Vec<&str> = Vec::new();
    for tool in listed {
        if !servers.contains(&tool.id.server.as_str()) {
            servers.push(tool.id.server.as_str());
        }
    }
    let servers = servers.join(", ");
    let search = json!({
        "name": SEARCH_TOOL,
        "description": format!(
            "Finds tools of these servers: {servers}. Search before you say that something cannot be done. \
             Call what you found with {CALL_TOOL}."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "A name, a part of one, or words that describe what is to be done"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "description": "How many tools to find"},
                "detail": {"type": "string", "enum": ["names", "short", "schema"], "description": "How much to show of each; the best have their schema by default"}
            },
            "required": ["query"]
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": false}
    });
    let call = json!({
        "name": CALL_TOOL,
        "description": format!("Calls a tool that {SEARCH_TOOL} found, by its name, with arguments that fit its schema."),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name of the tool, as it was found"},
                "arguments": {"type": "object", "description": "Its arguments"}
            },
            "required": ["name"]
        },
        // The strictest annotations, because it may call any tool.
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true}
    });
    [search, call]
}

/// The tool and the arguments in a `call_tool`.
pub(crate) fn inner_call(params: &RequestParams) -> Result<(String, Option<RawJson>), String> {
    #[derive(Deserialize)]
    struct CallToolArguments {
        name: String,
        arguments: Option<Box<serde_json::value::RawValue>>,
    }
    let wrong = |fault: &dyn std::fmt::Display| format!("{CALL_TOOL}: {fault}");
    let arguments = params.get("arguments");
    let arguments = arguments.ok_or_else(|| wrong(&"arguments are missing"))?;
    let inner: CallToolArguments = arguments.decode().map_err(|fault| wrong(&fault))?;
    let raw = inner.arguments.and_then(|raw| raw.get().parse().ok());
    Ok((inner.name, raw))
}

/// How much is shown of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SearchDetail {
    Names,
    Short,
    #[default]
    Schema,
}

/// The result of a `search_tools`.
pub(crate) fn run(catalog: &Catalog, index: &ListedToolIndex, params: &RequestParams) -> RawJson {
    #[derive(Deserialize)]
    struct SearchToolsArguments {
        query: String,
        limit: Option<usize>,
        #[serde(default)]
        detail: SearchDetail,
    }
    let arguments: SearchToolsArguments = match params.get("arguments").map(RawJson::decode) {
        Some(Ok(arguments)) => arguments,
        Some(Err(fault)) => return reply::failed_call(&format!("{SEARCH_TOOL}: {fault}")),
        None => return reply::failed_call(&format!("{SEARCH_TOOL}: `query` is missing")),
    };
    let limit = arguments.limit.unwrap_or(MAX_FOUND).clamp(1, MAX_FOUND);
    let found = find(catalog, index, &arguments.query, limit);
    let text = if found.is_empty() {
        nothing_found(&index.tools)
    } else {
        describe(&found, arguments.detail)
    };
    RawJson::from(json!({"content": [{"type": "text", "text": text}]}))
}

/// The tools for a query, best first. A tool that the query names, in any spelling that a call
/// accepts, comes first.
fn find<'a>(
    catalog: &Catalog,
    index: &'a ListedToolIndex,
    query: &str,
    limit: usize,
) -> Vec<&'a Tool> {
    let exact = catalog.resolve(query.trim()).ok();
    let names: Vec<String> = exact.iter().map(|tool| tool.exposed.to_string()).collect();
    let found = index.search.search(&names, query);
    found
        .into_iter()
        .take(limit)
        .map(|place| &*index.tools[place])
        .collect()
}

fn describe(found: &[&Tool], detail: SearchDetail) -> String {
    let mut text = String::new();
    let mut servers: Vec<&str> = Vec::new();
    for tool in found {
        if !servers.contains(&tool.id.server.as_str()) {
            servers.push(tool.id.server.as_str());
        }
    }
    for server in servers {
        text.push_str(&format!("Tools of {server}:\n"));
        let places = found.iter().enumerate();
        for (place, tool) in places.filter(|(_, tool)| tool.id.server.as_str() == server) {
            text.push_str(&format!("- {}", tool.exposed));
            let description = description(tool);
            match detail {
                SearchDetail::Names => {}
                SearchDetail::Schema if place < WITH_SCHEMA => {
                    let schema = &tool.definition.input_schema;
                    text.push_str(&format!(
                        ": {description}\n  arguments: {}",
                        schema.as_str()
                    ));
                }
                _ => {
                    let first = description.lines().next().unwrap_or_default();
                    text.push_str(&format!(": {first}"));
                }
            }
            text.push('\n');
        }
    }
    text
}

fn nothing_found(tools: &[Arc<Tool>]) -> String {
    let mut text =
        "No tool matches. Search with other words, or with the name of a server:\n".to_owned();
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for tool in tools {
        let server = tool.id.server.as_str();
        match counts.iter_mut().find(|(known, _)| *known == server) {
            Some((_, count)) => *count += 1,
            None => counts.push((server, 1)),
        }
    }
    for (server, count) in counts {
        text.push_str(&format!("- {server} ({count} tools)\n"));
    }
    text
}

/// The tools that a search finds.
#[derive(Debug)]
pub(crate) struct ListedToolIndex {
    tools: Vec<Arc<Tool>>,
    search: ToolSearch,
}

impl ListedToolIndex {
    /// An index of these tools.
    pub(crate) fn new<'a>(listed: impl Iterator<Item = &'a Arc<Tool>>) -> Self {
        let tools: Vec<Arc<Tool>> = listed.cloned().collect();
        let descriptions: Vec<String> = tools.iter().map(|tool| description(tool)).collect();
        let texts = tools.iter().zip(&descriptions);
        let search = ToolSearch::new(texts.map(|(tool, description)| ToolText {
            name: tool.exposed.as_str(),
            server: tool.id.server.as_str(),
            description,
            schema: tool.definition.input_schema.as_str(),
        }));
        Self { tools, search }
    }
}

fn description(tool: &Tool) -> String {
    let text = tool.definition.description.as_ref();
    text.map(|text| text.for_model().0.into_owned())
        .unwrap_or_default()
}
