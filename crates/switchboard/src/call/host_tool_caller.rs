//! The caller of a host tool, for the requests that the tool itself sends to servers.

use std::sync::Arc;

use crate::caller::{
    Approval, ApprovalRequest, BoxFuture, CallReport, Caller, CallerCapabilities, CallerId,
    ElicitAnswer, Elicitation, ForwardedParams, LogLine, Progress, Root, RootsAnswer, SampleAnswer,
    Sampling, SamplingDecision,
};
use crate::catalog::Tool;
use crate::event::LogLevel;
use crate::wire::RawJson;

/// Passes everything on, except what concerns the client's own request: that was a call of the host
/// tool, so a client neither answers a server's `input_required` with another request, nor are its
/// params the server's. Questions go to the caller's methods instead.
pub(super) struct HostToolCaller(Arc<dyn Caller>);

impl HostToolCaller {
    pub(super) fn wrap(caller: &Arc<dyn Caller>) -> Arc<dyn Caller> {
        Arc::new(Self(caller.clone()))
    }
}

impl Caller for HostToolCaller {
    fn handles_input_required(&self) -> bool {
        false
    }

    fn forwarded(&self) -> Option<&ForwardedParams> {
        None
    }

    fn id(&self) -> &CallerId {
        self.0.id()
    }

    fn capabilities(&self) -> CallerCapabilities {
        self.0.capabilities()
    }

    fn refuses(&self, tool: &Tool) -> Option<String> {
        self.0.refuses(tool)
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        self.0.approve(request)
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        self.0.elicit(question)
    }

    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        self.0.sample(request)
    }

    fn roots(&self) -> Option<Vec<Root>> {
        self.0.roots()
    }

    fn ask_roots<'a>(&'a self) -> BoxFuture<'a, Option<RootsAnswer>> {
        self.0.ask_roots()
    }

    fn became_task(&self) {
        self.0.became_task();
    }

    fn log_level(&self) -> Option<LogLevel> {
        self.0.log_level()
    }

    fn accepts_unattributed_logs(&self) -> bool {
        self.0.accepts_unattributed_logs()
    }

    fn log(&self, line: &LogLine) {
        self.0.log(line);
    }

    fn progress(&self, progress: &Progress) {
        self.0.progress(progress);
    }

    fn elicitation_complete(&self, params: &RawJson) {
        self.0.elicitation_complete(params);
    }

    fn notice(&self, line: &str) {
        self.0.notice(line);
    }

    fn wants_reports(&self) -> bool {
        self.0.wants_reports()
    }

    fn call_ended(&self, report: CallReport) {
        self.0.call_ended(report);
    }

    fn sampling_decided(&self, decision: &SamplingDecision<'_>) {
        self.0.sampling_decided(decision);
    }
}
