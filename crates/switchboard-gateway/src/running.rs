//! The requests that are with servers now, for an operator who looks at them or cancels one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::Principal;
use crate::gateway::lock;

/// All requests that are with servers.
#[derive(Debug, Default)]
pub struct RunningRequests(Mutex<RunningState>);

#[derive(Debug, Default)]
struct RunningState {
    last_id: u64,
    requests: BTreeMap<u64, Arc<RunningRequest>>,
}

#[derive(Debug)]
struct RunningRequest {
    principal: Principal,
    method: String,
    name: String,
    began: Instant,
    cancel: Notify,
}

/// A request that is with a server, as it is shown.
#[derive(Debug, Clone)]
pub struct ShownRequest {
    /// What an operator names it by.
    pub id: u64,
    /// Whose request it is.
    pub principal: Principal,
    /// The method.
    pub method: String,
    /// The tool, prompt or resource, as the client names it.
    pub name: String,
    /// For how long.
    pub age: Duration,
}

impl RunningRequests {
    /// A request begins; it ends when the guard is dropped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        principal: &Principal,
        method: &str,
        name: &str,
    ) -> RunningGuard {
        let request = Arc::new(RunningRequest {
            principal: principal.clone(),
            method: method.to_owned(),
            name: name.to_owned(),
            began: Instant::now(),
            cancel: Notify::new(),
        });
        let mut state = lock(&self.0);
        state.last_id += 1;
        let id = state.last_id;
        state.requests.insert(id, request.clone());
        drop(state);
        RunningGuard {
            all: self.clone(),
            id,
            request,
        }
    }

    /// The requests, the oldest first.
    pub fn shown(&self) -> Vec<ShownRequest> {
        let shown = |(id, request): (&u64, &Arc<RunningRequest>)| ShownRequest {
            id: *id,
            principal: request.principal.clone(),
            method: request.method.clone(),
            name: request.name.clone(),
            age: request.began.elapsed(),
        };
        lock(&self.0).requests.iter().map(shown).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.0).requests.len()
    }

    /// An operator cancels a request. False if it has ended.
    pub fn cancel(&self, id: u64) -> bool {
        let state = lock(&self.0);
        let found = state.requests.get(&id);
        found.inspect(|request| request.cancel.notify_one());
        found.is_some()
    }
}

/// A request while it is with a server.
pub(crate) struct RunningGuard {
    all: Arc<RunningRequests>,
    id: u64,
    request: Arc<RunningRequest>,
}

impl RunningGuard {
    /// Completes when an operator cancels the request.
    pub(crate) async fn cancelled(&self) {
        self.request.cancel.notified().await;
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        lock(&self.all.0).requests.remove(&self.id);
    }
}
