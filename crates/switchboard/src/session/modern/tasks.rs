//! Modern tasks: the server may answer any call with a task, and the result comes with the task's
//! state.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::input::InputResponder;
use crate::session::fault::read_error;
use crate::session::in_flight::InFlightCall;
use crate::session::peer::{OutboundRequest, ParamField, Peer, PendingResponse};
use crate::session::result_kind::check_complete;
use crate::session::tasks::{
    MAX_LOST, SHORTEST_INTERVAL, TaskFollower, TaskState, TaskStatus, cancelled, is_lost,
};
use crate::session::{RequestFault, RequestResult, TaskFault};
use crate::wire::RawJson;

/// The extension that we declare.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// If polls are at least this far apart, the server is also asked to report changes.
const LISTEN_FROM: Duration = Duration::from_secs(5);

/// The most tasks with such a request open: each occupies one of the request slots that polls need.
const MAX_LISTENING: usize = 32;

/// The most times that a task may require input.
const MAX_INPUTS: usize = 64;

/// Follows the task in a result to its end. Returns the final result, byte for byte.
pub(super) async fn follow(
    peer: &Peer,
    call: &Arc<InFlightCall>,
    template: OutboundRequest<'_>,
    created: &RawJson,
) -> RequestResult {
    let mut task = TaskState::read(created)?;
    let followed = peer.receiver.tasks.add(None, call);
    let mut follower = TaskFollower::new(peer, template, true, followed, &task);
    let _listening = listen(&follower, template, &task);
    // A server may repeat input requests that were answered.
    let mut answered = HashSet::new();
    let mut lost = 0;
    loop {
        follower.report(&task);
        match task.status {
            TaskStatus::Working => {}
            TaskStatus::InputRequired => {
                match provide_input(&follower, &task, &mut answered).await {
                    Ok(()) => {}
                    Err(fault) if is_lost(&fault) && lost < MAX_LOST => lost += 1,
                    Err(fault) => return Err(fault),
                }
            }
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => {
                return result_of(&task);
            }
        }
        task = follower.next(task.interval).await?;
    }
}

/// Asks the server to report changes if polls are far apart. It may refuse.
fn listen<'a>(
    follower: &TaskFollower<'a>,
    template: OutboundRequest<'_>,
    task: &TaskState,
) -> Option<PendingResponse<'a>> {
    if task.interval < LISTEN_FROM || task.status.is_end() {
        return None;
    }
    if follower.peer.receiver.tasks.count() > MAX_LISTENING {
        return None;
    }
    let filter = [br#"{"taskIds":["#, &*follower.id_json, b"]}"].concat();
    let fields: [ParamField<'_>; 1] = [("notifications", &filter)];
    let request = OutboundRequest {
        method: "subscriptions/listen",
        fields: &fields,
        ..template
    };
    follower.peer.start(request).ok()
}

/// Asks the caller for the input that the task requires, and sends it to the server.
async fn provide_input(
    follower: &TaskFollower<'_>,
    task: &TaskState,
    answered: &mut HashSet<String>,
) -> Result<(), RequestFault> {
    let requests: Vec<(String, RawJson)> = task
        .input_requests
        .iter()
        .filter(|(key, _)| !answered.contains(key))
        .cloned()
        .collect();
    if requests.is_empty() {
        return Ok(());
    }
    if answered.len() + requests.len() > MAX_INPUTS {
        return Err(RequestFault::Invalid(format!(
            "the task required input {MAX_INPUTS} times without completing"
        )));
    }
    let responses = InputResponder::new(follower.peer, follower.call())
        .respond(&requests)
        .await?;
    let fields: [ParamField<'_>; 2] = [
        ("taskId", &follower.id_json),
        ("inputResponses", &responses),
    ];
    let mut lost = 0;
    loop {
        // May be sent again: the server ignores input that it already has.
        match follower.request("tasks/update", &fields).await {
            Ok(_) => break,
            Err(fault) if is_lost(&fault) && lost < MAX_LOST => lost += 1,
            Err(fault) => return Err(fault),
        }
        follower.pause(SHORTEST_INTERVAL).await?;
    }
    answered.extend(requests.into_iter().map(|(key, _)| key));
    Ok(())
}

/// The result of a task that has ended. Before its end the task's own state requires input, so that
/// the result must be complete.
fn result_of(task: &TaskState) -> RequestResult {
    match (task.status, &task.result, &task.error) {
        (TaskStatus::Completed, Some(result), _) => {
            check_complete(result)?;
            Ok(result.clone())
        }
        (TaskStatus::Completed, None, _) => Err(RequestFault::Invalid(
            "a completed task without its result".into(),
        )),
        (TaskStatus::Failed, _, Some(error)) => Err(read_error(error)),
        (TaskStatus::Failed, _, None) => Err(RequestFault::Task(TaskFault::Failed(task.words()))),
        _ => Err(cancelled(task)),
    }
}
