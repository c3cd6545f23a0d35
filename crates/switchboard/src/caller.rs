//! The questions we may ask whoever made a call. Approval, elicitation and progress of a call reach
//! its caller and no other.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::catalog::{Tool, ToolDefinition, ToolEffect};
use crate::config::Dialect;
use crate::event::LogLevel;
pub use crate::future::BoxFuture;
use crate::name::{ExposedName, ServerName, ToolId};
use crate::secret::Redacted;
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

pub use callbacks::Callbacks;
pub use report::CallReport;

mod callbacks;
mod report;

/// Who asked. Two calls of one caller carry the same id.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallerId {
    text: Arc<str>,
    /// The length of the client's name, with which the text begins.
    client_length: usize,
}

impl CallerId {
    /// Names a caller.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            client_length: text.len(),
        }
    }

    /// One session of an authenticated client: sessions of one client are different callers.
    pub fn of_client(client: &str, session: impl fmt::Display) -> Self {
        Self {
            text: format!("{client}#{session}").into(),
            client_length: client.len(),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The authenticated name of the client, which rules may name.
    pub fn client(&self) -> &str {
        &self.text[..self.client_length]
    }
}

impl fmt::Debug for CallerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

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

/// Everything a person needs to decide on one call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The pair.
    pub id: ToolId,
    /// The name the model used.
    pub exposed: ExposedName,
    /// The final arguments, whole.
    pub arguments: RawJson,
    /// The definition that the answer will be bound to.
    pub definition: Arc<ToolDefinition>,
    /// Why it is asked: which rule, or that none applies.
    pub because: String,
    /// The definition or the launch changed since the last yes: what was, what is, line by line.
    pub changed: Option<Vec<String>>,
    /// An `ask` rule wants a fresh answer each time: only once or no.
    pub once_only: bool,
    /// The kind of file its server stands in: which answers there are
    /// (`DialectProfile::approval_choices`).
    pub dialect: Dialect,
    /// What the tool does, where it is a tool of this program that says so; `None` for a server's
    /// tool, whose annotations are its own claim.
    pub effect: Option<ToolEffect>,
    /// What the call would change, line by line and safe to show: `- ` before, `+ ` after. Empty
    /// for a server's tool.
    pub preview: Vec<String>,
}

impl ApprovalRequest {
    /// A request for this call of a tool, which may be remembered and whose definition did not
    /// change.
    pub fn new(tool: &Tool, arguments: RawJson, because: impl Into<String>) -> Self {
        Self {
            id: tool.id.clone(),
            exposed: tool.exposed.clone(),
            arguments,
            definition: tool.definition.clone(),
            because: because.into(),
            changed: None,
            once_only: false,
            dialect: tool.server.dialect,
            effect: tool.effect(),
            preview: Vec::new(),
        }
    }
}

/// The answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// This call.
    Once,
    /// This tool, as it is defined now.
    AlwaysTool(Keep),
    /// Every tool that this server offers today.
    AlwaysServer(Keep),
    /// Not this call.
    No {
        /// Why, for the model: the error of the call says it.
        reason: Option<String>,
    },
    /// No person can be asked.
    Unavailable,
}

impl Approval {
    /// No, and why: the model is told, and may do something else.
    pub fn no(reason: impl Into<String>) -> Self {
        Self::No {
            reason: Some(reason.into()),
        }
    }
}

/// How long an *always* is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Until this host stops.
    Run,
    /// In the store.
    ForGood,
}

/// A question of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Elicitation {
    /// Who asks. Not the server's own word for itself.
    pub server: ServerName,
    /// The tool whose call caused it, where a call did.
    pub tool: Option<ToolId>,
    /// What it wants.
    pub kind: ElicitationKind,
    /// The params of `elicitation/create`, as they came.
    pub params: RawJson,
}

/// What a server wants to know.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ElicitationKind {
    /// Fields to fill in, described by a flat JSON schema.
    Form {
        /// The server's words.
        message: Untrusted,
        /// `requestedSchema`, as it came.
        schema: RawJson,
    },
    /// A page to visit.
    Url {
        /// The server's words.
        message: Untrusted,
        /// The address, as it came.
        url: Untrusted,
        /// The server's name for the visit, where it has one (2025-11-25): it may say later that
        /// it is done.
        id: Option<String>,
    },
}

/// The answer to an [`Elicitation`].
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitAnswer {
    /// The fields; empty for a URL.
    Accept(Map<String, Value>),
    /// The person said no.
    Decline,
    /// The person turned away.
    Cancel,
}

/// What a server wants a model to answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sampling {
    /// Who asks.
    pub server: ServerName,
    /// The tool whose call caused it, where a call did.
    pub tool: Option<ToolId>,
    /// The params of `sampling/createMessage`, as they came.
    pub params: RawJson,
}

/// The answer to a [`Sampling`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleAnswer {
    /// The result of `sampling/createMessage`, given to the server as it is.
    Answer(RawJson),
    /// None; the server is told this line.
    Refuse(String),
}

/// A folder that a server may work in.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Root {
    /// `file://…`.
    pub uri: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
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
