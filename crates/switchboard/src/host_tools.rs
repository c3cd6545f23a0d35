//! Host tools: a library user's own tools, and the resource tools.
//!
//! They are in the same catalog as the servers' tools and pass the same gate. A server's tool can
//! neither take one of their names nor be mistaken for one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::caller::{BoxFuture, Caller};
use crate::catalog::{RuleMatchCache, Tool, ToolDefinition, ToolEffect};
use crate::config::{
    ConfigErrors, Diagnostic, Endpoint, Fingerprint, ServerConfig, Source, StdioEndpoint,
};
use crate::name::{ExposedName, ServerName, ToolId, ToolName};
use crate::result::CallResult;
use crate::untrusted::quoted;
use crate::wire::RawJson;

/// A tool of the program that embeds the host. It is called like a server's tool: by name, with
/// validated arguments, through the gate.
pub trait HostTool: Send + Sync {
    /// The tool's definition. Called once, when the host starts.
    fn definition(&self) -> HostToolDefinition;

    /// Why a call with these arguments is denied, regardless of rules, modes and approvals. Called
    /// before the gate.
    fn denies(&self, arguments: &RawJson) -> Option<String> {
        let _ = arguments;
        None
    }

    /// What the call would change, for display with the approval
    /// ([`ApprovalRequest::preview`](crate::ApprovalRequest::preview)). Must change nothing. One that
    /// takes longer than ten seconds is left out.
    fn preview<'a>(
        &'a self,
        arguments: &'a RawJson,
        caller: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Vec<String>> {
        let _ = (arguments, caller);
        Box::pin(async { Vec::new() })
    }

    /// Runs the tool for this caller, who may also be named in calls of servers' tools. An error
    /// becomes a result with `isError`, for the model. Dropping the future cancels the call. It ends
    /// after the call's own timeout, otherwise after ten minutes.
    fn call<'a>(
        &'a self,
        arguments: &'a RawJson,
        caller: &'a Arc<dyn Caller>,
    ) -> HostToolFuture<'a>;
}

/// The outcome of [`HostTool::call`].
pub type HostToolFuture<'a> = BoxFuture<'a, Result<CallResult, String>>;

/// The definition of a [`HostTool`].
#[derive(Debug, Clone, PartialEq)]
pub struct HostToolDefinition {
    /// 1 to 64 of `[A-Za-z0-9_-]`.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON schema of the arguments, an object.
    pub input_schema: Value,
    /// The declared effect.
    pub effect: Option<ToolEffect>,
}

impl HostToolDefinition {
    /// A definition without a declared effect.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            effect: None,
        }
    }

    /// Declares the tool's effect.
    pub fn effect(mut self, effect: ToolEffect) -> Self {
        self.effect = Some(effect);
        self
    }
}

/// The tools that a host offers besides those of its servers.
#[derive(Clone, Default)]
pub(crate) struct HostTools {
    /// The library user's tools, in order.
    pub tools: Vec<Arc<dyn HostTool>>,
    /// Whether to offer `ListMcpResources` and `ReadMcpResource` regardless of the configured
    /// servers.
    pub resource_tools: bool,
}

impl fmt::Debug for HostTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HostTools({} tools, resource tools: {})",
            self.tools.len(),
            self.resource_tools
        )
    }
}

impl fmt::Debug for RegisteredTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools = self.tools.iter().chain(&self.resources);
        f.debug_list()
            .entries(tools.map(|tool| &tool.exposed))
            .finish()
    }
}

/// Host tools with parsed definitions, for a [`Catalog`](crate::catalog::Catalog). Empty by
/// default.
#[derive(Default)]
pub(crate) struct RegisteredTools {
    tools: Vec<Arc<Tool>>,
    /// The resource tools, offered on request. Listed last.
    resources: Vec<Arc<Tool>>,
    always_resources: bool,
    /// The implementation of each tool.
    implementations: HashMap<ToolName, Arc<dyn HostTool>>,
}

impl RegisteredTools {
    /// Parses every definition. An invalid one is an error of the embedding program.
    pub(crate) fn read(
        own: HostTools,
        resource_tools: Vec<Arc<dyn HostTool>>,
    ) -> Result<Self, ConfigErrors> {
        let mut read = HostToolReader {
            entry: Arc::new(entry()),
            taken: HashSet::new(),
            implementations: HashMap::new(),
            errors: Vec::new(),
        };
        let tools = read.all(own.tools, 0);
        let resources = read.all(resource_tools, tools.len());
        let own = Self {
            tools,
            resources,
            always_resources: own.resource_tools,
            implementations: read.implementations,
        };
        if read.errors.is_empty() {
            Ok(own)
        } else {
            Err(ConfigErrors(read.errors))
        }
    }

    /// The tools that are offered with these servers.
    pub(crate) fn offered_with<'a>(
        &self,
        servers: impl IntoIterator<Item = &'a Arc<ServerConfig>>,
    ) -> impl Iterator<Item = &Arc<Tool>> {
        let asks = |server: &Arc<ServerConfig>| server.dialect.profile().offers_resource_tools;
        let resources = if self.always_resources || servers.into_iter().any(asks) {
            &*self.resources
        } else {
            &[]
        };
        self.tools.iter().chain(resources)
    }

    /// The implementation of a host tool; `None` for a server's tool.
    pub(crate) fn implementation(&self, tool: &Tool) -> Option<&Arc<dyn HostTool>> {
        tool.is_host_tool()
            .then(|| self.implementations.get(&tool.id.tool))?
    }

    /// The names that rules may use with these servers.
    pub(crate) fn names<'a>(
        &self,
        servers: impl IntoIterator<Item = &'a Arc<ServerConfig>>,
    ) -> Vec<&str> {
        self.offered_with(servers)
            .map(|tool| tool.exposed.as_str())
            .collect()
    }
}

struct HostToolReader {
    entry: Arc<ServerConfig>,
    taken: HashSet<String>,
    implementations: HashMap<ToolName, Arc<dyn HostTool>>,
    errors: Vec<Diagnostic>,
}

impl HostToolReader {
    fn all(&mut self, tools: Vec<Arc<dyn HostTool>>, first: usize) -> Vec<Arc<Tool>> {
        let mut read = Vec::with_capacity(tools.len());
        for tool in tools {
            let definition = tool.definition();
            match self.one(&definition, first + read.len()) {
                Ok(described) => {
                    (self.implementations).insert(described.id.tool.clone(), tool);
                    read.push(Arc::new(described));
                }
                Err(message) => self.errors.push(Diagnostic::in_code("tools", message)),
            }
        }
        read
    }

    fn one(&mut self, definition: &HostToolDefinition, place: usize) -> Result<Tool, String> {
        let HostToolDefinition {
            name,
            description,
            input_schema,
            effect,
        } = definition;
        let effect = *effect;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
            return Err(format!(
                "{} is not a valid tool name; expected 1 to 64 characters of A-Z a-z 0-9 _ -",
                quoted(name)
            ));
        }
        if !self.taken.insert(name.clone()) {
            return Err(format!(
                "there are two tools named {name}; give each tool its own name"
            ));
        }
        let mut raw =
            json!({"name": name, "description": description, "inputSchema": input_schema});
        if let Some(effect) = effect {
            raw["annotations"] = effect.annotations();
        }
        let raw = RawJson::from_value(&raw);
        let definition =
            ToolDefinition::parse(&raw).map_err(|(_, fault)| format!("tool {name}: {fault}"))?;
        Ok(Tool {
            id: ToolId {
                server: ServerName::host(),
                tool: definition.name.clone(),
            },
            exposed: ExposedName::unlisted(name),
            definition: Arc::new(definition),
            server: self.entry.clone(),
            // Not bound to a launch: a grant is bound to the definition alone.
            launch: Fingerprint([0; 32]),
            idempotent: false,
            place,
            server_index: usize::MAX,
            rule_matches: RuleMatchCache::default(),
            effect,
        })
    }
}

/// A placeholder for a server's entry. It starts nothing.
fn entry() -> ServerConfig {
    ServerConfig::new(
        ServerName::host(),
        Source::code(),
        Endpoint::Stdio(StdioEndpoint::new("", [""; 0])),
    )
}

#[cfg(test)]
mod tests;
