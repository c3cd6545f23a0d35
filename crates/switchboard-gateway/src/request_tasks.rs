//! The tasks that answer deferred requests. A task waits a while for the next request, because
//! spawning one takes longer than most of the work for a request.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use switchboard::sync::lock;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::deferred::DeferredRequest;

/// How many tasks may wait.
const MAX_IDLE: usize = 64;

/// How long a task waits.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The tasks of one gateway. Those that wait end with the last clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestTasks(Arc<Mutex<IdleTasks>>);

#[derive(Debug, Default)]
struct IdleTasks {
    /// The last idle task is used first, so that surplus tasks end.
    slots: Vec<Arc<TaskSlot>>,
}

/// Passes the next request to a waiting task.
#[derive(Debug, Default)]
struct TaskSlot {
    next: Mutex<Option<DeferredRequest>>,
    wake: Notify,
}

impl RequestTasks {
    /// Answers a request on a task that waits, or on a new one.
    pub(crate) fn answer(&self, request: DeferredRequest) {
        let slot = lock(&self.0).slots.pop();
        match slot {
            Some(slot) => {
                *lock(&slot.next) = Some(request);
                slot.wake.notify_one();
            }
            None => {
                tokio::spawn(answer_requests(request, Arc::downgrade(&self.0)));
            }
        }
    }
}

/// Runs one task, until it has waited too long or the gateway ends.
async fn answer_requests(first: DeferredRequest, idle: Weak<Mutex<IdleTasks>>) {
    let slot = Arc::<TaskSlot>::default();
    let mut next = Some(first);
    while let Some(request) = next {
        request.run().await;
        next = slot.next(&idle).await;
    }
}

impl TaskSlot {
    /// Waits for the next request; `None` if the task shall end.
    async fn next(self: &Arc<Self>, idle: &Weak<Mutex<IdleTasks>>) -> Option<DeferredRequest> {
        if !lock(&*idle.upgrade()?).add(self) {
            return None;
        }
        let waited = timeout(IDLE_TIMEOUT, self.wake.notified()).await;
        if waited.is_err() {
            if lock(&*idle.upgrade()?).remove(self) {
                return None;
            }
            // The task was taken concurrently, so a request follows.
            self.wake.notified().await;
        }
        lock(&self.next).take()
    }
}

impl IdleTasks {
    /// Adds a waiting task; false if there are too many.
    fn add(&mut self, slot: &Arc<TaskSlot>) -> bool {
        let has_room = self.slots.len() < MAX_IDLE;
        if has_room {
            self.slots.push(slot.clone());
        }
        has_room
    }

    /// Removes a waiting task; false if it was taken already.
    fn remove(&mut self, slot: &Arc<TaskSlot>) -> bool {
        let place = self.slots.iter().position(|other| Arc::ptr_eq(other, slot));
        place.map(|place| self.slots.remove(place)).is_some()
    }
}

impl Drop for IdleTasks {
    /// A task that is woken without a request ends.
    fn drop(&mut self) {
        for slot in self.slots.drain(..) {
            slot.wake.notify_one();
        }
    }
}
