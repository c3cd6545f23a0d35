//! Remembered answers, each bound to the launch and the definition that were approved.

use crate::catalog::{DefinitionHash, Tool};
use crate::config::Fingerprint;
use crate::name::ToolId;

/// A remembered yes for one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The pair.
    pub id: ToolId,
    /// The launch it was given for.
    pub launch: Fingerprint,
    /// The definition it was given for.
    pub definition: DefinitionHash,
    /// The definition's text then, for the diff when it changes.
    pub pinned: String,
}

/// All remembered answers of this run. The store's are loaded into it at start.
#[derive(Debug, Default)]
pub struct Grants {}

impl Grants {
    /// Remembers a yes for a tool as it is now.
    pub fn add(&mut self, tool: &Tool) -> Grant {
        let _ = tool;
        todo!()
    }
}
