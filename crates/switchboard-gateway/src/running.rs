//! The requests in flight at servers: shown to operators, who can cancel them, and cancelled when a
//! connection ends.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use switchboard::RawJson;
use switchboard::sync::lock;
use tokio::sync::Notify;

use crate::Principal;

const CANCELLED_BY_OPERATOR: &str = "an operator cancelled the request; it may have run";
const ENDED_BY_GATEWAY: &str =
    "the gateway ended before the request did; it may have run, so look before you repeat it";

/// All requests in flight at servers.
#[derive(Debug, Default)]
pub struct RunningRequests(Mutex<RunningState>);

#[derive(Debug, Default)]
struct RunningState {
    last_id: u64,
    requests: HashMap<u64, Arc<RunningRequest>, RandomState>,
}

#[derive(Debug)]
pub(crate) struct RunningRequest {
    /// The number of the client.
    pub(crate) client: u64,
    pub(crate) principal: Principal,
    pub(crate) method: Cow<'static, str>,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Option<RawJson>,
    pub(crate) began: Instant,
    /// Wakes the task of the request; the client's cancellation does so, too.
    pub(crate) cancel: Arc<Notify>,
    /// Why it is cancelled, if not by its client.
    pub(crate) reason: OnceLock<&'static str>,
    /// How many questions its client has not answered.
    pub(crate) open_questions: Arc<AtomicUsize>,
}

/// A request in flight at a server, for display.
#[derive(Debug, Clone)]
pub struct ShownRequest {
    /// Its number for an operator.
    pub id: u64,
    /// The client that made it.
    pub principal: Principal,
    /// The method.
    pub method: String,
    /// The tool, prompt or resource, as the client names it.
    pub name: String,
    /// A tool's arguments.
    pub arguments: Option<RawJson>,
    /// For how long.
    pub age: Duration,
    /// Whether a question waits for the client's answer.
    pub awaits_client: bool,
}

impl RunningRequests {
    /// A request begins; it ends when the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, request: RunningRequest) -> RunningGuard {
        let request = Arc::new(request);
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

    /// The number of a request that no server gets.
    pub(crate) fn next_id(&self) -> u64 {
        let mut state = lock(&self.0);
        state.last_id += 1;
        state.last_id
    }

    /// The requests, the oldest first.
    pub fn shown(&self) -> Vec<ShownRequest> {
        let shown = |(id, request): (&u64, &Arc<RunningRequest>)| ShownRequest {
            id: *id,
            principal: request.principal.clone(),
            method: request.method.to_string(),
            name: request.name.to_string(),
            arguments: request.arguments.clone(),
            age: request.began.elapsed(),
            awaits_client: request.open_questions.load(Ordering::Relaxed) > 0,
        };
        let mut requests: Vec<_> = lock(&self.0).requests.iter().map(shown).collect();
        requests.sort_unstable_by_key(|request| request.id);
        requests
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.0).requests.len()
    }

    /// An operator cancels a request. False if it has ended.
    pub fn cancel(&self, id: u64) -> bool {
        let state = lock(&self.0);
        let found = state.requests.get(&id);
        found.inspect(|request| request.cancel(CANCELLED_BY_OPERATOR));
        found.is_some()
    }

    /// Cancels the requests of one client, or of all: they are answered with an error that says why.
    pub(crate) fn end(&self, client: Option<u64>) {
        for request in lock(&self.0).requests.values() {
            if client.is_none_or(|client| client == request.client) {
                request.cancel(ENDED_BY_GATEWAY);
            }
        }
    }
}

impl RunningRequest {
    fn cancel(&self, reason: &'static str) {
        let _ = self.reason.set(reason);
        self.cancel.notify_one();
    }
}

/// A request in flight at a server; removed when this is dropped.
pub(crate) struct RunningGuard {
    all: Arc<RunningRequests>,
    /// The number of the request for an operator.
    pub(crate) id: u64,
    request: Arc<RunningRequest>,
}

impl RunningGuard {
    /// When it began.
    pub(crate) fn began(&self) -> Instant {
        self.request.began
    }

    /// Completes when the request is cancelled: with the reason, unless its client cancels it.
    pub(crate) async fn cancelled(&self) -> Option<&'static str> {
        if self.request.reason.get().is_none() {
            self.request.cancel.notified().await;
        }
        self.request.reason.get().copied()
    }

    /// The same for a request that its client cannot cancel.
    pub(crate) async fn ended(&self) -> &'static str {
        loop {
            if let Some(reason) = self.cancelled().await {
                return reason;
            }
        }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        lock(&self.all.0).requests.remove(&self.id);
    }
}
