//! The report of a call, for its caller, once the call has ended.

use std::sync::Arc;
use std::time::Duration;

use super::CallerId;
use crate::catalog::Tool;
use crate::name::ServerName;
use crate::wire::RawJson;

/// The report of one call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallReport {
    /// The caller.
    pub caller: CallerId,
    /// The name that was called.
    pub name: Arc<str>,
    /// The tool of that name, if there is one.
    pub tool: Option<Arc<Tool>>,
    /// The arguments.
    pub arguments: RawJson,
    /// The gate's decision; `None` if the call ended before it.
    pub decision: Option<DecisionKind>,
    /// The rule, mode or grant that decided.
    pub rule: Arc<str>,
    /// How the call ended.
    pub outcome: ReportedOutcome,
    /// Why it did not complete, safe to show.
    pub error: Option<String>,
    /// The time spent on approval.
    pub approval: Duration,
    /// The time spent waiting for the server to connect, or for calls of other callers to end.
    pub waiting: Duration,
    /// The time in which questions of the server to the caller were open.
    pub questions: Duration,
    /// The other time from the request to its response.
    pub server_time: Duration,
    /// The total time.
    pub total: Duration,
}

/// A decision of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionKind {
    /// The call may run.
    Allow,
    /// The caller must be asked.
    Ask,
    /// The call is denied.
    Deny,
}

impl DecisionKind {
    /// Its word in rules, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportedOutcome {
    /// The tool answered.
    Answered,
    /// The tool answered with `isError`.
    ToolError,
    /// The gate or the caller denied it.
    Denied,
    /// No tool or server has the name.
    Unresolved,
    /// The definition or the server changed.
    Changed,
    /// The arguments violate the tool's schema.
    InvalidArguments,
    /// The server could not be used.
    NotReady,
    /// The request failed.
    Failed,
    /// The call was dropped.
    Cancelled,
}

impl ReportedOutcome {
    /// Its word in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ToolError => "tool error",
            Self::Denied => "denied",
            Self::Unresolved => "unresolved",
            Self::Changed => "changed",
            Self::InvalidArguments => "invalid arguments",
            Self::NotReady => "not ready",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What was decided about a server's request for sampling, which passes the gate as
/// `server/@sampling`.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SamplingDecision<'a> {
    /// The server that asked.
    pub server: &'a ServerName,
    /// The gate's decision.
    pub decision: DecisionKind,
    /// The rule, mode or grant that decided.
    pub rule: &'a str,
    /// Why it is not answered, safe to show; `None` if it is.
    pub denied: Option<&'a str>,
}
