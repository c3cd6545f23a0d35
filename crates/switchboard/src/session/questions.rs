//! What a server asks on a legacy session: each request is answered, and a question goes to the
//! caller whose call caused it.
//!
//! What comes with the answer of a request belongs to that request. A shared stream does not say
//! which call a question belongs to: it is certain only while every call in flight is one caller's;
//! otherwise the question is declined with a reason and counted. It is never guessed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::ongoing::Ongoing;
use super::receiver::Receiver;
use super::sampling::{self, Overseer, REJECTED};
use super::visits::Visits;
use super::{Era, tasks};
use crate::caller::{CallerId, ElicitAnswer, ElicitationKind};
use crate::panics::catch_panic;
use crate::transport::{MessageKind, Origin};
use crate::untrusted::Untrusted;
use crate::wire::{Outgoing, RawJson, RequestId, RequestMetadata};

/// A server may have this many questions open at once.
const MAX_OPEN: usize = 1024;

/// What a server may ask on behalf of a call.
const QUESTIONS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// Why a question is declined that no caller offers to answer.
const NOBODY: &str = "nobody here answers";

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
const BUSY: i64 = -32000;

/// The questions that are open, so that they can be withdrawn.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: Mutex<HashMap<RequestId, Question>>,
    /// There has been one: calls of a server that never asks need not look.
    any: AtomicBool,
}

#[derive(Debug)]
struct Question {
    /// Asks the caller and sends the answer.
    task: AbortHandle,
    /// The requests of ours that may have caused it and are still under way.
    of: Vec<u64>,
    /// Set by whoever answers it: the task, or the end of the last request in `of`.
    answered: Arc<AtomicBool>,
    /// What the server is told when nobody needs the answer any more.
    withdrawn: Reply,
}

/// What a server wants to know, as it came.
struct Asked {
    kind: Kind,
    params: RawJson,
}

enum Kind {
    Elicitation(ElicitationKind),
    Sampling,
}

/// An answer to a server.
#[derive(Debug)]
struct Reply {
    /// `result` or `error`.
    key: &'static str,
    /// JSON.
    text: String,
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, HashMap<RequestId, Question>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server takes a question back.
    pub(super) fn withdraw(&self, id: Value) {
        let id = id.as_u64().map_or_else(
            || RequestId::Other(RawJson::from_value(&id)),
            RequestId::Number,
        );
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
    fn orphaned_by(&self, request: u64) -> Vec<(RequestId, Reply)> {
        let mut open = self.open();
        for question in open.values_mut() {
            question.of.retain(|of| *of != request);
        }
        let orphans = open.extract_if(|_, question| question.of.is_empty());
        let unanswered =
            orphans.filter(|(_, question)| !question.answered.swap(true, Ordering::Relaxed));
        unanswered
            .map(|(id, question)| {
                question.task.abort();
                (id, question.withdrawn)
            })
            .collect()
    }
}

impl Receiver {
    /// A request of the server.
    pub(super) fn asked(
        &self,
        id: RequestId,
        method: &str,
        params: Option<RawJson>,
        origin: Origin,
    ) {
        if self.era.get() == Some(&Era::Modern) {
            self.oddities().forbidden_requests += 1;
            return;
        }
        if QUESTIONS.contains(&method) && !self.in_flight.is_idle() {
            self.questioned.store(true, Ordering::Relaxed);
        }
        let offers = self.options.offers;
        match method {
            "ping" => self.reply(&id, &Reply::result(&json!({}))),
            "roots/list" if self.options.roots.offered() => {
                self.reply(
                    &id,
                    &Reply::result(&json!({"roots": self.options.roots.list()})),
                );
            }
            "elicitation/create" if offers.elicit_form || offers.elicit_url => {
                self.question(id, params, origin, |params| {
                    match read_elicitation(params)? {
                        ElicitationKind::Form { .. } if !offers.elicit_form => {
                            Err("forms are not offered".into())
                        }
                        ElicitationKind::Url { .. } if !offers.elicit_url => {
                            Err("urls are not offered".into())
                        }
                        kind => Ok(Kind::Elicitation(kind)),
                    }
                })
            }
            // Nothing was advertised. It is told no all the same, so that its call can end (S0-36).
            "elicitation/create" => {
                self.unheard();
                let declined =
                    tasks::in_answer(params.as_ref(), elicit_result(ElicitAnswer::Decline, true));
                self.reply(&id, &Reply::result(&declined));
            }
            "sampling/createMessage" if offers.sampling => {
                self.question(id, params, origin, |params| {
                    sampling::check(params, offers.sampling_tools).map(|()| Kind::Sampling)
                })
            }
            _ => self.reply(
                &id,
                &Reply::error(METHOD_NOT_FOUND, &format!("{method:.100} is not offered")),
            ),
        }
    }

    /// A request of ours is over: nobody needs the answers any more that it was asked for (F28).
    pub(super) fn over(&self, request: u64) {
        if self.questions.any.load(Ordering::Relaxed) {
            for (id, reply) in self.questions.orphaned_by(request) {
                self.reply(&id, &reply);
            }
        }
    }

    fn reply(&self, id: &RequestId, reply: &Reply) {
        self.send(&reply.message(id), None);
    }

    /// Reads it, and finds out whose it is.
    fn question(
        &self,
        id: RequestId,
        params: Option<RawJson>,
        origin: Origin,
        read: impl FnOnce(&RawJson) -> Result<Kind, String>,
    ) {
        let read = params
            .ok_or_else(|| "it needs params".to_owned())
            .and_then(|params| Ok((read(&params)?, params)));
        let asked = match read {
            Ok((kind, params)) => Asked { kind, params },
            Err(fault) => return self.reply(&id, &Reply::error(INVALID_PARAMS, &fault)),
        };
        self.questions.any.store(true, Ordering::Relaxed);
        let (in_flight, gone) = match (self.asked_for_task(Some(&asked.params)), origin) {
            // A question of a task may come on any stream, and says so.
            (Some(of_task), _) => (of_task, Vec::new()),
            (None, Origin::Shared) => {
                self.asked.store(true, Ordering::Relaxed);
                self.suspects()
            }
            (None, Origin::Answer(request)) => (
                self.ongoing(request)
                    .map(|ongoing| (request, ongoing))
                    .into_iter()
                    .collect(),
                Vec::new(),
            ),
        };
        match attribute(&in_flight, &gone) {
            // As a modern server would be told: whoever made the call answers no such question.
            Ok((ongoing, _)) if asked.is_unheard_by(&ongoing) => {
                self.unheard();
                self.reply(&id, &asked.declined(NOBODY));
            }
            Ok(ongoing) => self.put(
                id,
                in_flight.iter().map(|(id, _)| *id).collect(),
                ongoing,
                asked,
            ),
            Err(reason) => {
                self.oddities().unattributed += 1;
                self.notice(format!("a question of the server was declined: {reason}"));
                self.reply(&id, &asked.declined(reason));
            }
        }
    }

    /// Tells that a question was declined because nobody is there to answer it.
    pub(super) fn unheard(&self) {
        self.notice(format!("a question of the server was declined: {NOBODY}"));
    }

    /// Asks in a task of its own, so that the reader goes on.
    fn put(
        &self,
        id: RequestId,
        of: Vec<u64>,
        (ongoing, certain): (Arc<Ongoing>, bool),
        asked: Asked,
    ) {
        let mut open = self.questions.open();
        open.retain(|_, question| !question.task.is_finished());
        if open.len() >= MAX_OPEN || open.contains_key(&id) {
            // Under one id there is one question: the bound counts ids.
            let fault = if open.contains_key(&id) {
                "a question with this id is open"
            } else {
                "too many questions are open"
            };
            drop(open);
            return self.reply(&id, &Reply::error(BUSY, fault));
        }
        let Some(transport) = self.transport.get().cloned() else {
            return;
        };
        let (visits, overseer) = (self.visits.clone(), self.options.overseer.clone());
        let (answer_to, withdrawn) = (id.clone(), asked.withdrawn());
        let answered = Arc::new(AtomicBool::new(false));
        let is_answered = answered.clone();
        let task = tokio::spawn(async move {
            // The caller's own code runs in there.
            let reply = catch_panic(asked.put(&ongoing, certain, &visits, overseer.as_ref())).await;
            let reply = reply
                .unwrap_or_else(|panicked| Reply::error(INTERNAL_ERROR, &panicked.to_string()));
            if is_answered.swap(true, Ordering::Relaxed) {
                return;
            }
            if let Some(transport) = transport.upgrade() {
                // Bounded by the number of open questions, and withdrawn with them.
                if let Some(room) = transport.wait_for_room(MessageKind::Response) {
                    room.await;
                }
                let body = reply.message(&answer_to);
                let _ = transport.send(Outgoing {
                    id: None,
                    method: None,
                    body: &body,
                    metadata: RequestMetadata::default(),
                });
            }
        });
        open.insert(
            id,
            Question {
                task: task.abort_handle(),
                of: of.clone(),
                answered,
                withdrawn,
            },
        );
        drop(open);
        // A request that ended meanwhile could not withdraw what was not here yet.
        of.into_iter()
            .filter(|request| self.ongoing(*request).is_none())
            .for_each(|request| self.over(request));
    }
}

/// Whose question it is: the caller of all calls in flight; `true` where the very call is certain
/// too.
fn attribute(
    in_flight: &[(u64, Arc<Ongoing>)],
    gone: &[CallerId],
) -> Result<(Arc<Ongoing>, bool), &'static str> {
    let ((_, first), rest) = in_flight
        .split_first()
        .ok_or("no call is under way that it could belong to")?;
    if rest
        .iter()
        .any(|(_, other)| other.caller_id != first.caller_id)
    {
        return Err(
            "calls of different callers are under way, and this wire does not say whose it is",
        );
    }
    if gone.iter().any(|gone| *gone != first.caller_id) {
        return Err(
            "a call of another caller was given up not long ago, and this wire does not say whose it is",
        );
    }
    Ok((first.clone(), rest.is_empty() && gone.is_empty()))
}

impl Asked {
    /// Puts it to the caller.
    async fn put(
        self,
        ongoing: &Ongoing,
        certain: bool,
        visits: &Visits,
        overseer: Option<&Arc<dyn Overseer>>,
    ) -> Reply {
        let tool = if certain { ongoing.tool_id() } else { None };
        let params = self.params;
        match self.kind {
            Kind::Sampling => match ongoing.sample(params.clone(), tool, overseer).await {
                Ok(answer) => Reply {
                    key: "result",
                    text: tasks::in_raw_answer(&params, answer).as_str().to_owned(),
                },
                Err(refusal) => {
                    let (server, reason) = (&ongoing.server, refusal.reason);
                    ongoing.caller.notice(&format!(
                        "server \"{server}\" wanted an answer of a model and got none: {reason}"
                    ));
                    Reply::error(REJECTED, &refusal.told)
                }
            },
            Kind::Elicitation(kind) => {
                let visit = match &kind {
                    ElicitationKind::Url { id, .. } => id.clone(),
                    ElicitationKind::Form { .. } => None,
                };
                let is_form = matches!(kind, ElicitationKind::Form { .. });
                if let Some(visit) = &visit {
                    drop(visits.begin(visit, &ongoing.caller));
                }
                let answer = ongoing.elicit(kind, tool).await;
                if let (Some(visit), ElicitAnswer::Decline | ElicitAnswer::Cancel) =
                    (&visit, &answer)
                {
                    visits.forget(visit, &ongoing.caller);
                }
                Reply::result(&tasks::in_answer(
                    Some(&params),
                    elicit_result(answer, is_form),
                ))
            }
        }
    }

    /// Sampling is told of where it is refused.
    fn is_unheard_by(&self, ongoing: &Ongoing) -> bool {
        match &self.kind {
            Kind::Elicitation(kind) => !ongoing.caller.offers().answers(kind),
            Kind::Sampling => false,
        }
    }

    /// What the server is told where nobody can be asked.
    fn declined(&self, reason: &str) -> Reply {
        match self.kind {
            Kind::Elicitation(_) => Reply::result(&tasks::in_answer(
                Some(&self.params),
                elicit_result(ElicitAnswer::Decline, true),
            )),
            Kind::Sampling => Reply::error(REJECTED, reason),
        }
    }

    /// What the server is told where the call ended first.
    fn withdrawn(&self) -> Reply {
        match self.kind {
            Kind::Elicitation(_) => Reply::result(&elicit_result(ElicitAnswer::Cancel, true)),
            Kind::Sampling => Reply::error(REJECTED, "the call that wanted it is over"),
        }
    }
}

impl Reply {
    fn result(result: &Value) -> Self {
        Self {
            key: "result",
            text: result.to_string(),
        }
    }

    fn error(code: i64, message: &str) -> Self {
        Self {
            key: "error",
            text: json!({"code": code, "message": message}).to_string(),
        }
    }

    fn message(&self, id: &RequestId) -> Vec<u8> {
        let mut body = br#"{"jsonrpc":"2.0","id":"#.to_vec();
        id.write(&mut body);
        body.extend_from_slice(format!(r#","{}":{}}}"#, self.key, self.text).as_bytes());
        body
    }
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
        #[serde(default)]
        elicitation_id: Option<String>,
    }
    let wire: Wire<'_> = params
        .decode()
        .map_err(|fault| format!("elicitation/create: {fault}"))?;
    let message = Untrusted::new(wire.message);
    match (wire.mode.as_deref(), wire.requested_schema, wire.url) {
        (None | Some("form"), Some(schema), _) => Ok(ElicitationKind::Form {
            message,
            schema: params.part(schema),
        }),
        (Some("url"), _, Some(url)) => Ok(ElicitationKind::Url {
            message,
            url: url.into(),
            id: wire.elicitation_id,
        }),
        (None | Some("form"), None, _) => {
            Err("elicitation/create: requestedSchema is missing".into())
        }
        (Some("url"), _, None) => Err("elicitation/create: url is missing".into()),
        (Some(_), _, _) => Err("elicitation/create: mode is neither form nor url".into()),
    }
}

/// The result of `elicitation/create`. A page has no content: what is done there stays there.
pub(super) fn elicit_result(answer: ElicitAnswer, is_form: bool) -> Value {
    match answer {
        ElicitAnswer::Accept(content) if is_form => json!({"action": "accept", "content": content}),
        ElicitAnswer::Accept(_) => json!({"action": "accept"}),
        ElicitAnswer::Decline => json!({"action": "decline"}),
        ElicitAnswer::Cancel => json!({"action": "cancel"}),
    }
}
