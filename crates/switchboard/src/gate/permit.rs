//! The permit for one call: not clonable, consumed by the call, created only by the gate's
//! decision.

use std::fmt;
use std::sync::Arc;

use super::Decision;
use crate::caller::{Approval, ApprovalRequest, Caller};
use crate::catalog::Tool;
use crate::wire::RawJson;

/// The right to make exactly one call: of one tool, as defined now, with these arguments, by this
/// caller.
///
/// It carries what it is for, so there is nothing beside it that could differ. Only the gate makes
/// one: from its own `Allow`, or from a caller's yes. It cannot be built:
///
/// ```compile_fail,E0451
/// # use std::sync::Arc;
/// # fn forge(tool: Arc<switchboard::catalog::Tool>, arguments: switchboard::wire::RawJson, caller: Arc<dyn switchboard::caller::Caller>) {
/// let permit = switchboard::gate::Permit { tool, arguments, caller };
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
/// # use std::sync::Arc;
/// # fn ask(decision: switchboard::gate::Decision, tool: &Arc<switchboard::catalog::Tool>, arguments: &switchboard::wire::RawJson,
/// #     caller: &Arc<dyn switchboard::caller::Caller>) {
/// let permit = decision.permit(tool, arguments, caller);
/// # }
/// ```
///
/// `Session::call` takes one by value, so a call without a permit does not compile:
///
/// ```compile_fail,E0061
/// # async fn call(session: &switchboard::session::Session, options: switchboard::session::CallOptions) {
/// session.call(options).await;
/// # }
/// ```
#[must_use = "a permit is for one call"]
pub struct Permit {
    tool: Arc<Tool>,
    arguments: RawJson,
    caller: Arc<dyn Caller>,
}

impl Permit {
    /// The tool, as it was defined at the time of the decision.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// The arguments.
    pub fn arguments(&self) -> &RawJson {
        &self.arguments
    }

    /// The caller.
    pub fn caller(&self) -> &Arc<dyn Caller> {
        &self.caller
    }

    /// The permit from a caller's approval of exactly what was asked.
    pub(crate) fn approved(
        request: &ApprovalRequest,
        answer: &Approval,
        tool: &Arc<Tool>,
        caller: &Arc<dyn Caller>,
    ) -> Option<Self> {
        let asked_for_it = request.id == tool.id && request.definition.hash == tool.definition.hash;
        match answer {
            Approval::Once | Approval::AlwaysTool(_) | Approval::AlwaysServer(_)
                if asked_for_it =>
            {
                Some(Self {
                    tool: tool.clone(),
                    arguments: request.arguments.clone(),
                    caller: caller.clone(),
                })
            }
            _ => None,
        }
    }
}

/// A decision other than `Allow`.
#[derive(Debug)]
pub(crate) enum NotAllowed {
    /// See [`Decision::Ask`].
    Ask {
        because: String,
        once_only: bool,
        changed: Option<Vec<String>>,
    },
    /// See [`Decision::Deny`].
    Deny { rule: String },
}

impl Decision {
    /// The permit of an `Allow`; otherwise what is left to do.
    pub(crate) fn permit(
        self,
        tool: &Arc<Tool>,
        arguments: &RawJson,
        caller: &Arc<dyn Caller>,
    ) -> Result<Permit, NotAllowed> {
        match self {
            Self::Allow { .. } => Ok(Permit {
                tool: tool.clone(),
                arguments: arguments.clone(),
                caller: caller.clone(),
            }),
            Self::Ask {
                because,
                once_only,
                changed,
            } => Err(NotAllowed::Ask {
                because,
                once_only,
                changed,
            }),
            Self::Deny { rule } => Err(NotAllowed::Deny { rule }),
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("id", &self.tool.id)
            .field("caller", &self.caller.id())
            .finish_non_exhaustive()
    }
}
