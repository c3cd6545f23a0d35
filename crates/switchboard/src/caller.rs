//! The questions we may ask whoever made a call. Approval, elicitation and progress of a call reach
//! its caller and no other.

use std::sync::Arc;

use crate::catalog::Tool;
use crate::event::LogLevel;
pub use crate::future::BoxFuture;
use crate::name::{ServerName, ToolId};
use crate::secret::Redacted;
use crate::wire::RawJson;

pub use approval::{Approval, ApprovalRequest, Keep};
pub use callbacks::Callbacks;
pub use id::CallerId;
pub use question::{ElicitAnswer, Elicitation, ElicitationKind, Root, SampleAnswer, Sampling};
pub use report::CallReport;

mod approval;
mod callbacks;
mod id;
mod question;
mod report;

/// What a caller can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offers {
    /// Forms.
    pub elicit_form: bool,
    /// URLs to open.
    pub elicit_url: bool,
    /// Answers of a model.
    pub sampling: bool,
    /// Answers of a model that is given tools.
    pub sampling_tools: bool,
}

impl Offers {
    /// Whether these are at least those.
    pub(crate) fn include(self, other: Self) -> bool {
        let covers = |ours: bool, theirs: bool| ours || !theirs;
        covers(self.elicit_form, other.elicit_form)
            && covers(self.elicit_url, other.elicit_url)
            && covers(self.sampling, other.sampling)
            && covers(self.sampling_tools, other.sampling_tools)
    }

    /// Whether such a question can be answered.
    pub(crate) fn answers(self, kind: &ElicitationKind) -> bool {
        match kind {
            ElicitationKind::Form { .. } => self.elicit_form,
            ElicitationKind::Url { .. } => self.elicit_url,
        }
    }
}

/// Whoever makes calls: a terminal, an agent's loop, a gateway's edge.
pub trait Caller: Send + Sync {
    /// Who this is.
    fn id(&self) -> CallerId;

    /// What it can answer; a server is told no more than this.
    fn offers(&self) -> Offers {
        Offers::default()
    }

    /// Why this caller makes no call of this tool, whatever the gate decides; `None` leaves it to
    /// the gate. Asked before each call: it must not block.
    fn refuses(&self, tool: &Tool) -> Option<String> {
        let _ = tool;
        None
    }

    /// May this call run? Dropping the future withdraws the question.
    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval>;

    /// A server's question during a call of this caller. Of a kind that it does not
    /// [offer](Self::offers), it is declined unasked.
    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        let _ = question;
        Box::pin(async { ElicitAnswer::Decline })
    }

    /// A server wants an answer of the caller's model during a call of this caller. It has passed
    /// the gate as `server/@sampling`.
    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        let _ = request;
        Box::pin(async { SampleAnswer::Refuse("nobody here answers for a model".to_owned()) })
    }

    /// The folders that a modern server may ask for during a call of this caller; `None` does not
    /// offer any.
    fn roots(&self) -> Option<Vec<Root>> {
        None
    }

    /// The same when a server wants them: a caller that speaks for a client may ask it first.
    fn ask_roots<'a>(&'a self) -> BoxFuture<'a, Option<Vec<Root>>> {
        let roots = self.roots();
        Box::pin(std::future::ready(roots))
    }

    /// The call of this caller has become a task at its server: its result may take long.
    fn became_task(&self) {}

    /// From which level on a modern server may log during a call of this caller; `None` wants no
    /// log.
    fn log_level(&self) -> Option<LogLevel> {
        None
    }

    /// What of a client's request the server gets too, where this caller passes one on.
    fn forwarded(&self) -> Option<&ForwardedParams> {
        None
    }

    /// Whether a modern server's `input_required` is returned as the result, for this caller to
    /// answer with another request. Otherwise its questions are put to the methods above.
    fn takes_input_required(&self) -> bool {
        false
    }

    /// Whether this caller gets what a legacy server logs while it alone has calls in flight, though
    /// the wire does not say which call a log belongs to.
    fn takes_unattributed_logs(&self) -> bool {
        false
    }

    /// A server logs during a call of this caller.
    fn log(&self, line: &LogLine) {
        let _ = line;
    }

    /// A call of this caller reports progress.
    fn progress(&self, progress: &Progress) {
        let _ = progress;
    }

    /// Something the caller should know about its call: one line, already safe to show.
    fn notice(&self, line: &str) {
        let _ = line;
    }

    /// Whether it wants [`call_ended`](Self::call_ended): each of its calls is measured then.
    fn wants_reports(&self) -> bool {
        false
    }

    /// A call of this caller has ended, however it did. It must not block.
    fn call_ended(&self, report: &CallReport) {
        let _ = report;
    }
}

/// A caller that is shared is a caller.
impl<C: Caller + ?Sized> Caller for Arc<C> {
    fn id(&self) -> CallerId {
        (**self).id()
    }

    fn offers(&self) -> Offers {
        (**self).offers()
    }

    fn refuses(&self, tool: &Tool) -> Option<String> {
        (**self).refuses(tool)
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        (**self).approve(request)
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        (**self).elicit(question)
    }

    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        (**self).sample(request)
    }

    fn roots(&self) -> Option<Vec<Root>> {
        (**self).roots()
    }

    fn ask_roots<'a>(&'a self) -> BoxFuture<'a, Option<Vec<Root>>> {
        (**self).ask_roots()
    }

    fn became_task(&self) {
        (**self).became_task();
    }

    fn log_level(&self) -> Option<LogLevel> {
        (**self).log_level()
    }

    fn forwarded(&self) -> Option<&ForwardedParams> {
        (**self).forwarded()
    }

    fn takes_input_required(&self) -> bool {
        (**self).takes_input_required()
    }

    fn takes_unattributed_logs(&self) -> bool {
        (**self).takes_unattributed_logs()
    }

    fn log(&self, line: &LogLine) {
        (**self).log(line)
    }

    fn progress(&self, progress: &Progress) {
        (**self).progress(progress)
    }

    fn notice(&self, line: &str) {
        (**self).notice(line)
    }

    fn wants_reports(&self) -> bool {
        (**self).wants_reports()
    }

    fn call_ended(&self, report: &CallReport) {
        (**self).call_ended(report)
    }
}

/// Members of a client's request that the server gets as they came.
#[derive(Debug, Clone, Default)]
pub struct ForwardedParams {
    /// Members of `params`, each under its key; those that the host writes itself come first.
    pub params: Vec<(String, RawJson)>,
    /// Members of `_meta`, each under its key; none that says something about one connection.
    pub meta: Vec<(String, RawJson)>,
}

/// A server's log message during a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogLine {
    /// Who logs.
    pub server: ServerName,
    /// The call's tool, where it is a call.
    pub tool: Option<ToolId>,
    /// How grave; `None` where the server gave a word that is no level.
    pub level: Option<LogLevel>,
    /// Which part of the server.
    pub logger: Option<Redacted>,
    /// Its words, or the JSON it sent instead.
    pub text: Redacted,
    /// The params of `notifications/message`, as they came but for secrets of the entry.
    pub params: RawJson,
}

/// How far a call has come.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Progress {
    /// The call's tool.
    pub id: ToolId,
    /// Grows.
    pub progress: f64,
    /// Where it ends, if known.
    pub total: Option<f64>,
    /// The server's words.
    pub message: Option<Redacted>,
    /// The params of `notifications/progress`, as they came but for secrets of the entry; `None`
    /// where a task reports progress.
    pub params: Option<RawJson>,
}

/// A caller without a person: every approval is unavailable, every elicitation declined.
#[derive(Debug, Clone)]
pub struct Headless(pub CallerId);

impl Headless {
    /// A caller of this name.
    pub fn new(id: &str) -> Self {
        Self(CallerId::new(id))
    }
}

impl Caller for Headless {
    fn id(&self) -> CallerId {
        self.0.clone()
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Unavailable })
    }
}
