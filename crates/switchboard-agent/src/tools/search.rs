//! Search in the list of tools that are offered now.

use switchboard::catalog::search::{ToolSearch, ToolText};

pub use switchboard::catalog::search::MAX_FOUND;

use super::{ToolList, ToolSpec, ToolState};

/// Finds tools that are offered now, best first. For several searches in one list, use a
/// [`SearchIndex`].
pub fn search<'a>(list: &'a ToolList, names: &[String], query: &str) -> Vec<&'a ToolSpec> {
    SearchIndex::new(list).search(names, query)
}

/// The tools of a list with the words of each.
#[derive(Debug)]
pub struct SearchIndex<'a> {
    specs: Vec<&'a ToolSpec>,
    index: ToolSearch,
}

impl<'a> SearchIndex<'a> {
    /// An index of the tools that are offered now.
    pub fn new(list: &'a ToolList) -> Self {
        let tools = list.all().iter();
        let tools = tools.filter(|tool| tool.state != ToolState::Gone);
        let specs: Vec<&ToolSpec> = tools.map(|tool| &tool.spec).collect();
        let text = |spec: &&'a ToolSpec| ToolText {
            name: &spec.name,
            server: &spec.server,
            description: &spec.description,
            schema: spec.schema.as_str(),
        };
        let index = ToolSearch::new(specs.iter().map(text));
        Self { specs, index }
    }

    /// Finds tools, best first. `names` are looked up exactly; `query` is a name, a part of one,
    /// or words.
    pub fn search(&self, names: &[String], query: &str) -> Vec<&'a ToolSpec> {
        let found = self.index.search(names, query);
        found.into_iter().map(|place| self.specs[place]).collect()
    }
}
