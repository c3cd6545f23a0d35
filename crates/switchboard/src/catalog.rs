//! The immutable picture of every tool, prompt and resource on offer. Replaced whole; readers keep theirs for the whole call.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::{Fingerprint, ServerConfig};
use crate::name::{ExposedName, ServerName, Style, ToolId, ToolName};
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

pub use definition::{DefinitionHash, PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition};

mod definition;

/// A tool on offer.
#[derive(Debug)]
pub struct Tool {
    /// The identity.
    pub id: ToolId,
    /// The name a model sees.
    pub exposed: ExposedName,
    /// As the server defined it.
    pub definition: Arc<ToolDefinition>,
    /// The entry that brought it.
    pub server: Arc<ServerConfig>,
    /// The launch that its grants are bound to.
    pub launch: Fingerprint,
    /// The tool may be sent again after a lost answer.
    pub idempotent: bool,
}

/// A tool that is not on offer, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// Its server.
    pub server: ServerName,
    /// Its name, as far as it has one.
    pub tool: ToolName,
    /// Why, in one line safe to show.
    pub reason: String,
}

/// What one server offers: the input of [`Catalog::build`].
#[derive(Debug, Clone, Default)]
pub struct Offerings {
    /// Tools, in the server's order.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Tools that came and cannot be used.
    pub withheld: Vec<(ToolName, String)>,
    /// Prompts.
    pub prompts: Vec<Arc<PromptDefinition>>,
    /// Resources.
    pub resources: Vec<Arc<ResourceDefinition>>,
    /// Resource templates.
    pub templates: Vec<Arc<TemplateDefinition>>,
    /// Lists that ended in an error: (method, what happened).
    pub faults: Vec<(&'static str, String)>,
}

/// All that is on offer.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Grows by one with each replacement.
    pub generation: u64,
    /// Config order, then the server's.
    tools: Vec<Arc<Tool>>,
    /// Index into `tools`.
    by_exposed: HashMap<ExposedName, usize>,
    /// Index into `tools`.
    by_id: HashMap<ToolId, usize>,
    /// Not on offer, with reasons.
    withheld: Vec<Withheld>,
    /// What each server offers beside tools.
    offerings: Vec<(ServerName, Arc<Offerings>)>,
}

/// Why a name leads to no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// No such name. The nearest names are given.
    Unknown {
        /// At most three.
        nearest: Vec<String>,
    },
    /// It exists and is withheld.
    Withheld(Withheld),
}

impl Catalog {
    /// Builds the picture from what each server offers, in config order.
    pub fn build(generation: u64, style: Style, builtin_names: &[&str], servers: &[(Arc<ServerConfig>, Arc<Offerings>)]) -> Self {
        let _ = (generation, style, builtin_names, servers);
        todo!()
    }

    /// Every tool on offer.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// What is not on offer, with reasons.
    pub fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    /// What each server offers.
    pub fn offerings(&self) -> &[(ServerName, Arc<Offerings>)] {
        &self.offerings
    }

    /// Looks a name up: first as an exposed name, then as `server/tool` (the configured server names decide where the slash is).
    pub fn resolve(&self, name: &str) -> Result<&Arc<Tool>, Unresolved> {
        let _ = (name, &self.by_exposed, &self.by_id);
        todo!()
    }

    /// Looks a pair up.
    pub fn by_id(&self, id: &ToolId) -> Option<&Arc<Tool>> {
        self.by_id.get(id).map(|&index| &self.tools[index])
    }
}

#[allow(unused_imports)]
use RawJson as _;
#[allow(unused_imports)]
use Untrusted as _;
