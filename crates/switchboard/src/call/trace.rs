//! The report of each call: caller, tool, decision and reason, outcome, and time spent. It goes to
//! a caller that wants reports, and to tracing as one span and one event.
//!
//! Without a recipient, nothing is measured and nothing is allocated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Span;
use tracing::field::Empty;

use super::{Call, CallError, shown};
use crate::caller::{CallReport, Caller};
use crate::catalog::Tool;
use crate::gate::Decision;
use crate::result::CallResult;

/// The tracing target, for filters.
const TARGET: &str = "switchboard::calls";

/// The report of a call in flight, sent when this is dropped: a call that ends without an outcome
/// was cancelled.
pub(super) struct CallTrace(Option<Box<PendingReport>>);

/// The phases whose time is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallPhase {
    /// Waiting for the caller's approval.
    Approval,
    /// Waiting for a server to connect, or for the caller's own connection.
    Waiting,
    /// From the request to its response.
    Wire,
}

struct PendingReport {
    span: Span,
    began: Instant,
    caller: Arc<dyn Caller>,
    report: CallReport,
}

impl CallTrace {
    pub(super) fn start(caller: &Arc<dyn Caller>, call: &Call) -> Self {
        let span = tracing::info_span!(target: TARGET, "call", caller = Empty, server = Empty, tool = Empty);
        if span.is_disabled()
            && !caller.wants_reports()
            && !tracing::enabled!(target: TARGET, tracing::Level::INFO)
        {
            return Self(None);
        }
        let id = caller.id().clone();
        span.record("caller", id.as_str());
        Self(Some(Box::new(PendingReport {
            span,
            began: Instant::now(),
            caller: caller.clone(),
            report: CallReport {
                caller: id,
                name: call.tool.clone(),
                tool: None,
                arguments: call.arguments.clone(),
                decision: "none",
                rule: Arc::default(),
                outcome: "cancelled",
                error: None,
                approval: Duration::ZERO,
                waiting: Duration::ZERO,
                wire: Duration::ZERO,
                total: Duration::ZERO,
            },
        })))
    }

    /// The span of the call, if it is enabled.
    pub(super) fn span(&self) -> Option<&Span> {
        let pending = self.0.as_ref()?;
        (!pending.span.is_disabled()).then_some(&pending.span)
    }

    pub(super) fn resolved(&mut self, tool: &Arc<Tool>, call: &Call) {
        let (server, name) = (&tool.id.server, &call.tool);
        tracing::debug!("tool {server}/{}: resolved from {name:?}", shown(tool));
        let Some(pending) = &mut self.0 else { return };
        if !pending.span.is_disabled() {
            pending.span.record("server", tool.id.server.as_str());
            pending.span.record("tool", &*shown(tool));
        }
        pending.report.tool = Some(tool.clone());
    }

    pub(super) fn decided(&mut self, decision: &Decision) {
        let Some(pending) = &mut self.0 else { return };
        let report = &mut pending.report;
        (report.decision, report.rule) = match decision {
            Decision::Allow { because } => ("allow", because.clone()),
            Decision::Ask { because, .. } => ("ask", because.as_str().into()),
            Decision::Deny { rule } => ("deny", rule.as_str().into()),
        };
    }

    /// The request is about to be sent.
    pub(super) fn sent(&self, tool: &Tool) -> Option<Instant> {
        tracing::debug!("tool {}/{}: sent", tool.id.server, shown(tool));
        self.now()
    }

    /// The request that was [sent](Self::sent) has its answer, or has failed.
    pub(super) fn answered(&mut self, tool: &Tool, sent: Option<Instant>, is_ok: bool) {
        self.spent(CallPhase::Wire, sent);
        tracing::debug!(
            "tool {}/{}: {}{}",
            tool.id.server,
            shown(tool),
            if is_ok { "answered" } else { "failed" },
            sent.map_or_else(String::new, |sent| format!(
                " after {} ms",
                sent.elapsed().as_millis()
            ))
        );
    }

    /// The start of a phase, if it is measured.
    pub(super) fn now(&self) -> Option<Instant> {
        self.0.as_ref().map(|_| Instant::now())
    }

    /// Adds the time of a phase that began at [`now`](Self::now).
    pub(super) fn spent(&mut self, phase: CallPhase, since: Option<Instant>) {
        let (Some(pending), Some(since)) = (&mut self.0, since) else {
            return;
        };
        let total = match phase {
            CallPhase::Approval => &mut pending.report.approval,
            CallPhase::Waiting => &mut pending.report.waiting,
            CallPhase::Wire => &mut pending.report.wire,
        };
        *total += since.elapsed();
    }

    pub(super) fn ended(&mut self, outcome: &Result<CallResult, CallError>) {
        let Some(pending) = &mut self.0 else { return };
        pending.report.outcome = match outcome {
            Ok(result) if result.is_error() => "tool error",
            Ok(_) => "answered",
            Err(error) => error.kind(),
        };
        pending.report.error = outcome.as_ref().err().map(ToString::to_string);
    }
}

impl Drop for CallTrace {
    fn drop(&mut self) {
        let Some(pending) = self.0.take() else { return };
        let PendingReport {
            span,
            began,
            caller,
            mut report,
        } = *pending;
        report.total = began.elapsed();
        if tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            trace(&span, &report);
        }
        if caller.wants_reports() {
            caller.call_ended(report);
        }
    }
}

fn trace(span: &Span, report: &CallReport) {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let tool = report.tool.as_deref();
    tracing::info!(
        target: TARGET,
        parent: span,
        caller = report.caller.as_str(),
        server = tool.map_or("", |tool| tool.id.server.as_str()),
        tool = tool.map(shown).unwrap_or_default(),
        decision = report.decision,
        rule = &*report.rule,
        outcome = report.outcome,
        error = report.error,
        approval_ms = ms(report.approval),
        waiting_ms = ms(report.waiting),
        wire_ms = ms(report.wire),
        total_ms = ms(report.total),
        "call ended"
    );
}
