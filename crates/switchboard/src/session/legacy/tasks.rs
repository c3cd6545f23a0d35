//! The experimental tasks of 2025-11-25: a tool that requires it is called as a task, whose result
//! is then fetched.

use std::pin::pin;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until, timeout};

use crate::session::in_flight::{ANSWER_TIMEOUT, DeadlineCheck, InFlightCall};
use crate::session::peer::{OutboundRequest, ParamField, Peer};
use crate::session::tasks::{
    CANCEL_TIMEOUT, FollowedTask, MAX_LOST, TaskFollower, TaskState, TaskStatus, cancel, cancelled,
    is_lost,
};
use crate::session::{Hello, RequestFault, RequestResult, Revision};
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// The server's support for tasks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TaskCapabilities {
    /// Whether tools may be called as tasks.
    pub(super) calls: bool,
    /// Whether tasks may be cancelled.
    cancel: bool,
}

impl TaskCapabilities {
    pub(super) fn of(hello: &Hello) -> Self {
        // Only this revision has tasks, whatever a server of another declares.
        if hello.revision != Revision::V2025_11_25 {
            return Self::default();
        }
        let declares = |path: &[&str]| {
            let declared = hello.capabilities.member_at(path);
            declared.is_some_and(|value| value.starts_with('{'))
        };
        Self {
            calls: declares(&["tasks", "requests", "tools", "call"]),
            cancel: declares(&["tasks", "cancel"]),
        }
    }
}

/// Calls a tool as a task and follows the task to its end.
pub(super) async fn call_as_task(
    peer: &Peer,
    call: &Arc<InFlightCall>,
    request: OutboundRequest<'_>,
    capabilities: TaskCapabilities,
) -> RequestResult {
    // The server must keep the task for as long as the call may take, including questions.
    let ttl = call.deadlines.total() + ANSWER_TIMEOUT;
    let task = RawJson::from_value(&json!({"ttl": ttl.as_millis() as u64}));
    let mut fields: Vec<ParamField<'_>> = request.fields.to_vec();
    fields.push(("task", task.as_bytes()));
    let request = OutboundRequest {
        fields: &fields,
        ..request
    };
    let id = peer.send_for(call, request).await?;
    let mut creation = TaskCreation {
        peer,
        id,
        is_answered: false,
        followed: peer.receiver.tasks.add(Some(id), call),
        capabilities,
    };
    let result = creation.response().await?;
    match created(&result)? {
        Some(task) => {
            let template = super::request("", &[]);
            let followed = creation.followed.clone();
            let follower = TaskFollower::new(peer, template, capabilities.cancel, followed, &task);
            follow(follower, task).await
        }
        // The server responded with the result instead of a task.
        None => Ok(result),
    }
}

async fn follow(mut follower: TaskFollower<'_>, mut task: TaskState) -> RequestResult {
    let mut lost = 0;
    loop {
        follower.report(&task);
        match task.status {
            TaskStatus::Working => {}
            TaskStatus::Cancelled => return Err(cancelled(&task)),
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired => {
                match fetch_result(&mut follower, &task).await {
                    Ok(result) => {
                        follower.is_over = true;
                        return Ok(result);
                    }
                    Err(fault) if is_lost(&fault) && lost < MAX_LOST => lost += 1,
                    Err(fault) => return Err(fault),
                }
            }
        }
        task = follower.next(task.interval).await?;
    }
}

/// The result of a task. Until it arrives, the server may ask questions, and the task's state is
/// polled.
async fn fetch_result(follower: &mut TaskFollower<'_>, task: &TaskState) -> RequestResult {
    let (peer, call) = (follower.peer, follower.call().clone());
    let id_json = follower.id_json.clone();
    let fields: [ParamField<'_>; 1] = [("taskId", &id_json)];
    let request = super::request("tasks/result", &fields);
    let mut result = pin!(peer.request_for(&call, &request));
    let (mut is_end, mut interval, mut words) =
        (task.status.is_end(), task.interval, task.message.clone());
    let result = loop {
        tokio::select! {
            biased;
            result = &mut result => break result,
            next = follower.next(interval), if !is_end => {
                let next = next?;
                follower.report(&next);
                (is_end, interval, words) = (next.status.is_end(), next.interval, next.message);
            }
        }
    };
    match (result, words) {
        // The error is generic; the status message of the task may explain it better.
        (
            Err(RequestFault::ErrorResponse {
                code,
                message,
                data,
            }),
            Some(words),
        ) if is_end && !message.contains(&words) => {
            let words = Untrusted::new(words).for_terminal_line().to_string();
            Err(RequestFault::ErrorResponse {
                code,
                message: format!("{message} (of the task: {words})"),
                data,
            })
        }
        (result, _) => result,
    }
}

/// The task in a result, if there is one.
fn created(result: &RawJson) -> Result<Option<TaskState>, RequestFault> {
    #[derive(Deserialize)]
    struct CreateTaskResult<'a> {
        #[serde(borrow, default)]
        task: Option<&'a RawValue>,
    }
    let read: CreateTaskResult<'_> = result
        .decode()
        .map_err(|fault| RequestFault::Invalid(fault.to_string()))?;
    read.task
        .map(|task| TaskState::read(&result.part(task)))
        .transpose()
}

/// A request that creates a task. Such a request is not cancelled by a notification: if the caller
/// is dropped or the deadline passes, its response is still awaited, and the created task is
/// cancelled.
struct TaskCreation<'a> {
    peer: &'a Peer,
    id: u64,
    /// The response has arrived.
    is_answered: bool,
    followed: Arc<FollowedTask>,
    capabilities: TaskCapabilities,
}

impl TaskCreation<'_> {
    /// The response, within the call's deadlines.
    async fn response(&mut self) -> RequestResult {
        let mut response = pin!(self.peer.receiver.pending.response(self.id));
        loop {
            let check_at = match self.followed.call.deadlines.check(Instant::now()) {
                DeadlineCheck::Wait(until) => until,
                DeadlineCheck::Late(fault) => return Err(fault),
            };
            tokio::select! {
                biased;
                result = &mut response => {
                    self.is_answered = true;
                    return result;
                }
                () = sleep_until(check_at) => {}
            }
        }
    }
}

impl Drop for TaskCreation<'_> {
    fn drop(&mut self) {
        let (peer, id, capabilities) = (self.peer.clone(), self.id, self.capabilities);
        peer.receiver.tasks.remove(&self.followed);
        peer.receiver.request_ended(id);
        if self.is_answered {
            return;
        }
        peer.receiver.pending.detach_caller(id);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        // Ends with the response, with the connection, or after the timeout.
        runtime.spawn(async move {
            let response = peer.receiver.pending.response(id);
            match timeout(CANCEL_TIMEOUT, response).await {
                Ok(Ok(result)) => {
                    if let Ok(Some(task)) = created(&result)
                        && capabilities.cancel
                    {
                        cancel(&peer, super::request("", &[]), &task.id);
                    }
                }
                Ok(_) => {}
                Err(_) => {
                    peer.receiver.pending.abandon(id);
                    // Releases its room without a notification.
                    peer.transport.cancel(id);
                }
            }
        });
    }
}
