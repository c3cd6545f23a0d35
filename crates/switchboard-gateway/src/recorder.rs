//! What the gateway reports about each request, for an audit log and metrics.

use std::time::Duration;

use switchboard::caller::{CallReport, SamplingDecision};
use switchboard::{RawJson, ServerName};

use crate::{Principal, Refusal};

/// Records each request and session that has ended. Called where they end, so it must not block.
pub trait Recorder: Send + Sync {
    /// Whether it needs the host's report of each call.
    fn wants_reports(&self) -> bool {
        false
    }

    /// A client's request for a server has ended.
    fn request_ended(&self, record: &RequestRecord<'_>) {
        let _ = record;
    }

    /// A request that the gateway made to a server for another request of a client has ended: for
    /// `skills/list`, or a subscription. One request of a client may lead to several.
    fn sent_request_ended(&self, record: &RequestRecord<'_>) {
        let _ = record;
    }

    /// A server's request for sampling during a call of this client was permitted or denied.
    fn sampling_decided(&self, principal: &Principal, decision: &SamplingDecision<'_>) {
        let _ = (principal, decision);
    }

    /// A legacy client's session has ended after this time.
    fn session_ended(&self, duration: Duration) {
        let _ = duration;
    }

    /// The connection to a server has ended after this time.
    fn server_session_ended(&self, duration: Duration) {
        let _ = duration;
    }

    /// An edge refused a request before anything ran.
    fn request_refused(&self, refusal: &Refusal) {
        let _ = refusal;
    }
}

/// One request that a client made to a server.
#[derive(Debug)]
pub struct RequestRecord<'a> {
    /// Its number since the gateway started, for an operator.
    pub number: u64,
    /// Who made it.
    pub principal: &'a Principal,
    /// The client's `clientInfo`, as JSON.
    pub client_info: Option<&'a RawJson>,
    /// The method, such as `tools/call`.
    pub method: &'a str,
    /// The server, where one was found.
    pub server: Option<&'a ServerName>,
    /// The server's own name for the tool or prompt, or the resource's address.
    pub name: &'a str,
    /// A tool's arguments.
    pub arguments: Option<&'a RawJson>,
    /// The answer to the approval question; `None` if none was asked.
    pub approval: Option<&'a str>,
    /// The host's report of a tool call, with the gate's decision.
    pub report: Option<&'a CallReport>,
    /// How it ended.
    pub outcome: RequestOutcome<'a>,
    /// From its arrival to its response.
    pub duration: Duration,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome<'a> {
    /// The server answered.
    Answered,
    /// The server answered `isError`.
    ToolError,
    /// The server requires input first.
    InputRequired,
    /// The gate or an approval denied it, with the reason.
    Denied(&'a str),
    /// It did not complete, with the reason.
    Failed(&'a str),
    /// The client cancelled it or disconnected.
    Cancelled,
}

/// Records nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {}
