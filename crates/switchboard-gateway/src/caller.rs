//! The caller of one request: asks its client what the gate or a server asks, on the stream of that
//! request only.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use memchr::memmem;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use switchboard::caller::{
    ApprovalRequest, CallReport, ForwardedParams, LogLine, Progress, Root, RootsAnswer,
    SampleAnswer, Sampling, SamplingDecision,
};
use switchboard::event::LogLevel;
use switchboard::revision::Era;
use switchboard::sync::lock;
use switchboard::wire::JsonMember;
use switchboard::{
    Approval, BoxFuture, Caller, CallerCapabilities, CallerId, ElicitAnswer, Elicitation, RawJson,
};

use tokio::sync::Notify;

use crate::approvals::HeldCall;
use crate::client::{ClientState, Responder, read_roots};
use crate::client_request::ClientRequest;
use crate::inputs::InputRequests;
use crate::outbound::Outbound;
use crate::params::{ClientCapabilities, RELATED_TASK};
use crate::related_task::{related, unrelated};
use crate::reply;
use crate::seal;
use crate::settings::GatewaySettings;
use crate::shown_arguments::shown_arguments;
use crate::spans::ClientSpan;
use sent_progress::SentProgress;

mod sent_progress;

/// Why a question ends without an answer while its client is connected.
const STOPPING: &str =
    "the gateway is stopping, or the client has closed its end: nobody can answer now";

/// The choice in the approval form that lets a call run.
const ALLOW: &str = "allow once";

pub(crate) const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

pub(crate) struct RequestCaller {
    settings: Arc<GatewaySettings>,
    pub(crate) client: Arc<ClientState>,
    pub(crate) era: Era,
    pub(crate) capabilities: ClientCapabilities,
    /// The log level that the client asked for in this request.
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) forwarded: ForwardedParams,
    /// Where its messages go; `None` while the call waits for its client's next request.
    pub(crate) route: Mutex<Option<RequestRoute>>,
    /// The open questions to a modern client.
    pub(crate) inputs: InputRequests,
    /// The answer to the approval question.
    pub(crate) approval: Mutex<Option<String>>,
    /// Whether approval was asked for.
    pub(crate) was_asked: AtomicBool,
    /// The host's report of the call, once it has ended.
    pub(crate) call_report: Mutex<Option<CallReport>>,
    /// The span of the request to the server.
    pub(crate) span: ClientSpan,
    /// Notified when the server makes a task of the call.
    pub(crate) became_task: Notify,
    /// The id of the client's task, once the call has become one.
    pub(crate) task: OnceLock<String>,
    /// How many questions the client has not answered.
    pub(crate) open_questions: Arc<AtomicUsize>,
    /// The server's last progress message.
    last_progress: Mutex<Option<String>>,
    sent_progress: Mutex<SentProgress>,
}

/// Where the messages of one request go.
#[derive(Debug, Clone)]
pub(crate) struct RequestRoute {
    pub(crate) outbound: Outbound,
    pub(crate) progress_token: Option<RawJson>,
    /// The client to ask, if it is not the one that made the request: another session of the same
    /// principal, which waits for the result of a task.
    pub(crate) other_client: Option<Arc<ClientState>>,
}

impl RequestCaller {
    /// The caller of a request, with the params that are passed to the server.
    pub(crate) fn new(
        settings: &Arc<GatewaySettings>,
        request: &ClientRequest,
        forwarded: ForwardedParams,
        responder: &Responder,
    ) -> Arc<Self> {
        let log_level = match request.era {
            Era::Modern => request.params.meta().log_level,
            Era::Legacy => request.client.log_level(),
        };
        Arc::new(Self {
            settings: settings.clone(),
            client: request.client.clone(),
            era: request.era,
            capabilities: request.capabilities,
            log_level,
            forwarded,
            route: Mutex::new(Some(RequestRoute {
                outbound: responder.outbound.clone(),
                progress_token: request.params.meta().progress_token.clone(),
                other_client: None,
            })),
            inputs: InputRequests::default(),
            approval: Mutex::default(),
            was_asked: AtomicBool::new(false),
            call_report: Mutex::default(),
            span: settings
                .traces
                .client_span(&responder.span, &request.method),
            became_task: Notify::new(),
            task: OnceLock::new(),
            open_questions: Arc::default(),
            last_progress: Mutex::default(),
            sent_progress: Mutex::default(),
        })
    }

    /// Whether a question waits for the client.
    pub(crate) fn is_asking(&self) -> bool {
        self.open_questions.load(Ordering::Relaxed) > 0
    }

    /// The server's last progress message.
    pub(crate) fn last_progress(&self) -> Option<String> {
        lock(&self.last_progress).clone()
    }

    fn route(&self) -> Option<RequestRoute> {
        lock(&self.route).clone()
    }

    /// Asks the client: a request of ours to a legacy client, `input_required` for a modern one.
    async fn ask(&self, method: &str, params: &[u8]) -> Result<RawJson, NoResult> {
        let gone = || NoResult::Disconnected;
        let _open = CountedQuestion::new(&self.open_questions);
        match self.era {
            Era::Modern => self.inputs.ask(method, params).await.ok_or_else(gone),
            Era::Legacy => {
                let route = self.route().ok_or_else(gone)?;
                let task = self.task.get();
                let params = match task {
                    Some(task) => related(params, task).into(),
                    None => Cow::from(params),
                };
                let client = route.other_client.as_ref().unwrap_or(&self.client);
                let seal = client.question_seal(&*self.settings.cluster);
                let questions = &client.questions;
                let question = questions.ask(seal, &route.outbound, method, &params);
                let answer = tokio::select! {
                    biased;
                    answer = question => answer,
                    () = client.draining() => return Err(NoResult::Stopping),
                };
                let result = answer.ok_or_else(gone)?.map_err(NoResult::Error)?;
                // The task is ours: the server does not know it.
                Ok(match task {
                    Some(_) => unrelated(result),
                    None => result,
                })
            }
        }
    }

    /// The params of a question. Only the legacy protocol has an id for the visit to a page, and requires
    /// it there.
    fn with_elicitation_id<'a>(&self, params: &'a RawJson) -> Cow<'a, RawJson> {
        const KEY: &str = "elicitationId";
        let mut members = match self.era {
            Era::Legacy => params.members().unwrap_or_default(),
            Era::Modern => Vec::new(),
        };
        let is_page = |(key, value): &JsonMember| {
            key == "mode" && value.text().is_some_and(|mode| mode == "url")
        };
        if !members.iter().any(is_page) || members.iter().any(|(key, _)| key == KEY) {
            return Cow::Borrowed(params);
        }
        let Ok(random) = seal::random::<16>() else {
            return Cow::Borrowed(params);
        };
        let id = format!("{:032x}", u128::from_le_bytes(random));
        members.push((KEY.into(), RawJson::from(Value::from(id))));
        Cow::Owned(RawJson::from_members(&members))
    }

    async fn ask_approval(&self, request: &ApprovalRequest) -> Approval {
        if !self.capabilities.offers.elicit_form {
            let keep_alive = |line: &str| self.send_own_progress(line);
            let call = HeldCall {
                principal: &self.client.principal,
                request,
                keep_alive: &keep_alive,
                command_words: self.settings.command_words,
            };
            return tokio::select! {
                biased;
                approval = self.settings.approvals.approve(&call) => approval,
                // A task goes on without its client.
                () = self.client.draining(), if self.task.get().is_none() => Approval::no(STOPPING.to_owned()),
            };
        }
        let form = approval_form(request).to_string();
        match self.ask("elicitation/create", form.as_bytes()).await {
            Ok(result) => match read_elicit_result(&result) {
                ElicitAnswer::Accept(fields) if fields.get("decision") == Some(&ALLOW.into()) => {
                    Approval::Once
                }
                _ => Approval::No { reason: None },
            },
            Err(reason) => Approval::no(reason.to_string()),
        }
    }

    /// Sends progress of the gateway's own, so that the client does not time out.
    fn send_own_progress(&self, line: &str) {
        let progress = lock(&self.sent_progress).next_own();
        let params = json!({"progress": progress, "message": line});
        self.send_progress(&RawJson::from(params));
    }

    /// The params of a notification of this call, with the client's task and not the server's.
    fn with_own_task<'a>(&self, params: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        match self.task.get() {
            Some(task) if self.era == Era::Legacy => related(&params, task).into(),
            _ if memmem::find(&params, RELATED_TASK.as_bytes()).is_none() => params,
            _ => match String::from_utf8_lossy(&params).parse() {
                Ok(object) => unrelated(object).as_bytes().to_vec().into(),
                Err(_) => params,
            },
        }
    }

    /// Sends progress under the client's progress token.
    fn send_progress(&self, params: &RawJson) {
        let Some(RequestRoute {
            outbound,
            progress_token: Some(token),
            ..
        }) = self.route()
        else {
            return;
        };
        let members = params.members().unwrap_or_default();
        let others = members.iter().filter(|(key, _)| key != "progressToken");
        let others = others.map(|(key, value)| (&**key, &value.as_bytes()[..]));
        let token_member = std::iter::once(("progressToken", &token.as_bytes()[..]));
        let params = self.with_own_task(reply::object(token_member.chain(others)).into());
        let message = reply::notification("notifications/progress", &params);
        // Up to the separator after the token, which is the first member.
        let after_token = params.len() - r#"{"progressToken":,"#.len() - token.as_bytes().len();
        let prefix_len = message.len() - "}".len() - after_token;
        outbound.send_progress(message, prefix_len);
    }
}

/// Counts a question while it is open.
struct CountedQuestion<'a>(&'a AtomicUsize);

impl<'a> CountedQuestion<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountedQuestion<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Caller for RequestCaller {
    fn id(&self) -> &CallerId {
        &self.client.caller_id
    }

    fn capabilities(&self) -> CallerCapabilities {
        self.capabilities.offers
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        self.was_asked.store(true, Ordering::Relaxed);
        Box::pin(async move {
            let approval = self.ask_approval(request).await;
            // That of sampling is reported by the host.
            if request.is_for_sampling() {
                return approval;
            }
            *lock(&self.approval) = Some(match &approval {
                Approval::No { reason: None } => "no".to_owned(),
                Approval::No {
                    reason: Some(reason),
                } => format!("no: {reason}"),
                Approval::Pending { number, .. } => format!("pending: {number}"),
                Approval::Unavailable => "nobody to ask".to_owned(),
                _ => "yes".to_owned(),
            });
            approval
        })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            let params = self.with_elicitation_id(&question.params);
            match self.ask("elicitation/create", params.as_bytes()).await {
                Ok(result) if has_action(&result) => ElicitAnswer::Result(result),
                Err(NoResult::Error(error)) => ElicitAnswer::Error(error),
                Ok(_) | Err(NoResult::Disconnected | NoResult::Stopping) => ElicitAnswer::Cancel,
            }
        })
    }

    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        Box::pin(async move {
            match self
                .ask("sampling/createMessage", request.params.as_bytes())
                .await
            {
                Ok(answer) => SampleAnswer::Answer(answer),
                Err(NoResult::Error(error)) => SampleAnswer::Error(error),
                Err(reason) => SampleAnswer::Refuse(reason.to_string()),
            }
        })
    }

    fn roots(&self) -> Option<Vec<Root>> {
        self.capabilities
            .roots
            .then(|| self.client.roots().unwrap_or_default())
    }

    /// The roots of a legacy client are listed beforehand; a modern client is asked now.
    fn ask_roots<'a>(&'a self) -> BoxFuture<'a, Option<RootsAnswer>> {
        Box::pin(async move {
            let listed = self.client.listed_roots();
            if listed.is_some() || !self.capabilities.roots {
                return listed.map(Ok);
            }
            match self.ask("roots/list", b"{}").await {
                Ok(result) => read_roots(&result).map(|_| Ok(result)),
                Err(NoResult::Error(error)) => Some(Err(error)),
                Err(NoResult::Disconnected | NoResult::Stopping) => None,
            }
        })
    }

    fn log_level(&self) -> Option<LogLevel> {
        self.log_level
    }

    fn forwarded(&self) -> Option<&ForwardedParams> {
        Some(self.span.forwarded(&self.forwarded))
    }

    /// Not for a call that was approved: the client's next request would need approval again.
    fn handles_input_required(&self) -> bool {
        self.era == Era::Modern
            && !self.was_asked.load(Ordering::Relaxed)
            && self.task.get().is_none()
    }

    /// A legacy log message does not name its call. A modern client gets it if it asked for logs.
    fn accepts_unattributed_logs(&self) -> bool {
        self.era == Era::Legacy || self.log_level.is_some()
    }

    fn log(&self, line: &LogLine) {
        let passes_level = match (self.log_level, line.level) {
            (Some(lowest), Some(level)) => level >= lowest,
            (None, _) => self.era == Era::Legacy,
            (Some(_), None) => true,
        };
        if let Some(route) = self.route().filter(|_| passes_level) {
            let params = self.with_own_task(Cow::Borrowed(line.params.as_bytes()));
            let message = reply::notification("notifications/message", &params);
            route.outbound.send_request_log(message);
        }
    }

    /// The modern protocol has no such notification.
    fn elicitation_complete(&self, params: &RawJson) {
        if self.era == Era::Legacy {
            let route = self.route().map(|route| route.outbound);
            let outbound = route.unwrap_or_else(|| self.client.outbound.clone());
            outbound.send(reply::notification(ELICITATION_COMPLETE, params.as_bytes()));
        }
    }

    fn wants_reports(&self) -> bool {
        self.settings.recorder.wants_reports() || self.settings.traces.is_on()
    }

    fn call_ended(&self, report: CallReport) {
        *lock(&self.call_report) = Some(report);
    }

    fn sampling_decided(&self, decision: &SamplingDecision<'_>) {
        let recorder = &self.settings.recorder;
        recorder.sampling_decided(&self.client.principal, decision);
    }

    fn became_task(&self) {
        self.became_task.notify_one();
    }

    fn progress(&self, progress: &Progress) {
        if let Some(message) = &progress.message {
            *lock(&self.last_progress) = Some(message.for_model().0.into_owned());
        }
        let larger = lock(&self.sent_progress).replace(progress.progress);
        match (&progress.params, larger) {
            (Some(params), None) => self.send_progress(params),
            (Some(params), Some(larger)) => {
                let mut members = params.members().unwrap_or_default();
                members.retain(|(key, _)| key != "progress");
                members.push(("progress".into(), RawJson::from(Value::from(larger))));
                self.send_progress(&RawJson::from_members(&members));
            }
            (None, larger) => {
                let mut params = json!({"progress": larger.unwrap_or(progress.progress)});
                if let Some(total) = progress.total {
                    params["total"] = total.into();
                }
                self.send_progress(&RawJson::from(params));
            }
        }
    }
}

/// The form that asks a person for approval.
fn approval_form(request: &ApprovalRequest) -> Value {
    let mut message = format!(
        "Allow this call of {}?\nReason for asking: {}\nArguments: {}",
        request.id.shown(),
        request.because,
        shown_arguments(&request.arguments)
    );
    for line in request.changed.iter().flatten() {
        message.push('\n');
        message.push_str(line);
    }
    json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "enum": [ALLOW, "deny"],
                },
            },
            "required": ["decision"],
        },
    })
}

/// Why a client gave no result.
#[derive(Debug)]
enum NoResult {
    Disconnected,
    /// The client answered with this error object.
    Error(RawJson),
    /// No more messages of the client are read, so it cannot answer.
    Stopping,
}

impl fmt::Display for NoResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected => f.write_str("the client went away"),
            Self::Error(error) => f.write_str(&error_message(error)),
            Self::Stopping => f.write_str(STOPPING),
        }
    }
}

/// Whether a result of `elicitation/create` says what the person did.
fn has_action(result: &RawJson) -> bool {
    let members = result.members().unwrap_or_default();
    let mut actions = members.iter().filter(|(key, _)| key == "action");
    actions.any(|(_, action)| action.text().is_some())
}

/// Reads the result of the approval form. An invalid one counts as cancelled.
fn read_elicit_result(result: &RawJson) -> ElicitAnswer {
    #[derive(Deserialize)]
    struct ElicitResult {
        action: String,
        #[serde(default)]
        content: Option<Map<String, Value>>,
    }
    match result.decode::<ElicitResult>() {
        Ok(read) if read.action == "accept" => {
            ElicitAnswer::Accept(read.content.unwrap_or_default())
        }
        Ok(read) if read.action == "decline" => ElicitAnswer::Decline,
        _ => ElicitAnswer::Cancel,
    }
}

fn error_message(error: &RawJson) -> String {
    #[derive(Deserialize)]
    struct ErrorObject {
        #[serde(default)]
        message: String,
    }
    let message = error.decode::<ErrorObject>().map(|error| error.message);
    format!("the client answered: {}", message.unwrap_or_default())
}
