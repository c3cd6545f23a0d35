//! What a server asks on a legacy session: each request is answered, and a question goes to the caller whose call caused it.
//!
//! This wire does not say which call a question belongs to. It is certain only while every call in flight is one caller's;
//! otherwise the question is declined with a reason and counted. It is never guessed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::link::Receiver;
use super::ongoing::Ongoing;
use super::{Era, tasks};
use crate::caller::{ElicitAnswer, ElicitationKind};
use crate::transport::Origin;
use crate::untrusted::Untrusted;
use crate::wire::{Beside, Outgoing, RawJson, RequestId};

/// A server may have this many questions open at once.
const MAX_OPEN: usize = 64;

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const BUSY: i64 = -32000;

/// The questions that are open, so that they can be withdrawn.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<HashMap<RequestId, Question>>);

#[derive(Debug)]
struct Question {
    /// Asks the caller and sends the answer.
    task: AbortHandle,
    /// The requests of ours that may have caused it and are still under way.
    of: Vec<u64>,
    /// Set by whoever answers it: the task, or the end of the last request in `of`.
    answered: Arc<AtomicBool>,
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, HashMap<RequestId, Question>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server takes a question back.
    pub(super) fn withdraw(&self, id: Value) {
        let id = id.as_u64().map_or_else(|| RequestId::Other(RawJson::from_value(&id)), RequestId::Number);
        if let Some(question) = self.open().remove(&id) {
            question.task.abort();
        }
    }

    /// The connection has ended.
    pub(super) fn withdraw_all(&self) {
        for (_, question) in self.open().drain() {
            question.task.abort();
        }
    }

    /// Withdraws what only this request can have caused; the server still waits for these answers.
    fn orphaned_by(&self, request: u64) -> Vec<RequestId> {
        let mut orphans = Vec::new();
        self.open().retain(|id, question| {
            question.of.retain(|of| *of != request);
            let is_orphan = question.of.is_empty();
            if is_orphan && !question.answered.swap(true, Ordering::Relaxed) {
                question.task.abort();
                orphans.push(id.clone());
            }
            !is_orphan
        });
        orphans
    }
}

impl Receiver {
    /// A request of the server.
    pub(super) fn asked(&self, id: RequestId, method: &str, params: Option<RawJson>, origin: Origin) {
        if self.era.get() == Some(&Era::Modern) {
            self.oddities().forbidden_requests += 1;
            return;
        }
        let offers = self.options.offers;
        match method {
            "ping" => self.answer(&id, &json!({})),
            "roots/list" if self.options.roots.is_some() => self.answer(&id, &self.roots()),
            "elicitation/create" if offers.elicit_form || offers.elicit_url => self.elicited(id, params, origin),
            _ => self.refuse(&id, METHOD_NOT_FOUND, &format!("{method:.100} is not offered")),
        }
    }

    /// A request of ours is over: nobody needs the answers any more that it was asked for (F28).
    pub(super) fn over(&self, request: u64) {
        if self.asked.load(Ordering::Relaxed) {
            for id in self.questions.orphaned_by(request) {
                self.answer(&id, &elicit_result(ElicitAnswer::Cancel));
            }
        }
    }

    /// The folders on offer, as `roots/list` answers.
    pub(super) fn roots(&self) -> Value {
        let roots: Vec<Value> = self.options.roots.iter().flatten().map(|uri| json!({"uri": uri})).collect();
        json!({"roots": roots})
    }

    fn answer(&self, id: &RequestId, result: &Value) {
        self.respond(id, "result", result);
    }

    fn refuse(&self, id: &RequestId, code: i64, message: &str) {
        self.respond(id, "error", &json!({"code": code, "message": message}));
    }

    fn respond(&self, id: &RequestId, key: &str, value: &Value) {
        let mut body = br#"{"jsonrpc":"2.0","id":"#.to_vec();
        id.write(&mut body);
        body.extend_from_slice(format!(r#","{key}":{value}}}"#).as_bytes());
        self.send(&body, None);
    }

    fn elicited(&self, id: RequestId, params: Option<RawJson>, origin: Origin) {
        self.asked.store(true, Ordering::Relaxed);
        let kind = match params.as_ref().map(read_elicitation) {
            Some(Ok(kind)) => kind,
            Some(Err(fault)) => return self.refuse(&id, INVALID_PARAMS, &fault),
            None => return self.refuse(&id, INVALID_PARAMS, "elicitation/create needs params"),
        };
        let in_flight = match (self.asked_for_task(params.as_ref()), origin) {
            // A question of a task may come on any stream.
            (Some(of_task), _) => of_task,
            (None, Origin::Shared) => self.all_ongoing(),
            (None, Origin::Answer(request)) => self.ongoing(request).map(|ongoing| (request, ongoing)).into_iter().collect(),
        };
        let ongoing = match attribute(&in_flight) {
            Ok(ongoing) => ongoing,
            Err(reason) => {
                self.oddities().unattributed += 1;
                self.notice(format!("a question of the server was declined: {reason}"));
                return self.answer(&id, &elicit_result(ElicitAnswer::Decline));
            }
        };
        self.put(id, in_flight.iter().map(|(id, _)| *id).collect(), ongoing, kind, params);
    }

    /// Asks in a task of its own, so that the reader goes on.
    fn put(
        &self,
        id: RequestId,
        of: Vec<u64>,
        (ongoing, certain): (Arc<Ongoing>, bool),
        kind: ElicitationKind,
        params: Option<RawJson>,
    ) {
        let mut open = self.questions.open();
        open.retain(|_, question| !question.task.is_finished());
        if open.len() >= MAX_OPEN {
            drop(open);
            return self.refuse(&id, BUSY, "too many questions are open");
        }
        if open.contains_key(&id) {
            drop(open);
            // Under one id there is one question: the bound counts ids.
            return self.refuse(&id, BUSY, "a question with this id is open");
        }
        let Some(transport) = self.transport.get().cloned() else { return };
        let answer_to = id.clone();
        let answered = Arc::new(AtomicBool::new(false));
        let is_answered = answered.clone();
        let task = tokio::spawn(async move {
            let tool = if certain { ongoing.tool_id() } else { None };
            let answer = ongoing.elicit(kind, tool).await;
            if is_answered.swap(true, Ordering::Relaxed) {
                return;
            }
            let mut body = br#"{"jsonrpc":"2.0","id":"#.to_vec();
            answer_to.write(&mut body);
            let result = tasks::in_answer(params.as_ref(), elicit_result(answer));
            body.extend_from_slice(format!(r#","result":{result}}}"#).as_bytes());
            if let Some(transport) = transport.upgrade() {
                // Bounded by the number of open questions, and withdrawn with them.
                transport.ready().await;
                let _ = transport.send(Outgoing { id: None, method: None, body: &body, beside: Beside::default() });
            }
        });
        open.insert(id, Question { task: task.abort_handle(), of: of.clone(), answered });
        drop(open);
        // A request that ended meanwhile could not withdraw what was not here yet.
        of.into_iter().filter(|request| self.ongoing(*request).is_none()).for_each(|request| self.over(request));
    }
}

/// Whose question it is: the caller of all calls in flight; `true` where the very call is certain too.
fn attribute(in_flight: &[(u64, Arc<Ongoing>)]) -> Result<(Arc<Ongoing>, bool), &'static str> {
    let ((_, first), rest) = in_flight.split_first().ok_or("no call is under way that it could belong to")?;
    if rest.iter().any(|(_, other)| other.caller_id != first.caller_id) {
        return Err("calls of different callers are under way, and this wire does not say whose it is");
    }
    Ok((first.clone(), rest.is_empty()))
}

/// Reads the params of `elicitation/create`, in any revision.
pub(super) fn read_elicitation(params: &RawJson) -> Result<ElicitationKind, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        #[serde(default)]
        mode: Option<String>,
        #[serde(default)]
        message: String,
        #[serde(borrow, default)]
        requested_schema: Option<&'a serde_json::value::RawValue>,
        #[serde(default)]
        url: Option<String>,
    }
    let wire: Wire<'_> = params.decode().map_err(|fault| format!("elicitation/create: {fault}"))?;
    let message = Untrusted::new(wire.message);
    match (wire.mode.as_deref(), wire.requested_schema, wire.url) {
        (None | Some("form"), Some(schema), _) => Ok(ElicitationKind::Form { message, schema: params.part(schema) }),
        (Some("url"), _, Some(url)) => Ok(ElicitationKind::Url { message, url: url.into() }),
        (None | Some("form"), None, _) => Err("elicitation/create: requestedSchema is missing".into()),
        (Some("url"), _, None) => Err("elicitation/create: url is missing".into()),
        (Some(_), _, _) => Err("elicitation/create: mode is neither form nor url".into()),
    }
}

/// The result of `elicitation/create`.
pub(super) fn elicit_result(answer: ElicitAnswer) -> Value {
    match answer {
        ElicitAnswer::Accept(content) => json!({"action": "accept", "content": content}),
        ElicitAnswer::Decline => json!({"action": "decline"}),
        ElicitAnswer::Cancel => json!({"action": "cancel"}),
    }
}
