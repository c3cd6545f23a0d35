//! What a caller is told of each of its calls, once it has ended.

use std::sync::Arc;
use std::time::Duration;

use super::CallerId;
use crate::catalog::Tool;
use crate::wire::RawJson;

/// What became of one call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallReport {
    /// Who called.
    pub caller: CallerId,
    /// The name that was called.
    pub name: String,
    /// The tool of that name, if there is one.
    pub tool: Option<Arc<Tool>>,
    /// The arguments.
    pub arguments: RawJson,
    /// What the gate said: `allow`, `ask`, `deny`, or `none` if it was not asked.
    pub decision: &'static str,
    /// The rule, mode or grant that decided.
    pub rule: Arc<str>,
    /// How it ended: `answered`, `tool error`, `denied`, `cancelled`, or how else it failed.
    pub outcome: &'static str,
    /// Why it did not complete, safe to show.
    pub error: Option<String>,
    /// How long the caller was asked.
    pub approval: Duration,
    /// How long it waited for its server.
    pub waiting: Duration,
    /// From the request to its answer.
    pub wire: Duration,
    /// All of it.
    pub total: Duration,
}
