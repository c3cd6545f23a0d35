//! The right to make one call: not clonable, consumed by the call, made only by the gate's decision.

use super::Decision;
use crate::caller::{Approval, ApprovalRequest, CallerId};
use crate::catalog::{DefinitionHash, Tool};
use crate::name::ToolId;
use crate::wire::RawJson;

/// The right to make exactly one call: of one tool, as defined now, with these arguments, by this caller.
///
/// Only the gate makes one: from its own `Allow`, or from a caller's yes. It cannot be built:
///
/// ```compile_fail,E0451
/// # fn forge(id: switchboard::name::ToolId, definition: switchboard::catalog::DefinitionHash, caller: switchboard::caller::CallerId) {
/// let permit = switchboard::gate::Permit { id, arguments: [0; 32], definition, caller };
/// # }
/// ```
///
/// It cannot be used twice:
///
/// ```compile_fail,E0599
/// fn twice(permit: switchboard::gate::Permit) -> (switchboard::gate::Permit, switchboard::gate::Permit) {
///     (permit.clone(), permit)
/// }
/// ```
///
/// And no library user can ask for one:
///
/// ```compile_fail,E0624
/// # fn ask(decision: switchboard::gate::Decision, tool: &switchboard::catalog::Tool, arguments: &switchboard::wire::RawJson,
/// #     caller: &switchboard::caller::CallerId) {
/// let permit = decision.permit(tool, arguments, caller);
/// # }
/// ```
///
/// `Session::call` takes one by value, so a call without a permit does not compile:
///
/// ```compile_fail,E0061
/// # async fn call(session: &switchboard::session::Session, tool: &switchboard::catalog::Tool, arguments: &switchboard::wire::RawJson,
/// #     caller: &std::sync::Arc<dyn switchboard::caller::Caller>, terms: switchboard::session::Terms<'_>) {
/// session.call(tool, arguments, caller, terms).await;
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a permit is for one call"]
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

    /// The digest of arguments: of their bytes, since those are what is sent.
    pub fn digest(arguments: &RawJson) -> [u8; 32] {
        *blake3::hash(arguments.as_bytes()).as_bytes()
    }

    /// Whether it is for exactly this call.
    pub fn covers(&self, id: &ToolId, definition: DefinitionHash, arguments_digest: [u8; 32], caller: &CallerId) -> bool {
        self.id == *id && self.definition == definition && self.arguments == arguments_digest && self.caller == *caller
    }

    /// From a caller's yes to exactly what it was asked.
    pub(crate) fn approved(request: &ApprovalRequest, answer: Approval, caller: &CallerId) -> Option<Self> {
        match answer {
            Approval::Once | Approval::AlwaysTool(_) | Approval::AlwaysServer(_) => Some(Self {
                id: request.id.clone(),
                arguments: Self::digest(&request.arguments),
                definition: request.definition.hash,
                caller: caller.clone(),
            }),
            Approval::No | Approval::Unavailable => None,
        }
    }
}

impl Decision {
    /// The permit that an `Allow` is worth. An `Ask` needs the caller's yes first, and a `Deny` is worth none.
    pub(crate) fn permit(&self, tool: &Tool, arguments: &RawJson, caller: &CallerId) -> Option<Permit> {
        match self {
            Self::Allow { .. } => Some(Permit {
                id: tool.id.clone(),
                arguments: Permit::digest(arguments),
                definition: tool.definition.hash,
                caller: caller.clone(),
            }),
            Self::Ask { .. } | Self::Deny { .. } => None,
        }
    }
}
