//! The caller of a call: answers approval, elicitation and sampling, and receives progress and
//! logs. Those of a call reach its caller and no other.

use crate::catalog::Tool;
use crate::event::LogLevel;
pub use crate::future::BoxFuture;
use crate::name::{ServerName, ToolId};
use crate::secret::Redacted;
use crate::wire::{JsonMember, RawJson};

pub use crate::caller_id::CallerId;
pub use approval::{Approval, ApprovalLifetime, ApprovalRequest};
pub use callbacks::Callbacks;
pub(crate) use question::result_action;
pub use question::{
    ElicitAnswer, Elicitation, ElicitationKind, Root, RootsAnswer, SampleAnswer, Sampling,
};
pub use report::{CallReport, DecisionKind, ReportedOutcome, SamplingDecision};

mod approval;
mod callbacks;
mod question;
mod report;

/// The capabilities of a caller: which questions it can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallerCapabilities {
    /// Elicitation with a form.
    pub elicit_form: bool,
    /// Elicitation with a URL to open.
    pub elicit_url: bool,
    /// Sampling.
    pub sampling: bool,
    /// Sampling with tools.
    pub sampling_tools: bool,
}

impl CallerCapabilities {
    /// Whether these capabilities include all of `other`.
    pub(crate) fn include(self, other: Self) -> bool {
        let covers = |ours: bool, theirs: bool| ours | !theirs;
        covers(self.elicit_form, other.elicit_form)
            & covers(self.elicit_url, other.elicit_url)
            & covers(self.sampling, other.sampling)
            & covers(self.sampling_tools, other.sampling_tools)
    }

    /// Whether an elicitation of this kind can be answered.
    pub(crate) fn answers(self, kind: &ElicitationKind) -> bool {
        match kind {
            ElicitationKind::Form { .. } => self.elicit_form,
            ElicitationKind::Url { .. } => self.elicit_url,
        }
    }
}

/// Whoever makes calls: a terminal, an agent's loop, an edge of the gateway.
pub trait Caller: Send + Sync {
    /// The caller's identity.
    fn id(&self) -> &CallerId;

    /// The caller's capabilities. A modern server is told them with each request. A legacy server is
    /// told [those of the host](crate::HostBuilder::capabilities) when it connects; its questions of
    /// a kind that is not among these are declined.
    fn capabilities(&self) -> CallerCapabilities {
        CallerCapabilities::default()
    }

    /// Why this caller may not call this tool, whatever the gate decides; `None` leaves it to the
    /// gate. Called before each call: must not block.
    fn refuses(&self, tool: &Tool) -> Option<String> {
        let _ = tool;
        None
    }

    /// Decides whether a call may run. Dropping the future withdraws the question.
    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval>;

    /// Answers a server's question during a call of this caller. Kinds that it does not
    /// [offer](Self::capabilities) are declined without asking.
    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        let _ = question;
        Box::pin(async { ElicitAnswer::Decline })
    }

    /// Answers a server's sampling request during a call of this caller. It has passed the gate as
    /// `server/@sampling`.
    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        let _ = request;
        Box::pin(async { SampleAnswer::Refuse("the caller does not support sampling".to_owned()) })
    }

    /// The roots of this caller, for servers of either era during its calls; `None` uses
    /// [those of the host](crate::HostBuilder::roots), if it has any.
    fn roots(&self) -> Option<Vec<Root>> {
        None
    }

    /// The answer to `roots/list` at the moment when a server asks: a caller that represents a client
    /// may ask it first. `None` if there is no answer.
    fn ask_roots<'a>(&'a self) -> BoxFuture<'a, Option<RootsAnswer>> {
        let result = |roots| Ok(RawJson::from(serde_json::json!({ "roots": roots })));
        let answer = self.roots().map(result);
        Box::pin(std::future::ready(answer))
    }

    /// The call has become a task on its server: its result may take long.
    fn became_task(&self) {}

    /// The minimum level of a modern server's logs during a call of this caller; `None` requests no
    /// logs.
    fn log_level(&self) -> Option<LogLevel> {
        None
    }

    /// Members of the client's request that are forwarded to the server, if this caller represents
    /// a client.
    fn forwarded(&self) -> Option<&ForwardedParams> {
        None
    }

    /// Whether a modern server's `input_required` is returned as the result, for this caller to
    /// answer with another request. Otherwise the server's questions go to the methods above.
    fn handles_input_required(&self) -> bool {
        false
    }

    /// Whether this caller gets log messages that a legacy server does not assign to a call. It gets
    /// them only if no other caller had a call in flight since the session was last idle.
    fn accepts_unattributed_logs(&self) -> bool {
        false
    }

    /// A server's log message during a call of this caller.
    fn log(&self, line: &LogLine) {
        let _ = line;
    }

    /// Progress of a call of this caller.
    fn progress(&self, progress: &Progress) {
        let _ = progress;
    }

    /// A person has finished what a server asked for at a page, during a call of this caller. The
    /// params are those of `notifications/elicitation/complete`, with the entry's secrets redacted.
    fn elicitation_complete(&self, params: &RawJson) {
        let _ = params;
    }

    /// A notice about a call of this caller: one line, safe to show.
    fn notice(&self, line: &str) {
        let _ = line;
    }

    /// Whether the caller wants [`call_ended`](Self::call_ended); each of its calls is then
    /// measured.
    fn wants_reports(&self) -> bool {
        false
    }

    /// A call of this caller has ended, successfully or not. Must not block.
    fn call_ended(&self, report: CallReport) {
        let _ = report;
    }

    /// A server's request for sampling during a call of this caller was permitted or denied. Must not
    /// block.
    fn sampling_decided(&self, decision: &SamplingDecision<'_>) {
        let _ = decision;
    }
}

/// Members of a client's request that are forwarded to the server byte for byte.
#[derive(Debug, Clone, Default)]
pub struct ForwardedParams {
    /// Members of `params`, by key; those that the host writes itself take precedence.
    pub params: Vec<JsonMember>,
    /// Members of `_meta`, by key, without those that describe one connection.
    pub meta: Vec<JsonMember>,
}

impl ForwardedParams {
    /// Whether nothing is forwarded.
    pub(crate) fn is_empty(&self) -> bool {
        self.params.is_empty() && self.meta.is_empty()
    }
}

/// Whether a member of params answers what a modern server required.
pub(crate) fn is_answer(key: &str) -> bool {
    matches!(key, "inputResponses" | "requestState")
}

/// A server's log message during a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogLine {
    /// The server.
    pub server: ServerName,
    /// The called tool, if the message belongs to a call.
    pub tool: Option<ToolId>,
    /// The level; `None` if the server's word for it is unknown.
    pub level: Option<LogLevel>,
    /// The `logger` field: the part of the server.
    pub logger: Option<Redacted>,
    /// The message text, or the JSON that the server sent instead.
    pub text: Redacted,
    /// The params of `notifications/message`, with the entry's secrets redacted.
    pub params: RawJson,
}

/// Progress of a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Progress {
    /// The called tool; `None` if the request is no tool call.
    pub id: Option<ToolId>,
    /// The progress so far; it increases.
    pub progress: f64,
    /// The total, if known.
    pub total: Option<f64>,
    /// The server's message.
    pub message: Option<Redacted>,
    /// The params of `notifications/progress`, with the entry's secrets redacted; `None` if a task
    /// reports progress.
    pub params: Option<RawJson>,
}

/// A caller without a person: every approval is unavailable, every elicitation declined.
#[derive(Debug, Clone)]
pub struct Headless(pub CallerId);

impl Headless {
    /// A caller with this id.
    pub fn new(id: &str) -> Self {
        Self(CallerId::new(id))
    }
}

impl Caller for Headless {
    fn id(&self) -> &CallerId {
        &self.0
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Unavailable })
    }
}
