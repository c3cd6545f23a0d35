//! The tasks that are followed now, so that what the server says of them (progress, a change, a
//! question) finds the call they belong to.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::caller::CallerId;
use crate::secret::Redacted;
use crate::session::ongoing::Ongoing;
use crate::session::receiver::Receiver;
use crate::session::{Hello, Revision};
use crate::wire::RawJson;

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The table, and what a legacy server declared.
#[derive(Debug, Default)]
pub(in crate::session) struct Tasks {
    followed: Mutex<Vec<Arc<Followed>>>,
    declared: OnceLock<Declared>,
}

/// What a legacy server can do with tasks.
#[derive(Debug, Clone, Copy, Default)]
struct Declared {
    calls: bool,
    cancel: bool,
}

/// One call that became a task, or was asked to become one.
#[derive(Debug)]
pub(in crate::session) struct Followed {
    /// The legacy request that it came from, whose progress token stays valid.
    pub(super) request: Option<u64>,
    /// Known once it is created.
    id: OnceLock<String>,
    pub(super) ongoing: Arc<Ongoing>,
    /// Rung when the server says that the task changed; whoever follows it waits.
    pub(super) changed: Notify,
    /// The last progress in numbers, which the server's words then go with.
    reached: Mutex<Option<(f64, Option<f64>)>>,
}

impl Followed {
    pub(super) fn created(&self, id: &str) {
        // A task is created once; who follows it does this.
        let _ = self.id.set(id.to_owned());
    }

    /// Tells the caller the server's words: with the progress made, or counted where there are no
    /// numbers.
    pub(super) fn tell(&self, count: u32, words: Redacted) {
        let (progress, total) = self.reached().unwrap_or((f64::from(count), None));
        self.ongoing.progress(progress, total, Some(words));
    }

    fn reached(&self) -> MutexGuard<'_, Option<(f64, Option<f64>)>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tasks {
    fn followed(&self) -> MutexGuard<'_, Vec<Arc<Followed>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what a legacy server declared.
    pub(in crate::session) fn learn(&self, hello: &Hello) {
        let capabilities = hello.capabilities.to_value().unwrap_or_default();
        let tasks = &capabilities["tasks"];
        let declared = Declared {
            calls: tasks["requests"]["tools"]["call"].is_object(),
            cancel: tasks["cancel"].is_object(),
        };
        // Only 2025-11-25 has them, whatever else declares them.
        let declared = if hello.revision == Revision::V2025_11_25 {
            declared
        } else {
            Declared::default()
        };
        self.declared
            .set(declared)
            .expect("a session shakes hands once");
    }

    /// Whether a call may ask to become a task.
    pub(super) fn may_be_asked_for(&self) -> bool {
        self.declared.get().is_some_and(|declared| declared.calls)
    }

    pub(super) fn can_cancel(&self) -> bool {
        self.declared.get().is_some_and(|declared| declared.cancel)
    }

    pub(super) fn add(&self, request: Option<u64>, ongoing: &Arc<Ongoing>) -> Arc<Followed> {
        let followed = Arc::new(Followed {
            request,
            id: OnceLock::new(),
            ongoing: ongoing.clone(),
            changed: Notify::new(),
            reached: Mutex::default(),
        });
        self.followed().push(followed.clone());
        followed
    }

    pub(super) fn remove(&self, followed: &Arc<Followed>) {
        self.followed()
            .retain(|other| !Arc::ptr_eq(other, followed));
    }

    pub(super) fn count(&self) -> usize {
        self.followed().len()
    }

    fn by_id(&self, id: &str) -> Option<Arc<Followed>> {
        self.followed()
            .iter()
            .find(|followed| followed.id.get().is_some_and(|own| own == id))
            .cloned()
    }

    fn by_request(&self, request: u64) -> Option<Arc<Followed>> {
        self.followed()
            .iter()
            .find(|followed| followed.request == Some(request))
            .cloned()
    }
}

impl Receiver {
    /// The server says that a task changed, in either kind's words. What it became is asked for:
    /// not every server says it all.
    pub(in crate::session) fn task_changed(&self, params: Option<&RawJson>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            task_id: String,
        }
        let Some(Wire { task_id }) = params.and_then(|params| params.decode().ok()) else {
            return;
        };
        for followed in self.tasks.followed().iter() {
            // One whose creation is just being read may be the one.
            if followed.id.get().is_none_or(|id| *id == task_id) {
                followed.changed.notify_one();
            }
        }
    }

    /// The request of a caller under this id: waiting for its answer, or for the task that was its
    /// answer.
    pub(in crate::session) fn ongoing(&self, request: u64) -> Option<Arc<Ongoing>> {
        let task = || {
            self.tasks
                .by_request(request)
                .map(|followed| followed.ongoing.clone())
        };
        self.pending.ongoing(request).or_else(task)
    }

    /// Every request of a caller that is under way, a task between two polls included.
    /// And whose requests were given up not long ago.
    pub(in crate::session) fn suspects(&self) -> (Vec<(u64, Arc<Ongoing>)>, Vec<CallerId>) {
        let tasks: Vec<(u64, Arc<Ongoing>)> = self
            .tasks
            .followed()
            .iter()
            .filter_map(|followed| Some((followed.request?, followed.ongoing.clone())))
            .collect();
        let (mut all, gone) = self.pending.suspects();
        // A poll under way is the task's own.
        all.retain(|(_, ongoing)| !tasks.iter().any(|(_, task)| Arc::ptr_eq(task, ongoing)));
        all.extend(tasks);
        (all, gone)
    }

    /// Notes how far a task is, in numbers.
    pub(in crate::session) fn task_reached(&self, request: u64, progress: f64, total: Option<f64>) {
        if let Some(followed) = self.tasks.by_request(request) {
            *followed.reached() = Some((progress, total));
        }
    }

    /// Where a question says which task it is of: that call, or nothing where we follow no such
    /// task. `None`: it does not say.
    pub(in crate::session) fn asked_for_task(
        &self,
        params: Option<&RawJson>,
    ) -> Option<Vec<(u64, Arc<Ongoing>)>> {
        let followed = self.tasks.by_id(&related_task(params?)?);
        Some(
            followed
                .and_then(|followed| Some((followed.request?, followed.ongoing.clone())))
                .into_iter()
                .collect(),
        )
    }
}

/// What the answer to a question of a task must carry: the task's id, as the question has it.
pub(in crate::session) fn in_answer(params: Option<&RawJson>, mut result: Value) -> Value {
    if let Some(id) = params.and_then(related_task) {
        result["_meta"][RELATED_TASK] = json!({"taskId": id});
    }
    result
}

/// The same for an answer that is passed on as it is.
pub(in crate::session) fn in_raw_answer(params: &RawJson, answer: RawJson) -> RawJson {
    match (related_task(params), answer.to_value()) {
        (Some(_), Ok(result @ Value::Object(_))) => {
            RawJson::from_value(&in_answer(Some(params), result))
        }
        _ => answer,
    }
}

fn related_task(params: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/related-task")]
        related: Related,
    }
    #[derive(Deserialize)]
    struct Related {
        #[serde(rename = "taskId")]
        id: String,
    }
    // Most questions are of no task.
    memchr::memmem::find(params.as_bytes(), RELATED_TASK.as_bytes())?;
    params
        .decode::<Wire>()
        .ok()
        .map(|wire| wire.meta.related.id)
}
