//! The right to make one call: not clonable, consumed by the call, made only by the gate's decision.

use crate::caller::CallerId;
use crate::catalog::DefinitionHash;
use crate::name::ToolId;

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

    /// The digest of the arguments it is for.
    pub fn arguments(&self) -> [u8; 32] {
        self.arguments
    }
}
