//! The question whether a call may run, and its answers.

use std::sync::Arc;

use crate::catalog::{SAMPLING, Tool, ToolDefinition, ToolEffect};
use crate::config::{Dialect, Fingerprint};
use crate::name::{ExposedName, ToolId};
use crate::wire::RawJson;

/// Everything that a person needs to decide on one call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The server and the tool.
    pub id: ToolId,
    /// The name under which the tool is listed to models.
    pub exposed: ExposedName,
    /// The complete final arguments.
    pub arguments: RawJson,
    /// The definition that the approval is bound to.
    pub definition: Arc<ToolDefinition>,
    /// The launch that the approval is bound to.
    pub launch: Fingerprint,
    /// Why approval is needed: the rule, or that none applies.
    pub because: String,
    /// The diff, line by line, if the definition or the launch changed since the last approval.
    pub changed: Option<Vec<String>>,
    /// Whether an `ask` rule requires an answer each time: then only `Once` and `No` are valid.
    pub once_only: bool,
    /// The dialect of the server's file, which determines the choices
    /// (`DialectProfile::approval_choices`).
    pub dialect: Dialect,
    /// The declared effect of a host tool; `None` for a server's tool, whose annotations are only
    /// claims.
    pub effect: Option<ToolEffect>,
    /// What the call would change, line by line and safe to show: `- ` before, `+ ` after. Empty
    /// for a server's tool.
    pub preview: Vec<String>,
}

impl ApprovalRequest {
    /// A request for a call of this tool whose definition did not change, and whose approval may be
    /// remembered.
    pub fn new(tool: &Tool, arguments: RawJson, because: impl Into<String>) -> Self {
        Self {
            id: tool.id.clone(),
            exposed: tool.exposed.clone(),
            arguments,
            definition: tool.definition.clone(),
            launch: tool.launch,
            because: because.into(),
            changed: None,
            once_only: false,
            dialect: tool.server.dialect,
            effect: tool.effect(),
            preview: Vec::new(),
        }
    }

    /// Whether it is about a server's request for sampling, instead of the call itself.
    pub fn is_for_sampling(&self) -> bool {
        self.id.tool.as_wire() == SAMPLING
    }
}

/// The answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// Allows this call.
    Once,
    /// Allows this tool, as it is defined now.
    AlwaysTool(ApprovalLifetime),
    /// Allows every tool that this server offers now; in dialects with
    /// [`ApprovalChoices::InMemory`](crate::config::ApprovalChoices::InMemory) also those that it
    /// offers later in this run. For a host tool, which has no server, and for
    /// sampling, which is not a server's tool, the same as `AlwaysTool`.
    AlwaysServer(ApprovalLifetime),
    /// Denies this call.
    No {
        /// The reason for the model, which the call's error states.
        reason: Option<String>,
    },
    /// Not decided yet: a person may still answer.
    Pending {
        /// The number of the question, for that person.
        number: u64,
        /// What the caller can do in the meantime, as a clause.
        next_step: String,
    },
    /// No person can be asked.
    Unavailable,
}

impl Approval {
    /// Denies the call with a reason, which the model is told.
    pub fn no(reason: impl Into<String>) -> Self {
        Self::No {
            reason: Some(reason.into()),
        }
    }
}

/// How long an *always* is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalLifetime {
    /// Until this host stops.
    Run,
    /// Permanently, in the store.
    Permanent,
}
