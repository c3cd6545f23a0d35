//! What one server offers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition};
use crate::name::ToolName;

/// What one server offers: the input of [`Catalog::build`](super::Catalog::build).
#[derive(Debug, Clone, Default)]
pub struct Offerings {
    /// Tools, in the server's order.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Listed tools that cannot be used.
    pub withheld: Vec<(ToolName, String)>,
    /// Prompts.
    pub prompts: Vec<Arc<PromptDefinition>>,
    /// Resources.
    pub resources: Vec<Arc<ResourceDefinition>>,
    /// Resource templates.
    pub templates: Vec<Arc<TemplateDefinition>>,
    /// Lists that failed: (method, error).
    pub faults: Vec<(&'static str, String)>,
}

impl Offerings {
    /// Replaces `before`: unchanged definitions stay offered, the others are withdrawn, so that no
    /// call approved with an old definition is sent.
    pub(crate) fn replace(mut self, before: &Self) -> Self {
        let key = |tool: &ToolDefinition| (tool.name.clone(), tool.hash);
        let known: HashMap<_, _> = (before.tools.iter().rev())
            .map(|tool| (key(tool), tool))
            .collect();
        let mut same = HashSet::new();
        for tool in &mut self.tools {
            if let Some(before) = known.get(&key(tool)) {
                Arc::make_mut(tool).offer = before.offer.clone();
                same.insert(key(tool));
            }
        }
        for tool in before
            .tools
            .iter()
            .filter(|tool| !same.contains(&key(tool)))
        {
            tool.offer.withdraw();
        }
        self
    }
}
