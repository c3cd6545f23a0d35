//! The question whether a call may run, and its answers.

use std::sync::Arc;

use crate::catalog::{Tool, ToolDefinition, ToolEffect};
use crate::config::Dialect;
use crate::name::{ExposedName, ToolId};
use crate::wire::RawJson;

/// Everything a person needs to decide on one call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The pair.
    pub id: ToolId,
    /// The name the model used.
    pub exposed: ExposedName,
    /// The final arguments, whole.
    pub arguments: RawJson,
    /// The definition that the answer will be bound to.
    pub definition: Arc<ToolDefinition>,
    /// Why it is asked: which rule, or that none applies.
    pub because: String,
    /// The definition or the launch changed since the last yes: what was, what is, line by line.
    pub changed: Option<Vec<String>>,
    /// An `ask` rule wants a fresh answer each time: only once or no.
    pub once_only: bool,
    /// The kind of file its server stands in: which answers there are
    /// (`DialectProfile::approval_choices`).
    pub dialect: Dialect,
    /// What the tool does, where it is a tool of this program that says so; `None` for a server's
    /// tool, whose annotations are its own claim.
    pub effect: Option<ToolEffect>,
    /// What the call would change, line by line and safe to show: `- ` before, `+ ` after. Empty
    /// for a server's tool.
    pub preview: Vec<String>,
}

impl ApprovalRequest {
    /// A request for this call of a tool, which may be remembered and whose definition did not
    /// change.
    pub fn new(tool: &Tool, arguments: RawJson, because: impl Into<String>) -> Self {
        Self {
            id: tool.id.clone(),
            exposed: tool.exposed.clone(),
            arguments,
            definition: tool.definition.clone(),
            because: because.into(),
            changed: None,
            once_only: false,
            dialect: tool.server.dialect,
            effect: tool.effect(),
            preview: Vec::new(),
        }
    }
}

/// The answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// This call.
    Once,
    /// This tool, as it is defined now.
    AlwaysTool(Keep),
    /// Every tool that this server offers today.
    AlwaysServer(Keep),
    /// Not this call.
    No {
        /// Why, for the model: the error of the call says it.
        reason: Option<String>,
    },
    /// Not now: a person may still answer.
    Pending {
        /// The number by which that person finds the question.
        number: u64,
        /// What whoever called can do meanwhile, as a clause.
        next_step: String,
    },
    /// No person can be asked.
    Unavailable,
}

impl Approval {
    /// No, and why: the model is told, and may do something else.
    pub fn no(reason: impl Into<String>) -> Self {
        Self::No {
            reason: Some(reason.into()),
        }
    }
}

/// How long an *always* is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Until this host stops.
    Run,
    /// In the store.
    ForGood,
}
