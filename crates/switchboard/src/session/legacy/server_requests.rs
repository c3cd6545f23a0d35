//! Requests of a legacy server: each is answered, and a question goes to the caller whose call
//! caused it.
//!
//! A question on the stream of one call's response belongs to that call. On a shared stream its
//! caller is certain only while all calls in flight are from one caller; otherwise the question is
//! answered with an error that says why, and counted. One that no call can have caused is declined.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::json;
use tokio::task::AbortHandle;

use super::caller_question::{CallerQuestion, CallerQuestionKind, ReplyBody};
use crate::caller::{CallerId, ElicitationKind};
use crate::panics::catch_panic;
use crate::session::elicitation::{action_result, read_elicitation};
use crate::session::in_flight::InFlightCall;
use crate::session::pending::CandidateCalls;
use crate::session::receiver::Receiver;
use crate::session::sampling;
use crate::session::tasks;
use crate::sync::lock;
use crate::transport::{MessageKind, MessageOrigin};
use crate::wire::{Outgoing, RawJson, RequestId, RequestMetadata};

/// How many questions a server may have open at once.
const MAX_OPEN: usize = 1024;

/// The requests that a server may send on behalf of a call.
const QUESTIONS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
const BUSY: i64 = -32000;

/// The open questions, so that they can be withdrawn.
#[derive(Debug, Default)]
pub(in crate::session) struct ServerRequests {
    open: Mutex<HashMap<RequestId, OpenServerRequest>>,
    /// Whether there has been a question: otherwise calls skip the lock.
    is_used: AtomicBool,
}

#[derive(Debug)]
struct OpenServerRequest {
    /// Asks the caller and sends the response.
    task: AbortHandle,
    /// Our requests that may have caused the question and are still in flight.
    caused_by: Vec<u64>,
    /// Set by whichever responds: the task, or the end of the last request in `caused_by`.
    is_answered: Arc<AtomicBool>,
    /// The response if the question is withdrawn.
    withdrawn: ReplyBody,
}

impl ServerRequests {
    fn open(&self) -> MutexGuard<'_, HashMap<RequestId, OpenServerRequest>> {
        lock(&self.open)
    }

    /// Whether the server has asked a question.
    pub(in crate::session) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Withdraws a question that the server cancelled.
    pub(in crate::session) fn withdraw(&self, id: &RequestId) {
        if let Some(question) = self.open().remove(id) {
            question.task.abort();
        }
    }

    /// Withdraws all questions when the connection ends.
    pub(in crate::session) fn withdraw_all(&self) {
        for (_, question) in self.open().drain() {
            question.task.abort();
        }
    }

    /// Removes the questions that only this request can have caused, with the responses that the
    /// server still waits for.
    fn remove_caused_by(&self, request: u64) -> Vec<(RequestId, ReplyBody)> {
        let mut open = self.open();
        for question in open.values_mut() {
            question.caused_by.retain(|id| *id != request);
        }
        let orphans = open.extract_if(|_, question| question.caused_by.is_empty());
        let unanswered =
            orphans.filter(|(_, question)| !question.is_answered.swap(true, Ordering::Relaxed));
        unanswered
            .map(|(id, question)| {
                question.task.abort();
                (id, question.withdrawn)
            })
            .collect()
    }
}

/// Withdraws the questions that a request caused, when the request ends.
pub(in crate::session) fn withdraw_for(receiver: &Receiver, request: u64) {
    for (id, reply) in receiver.server_requests.remove_caused_by(request) {
        respond(receiver, &id, &reply);
    }
}

/// Answers a request of the server, or starts a task that does.
pub(super) fn handle(
    receiver: &Receiver,
    id: RequestId,
    method: &str,
    params: Option<RawJson>,
    origin: MessageOrigin,
) {
    if QUESTIONS.contains(&method) && !receiver.in_flight.is_idle() {
        receiver.asked_during_call.store(true, Ordering::Relaxed);
    }
    let offers = receiver.options.offers;
    match method {
        "ping" => respond(receiver, &id, &ReplyBody::result(&json!({}))),
        "roots/list" if receiver.options.roots.offered() => {
            answer_roots(receiver, id, params, origin);
        }
        "elicitation/create" if offers.elicit_form || offers.elicit_url => attribute_question(
            receiver,
            id,
            params,
            origin,
            |params| match read_elicitation(params)? {
                ElicitationKind::Form { .. } if !offers.elicit_form => {
                    Err("forms are not offered".into())
                }
                ElicitationKind::Url { .. } if !offers.elicit_url => {
                    Err("urls are not offered".into())
                }
                kind => Ok(CallerQuestionKind::Elicitation(kind)),
            },
        ),
        // Elicitation was not advertised. It is declined all the same, so that the server's call
        // can end.
        "elicitation/create" => {
            receiver.notice_unanswered();
            let declined = tasks::with_related_task(params.as_ref(), action_result("decline"));
            respond(receiver, &id, &ReplyBody::result(&declined));
        }
        "sampling/createMessage" if offers.sampling => {
            attribute_question(receiver, id, params, origin, |params| {
                sampling::check(params, offers.sampling_tools)
                    .map(|()| CallerQuestionKind::Sampling)
            })
        }
        _ => {
            let message = format!("{method:.100} is not offered");
            respond(receiver, &id, &ReplyBody::error(METHOD_NOT_FOUND, &message))
        }
    }
}

/// Refuses a request that was too large to be read.
pub(super) fn refuse_oversized(receiver: &Receiver, id: &RequestId) {
    let limit = receiver.options.max_message_bytes;
    let message = format!("the request has more than {limit} bytes");
    respond(receiver, id, &ReplyBody::error(INVALID_REQUEST, &message));
}

fn respond(receiver: &Receiver, id: &RequestId, reply: &ReplyBody) {
    receiver.send(&reply.message(id), None);
}

/// Parses a question and determines which call it belongs to.
fn attribute_question(
    receiver: &Receiver,
    id: RequestId,
    params: Option<RawJson>,
    origin: MessageOrigin,
    read: impl FnOnce(&RawJson) -> Result<CallerQuestionKind, String>,
) {
    let read = params
        .ok_or_else(|| "it needs params".to_owned())
        .and_then(|params| Ok((read(&params)?, params)));
    let question = match read {
        Ok((kind, params)) => CallerQuestion { kind, params },
        Err(fault) => return respond(receiver, &id, &ReplyBody::error(INVALID_PARAMS, &fault)),
    };
    note_question(receiver, &question, origin);
    let candidates = candidates(receiver, &question, origin);
    match attribute(&candidates) {
        Ok((call, _)) if !question.is_offered_by(&call) => {
            receiver.notice_unanswered();
            respond(
                receiver,
                &id,
                &question.declined("no caller supports this question"),
            );
        }
        Ok((call, is_certain)) => {
            let caused_by = candidates.in_flight.iter().map(|(id, _)| *id).collect();
            ask_caller(receiver, id, caused_by, call, is_certain, question);
        }
        Err(reason) => {
            receiver.deviations().unattributed += 1;
            receiver.notice_declined(reason);
            let reply = match candidates.in_flight.is_empty() {
                true => question.declined(reason),
                // There is a caller who was not asked, and must not seem to have declined.
                false => ReplyBody::error(BUSY, reason),
            };
            respond(receiver, &id, &reply);
        }
    }
}

/// Responds with the roots of the caller that the question belongs to, or else with the host's. A
/// server may also ask outside of calls: only then it may get those of a client.
fn answer_roots(
    receiver: &Receiver,
    id: RequestId,
    params: Option<RawJson>,
    origin: MessageOrigin,
) {
    let question = CallerQuestion {
        kind: CallerQuestionKind::Roots,
        params: params.unwrap_or_else(|| RawJson::from_value(&json!({}))),
    };
    let candidates = candidates(receiver, &question, origin);
    match attribute(&candidates) {
        Ok((call, is_certain)) if question.is_offered_by(&call) => {
            note_question(receiver, &question, origin);
            let caused_by = candidates.in_flight.iter().map(|(id, _)| *id).collect();
            ask_caller(receiver, id, caused_by, call, is_certain, question);
        }
        _ => {
            let is_of_task = receiver.call_of_task(&question.params).is_some();
            let roots = match candidates.in_flight.is_empty() && !is_of_task {
                true => {
                    let abandoned_by = receiver.candidate_calls().abandoned_by;
                    receiver.options.roots.outside_calls(&abandoned_by)
                }
                false => receiver.options.roots.of_call().unwrap_or_default(),
            };
            respond(receiver, &id, &ReplyBody::result(&json!({"roots": roots})));
        }
    }
}

/// Records that the server asks questions, and on which kind of stream.
fn note_question(receiver: &Receiver, question: &CallerQuestion, origin: MessageOrigin) {
    receiver
        .server_requests
        .is_used
        .store(true, Ordering::Relaxed);
    let is_of_task = receiver.call_of_task(&question.params).is_some();
    if !is_of_task && origin == MessageOrigin::Shared {
        receiver
            .asked_on_shared_stream
            .store(true, Ordering::Relaxed);
    }
}

/// The calls that a question may belong to.
fn candidates(
    receiver: &Receiver,
    question: &CallerQuestion,
    origin: MessageOrigin,
) -> CandidateCalls {
    let in_flight = |in_flight| CandidateCalls {
        in_flight,
        abandoned_by: Vec::new(),
    };
    match (receiver.call_of_task(&question.params), origin) {
        // A question of a task may come on any stream, and names the task.
        (Some(of_task), _) => in_flight(of_task),
        (None, MessageOrigin::Shared) => receiver.candidate_calls(),
        (None, MessageOrigin::Response(request)) => {
            let call = receiver.call(request);
            in_flight(call.map(|call| (request, call)).into_iter().collect())
        }
    }
}

/// The call that a question belongs to, if all calls in flight are from one caller; `true` if only
/// one call is possible.
fn attribute(candidates: &CandidateCalls) -> Result<(Arc<InFlightCall>, bool), &'static str> {
    let CandidateCalls {
        in_flight,
        abandoned_by,
    } = candidates;
    let ((_, first), rest) = in_flight
        .split_first()
        .ok_or("no call is in flight that it could belong to")?;
    if rest
        .iter()
        .any(|(_, other)| other.caller_id() != first.caller_id())
    {
        return Err(
            "calls of several callers are in flight, and this transport does not show which call it belongs to",
        );
    }
    // A late question of one request may be asked in the next one of the same client.
    let is_other =
        |other: &CallerId| other.connection_owner() != first.caller_id().connection_owner();
    if abandoned_by.iter().any(is_other) {
        return Err(
            "a call of another caller was cancelled recently, and this transport does not show which call it belongs to",
        );
    }
    Ok((first.clone(), rest.is_empty() && abandoned_by.is_empty()))
}

/// Asks in a task of its own, so that the reader continues.
fn ask_caller(
    receiver: &Receiver,
    id: RequestId,
    caused_by: Vec<u64>,
    call: Arc<InFlightCall>,
    is_certain: bool,
    question: CallerQuestion,
) {
    let mut open = receiver.server_requests.open();
    open.retain(|_, question| !question.task.is_finished());
    if open.len() >= MAX_OPEN || open.contains_key(&id) {
        // An id identifies one question: the limit counts ids.
        let fault = if open.contains_key(&id) {
            "a question with this id is open"
        } else {
            "too many questions are open"
        };
        drop(open);
        return respond(receiver, &id, &ReplyBody::error(BUSY, fault));
    }
    let Some(transport) = receiver.transport.get().cloned() else {
        return;
    };
    let url_elicitations = receiver.url_elicitations.clone();
    let sampling_policy = receiver.options.sampling_policy.clone();
    let (answer_to, withdrawn) = (id.clone(), question.withdrawn());
    let is_answered = Arc::new(AtomicBool::new(false));
    let was_answered = is_answered.clone();
    let task = tokio::spawn(async move {
        // Runs the caller's own code.
        let asked = question.ask(
            &call,
            is_certain,
            &url_elicitations,
            sampling_policy.as_ref(),
        );
        let reply = catch_panic(asked)
            .await
            .unwrap_or_else(|panicked| ReplyBody::error(INTERNAL_ERROR, &panicked.to_string()));
        if was_answered.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(transport) = transport.upgrade() {
            // The number of these tasks is bounded by the number of open questions, and they are
            // withdrawn with them.
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
        OpenServerRequest {
            task: task.abort_handle(),
            caused_by: caused_by.clone(),
            is_answered,
            withdrawn,
        },
    );
    drop(open);
    // A request that ended before the question was in the table could not withdraw it.
    caused_by
        .into_iter()
        .filter(|request| receiver.call(*request).is_none())
        .for_each(|request| receiver.request_ended(request));
}
