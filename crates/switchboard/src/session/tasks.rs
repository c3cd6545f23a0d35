//! Follows a call whose result is a task to its end: polls it, reports progress, and cancels it
//! when the caller is gone, within the call's deadlines.
//!
//! There are two kinds: the experiment of 2025-11-25 (`legacy::tasks`), where the client requests a
//! task and fetches its result; and the modern extension (`modern::tasks`), where the server may
//! answer with a task and the result comes with its state.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::in_flight::{DeadlineCheck, InFlightCall};
use super::peer::{OutboundRequest, ParamField, Peer, json_string};
use super::{RequestFault, RequestResult, TaskFault};
use crate::transport::TransportFault;

/// The state of a task, of either kind.
mod state;

/// The tasks that are followed now, so that messages of the server find their call.
mod table;

pub(super) use state::{TaskState, TaskStatus};
pub(super) use table::{FollowedTask, TaskTable, with_related_task, with_related_task_raw};

/// The shortest polling interval, however often a server reports changes.
pub(super) const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// The longest polling interval, whatever the server names.
const LONGEST_INTERVAL: Duration = Duration::from_secs(30);

/// The polling interval if the server names none.
const USUAL_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait for the response to a cancellation.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of consecutive polls that the transport may lose: a poll only reads, so it is
/// repeated.
pub(super) const MAX_LOST: u32 = 3;

/// The task is unknown: it never existed, or no longer does.
const INVALID_PARAMS: i64 = -32602;

/// Follows one task while its call waits for it. Dropping it before the task's end cancels the
/// task.
pub(super) struct TaskFollower<'a> {
    pub(super) peer: &'a Peer,
    /// The common part of requests about the task.
    template: OutboundRequest<'a>,
    can_cancel: bool,
    followed: Arc<FollowedTask>,
    id: String,
    pub(super) id_json: Vec<u8>,
    /// The last status message that was reported to the caller.
    reported: Option<String>,
    /// The number of reports so far.
    report_count: u32,
    /// Whether there is nothing left to cancel.
    pub(super) is_over: bool,
}

impl<'a> TaskFollower<'a> {
    pub(super) fn new(
        peer: &'a Peer,
        template: OutboundRequest<'a>,
        can_cancel: bool,
        followed: Arc<FollowedTask>,
        task: &TaskState,
    ) -> Self {
        followed.created(&task.id);
        followed.call.caller().became_task();
        Self {
            peer,
            template,
            can_cancel,
            followed,
            id: task.id.clone(),
            id_json: json_string(&task.id),
            reported: None,
            report_count: 0,
            is_over: false,
        }
    }

    pub(super) fn call(&self) -> &Arc<InFlightCall> {
        &self.followed.call
    }

    /// Reports the server's status message to the caller as progress, if it is a new one.
    pub(super) fn report(&mut self, task: &TaskState) {
        self.is_over |= task.status.is_end();
        let Some(message) = &task.message else { return };
        if self.reported.as_ref() != Some(message) {
            self.report_count += 1;
            let words = self.peer.receiver.options.redactor.words(message);
            self.followed.report(self.report_count, words);
            self.reported = Some(message.clone());
        }
    }

    /// The state after the interval, or earlier if the server reports a change.
    pub(super) async fn next(&mut self, interval: Duration) -> Result<TaskState, RequestFault> {
        let mut lost = 0;
        loop {
            self.pause(interval).await?;
            let fields: [ParamField<'_>; 1] = [("taskId", &self.id_json)];
            match self.request("tasks/get", &fields).await {
                Ok(state) => {
                    // The response restarts the idle deadline like progress; the total deadline
                    // stays.
                    self.call().deadlines.restart_idle(Instant::now());
                    let task = TaskState::read(&state)?;
                    if task.id != self.id {
                        return Err(RequestFault::Invalid(
                            "the response describes another task".into(),
                        ));
                    }
                    return Ok(task);
                }
                Err(RequestFault::ErrorResponse {
                    code: INVALID_PARAMS,
                    message,
                    ..
                }) => {
                    self.is_over = true;
                    return Err(RequestFault::Task(TaskFault::Expired(message)));
                }
                Err(fault) if is_lost(&fault) && lost < MAX_LOST => lost += 1,
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Sends a request about the task, within the call's deadlines.
    pub(super) async fn request(&self, method: &str, fields: &[ParamField<'_>]) -> RequestResult {
        let request = OutboundRequest {
            method,
            fields,
            name: Some(&self.id),
            ..self.template
        };
        self.peer.request_for(self.call(), &request).await
    }

    /// Waits until the next poll: for the interval, or until the server reports a change.
    pub(super) async fn pause(&self, interval: Duration) -> Result<(), RequestFault> {
        self.sleep(SHORTEST_INTERVAL).await?;
        tokio::select! {
            outcome = self.sleep(interval.saturating_sub(SHORTEST_INTERVAL)) => outcome,
            () = self.followed.changed.notified() => Ok(()),
        }
    }

    /// Sleeps within the call's deadlines and the connection's life.
    async fn sleep(&self, time: Duration) -> Result<(), RequestFault> {
        let until = Instant::now() + time;
        loop {
            let now = Instant::now();
            let check_at = match self.call().deadlines.check(now) {
                DeadlineCheck::Wait(until) => until,
                DeadlineCheck::Late(fault) => return Err(fault),
            };
            if now >= until {
                return Ok(());
            }
            tokio::select! {
                () = sleep_until(until.min(check_at)) => {}
                reason = self.peer.receiver.end_reason() => return Err(RequestFault::Closed(reason)),
            }
        }
    }
}

impl Drop for TaskFollower<'_> {
    fn drop(&mut self) {
        self.peer.receiver.tasks.remove(&self.followed);
        if let Some(request) = self.followed.request {
            self.peer.receiver.request_ended(request);
        }
        if !self.is_over && self.can_cancel {
            cancel(self.peer, self.template, &self.id);
        }
    }
}

/// Cancels the task on the server.
pub(super) fn cancel(peer: &Peer, template: OutboundRequest<'_>, id: &str) {
    let id_json = json_string(id);
    let fields: [ParamField<'_>; 1] = [("taskId", &id_json)];
    peer.send_and_forget(
        OutboundRequest {
            method: "tasks/cancel",
            fields: &fields,
            name: Some(id),
            ..template
        },
        CANCEL_TIMEOUT,
    );
}

pub(super) fn cancelled(task: &TaskState) -> RequestFault {
    RequestFault::Task(TaskFault::Cancelled(task.words()))
}

/// Whether the transport brought no response; a request that only reads may then be repeated.
pub(super) fn is_lost(fault: &RequestFault) -> bool {
    matches!(
        fault,
        RequestFault::Transport(TransportFault::NotSent(_) | TransportFault::Lost(_))
    )
}
