//! The tasks that answer requests. One that has answered waits a while for the next request: making
//! a task takes longer than most of what a request needs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard::sync::lock;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::client::Responder;
use crate::dispatch::{self, ClientRequest};

/// How many tasks may wait.
const MAX_IDLE: usize = 64;

/// How long one waits.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The tasks of one gateway that wait; they end with it.
#[derive(Debug, Default)]
pub(crate) struct RequestTasks(Arc<Mutex<IdleTasks>>);

#[derive(Debug, Default)]
struct IdleTasks {
    /// The last that began to wait is used first, so that those that are not needed end.
    slots: Vec<Arc<TaskSlot>>,
    is_closed: bool,
}

/// Where a waiting task gets its next request.
#[derive(Debug, Default)]
struct TaskSlot {
    next: Mutex<Option<BegunRequest>>,
    wake: Notify,
}

/// A request that a task answers.
#[derive(Debug)]
pub(crate) struct BegunRequest {
    pub(crate) request: ClientRequest,
    pub(crate) responder: Responder,
    pub(crate) cancel: Arc<Notify>,
}

impl RequestTasks {
    /// Answers a request on a task that waits, or on a new one.
    pub(crate) fn answer(&self, begun: BegunRequest) {
        let slot = lock(&self.0).slots.pop();
        match slot {
            Some(slot) => {
                *lock(&slot.next) = Some(begun);
                slot.wake.notify_one();
            }
            None => {
                tokio::spawn(answer_requests(begun, self.0.clone()));
            }
        }
    }
}

impl Drop for RequestTasks {
    fn drop(&mut self) {
        let mut idle = lock(&self.0);
        idle.is_closed = true;
        for slot in idle.slots.drain(..) {
            slot.wake.notify_one();
        }
    }
}

/// One task: its requests, until it waited too long or the gateway has ended.
async fn answer_requests(first: BegunRequest, idle: Arc<Mutex<IdleTasks>>) {
    let slot = Arc::<TaskSlot>::default();
    let mut next = Some(first);
    while let Some(begun) = next {
        dispatch::run(begun).await;
        next = slot.next(&idle).await;
    }
}

impl TaskSlot {
    /// Waits for the next request; `None` if the task shall end.
    async fn next(self: &Arc<Self>, idle: &Mutex<IdleTasks>) -> Option<BegunRequest> {
        if !lock(idle).add(self) {
            return None;
        }
        let waited = timeout(IDLE_TIMEOUT, self.wake.notified()).await;
        if waited.is_err() {
            if lock(idle).remove(self) {
                return None;
            }
            // It was taken a moment ago: a request comes.
            self.wake.notified().await;
        }
        lock(&self.next).take()
    }
}

impl IdleTasks {
    /// False if no more may wait.
    fn add(&mut self, slot: &Arc<TaskSlot>) -> bool {
        let has_room = !self.is_closed && self.slots.len() < MAX_IDLE;
        if has_room {
            self.slots.push(slot.clone());
        }
        has_room
    }

    /// False if it does not wait any more.
    fn remove(&mut self, slot: &Arc<TaskSlot>) -> bool {
        let place = self.slots.iter().position(|other| Arc::ptr_eq(other, slot));
        place.map(|place| self.slots.remove(place)).is_some()
    }
}
