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
    /// The gate's decision: `allow`, `ask`, `deny`, or `none` if the call ended before it.
    pub decision: &'static str,
    /// The rule, mode or grant that decided.
    pub rule: Arc<str>,
    /// How the call ended: `answered`, `tool error`, `denied`, `cancelled`, or the kind of failure.
    pub outcome: &'static str,
    /// Why it did not complete, safe to show.
    pub error: Option<String>,
    /// The time spent on approval.
    pub approval: Duration,
    /// The time spent waiting for the server.
    pub waiting: Duration,
    /// The time from the request to its response.
    pub wire: Duration,
    /// The total time.
    pub total: Duration,
}

/// What was decided about a server's request for sampling, which passes the gate as
/// `server/@sampling`.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SamplingDecision<'a> {
    /// The server that asked.
    pub server: &'a ServerName,
    /// The gate's decision: `allow`, `ask` or `deny`.
    pub decision: &'static str,
    /// The rule, mode or grant that decided.
    pub rule: &'a str,
    /// Why it is not answered, safe to show; `None` if it is.
    pub denied: Option<&'a str>,
}
