//! One span and one event for each call: who called what, what was decided and why, how it ended,
//! and where the time went.
//!
//! Where no subscriber wants them, nothing is measured and nothing is allocated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Span;
use tracing::field::Empty;

use super::{CallError, shown};
use crate::caller::{Caller, CallerId};
use crate::catalog::Tool;
use crate::gate::Decision;
use crate::result::CallResult;

/// What a filter names.
const TARGET: &str = "switchboard::calls";

/// The record of one call. It is written when it is dropped: a call that ends without an outcome was
/// cancelled.
pub(super) struct CallTrace(Option<Box<TraceRecord>>);

/// Where the time of a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallPhase {
    /// The caller is asked.
    Approval,
    /// For a server that is not connected, or for a connection of the caller's own.
    Waiting,
    /// From the request to its answer.
    Wire,
}

struct TraceRecord {
    span: Span,
    began: Instant,
    caller: CallerId,
    server: String,
    tool: String,
    decision: &'static str,
    rule: String,
    outcome: &'static str,
    error: Option<String>,
    approval: Duration,
    waiting: Duration,
    wire: Duration,
}

impl CallTrace {
    pub(super) fn start(caller: &Arc<dyn Caller>) -> Self {
        let span = tracing::info_span!(target: TARGET, "call", caller = Empty, server = Empty, tool = Empty);
        if span.is_disabled() && !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            return Self(None);
        }
        let caller = caller.id();
        span.record("caller", caller.as_str());
        Self(Some(Box::new(TraceRecord {
            span,
            began: Instant::now(),
            caller,
            server: String::new(),
            tool: String::new(),
            decision: "none",
            rule: String::new(),
            outcome: "cancelled",
            error: None,
            approval: Duration::ZERO,
            waiting: Duration::ZERO,
            wire: Duration::ZERO,
        })))
    }

    /// The span of the call, where somebody wants it.
    pub(super) fn span(&self) -> Option<&Span> {
        self.0.as_ref().map(|record| &record.span)
    }

    pub(super) fn resolved(&mut self, tool: &Tool) {
        let Some(record) = &mut self.0 else { return };
        record.server = tool.id.server.to_string();
        record.tool = shown(tool);
        record.span.record("server", &*record.server);
        record.span.record("tool", &*record.tool);
    }

    pub(super) fn decided(&mut self, decision: &Decision) {
        let Some(record) = &mut self.0 else { return };
        (record.decision, record.rule) = match decision {
            Decision::Allow { because } => ("allow", because.to_string()),
            Decision::Ask { because, .. } => ("ask", because.clone()),
            Decision::Deny { rule } => ("deny", rule.clone()),
        };
    }

    /// When a phase begins, where that is measured.
    pub(super) fn now(&self) -> Option<Instant> {
        self.0.as_ref().map(|_| Instant::now())
    }

    /// A phase that began at [`now`](Self::now) is over.
    pub(super) fn spent(&mut self, phase: CallPhase, since: Option<Instant>) {
        let (Some(record), Some(since)) = (&mut self.0, since) else {
            return;
        };
        let total = match phase {
            CallPhase::Approval => &mut record.approval,
            CallPhase::Waiting => &mut record.waiting,
            CallPhase::Wire => &mut record.wire,
        };
        *total += since.elapsed();
    }

    pub(super) fn ended(&mut self, outcome: &Result<CallResult, CallError>) {
        let Some(record) = &mut self.0 else { return };
        record.outcome = match outcome {
            Ok(result) if result.is_error() => "tool error",
            Ok(_) => "answered",
            Err(error) => error.kind(),
        };
        record.error = outcome.as_ref().err().map(ToString::to_string);
    }
}

impl Drop for TraceRecord {
    fn drop(&mut self) {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: TARGET,
            parent: &self.span,
            caller = self.caller.as_str(),
            server = self.server,
            tool = self.tool,
            decision = self.decision,
            rule = self.rule,
            outcome = self.outcome,
            error = self.error,
            approval_ms = ms(self.approval),
            waiting_ms = ms(self.waiting),
            wire_ms = ms(self.wire),
            total_ms = ms(self.began.elapsed()),
            "call ended"
        );
    }
}
