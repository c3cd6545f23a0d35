//! Answers a client's request through the host, with the questions that the client is asked
//! meanwhile.

use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard::RawJson;
use switchboard::call::CallError;
use switchboard::revision::Era;
use switchboard::sync::lock;
use switchboard::wire::JsonMember;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, sleep_until};

use crate::caller::{RequestCaller, RequestRoute};
use crate::client::Responder;
use crate::client_request::ClientRequest;
use crate::client_tasks::{self, TaskOutcome, TaskSupport};
use crate::digest::digest_of;
use crate::gateway_state::GatewayState;
use crate::inputs::InputRequests;
use crate::listing::search;
use crate::recorder::RequestOutcome;
use crate::refusal::{Refusal, RefusalReason};
use crate::reply::{self, ErrorReply};
use crate::running::{RunningGuard, RunningRequest};
use crate::skills;
use crate::spans::SpanOutcome;
use crate::suspended::{RESUME_WITHIN, RequestDigest, Resumption};
use record::RecordGuard;
use target::ServerRequest;

mod record;
mod target;

const NOT_RESUMED: &str = "its client did not send the input within 5 minutes";
const TASK_EXPIRED: &str = "its task was not completed within its time to live";

/// The outcome of a request.
type Answer = Result<RawJson, CallError>;

/// Answers a request.
pub(crate) async fn run(
    gateway: &Arc<GatewayState>,
    request: &ClientRequest,
    responder: Responder,
    cancel: Arc<Notify>,
) {
    // Rare branches are boxed, here and below: they would make the task of every request larger.
    if ServerRequest::is_of_unknown_skill(gateway, request) {
        Box::pin(skills::look_for(gateway, request)).await;
    }
    let target = match ServerRequest::read(gateway, request) {
        Ok(target) => target,
        Err(error) => {
            gateway.record_unsent(request, RequestOutcome::Failed(&error.message));
            return responder.error(&error).await;
        }
    };
    let state = request.params.get("requestState");
    if let Some(state) = state.filter(|_| request.era == Era::Modern) {
        let state: String = state.decode().unwrap_or_default();
        // A modern server's own state goes back to it unread; the server may be another gateway, and
        // of the same person. A legacy server has none, and a call must not run again
        // because of a tampered state.
        let era = match gateway.suspended.is_ours(&state) {
            true => Ok(None),
            false => tokio::select! {
                era = Box::pin(target.server_era(&gateway.host)) => era,
                () = cancel.notified() => return,
            },
        };
        match era {
            Ok(Some(Era::Modern)) => {}
            Ok(_) => return Box::pin(resume(gateway, request, &state, responder)).await,
            Err(error) => return respond_failed(gateway, request, responder, error).await,
        }
    }
    let caller = caller(gateway, request, &target, &responder);
    let running = gateway.settings.running.begin(RunningRequest {
        client: request.client.number,
        principal: request.client.principal.clone(),
        method: request.method.clone(),
        name: target.name.clone(),
        arguments: target.arguments.clone(),
        began: request.arrived,
        cancel: cancel.clone(),
        reason: OnceLock::new(),
        open_questions: caller.open_questions.clone(),
    });
    let mut record = RecordGuard {
        gateway,
        request,
        number: running.id,
        target: &target,
        caller: &caller,
        began: running.began(),
        is_recorded: false,
        server: None,
    };
    // Declared after `record`, so that it is dropped first: a cancelled call reports to `record`.
    let call = pin!(Some(target.start(&gateway.host, request, &caller)));
    drive(&mut record, running, call, responder, cancel).await;
}

fn caller(
    gateway: &GatewayState,
    request: &ClientRequest,
    target: &ServerRequest,
    responder: &Responder,
) -> Arc<RequestCaller> {
    let mut forwarded = request.params.forwarded(target.host_members);
    if let Some((key, value)) = &target.replacement {
        forwarded.params.retain(|(known, _)| known != key);
        forwarded.params.push(((*key).into(), value.clone()));
    }
    RequestCaller::new(&gateway.settings, request, forwarded, responder)
}

/// The host's call; `None` once it was dropped.
type PinnedCall<'c, F> = Pin<&'c mut Option<F>>;

/// The outcome of the call, if it was not dropped.
async fn outcome<F: Future>(call: &mut PinnedCall<'_, F>) -> F::Output {
    match call.as_mut().as_pin_mut() {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}

/// Polls the call to its end, across several requests of the client if needed.
async fn drive<F: Future<Output = Answer> + Send>(
    record: &mut RecordGuard<'_>,
    running: RunningGuard,
    mut call: PinnedCall<'_, F>,
    mut responder: Responder,
    cancel: Arc<Notify>,
) {
    let caller = record.caller.clone();
    let era = record.request.era;
    let task = TaskSupport::of(record.request);
    if let TaskSupport::Requested(ttl) = task {
        return Box::pin(run_as_task(record, call, responder, running, ttl)).await;
    }
    loop {
        tokio::select! {
            biased;
            answer = outcome(&mut call) => return respond(record, responder, answer).await,
            reason = running.cancelled() => {
                let Some(reason) = reason else { return };
                call.set(None);
                record.record(RequestOutcome::Failed(reason), &SpanOutcome::cancelled());
                responder.span.set_outcome(SpanOutcome::cancelled());
                return Box::pin(respond_cancelled(record.request, responder, reason)).await;
            }
            () = caller.became_task.notified(), if task == TaskSupport::Accepted => {
                return Box::pin(run_as_task(record, call, responder, running, None)).await;
            }
            () = caller.inputs.until_open(), if era == Era::Modern => {}
            // Over HTTP a modern client cancels by closing the stream.
            () = responder.outbound.closed(), if era == Era::Modern => return,
        }
        let resumed = Box::pin(suspend(record, &running, &mut call, responder, &cancel)).await;
        match resumed {
            Some(Resumed::InProgress(next)) => responder = next,
            Some(Resumed::Ended(next, answer)) => return respond(record, next, answer).await,
            None => return,
        }
    }
}

/// A call whose client has sent its next request.
enum Resumed {
    InProgress(Responder),
    /// The call ended while the client answered.
    Ended(Responder, Answer),
}

/// Answers a modern client with `input_required`, and waits for its next request. `None` if the client
/// sent none in time or cancelled.
async fn suspend<F: Future<Output = Answer> + Send>(
    record: &mut RecordGuard<'_>,
    running: &RunningGuard,
    call: &mut PinnedCall<'_, F>,
    responder: Responder,
    cancel: &Arc<Notify>,
) -> Option<Resumed> {
    let caller = record.caller;
    let (sender, mut resumptions) = mpsc::channel::<Resumption>(1);
    let principal = &responder.client.principal;
    let suspended = &record.gateway.suspended;
    let Some(state) = suspended.suspend(principal, digest(record.request), sender, cancel) else {
        let message = "too many calls wait for their clients; try again later";
        let error = ErrorReply::new(reply::INTERNAL_ERROR, message);
        responder.error(&error).await;
        return None;
    };
    *lock(&caller.route) = None;
    let required = input_required(&caller.inputs, &state);
    responder.result(&required).await;
    // The call is polled while the client answers, because a server may withdraw its question.
    let (mut answer, mut cancelled_because, mut has_expired) = (None, None, false);
    let mut expired = pin!(sleep(RESUME_WITHIN));
    let resumption = loop {
        tokio::select! {
            biased;
            resumption = resumptions.recv() => break resumption,
            ended = outcome(call), if answer.is_none() => answer = Some(ended),
            () = &mut expired => {
                has_expired = true;
                break None;
            }
            // The client's next request is answered with the reason.
            reason = running.cancelled(), if cancelled_because.is_none() => {
                if reason.is_none() {
                    break None;
                }
                cancelled_because = reason;
            }
        }
    };
    let Some(resumption) = resumption else {
        match &answer {
            // The server has answered, though the client did not come for it.
            Some(answer) => drop(record.ended(answer)),
            None if has_expired => {
                call.set(None);
                let reason = cancelled_because.unwrap_or(NOT_RESUMED);
                record.record(RequestOutcome::Failed(reason), &SpanOutcome::cancelled());
            }
            None => {}
        }
        return None;
    };
    let responder = resumption.responder;
    *lock(&caller.route) = Some(RequestRoute {
        outbound: responder.outbound.clone(),
        progress_token: resumption.progress_token,
        other_client: None,
    });
    if let Some(responses) = &resumption.responses {
        caller.inputs.answer(responses);
    }
    Some(match answer {
        Some(answer) => Resumed::Ended(responder, answer),
        None => Resumed::InProgress(responder),
    })
}

/// Answers with a task, and polls the call to its end.
async fn run_as_task<F: Future<Output = Answer> + Send>(
    record: &mut RecordGuard<'_>,
    mut call: PinnedCall<'_, F>,
    responder: Responder,
    running: RunningGuard,
    ttl: Option<Duration>,
) {
    let caller = record.caller.clone();
    let Some(task) = record.gateway.tasks.begin(&caller, ttl) else {
        let message = "too many tasks are stored; let some end or expire, then call again";
        let error = ErrorReply::new(reply::INTERNAL_ERROR, message);
        return responder.error(&error).await;
    };
    let route = client_tasks::route(&caller);
    *lock(&caller.route) = route;
    responder.result(&task.created()).await;
    let task_outcome = tokio::select! {
        reason = running.ended() => {
            record.record(RequestOutcome::Failed(reason), &SpanOutcome::cancelled());
            TaskOutcome::Failed(ErrorReply::new(reply::INTERNAL_ERROR, reason))
        }
        answer = outcome(&mut call) => {
            // The request's span has ended: its response was the task.
            let _ = record.ended(&answer);
            match response_of(record.gateway, record.request, answer) {
                Ok(result) => TaskOutcome::Completed(result),
                Err(error) => TaskOutcome::Failed(error),
            }
        }
        () = task.cancel.notified() => TaskOutcome::Cancelled,
        () = sleep_until(task.expires) => {
            call.set(None);
            record.record(RequestOutcome::Failed(TASK_EXPIRED), &SpanOutcome::cancelled());
            TaskOutcome::Cancelled
        }
    };
    call.set(None);
    task.end(task_outcome);
    // A stored task sends nothing any more, so it keeps no stream open.
    *lock(&caller.route) = None;
}

/// The digest that must match when a client repeats the request with its answers.
fn digest(request: &ClientRequest) -> RequestDigest {
    let member = |key: &str| {
        request
            .params
            .get(key)
            .map_or(&b""[..], |value| value.as_bytes())
    };
    let members = ["name", "arguments", "uri", "ref", "argument"].map(member);
    digest_of([request.method.as_bytes()].into_iter().chain(members)).into()
}

/// Continues a call that waits for this request.
async fn resume(
    gateway: &GatewayState,
    request: &ClientRequest,
    state: &str,
    responder: Responder,
) {
    let client = &request.client;
    let found = gateway
        .suspended
        .take(state, &client.principal, &digest(request))
        .await;
    let Some(call) = found else {
        gateway.settings.recorder.request_refused(&Refusal {
            reason: RefusalReason::InvalidState,
            peer: None,
            principal: Some(client.principal.clone()),
            path: request.method.to_string(),
        });
        let message = "requestState is not valid: it was changed or used, has expired, or belongs to another request; the call may have run";
        return responder.error(&ErrorReply::invalid_params(message)).await;
    };
    // Dropping the call cancels it.
    if !client.redirect_cancel(&responder.id, &call.cancel) {
        return;
    }
    let resumption = Resumption {
        responder,
        progress_token: request.params.meta().progress_token.clone(),
        responses: request.params.get("inputResponses").cloned(),
    };
    if let Err(late) = call.resume(resumption).await {
        let message = "the call ended before its input came; it may have run";
        let error = ErrorReply::new(reply::INTERNAL_ERROR, message);
        late.responder.error(&error).await;
    }
}

fn input_required(inputs: &InputRequests, state: &str) -> Vec<u8> {
    let state = Value::from(state).to_string();
    let requests = inputs.to_json();
    reply::object(
        [
            ("resultType", &b"\"input_required\""[..]),
            ("inputRequests", &requests),
            ("requestState", state.as_bytes()),
        ]
        .into_iter(),
    )
}

/// Answers a request that its client did not cancel.
async fn respond_cancelled(request: &ClientRequest, responder: Responder, reason: &str) {
    if request.method != "tools/call" {
        let error = ErrorReply::new(reply::INTERNAL_ERROR, reason);
        return responder.error(&error).await;
    }
    let result = reply::failed_call(reason);
    match request.era {
        Era::Legacy => responder.result(result.as_bytes()).await,
        Era::Modern => responder.result(&reply::completed(&result, "")).await,
    }
}

async fn respond(record: &mut RecordGuard<'_>, mut responder: Responder, answer: Answer) {
    responder.span.set_outcome(record.ended(&answer));
    match response_of(record.gateway, record.request, answer) {
        Ok(result) => responder.result(&result).await,
        Err(error) => responder.error(&error).await,
    }
}

/// Answers a request whose server cannot be reached.
async fn respond_failed(
    gateway: &GatewayState,
    request: &ClientRequest,
    responder: Responder,
    error: CallError,
) {
    gateway.record_unsent(request, RequestOutcome::Failed(&error.to_string()));
    match response_of(gateway, request, Err(error)) {
        Ok(result) => responder.result(&result).await,
        Err(error) => responder.error(&error).await,
    }
}

/// The result for a client of this era, or the error.
fn response_of(
    gateway: &GatewayState,
    request: &ClientRequest,
    answer: Answer,
) -> Result<Bytes, ErrorReply> {
    let answer = answer.or_else(|error| failure_of(gateway, request, &error));
    match (answer, request.era) {
        (Ok(result), Era::Legacy) => Ok(match gateway.settings.listing.schemas_as_is {
            true => result.as_bytes().clone(),
            false => without_invalid_structure(&request.method, result),
        }),
        (Ok(result), Era::Modern) => {
            let extra = match &*request.method {
                "resources/read" => r#","ttlMs":0,"cacheScope":"private""#,
                _ => "",
            };
            Ok(reply::completed(&result, extra))
        }
        (Err(error), Era::Legacy) => Err(error),
        (Err(mut error), Era::Modern) => {
            // The modern era retired these codes.
            error.code = match error.code {
                reply::RESOURCE_NOT_FOUND => reply::INVALID_PARAMS,
                reply::URL_ELICITATION_REQUIRED => reply::INTERNAL_ERROR,
                code => code,
            };
            Err(error)
        }
    }
}

/// The result of a call without `structuredContent` that is no object, which the legacy schema does
/// not allow: its SDKs would reject the whole result. It becomes the text of a result without other
/// content.
fn without_invalid_structure(method: &str, result: RawJson) -> Bytes {
    const KEY: &str = "structuredContent";
    // Most results do not have it, and need not be parsed.
    if method != "tools/call" || !result.as_str().contains("\"structuredContent\"") {
        return result.as_bytes().clone();
    }
    let mut members = result.members().unwrap_or_default();
    let is_invalid = |(key, value): &JsonMember| key == KEY && !value.as_str().starts_with('{');
    if !members.iter().any(is_invalid) {
        return result.as_bytes().clone();
    }
    let removed = members.extract_if(.., |member| is_invalid(member));
    let removed: Vec<String> = removed
        .map(|(_, value)| value.as_str().to_owned())
        .collect();
    let is_empty = |value: &RawJson| value.decode::<[(); 0]>().is_ok();
    members.retain(|(key, value)| key != "content" || !is_empty(value));
    if !members.iter().any(|(key, _)| key == "content") {
        let text = json!([{"type": "text", "text": removed.concat()}]);
        members.push(("content".into(), RawJson::from_value(&text)));
    }
    RawJson::from_members(&members).as_bytes().clone()
}

/// A tool call that did not complete is an error result, which a model can read; a server's own
/// error keeps its code.
fn failure_of(
    gateway: &GatewayState,
    request: &ClientRequest,
    error: &CallError,
) -> Result<RawJson, ErrorReply> {
    match error {
        CallError::Unresolved { .. } if gateway.is_search_call(request, search::CALL_TOOL) => {
            Ok(reply::failed_call(&error.to_string()))
        }
        CallError::Unresolved { .. } | CallError::UnknownServer { .. } => {
            Err(ErrorReply::invalid_params(error.to_string()))
        }
        CallError::Request { fault, .. } if ErrorReply::of_server(fault).is_some() => {
            Err(ErrorReply::of_call(error))
        }
        _ if request.method == "tools/call" => Ok(reply::failed_call(&error.to_string())),
        _ => Err(ErrorReply::of_call(error)),
    }
}
