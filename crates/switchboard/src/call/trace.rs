//! The report of each call: caller, tool, decision and reason, outcome, and time spent. It goes to
//! a caller that wants reports, and to tracing as one span and one event.
//!
//! Without a recipient, nothing is measured and nothing is allocated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::field::Empty;
use tracing::{Level, Span};

use super::{Call, CallError, shown};
use crate::caller::{CallReport, Caller, DecisionKind, ReportedOutcome};
use crate::catalog::Tool;
use crate::gate::Decision;
use crate::result::CallResult;
use crate::session::{CallClock, PermittedCall};

/// The tracing target, for filters.
const TARGET: &str = "switchboard::calls";

/// The report of a call in flight, sent when this is dropped: a call that ends without an outcome
/// was cancelled.
pub(super) struct ReportGuard(Option<Box<PendingReport>>);

/// Where the steps of a call are recorded, if it has a report.
pub(super) struct CallTrace<'a>(Option<&'a mut PendingReport>);

/// The phases whose time is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallPhase {
    /// Waiting for the caller's approval.
    Approval,
    /// Waiting for a server to connect, or for the caller's own connection.
    Waiting,
}

/// A request that is at its server.
struct SentCall {
    at: Instant,
    clock: CallClock,
}

pub(super) struct PendingReport {
    span: Span,
    began: Instant,
    caller: Arc<dyn Caller>,
    report: CallReport,
    /// Not in the call's future, where each call would have to drop it.
    sent: Option<SentCall>,
}

impl ReportGuard {
    /// `None` without a recipient.
    pub(super) fn start(caller: &Arc<dyn Caller>, call: &Call) -> Option<Self> {
        let span = tracing::info_span!(target: TARGET, "call", caller = Empty, server = Empty, tool = Empty);
        if span.is_disabled()
            && !caller.wants_reports()
            && !tracing::enabled!(target: TARGET, Level::INFO)
        {
            return None;
        }
        let id = caller.id().clone();
        span.record("caller", id.as_str());
        Some(Self(Some(Box::new(PendingReport {
            span,
            began: Instant::now(),
            caller: caller.clone(),
            report: CallReport {
                caller: id,
                name: call.tool.clone(),
                tool: None,
                arguments: call.arguments.clone(),
                decision: None,
                rule: Arc::default(),
                outcome: ReportedOutcome::Cancelled,
                error: None,
                approval: Duration::ZERO,
                waiting: Duration::ZERO,
                questions: Duration::ZERO,
                server_time: Duration::ZERO,
                total: Duration::ZERO,
            },
            sent: None,
        }))))
    }

    /// The span of the call, if it is enabled.
    pub(super) fn span(&self) -> Option<Span> {
        let span = &self.0.as_ref()?.span;
        (!span.is_disabled()).then(|| span.clone())
    }

    pub(super) fn trace(&mut self) -> CallTrace<'_> {
        CallTrace(self.0.as_deref_mut())
    }

    pub(super) fn ended(&mut self, outcome: &Result<CallResult, CallError>) {
        let Some(pending) = &mut self.0 else { return };
        let report = &mut pending.report;
        report.outcome = match outcome {
            Ok(result) if result.is_error() => ReportedOutcome::ToolError,
            Ok(_) => ReportedOutcome::Answered,
            Err(error) => error.outcome(),
        };
        report.error = outcome.as_ref().err().map(ToString::to_string);
    }
}

impl CallTrace<'_> {
    /// Of a call without a report.
    pub(super) const NONE: CallTrace<'static> = CallTrace(None);

    #[inline(always)]
    pub(super) fn resolved(&mut self, tool: &Arc<Tool>, call: &Call) {
        log_step(tool, || format!("resolved from {:?}", call.tool));
        if let Some(pending) = &mut self.0 {
            pending.resolved(tool);
        }
    }

    #[inline(always)]
    pub(super) fn decided(&mut self, decision: &Decision) {
        if let Some(pending) = &mut self.0 {
            pending.decided(decision);
        }
    }

    /// The request is about to be sent.
    #[inline(always)]
    pub(super) fn sent(&mut self, tool: &Tool, call: &PermittedCall) {
        log_step(tool, || "sent".to_owned());
        if let Some(pending) = &mut self.0 {
            pending.sent(call);
        }
    }

    /// The request that was [sent](Self::sent) has its answer, or has failed.
    #[inline(always)]
    pub(super) fn answered(&mut self, tool: &Tool, is_ok: bool) {
        let outcome = || if is_ok { "answered" } else { "failed" };
        let time = self.0.as_deref_mut().and_then(PendingReport::answered);
        log_step(tool, || match time {
            Some(time) => format!("{} after {} ms", outcome(), time.as_millis()),
            None => outcome().to_owned(),
        });
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
        };
        *total += since.elapsed();
    }
}

// Cold: most calls have no report, and pass these by.
impl PendingReport {
    #[cold]
    fn resolved(&mut self, tool: &Arc<Tool>) {
        if !self.span.is_disabled() {
            self.span.record("server", tool.id.server.as_str());
            self.span.record("tool", &*shown(tool));
        }
        self.report.tool = Some(tool.clone());
    }

    #[cold]
    fn sent(&mut self, call: &PermittedCall) {
        self.sent = Some(SentCall {
            at: Instant::now(),
            clock: call.clock(),
        });
    }

    /// Returns the time since the request was sent. The server's part of it does not include waiting
    /// for calls of others and for answers to its questions.
    #[cold]
    fn answered(&mut self) -> Option<Duration> {
        let SentCall { at, clock } = self.sent.take()?;
        let (time, queued, questions) = (at.elapsed(), clock.queued(), clock.questions());
        self.report.waiting += queued;
        self.report.questions += questions;
        self.report.server_time += time.saturating_sub(queued + questions);
        Some(time)
    }

    #[cold]
    fn decided(&mut self, decision: &Decision) {
        self.report.decision = Some(decision.kind());
        self.report.rule = match decision {
            Decision::Allow { because } => because.clone(),
            Decision::Ask { because, .. } => because.as_str().into(),
            Decision::Deny { rule } => rule.as_str().into(),
        };
    }
}

impl Drop for ReportGuard {
    fn drop(&mut self) {
        let Some(pending) = self.0.take() else { return };
        let PendingReport {
            span,
            began,
            caller,
            mut report,
            sent: _,
        } = *pending;
        report.total = began.elapsed();
        if tracing::enabled!(target: TARGET, Level::INFO) {
            trace(&span, &report);
        }
        if caller.wants_reports() {
            caller.call_ended(report);
        }
    }
}

/// Logs a step of a call. The step is worded only if someone listens.
#[inline(always)]
fn log_step(tool: &Tool, step: impl FnOnce() -> String) {
    #[cold]
    fn log(tool: &Tool, step: &str) {
        tracing::debug!("tool {}/{}: {step}", tool.id.server, shown(tool));
    }
    if tracing::enabled!(Level::DEBUG) {
        log(tool, &step());
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
        decision = report.decision.map_or("none", DecisionKind::as_str),
        rule = &*report.rule,
        outcome = report.outcome.as_str(),
        error = report.error,
        approval_ms = ms(report.approval),
        waiting_ms = ms(report.waiting),
        questions_ms = ms(report.questions),
        server_ms = ms(report.server_time),
        total_ms = ms(report.total),
        "call ended"
    );
}
