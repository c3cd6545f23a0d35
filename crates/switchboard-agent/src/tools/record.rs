//! Changes of the list of tools in a session file: recorded, and applied again.

use serde::{Deserialize, Serialize};

use super::{ListedTool, ToolList, ToolListChange, ToolSpec, ToolState};

/// A change of the list as a session records it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolListRecord {
    /// Definitions of new and changed tools, and of those that came back.
    pub specs: Vec<ToolSpec>,
    /// Which of them are deferred, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deferred: Vec<String>,
    /// Names of tools that are no longer offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

impl ToolList {
    /// The change as a session records it. `None` where nothing changed.
    pub fn record(&self, change: &ToolListChange) -> Option<ToolListRecord> {
        let names = change.added.iter().chain(&change.changed);
        let tools: Vec<&ListedTool> = names.filter_map(|name| self.get(name)).collect();
        let deferred = tools
            .iter()
            .filter(|tool| tool.state == ToolState::Deferred);
        let record = ToolListRecord {
            deferred: deferred.map(|tool| tool.spec.name.clone()).collect(),
            specs: tools.iter().map(|tool| tool.current().clone()).collect(),
            removed: change.removed.clone(),
        };
        (record != ToolListRecord::default()).then_some(record)
    }

    /// Applies a recorded change.
    pub fn apply(&mut self, record: ToolListRecord) {
        let is_unchanged = |tool: &&ListedTool| {
            let name = &tool.spec.name;
            tool.state != ToolState::Gone
                && !record.removed.contains(name)
                && !record.specs.iter().any(|spec| spec.name == *name)
        };
        let unchanged = self.tools.iter().filter(is_unchanged);
        let mut offered: Vec<ToolSpec> = unchanged.map(|tool| tool.current().clone()).collect();
        offered.extend(record.specs);
        self.update(offered, |spec| record.deferred.contains(&spec.name));
    }
}
