//! The right to make one call: not clonable, consumed by the call, made only by the gate's decision.

use crate::caller::CallerId;
use crate::catalog::{DefinitionHash, Tool};
use crate::name::ToolId;
use crate::wire::RawJson;

/// The right to make exactly one call.
#[derive(Debug)]
pub struct Permit {
    id: ToolId,
    arguments: [u8; 32],
    definition: DefinitionHash,
    caller: CallerId,
}

impl Permit {
    /// The pair it is for.
    pub fn id(&self) -> &ToolId {
        &self.id
    }

    /// The definition it is bound to.
    pub fn definition(&self) -> DefinitionHash {
        self.definition
    }

    /// Who may use it.
    pub fn caller(&self) -> &CallerId {
        &self.caller
    }

    /// Checks that it is for this call; the error says what it is not for.
    pub(crate) fn covers(&self, tool: &Tool, arguments: &RawJson, caller: &CallerId) -> Result<(), String> {
        let _ = (tool, arguments, caller);
        todo!()
    }

    /// The digest of the arguments it is for.
    pub fn arguments(&self) -> [u8; 32] {
        self.arguments
    }
}
