//! Calls that have become tasks: the client polls for the result instead of waiting for a response.
//!
//! A legacy client (2025-11-25) requests a task with `params.task`. A modern one that declares the
//! extension gets a task if the server makes the call one. Either way the call runs in this process,
//! with a server of either era, and the server's questions are asked through the task. Tasks belong
//! to their principal and end with this process.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Value, json};
use switchboard::RawJson;
use switchboard::revision::{Era, Revision};
use switchboard::store::timestamp;
use switchboard::sync::lock;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::caller::{RequestCaller, RequestRoute};
use crate::client::Responder;
use crate::client_request::ClientRequest;
use crate::outbound::Outbound;
use crate::params::TASKS;
use crate::principal::Principal;
use crate::related_task::related;
use crate::reply::{self, ErrorReply};
use crate::seal;

/// How long a task is stored by default, and at most.
const USUAL_TTL: Duration = Duration::from_secs(900);
const LONGEST_TTL: Duration = Duration::from_secs(3600);

/// The interval at which clients should poll.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The most tasks at once, of all clients and of one principal.
const MAX_TASKS: usize = 1024;
const MAX_TASKS_OF_PRINCIPAL: usize = 128;

/// The tasks of all clients, by id.
#[derive(Debug, Default)]
pub(crate) struct ClientTasks(Mutex<HashMap<String, Arc<ClientTask>>>);

/// One task.
pub(crate) struct ClientTask {
    id: String,
    principal: Principal,
    /// Of the client that made it: the two eras write tasks differently.
    era: Era,
    caller: Arc<RequestCaller>,
    created: SystemTime,
    ttl: Duration,
    pub(crate) expires: Instant,
    /// Cancels the call.
    pub(crate) cancel: Notify,
    end: watch::Sender<Option<TaskEnd>>,
}

/// How a task ended, and when.
#[derive(Debug, Clone)]
struct TaskEnd {
    outcome: TaskOutcome,
    at: SystemTime,
}

/// The outcome of a task.
#[derive(Debug, Clone)]
pub(crate) enum TaskOutcome {
    /// The result, as the client would have got it.
    Completed(bytes::Bytes),
    Failed(ErrorReply),
    Cancelled,
}

impl ClientTasks {
    /// Begins a task for the call of this caller. `None` if too many are stored.
    pub(crate) fn begin(
        &self,
        caller: &Arc<RequestCaller>,
        ttl: Option<Duration>,
    ) -> Option<Arc<ClientTask>> {
        let random: [u8; 16] = seal::random().ok()?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let ttl = ttl.unwrap_or(USUAL_TTL).min(LONGEST_TTL);
        let task = Arc::new(ClientTask {
            id: id.clone(),
            principal: caller.client.principal.clone(),
            era: caller.era,
            caller: caller.clone(),
            created: SystemTime::now(),
            ttl,
            expires: Instant::now() + ttl,
            cancel: Notify::new(),
            end: watch::Sender::new(None),
        });
        let mut tasks = lock(&self.0);
        tasks.retain(|_, task| task.expires > Instant::now());
        let is_own = |known: &&Arc<ClientTask>| known.principal == task.principal;
        let own = tasks.values().filter(is_own).count();
        if tasks.len() >= MAX_TASKS || own >= MAX_TASKS_OF_PRINCIPAL {
            return None;
        }
        tasks.insert(id.clone(), task.clone());
        // Questions to a legacy client name their task.
        let _ = caller.task.set(id);
        Some(task)
    }

    fn find(&self, id: &str, principal: &Principal, era: Era) -> Option<Arc<ClientTask>> {
        let mut tasks = lock(&self.0);
        tasks.retain(|_, task| task.expires > Instant::now());
        let found = tasks.get(id)?;
        (found.principal == *principal && found.era == era).then(|| found.clone())
    }

    fn all_of(&self, principal: &Principal) -> Vec<Arc<ClientTask>> {
        let tasks = lock(&self.0);
        let is_own = |task: &&Arc<ClientTask>| {
            task.principal == *principal && task.era == Era::Legacy && task.expires > Instant::now()
        };
        let mut own: Vec<_> = tasks.values().filter(is_own).cloned().collect();
        own.sort_by_key(|task| task.created);
        own
    }

    /// Ends all of them.
    pub(crate) fn end_all(&self) {
        for (_, task) in lock(&self.0).drain() {
            task.cancel.notify_one();
        }
    }
}

impl ClientTask {
    /// The result that announces the task to the client.
    pub(crate) fn created(&self) -> Vec<u8> {
        let mut shown = self.shown();
        match self.era {
            Era::Legacy => shown = json!({ "task": shown }),
            Era::Modern => shown["resultType"] = "task".into(),
        }
        shown.to_string().into_bytes()
    }

    /// Sets how the task ended, unless it has ended before: an ended task does not change.
    pub(crate) fn end(&self, outcome: TaskOutcome) {
        let at = SystemTime::now();
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            if is_first {
                *end = Some(TaskEnd { outcome, at });
            }
            is_first
        });
    }

    fn status(&self) -> &'static str {
        match &*self.end.borrow() {
            Some(end) => match end.outcome {
                TaskOutcome::Completed(_) => "completed",
                TaskOutcome::Failed(_) => "failed",
                TaskOutcome::Cancelled => "cancelled",
            },
            None if self.caller.is_asking() => "input_required",
            None => "working",
        }
    }

    /// The task without its result.
    fn shown(&self) -> Value {
        let (ttl, poll) = match self.era {
            Era::Legacy => ("ttl", "pollInterval"),
            Era::Modern => ("ttlMs", "pollIntervalMs"),
        };
        let updated = self.end.borrow().as_ref().map(|end| end.at);
        let mut shown = json!({
            "taskId": self.id,
            "status": self.status(),
            "createdAt": timestamp(self.created),
            "lastUpdatedAt": timestamp(updated.unwrap_or(self.created)),
            ttl: self.ttl.as_millis() as u64,
            poll: POLL_INTERVAL.as_millis() as u64,
        });
        if let Some(message) = self.caller.last_progress() {
            shown["statusMessage"] = message.into();
        }
        shown
    }

    /// The task for a modern client: with its result, its error, or its open questions.
    fn detailed(&self) -> Vec<u8> {
        let shown = RawJson::from_value(&self.shown());
        let mut fields = vec![(Cow::from("resultType"), RawJson::from(json!("complete")))];
        fields.extend(shown.members().unwrap_or_default());
        let end = self.end.borrow().clone().map(|end| end.outcome);
        let detail = match end {
            Some(TaskOutcome::Completed(result)) => Some(("result", result.to_vec())),
            Some(TaskOutcome::Failed(error)) => Some(("error", error.object())),
            None if self.caller.is_asking() => {
                Some(("inputRequests", self.caller.inputs.to_json()))
            }
            Some(TaskOutcome::Cancelled) | None => None,
        };
        let fields = fields
            .iter()
            .map(|(key, value)| (&**key, &value.as_bytes()[..]));
        let detail = detail.as_ref().map(|(key, value)| (*key, &value[..]));
        reply::object(fields.chain(detail))
    }
}

impl std::fmt::Debug for ClientTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTask")
            .field("id", &self.id)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// Whether a call may become a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskSupport {
    /// No.
    None,
    /// The client requests a task that is stored for this long.
    Requested(Option<Duration>),
    /// The client accepts a task if the server makes one.
    Accepted,
}

impl TaskSupport {
    pub(crate) fn of(request: &ClientRequest) -> Self {
        #[derive(Deserialize)]
        struct TaskMetadata {
            ttl: Option<u64>,
        }
        match request.era {
            _ if request.method != "tools/call" => Self::None,
            Era::Modern if request.capabilities.tasks => Self::Accepted,
            Era::Legacy if has_legacy_tasks(request) => match request.params.get("task") {
                Some(task) => {
                    let ttl = task.decode().ok().and_then(|task: TaskMetadata| task.ttl);
                    Self::Requested(ttl.map(Duration::from_millis))
                }
                None => Self::None,
            },
            _ => Self::None,
        }
    }
}

/// Only one legacy revision has tasks.
fn has_legacy_tasks(request: &ClientRequest) -> bool {
    let handshake = request.client.handshake();
    handshake.is_some_and(|handshake| handshake.revision == Revision::V2025_11_25)
}

/// The gateway's capability for tasks.
pub(crate) fn legacy_capability() -> Value {
    json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
}

/// Answers a request about tasks that needs no waiting; `None` for any other request.
pub(crate) fn answer(
    tasks: &ClientTasks,
    request: &ClientRequest,
) -> Result<Option<bytes::Bytes>, ErrorReply> {
    let result = match (&*request.method, request.era) {
        ("tasks/list", Era::Legacy) => {
            let tasks = tasks.all_of(&request.client.principal);
            let shown: Vec<_> = tasks.iter().map(|task| task.shown()).collect();
            json!({ "tasks": shown }).to_string().into_bytes()
        }
        ("tasks/get", Era::Legacy) => task_of(tasks, request)?.shown().to_string().into_bytes(),
        ("tasks/get", Era::Modern) => task_of(tasks, request)?.detailed(),
        ("tasks/cancel", era) => {
            let task = task_of(tasks, request)?;
            if era == Era::Legacy && task.end.borrow().is_some() {
                let message = format!("the task has ended: it is {}", task.status());
                return Err(ErrorReply::invalid_params(message));
            }
            // The task is cancelled from now on, though its call may end a moment later.
            task.end(TaskOutcome::Cancelled);
            task.cancel.notify_one();
            match era {
                Era::Legacy => task.shown().to_string().into_bytes(),
                Era::Modern => br#"{"resultType":"complete"}"#.to_vec(),
            }
        }
        ("tasks/update", Era::Modern) => {
            let task = task_of(tasks, request)?;
            if let Some(responses) = request.params.get("inputResponses") {
                task.caller.inputs.answer(responses);
            }
            br#"{"resultType":"complete"}"#.to_vec()
        }
        _ => return Ok(None),
    };
    Ok(Some(result.into()))
}

/// The task that a request names: its principal's own.
fn task_of(tasks: &ClientTasks, request: &ClientRequest) -> Result<Arc<ClientTask>, ErrorReply> {
    if request.era == Era::Modern && !request.capabilities.tasks {
        return Err(missing_capability());
    }
    let id = request.params.text("taskId");
    let id = id.ok_or_else(|| ErrorReply::invalid_params("taskId is missing"))?;
    tasks
        .find(&id, &request.client.principal, request.era)
        .ok_or_else(|| {
            ErrorReply::invalid_params("no such task: the id is unknown, or the task has expired")
        })
}

/// The error for a modern client that uses tasks and does not declare them.
pub(crate) fn missing_capability() -> ErrorReply {
    let data = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
    ErrorReply::new(-32021, "the request does not declare the tasks extension").with_data(&data)
}

/// `tasks/result` of a legacy client: waits for the end of the task. What its server asks meanwhile
/// comes on the stream of this request.
pub(crate) async fn result(
    tasks: &ClientTasks,
    request: &ClientRequest,
    responder: Responder,
    cancel: &Notify,
) {
    let task = match task_of(tasks, request) {
        Ok(task) => task,
        Err(error) => return responder.error(&error).await,
    };
    let redirection = TaskRedirection::begin(&task, request, &responder.outbound);
    let mut end = task.end.subscribe();
    let ended = tokio::select! {
        ended = end.wait_for(Option::is_some) => ended.ok().and_then(|end| end.clone()),
        () = cancel.notified() => return,
        () = responder.outbound.closed() => return,
    };
    drop(redirection);
    match ended.map(|end| end.outcome) {
        Some(TaskOutcome::Completed(result)) => {
            responder.result(&related(&result, &task.id)).await;
        }
        Some(TaskOutcome::Failed(error)) => responder.error(&error).await,
        Some(TaskOutcome::Cancelled) | None => {
            let error = ErrorReply::invalid_params("the task was cancelled");
            responder.error(&error).await;
        }
    }
}

/// Messages of a task go to the stream of a `tasks/result` until this is dropped.
struct TaskRedirection<'a> {
    caller: &'a RequestCaller,
    outbound: Outbound,
}

impl<'a> TaskRedirection<'a> {
    /// `None` if the task has ended, or if this client cannot answer what the one that made the task
    /// can.
    fn begin(task: &'a ClientTask, request: &ClientRequest, outbound: &Outbound) -> Option<Self> {
        let caller = &*task.caller;
        let is_other = request.client.number != caller.client.number;
        if is_other && request.capabilities != caller.capabilities {
            return None;
        }
        let mut route = lock(&caller.route);
        let route = route.as_mut()?;
        route.outbound = outbound.clone();
        route.other_client = is_other.then(|| request.client.clone());
        let outbound = outbound.clone();
        Some(Self { caller, outbound })
    }
}

impl Drop for TaskRedirection<'_> {
    fn drop(&mut self) {
        let general = route(self.caller);
        let mut current = lock(&self.caller.route);
        let is_own = |route: &RequestRoute| route.outbound.is_same_queue(&self.outbound);
        // A later `tasks/result` may have replaced it.
        if current.as_ref().is_some_and(is_own) {
            *current = general;
        }
    }
}

/// The route of a task's messages: a legacy client's queue for messages that belong to no request. A
/// modern client gets none.
pub(crate) fn route(caller: &RequestCaller) -> Option<RequestRoute> {
    let token = lock(&caller.route)
        .as_ref()
        .and_then(|route| route.progress_token.clone());
    (caller.era == Era::Legacy).then(|| RequestRoute {
        outbound: caller.client.outbound.clone(),
        progress_token: token,
        other_client: None,
    })
}
