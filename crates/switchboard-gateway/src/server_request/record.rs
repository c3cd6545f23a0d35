//! The record of one request, written when the request ends in any way.

use std::sync::Arc;
use std::time::Instant;

use switchboard::call::CallError;
use switchboard::caller::{CallReport, ReportedOutcome};
use switchboard::revision::Era;
use switchboard::sync::lock;
use switchboard::{RawJson, ServerName};

use super::Answer;
use super::target::ServerRequest;
use crate::caller::RequestCaller;
use crate::client_request::ClientRequest;
use crate::gateway_state::GatewayState;
use crate::recorder::{RequestOutcome, RequestRecord};
use crate::spans::SpanOutcome;

/// Records the request when it ends; as cancelled, if it is dropped earlier.
pub(super) struct RecordGuard<'a> {
    pub(super) gateway: &'a Arc<GatewayState>,
    pub(super) request: &'a ClientRequest,
    pub(super) number: u64,
    pub(super) target: &'a ServerRequest,
    pub(super) caller: &'a Arc<RequestCaller>,
    pub(super) began: Instant,
    pub(super) is_recorded: bool,
    /// The server of a call that ended before it was reported.
    pub(super) server: Option<ServerName>,
}

impl RecordGuard<'_> {
    /// Records the server's answer; returns what the span of the client's request says of it.
    pub(super) fn ended(&mut self, answer: &Answer) -> SpanOutcome {
        let reason;
        let is_tool_error = || {
            let report = lock(&self.caller.call_report);
            report
                .as_ref()
                .is_some_and(|report| report.outcome == ReportedOutcome::ToolError)
        };
        if self.server.is_none() {
            let error = answer.as_ref().err();
            self.server = error.and_then(CallError::server).cloned();
        }
        let outcome = match answer {
            Ok(result) if self.is_input_required(result) => RequestOutcome::InputRequired,
            Ok(_) if is_tool_error() => RequestOutcome::ToolError,
            Ok(_) => RequestOutcome::Answered,
            Err(error) => {
                reason = error.to_string();
                match error {
                    CallError::Denied { .. } => RequestOutcome::Denied(&reason),
                    _ => RequestOutcome::Failed(&reason),
                }
            }
        };
        let span_outcome = SpanOutcome::of(answer, outcome == RequestOutcome::ToolError);
        self.record(outcome, &span_outcome);
        span_outcome
    }

    pub(super) fn record(&mut self, outcome: RequestOutcome<'_>, span_outcome: &SpanOutcome) {
        self.is_recorded = true;
        let client = &self.request.client;
        let approval = lock(&self.caller.approval).clone();
        let report = lock(&self.caller.call_report).take();
        self.end_span(report.as_ref(), span_outcome);
        self.gateway
            .settings
            .recorder
            .request_ended(&RequestRecord {
                number: self.number,
                principal: &client.principal,
                client_info: self.request.client_info.as_ref(),
                method: &self.request.method,
                server: self.target.server.as_ref().or(self.server.as_ref()),
                name: &self.target.name,
                arguments: self.target.arguments.as_ref(),
                approval: approval.as_deref(),
                report: report.as_ref(),
                outcome,
                duration: self.began.elapsed(),
            });
    }

    /// Whether the server requires input first. Only a modern client's request is answered so.
    fn is_input_required(&self, result: &RawJson) -> bool {
        let text = result.as_str();
        self.request.era == Era::Modern
            && text.contains("\"input_required\"")
            && text.contains("\"inputRequests\"")
    }

    /// Ends the span of what the server was sent.
    fn end_span(&self, report: Option<&CallReport>, outcome: &SpanOutcome) {
        let tool = report.and_then(|report| report.tool.as_deref());
        let target = match &*self.request.method {
            "tools/call" => tool.map(|tool| tool.id.tool.as_wire()),
            "prompts/get" => Some(&*self.target.name),
            _ => None,
        };
        self.caller.span.end(outcome, target, || {
            let of_tool = tool.map(|tool| &tool.id.server);
            let server = of_tool.or(self.target.server.as_ref())?;
            self.gateway.host.server(server.as_str())
        });
    }
}

impl Drop for RecordGuard<'_> {
    fn drop(&mut self) {
        if !self.is_recorded {
            self.record(RequestOutcome::Cancelled, &SpanOutcome::cancelled());
        }
    }
}
