//! The tasks that are followed now: finds the call that a message about a task (progress, a change,
//! a question) belongs to.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::secret::Redacted;
use crate::session::in_flight::InFlightCall;
use crate::session::pending::CandidateCalls;
use crate::session::receiver::Receiver;
use crate::sync::lock;
use crate::wire::RawJson;

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// What its key ends with in every spelling: some JSON writers escape the slash.
const RELATED_TASK_END: &[u8] = b"related-task";

/// The followed tasks.
#[derive(Debug, Default)]
pub(in crate::session) struct TaskTable(Mutex<Vec<Arc<FollowedTask>>>);

/// One call that became a task, or requested one.
#[derive(Debug)]
pub(in crate::session) struct FollowedTask {
    /// The legacy request that created it, whose progress token stays valid.
    pub(in crate::session) request: Option<u64>,
    /// Set once the task is created.
    id: OnceLock<String>,
    pub(in crate::session) call: Arc<InFlightCall>,
    /// Notified when the server reports a change of the task. Its follower waits on it.
    pub(in crate::session) changed: Notify,
    /// The last numeric progress, reported along with the server's message.
    progress: Mutex<Option<(f64, Option<f64>)>>,
}

impl FollowedTask {
    pub(in crate::session) fn created(&self, id: &str) {
        // Called once, by the only follower.
        let _ = self.id.set(id.to_owned());
    }

    /// Reports the server's message to the caller: with the last progress, or with `count` if there
    /// are no numbers.
    pub(in crate::session) fn report(&self, count: u32, words: Redacted) {
        let (progress, total) = self.progress().unwrap_or((f64::from(count), None));
        self.call.progress(progress, total, Some(words), None);
    }

    fn progress(&self) -> MutexGuard<'_, Option<(f64, Option<f64>)>> {
        lock(&self.progress)
    }
}

impl TaskTable {
    fn followed(&self) -> MutexGuard<'_, Vec<Arc<FollowedTask>>> {
        lock(&self.0)
    }

    pub(in crate::session) fn add(
        &self,
        request: Option<u64>,
        call: &Arc<InFlightCall>,
    ) -> Arc<FollowedTask> {
        let followed = Arc::new(FollowedTask {
            request,
            id: OnceLock::new(),
            call: call.clone(),
            changed: Notify::new(),
            progress: Mutex::default(),
        });
        self.followed().push(followed.clone());
        followed
    }

    pub(in crate::session) fn remove(&self, followed: &Arc<FollowedTask>) {
        self.followed()
            .retain(|other| !Arc::ptr_eq(other, followed));
    }

    pub(in crate::session) fn count(&self) -> usize {
        self.followed().len()
    }

    /// Whether this request creates a task that is followed.
    pub(in crate::session) fn is_creation(&self, request: u64) -> bool {
        self.by_request(request).is_some()
    }

    fn by_id(&self, id: &str) -> Option<Arc<FollowedTask>> {
        self.followed()
            .iter()
            .find(|followed| followed.id.get().is_some_and(|own| own == id))
            .cloned()
    }

    fn by_request(&self, request: u64) -> Option<Arc<FollowedTask>> {
        self.followed()
            .iter()
            .find(|followed| followed.request == Some(request))
            .cloned()
    }
}

impl Receiver {
    /// Notifies the follower of a changed task, which polls the new state: not every server sends
    /// all of it.
    pub(in crate::session) fn task_changed(&self, params: Option<&RawJson>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct TaskStatusParams {
            task_id: String,
        }
        let Some(TaskStatusParams { task_id }) = params.and_then(|params| params.decode().ok())
        else {
            return;
        };
        for followed in self.tasks.followed().iter() {
            // A task whose id is not known yet may be the one.
            if followed.id.get().is_none_or(|id| *id == task_id) {
                followed.changed.notify_one();
            }
        }
    }

    /// The call whose request has this id: it waits for its response, or for the task that was its
    /// result.
    pub(in crate::session) fn call(&self, request: u64) -> Option<Arc<InFlightCall>> {
        let task = || {
            self.tasks
                .by_request(request)
                .map(|followed| followed.call.clone())
        };
        self.pending.call(request).or_else(task)
    }

    /// Every call that a message of the server may belong to, including a task between two polls.
    pub(in crate::session) fn candidate_calls(&self) -> CandidateCalls {
        let tasks: Vec<(u64, Arc<InFlightCall>)> = self
            .tasks
            .followed()
            .iter()
            .filter_map(|followed| Some((followed.request?, followed.call.clone())))
            .collect();
        let mut candidates = self.pending.candidates();
        // A poll in flight belongs to its task.
        let is_task =
            |call: &Arc<InFlightCall>| tasks.iter().any(|(_, task)| Arc::ptr_eq(task, call));
        candidates.in_flight.retain(|(_, call)| !is_task(call));
        candidates.in_flight.extend(tasks);
        candidates
    }

    /// Records the numeric progress of a task.
    pub(in crate::session) fn record_task_progress(
        &self,
        request: u64,
        progress: f64,
        total: Option<f64>,
    ) {
        if let Some(followed) = self.tasks.by_request(request) {
            *followed.progress() = Some((progress, total));
        }
    }

    /// The call of the task that a question names, or no call if that task is not followed. `None`:
    /// the question names no task.
    pub(in crate::session) fn call_of_task(
        &self,
        params: &RawJson,
    ) -> Option<Vec<(u64, Arc<InFlightCall>)>> {
        let followed = self.tasks.by_id(&related_task(params)?);
        let call = followed.and_then(|followed| Some((followed.request?, followed.call.clone())));
        Some(call.into_iter().collect())
    }
}

/// Adds the id of the task that a question belongs to, which its answer must repeat.
pub(in crate::session) fn with_related_task(params: Option<&RawJson>, mut result: Value) -> Value {
    if let Some(id) = params.and_then(related_task) {
        result["_meta"][RELATED_TASK] = json!({"taskId": id});
    }
    result
}

/// Like [`with_related_task`], for an answer that is passed on: the rest stays byte for byte.
pub(in crate::session) fn with_related_task_raw(params: &RawJson, answer: RawJson) -> RawJson {
    let (Some(id), Some(mut members)) = (related_task(params), answer.members()) else {
        return answer;
    };
    let meta = members.iter().position(|(key, _)| key == "_meta");
    let meta = meta.and_then(|place| members.remove(place).1.members());
    let mut meta = meta.unwrap_or_default();
    meta.retain(|(key, _)| key != RELATED_TASK);
    meta.push((RELATED_TASK.into(), RawJson::from(json!({"taskId": id}))));
    members.push(("_meta".into(), RawJson::from_members(&meta)));
    RawJson::from_members(&members)
}

fn related_task(params: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct RelatedParams {
        #[serde(rename = "_meta")]
        meta: RelatedMeta,
    }
    #[derive(Deserialize)]
    struct RelatedMeta {
        #[serde(rename = "io.modelcontextprotocol/related-task")]
        task: RelatedTask,
    }
    #[derive(Deserialize)]
    struct RelatedTask {
        #[serde(rename = "taskId")]
        id: String,
    }
    // Most questions belong to no task.
    memchr::memmem::find(params.as_bytes(), RELATED_TASK_END)?;
    params
        .decode::<RelatedParams>()
        .ok()
        .map(|params| params.meta.task.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_related_task_is_found_in_every_spelling_of_its_key() {
        for key in [RELATED_TASK, r"io.modelcontextprotocol\/related-task"] {
            let params = format!(r#"{{"_meta":{{"{key}":{{"taskId":"t-1"}}}}}}"#);
            let params = params.parse().expect("it is JSON");
            assert_eq!(related_task(&params).as_deref(), Some("t-1"), "{key}");
        }
    }
}
