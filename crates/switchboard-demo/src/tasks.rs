//! Calls that become tasks: `errand` runs in the background, is polled for its state, and may ask a
//! question.
//!
//! Legacy (2025-11-25): the call asks to become a task, questions come while `tasks/result` waits.
//! Modern: the call is answered with a task where the peer declared the extension, questions stand
//! in `tasks/get`, answers come by `tasks/update`.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::era::{AskMode, RequestTerms};
use crate::exchange::{Call, Exchange, Outcome};
use crate::rpc::{self, Body, Fault};

/// The work itself.
mod errand;

use errand::{Arguments, Errand, Status};

/// The extension that a modern peer declares for tasks.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

const RELATED_KEY: &str = "io.modelcontextprotocol/related-task";

/// The one legacy revision that has tasks.
const LEGACY_VERSION: &str = "2025-11-25";

/// The interval at which a client shall poll.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a task is stored, unless the request asks for less.
const TIME_TO_LIVE: Duration = Duration::from_secs(15 * 60);

/// The most tasks at once.
const MAX_TASKS: usize = 1_000;

/// The tasks of all peers, by id. Ids cannot be guessed, so knowing one grants access.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<String, Arc<Errand>>>);

impl std::fmt::Debug for Tasks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tasks")
    }
}

impl Tasks {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Errand>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, time_to_live: Duration) -> Result<Arc<Errand>, Fault> {
        let mut table = self.table();
        table.retain(|_, errand| errand.is_kept(SystemTime::now()));
        if table.len() >= MAX_TASKS {
            return Err(Fault::invalid_request(format!(
                "{MAX_TASKS} tasks are there already"
            )));
        }
        let random = |salt: usize| RandomState::new().hash_one(salt);
        let id = format!("{:016x}{:016x}", random(table.len()), random(0));
        let errand = Arc::new(Errand::new(id.clone(), time_to_live));
        table.insert(id, errand.clone());
        Ok(errand)
    }

    fn of(&self, call: &Call<'_>) -> Result<Arc<Errand>, Fault> {
        let id = &*call.params.task_id;
        let found = self
            .table()
            .get(id)
            .filter(|errand| errand.is_kept(SystemTime::now()))
            .cloned();
        found.ok_or_else(|| {
            Fault::invalid_params(format!("no task {id:?}: there was none, or it has expired"))
        })
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for errand in self.table().values() {
            errand.cancel("the server ended");
        }
    }
}

/// Declares tasks in either handshake.
pub(crate) fn declare(capabilities: &mut Value, version: &str) {
    if version == LEGACY_VERSION {
        capabilities["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    } else if version == crate::era::MODERN_VERSION {
        capabilities["extensions"] = json!({EXTENSION: {}});
    }
}

/// The call that becomes a task.
pub(crate) fn begin(call: &Call<'_>) -> Result<Outcome, Fault> {
    let arguments: Arguments = match call.arguments() {
        Ok(arguments) => arguments,
        Err(failure) => return Ok(Outcome::Done(failure)),
    };
    if let Some(fault) = arguments.fault() {
        return Ok(Outcome::Done(Body::from_failure(fault)));
    }
    let time_to_live = match call.terms {
        RequestTerms::Modern(_) if declares(&call.terms.peer_capabilities()) => TIME_TO_LIVE,
        RequestTerms::Modern(_) => {
            return Err(Fault::missing_capability(
                json!({"extensions": {EXTENSION: {}}}),
            ));
        }
        RequestTerms::Legacy(_) if call.terms.version() != LEGACY_VERSION => {
            return Ok(Outcome::Done(Body::from_failure(
                "this tool runs as a task, and this revision has none",
            )));
        }
        RequestTerms::Legacy(_) => match call.params.task {
            Some(_) => requested_time_to_live(call)?,
            None => {
                return Err(Fault::unknown_method(
                    "tools/call of a tool that runs as a task only, without a task,",
                ));
            }
        },
    };
    if arguments.ask
        && let Err(required) = call.terms.may_ask(AskMode::Form)
    {
        let words = format!(
            "this errand asks a question, and the peer did not declare the capability {required}"
        );
        return Ok(Outcome::Done(Body::from_failure(words)));
    }
    let demo = &call.peer.demo;
    let errand = demo.tasks.add(time_to_live)?;
    let state = errand.as_value(call.terms.is_modern());
    // The task ends by itself, by cancellation, or with the server.
    tokio::spawn(errand::run(errand.clone(), arguments));
    Ok(match call.terms {
        RequestTerms::Legacy(_) => Outcome::Done(Body::from(json!({"task": state}))),
        RequestTerms::Modern(_) => Outcome::Task(Body::from(state)),
    })
}

fn declares(capabilities: &Value) -> bool {
    capabilities["extensions"][EXTENSION].is_object()
}

fn requested_time_to_live(call: &Call<'_>) -> Result<Duration, Fault> {
    #[derive(Deserialize)]
    struct TaskParams {
        ttl: Option<u64>,
    }
    let requested: TaskParams = rpc::read("task", call.params.task)?;
    Ok(requested.ttl.map_or(TIME_TO_LIVE, |ttl| {
        Duration::from_millis(ttl).min(TIME_TO_LIVE)
    }))
}

/// `tasks/get`, in either era.
pub(crate) fn get(call: &Call<'_>) -> Result<Body, Fault> {
    Ok(Body::from(allowed(call)?.as_value(call.terms.is_modern())))
}

/// `tasks/cancel`: a legacy peer gets the state of the task, a modern one an empty result.
pub(crate) fn cancel(call: &Call<'_>) -> Result<Body, Fault> {
    let errand = allowed(call)?;
    let is_cancelled = errand.cancel("cancelled by request");
    match call.terms {
        RequestTerms::Modern(_) => Ok(Body::from(json!({}))),
        RequestTerms::Legacy(_) if is_cancelled => Ok(Body::from(errand.as_value(false))),
        RequestTerms::Legacy(_) => Err(Fault::invalid_params("the task has ended already")),
    }
}

/// `tasks/update`: the answers to its questions. Other answers are ignored.
pub(crate) fn update(call: &Call<'_>) -> Result<Body, Fault> {
    let errand = allowed(call)?;
    let responses: Map<String, Value> = rpc::read("inputResponses", call.params.input_responses)?;
    if let Some(answer) = responses.get(errand::QUESTION) {
        errand.answer(answer.clone());
    }
    Ok(Body::from(json!({})))
}

/// `tasks/result`: answered when the task has ended; a legacy peer is asked meanwhile.
pub(crate) fn result(call: &Call<'_>) -> Result<Outcome, Fault> {
    let errand = allowed(call)?;
    let exchange = call.detach();
    // This ends with the task, by cancellation, or with the connection.
    tokio::spawn(send_result(exchange, errand));
    Ok(Outcome::Later)
}

async fn send_result(mut exchange: Exchange, errand: Arc<Errand>) {
    let mut state = errand.watch();
    let mut is_asked = false;
    loop {
        let now = state.borrow_and_update().clone();
        if now.status.is_end() {
            return match now.outcome {
                Some(Ok(mut result)) => {
                    result["_meta"] = json!({RELATED_KEY: {"taskId": errand.id()}});
                    exchange.finish(&Body::from(result));
                }
                Some(Err(fault)) => exchange.refuse(&fault),
                None => exchange.refuse(&Fault::invalid_params(now.message)),
            };
        }
        if now.status == Status::InputRequired && !std::mem::replace(&mut is_asked, true) {
            let mut params = errand::question();
            params["_meta"] = json!({RELATED_KEY: {"taskId": errand.id()}});
            match exchange.ask("elicitation/create", params).await {
                Ok(reaction) => errand.answer(
                    reaction.unwrap_or_else(|error| json!({"action": "cancel", "error": error})),
                ),
                Err(stopped) => return exchange.abandon(&stopped),
            }
        }
        tokio::select! {
            biased;
            stopped = exchange.stopped() => return exchange.abandon(&stopped),
            changed = state.changed() => if changed.is_err() { return exchange.refuse(&Fault::invalid_params("the task is gone")) },
        }
    }
}

/// The task that a request names, if the peer declared tasks.
fn allowed(call: &Call<'_>) -> Result<Arc<Errand>, Fault> {
    if call.terms.is_modern() && !declares(&call.terms.peer_capabilities()) {
        return Err(Fault::missing_capability(
            json!({"extensions": {EXTENSION: {}}}),
        ));
    }
    call.peer.demo.tasks.of(call)
}
