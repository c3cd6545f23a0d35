//! A client's request that a server answers: from its params to the host, through questions to the
//! client, to the response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard::call::CallError;
use switchboard::revision::Era;
use switchboard::session::RequestFault;
use switchboard::sync::lock;
use switchboard::{BoxFuture, Call, Caller, RawJson, ServerName};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, sleep_until};

use crate::caller::{RequestCaller, RequestRoute};
use crate::client::{ClientState, Responder};
use crate::client_tasks::{self, TaskOutcome, TaskSupport};
use crate::dispatch::ClientRequest;
use crate::gateway::ServerSelection;
use crate::inputs::InputRequests;
use crate::listing::search;
use crate::recorder::{RequestOutcome, RequestRecord};
use crate::refusal::{Refusal, RefusalReason};
use crate::reply::{self, ErrorReply};
use crate::request_tasks::BegunRequest;
use crate::running::RunningGuard;
use crate::skills;
use crate::suspended::{self, RESUME_WITHIN, RequestDigest, Resumption};

/// What a server's answer to a request comes to.
type Answer = Result<RawJson, CallError>;

/// What a request asks of which server.
struct ServerRequest {
    /// `None` where the host finds it by the tool's name.
    server: Option<ServerName>,
    /// The name of the tool or prompt that the server knows, or the address of the resource.
    name: String,
    arguments: Option<RawJson>,
    /// The members of `params` that are written anew.
    written: &'static [&'static str],
    /// A member that replaces one of the client's.
    replaced: Option<(&'static str, RawJson)>,
}

/// Answers a request.
pub(crate) async fn run(begun: BegunRequest) {
    let BegunRequest {
        request,
        responder,
        cancel,
    } = begun;
    // Rare branches are boxed, here and below: they would make the task of every request larger.
    if ServerRequest::is_of_unknown_skill(&request) {
        Box::pin(skills::look_for(&request)).await;
    }
    let asked = match ServerRequest::read(&request) {
        Ok(asked) => asked,
        Err(error) => return responder.error(&error).await,
    };
    let state = request.params.get("requestState");
    if let Some(state) = state.filter(|_| request.era == Era::Modern) {
        let state: String = state.decode().unwrap_or_default();
        // A modern server's own state goes back to it unread; a legacy server gives none, and a
        // call must not run again because of a state that was changed.
        if suspended::is_ours(&state) || !asked.is_for_modern_server(&request.client) {
            return Box::pin(resume(&request, &state, responder)).await;
        }
    }
    let caller = caller(&request, &asked, &responder);
    let work = asked.start(&request, &caller);
    let gateway = &request.client.gateway;
    let running = gateway.settings.running.begin(
        request.client.number,
        &request.client.principal,
        &request.method,
        &asked.name,
        asked.arguments.as_ref(),
        &cancel,
    );
    let record = RecordGuard {
        request: &request,
        number: running.id,
        asked: &asked,
        caller: &caller,
        began: Instant::now(),
        is_recorded: false,
    };
    drive(record, running, work, responder, cancel).await;
}

fn caller(
    request: &ClientRequest,
    asked: &ServerRequest,
    responder: &Responder,
) -> Arc<RequestCaller> {
    let mut forwarded = request.params.forwarded(asked.written);
    if let Some((key, value)) = &asked.replaced {
        forwarded.params.retain(|(known, _)| known != key);
        forwarded.params.push(((*key).to_owned(), value.clone()));
    }
    RequestCaller::new(request, forwarded, &responder.outbound)
}

/// Polls the work to its end, over as many of the client's requests as it takes.
/// A cancelled call reports to `record`, which is therefore dropped after `work`.
async fn drive(
    mut record: RecordGuard<'_>,
    running: RunningGuard,
    mut work: BoxFuture<'static, Answer>,
    responder: Responder,
    cancel: Arc<Notify>,
) {
    let caller = record.caller.clone();
    let era = record.request.era;
    let mut current = responder;
    let task = TaskSupport::of(record.request);
    if let TaskSupport::Wanted(ttl) = task {
        return Box::pin(run_as_task(record, work, current, running, ttl)).await;
    }
    loop {
        tokio::select! {
            biased;
            answer = &mut work => {
                record.ended(&answer);
                return respond(record.request, current, answer).await;
            }
            reason = running.cancelled() => {
                let Some(reason) = reason else { return };
                drop(work);
                record.record(RequestOutcome::Failed(reason));
                return Box::pin(respond_cancelled(record.request, current, reason)).await;
            }
            () = caller.became_task.notified(), if task == TaskSupport::Accepted => {
                return Box::pin(run_as_task(record, work, current, running, None)).await;
            }
            () = caller.inputs.raised(), if era == Era::Modern => {}
            // The client's end of the stream is how a modern one cancels over HTTP.
            () = current.outbound.closed(), if era == Era::Modern => return,
        }
        let gateway = &current.client.gateway;
        let principal = &current.client.principal;
        let digest = digest(record.request);
        let (resume, mut resumptions) = mpsc::channel::<Resumption>(1);
        let state = gateway
            .suspended
            .suspend(principal, digest, resume, &cancel);
        let Some(state) = state else {
            let message = "too many calls wait for their clients; try again later";
            let error = ErrorReply::new(reply::INTERNAL_ERROR, message);
            return current.error(&error).await;
        };
        *lock(&caller.route) = None;
        let required = input_required(&caller.inputs, &state);
        current.result(&required).await;
        // The call goes on while the client answers: a server may withdraw its question.
        let (mut finished, mut is_ended) = (None, false);
        let expired = sleep(RESUME_WITHIN);
        tokio::pin!(expired);
        let resumption = loop {
            tokio::select! {
                resumption = resumptions.recv() => match resumption {
                    Some(resumption) => break resumption,
                    None => return,
                },
                answer = &mut work, if finished.is_none() => finished = Some(answer),
                () = &mut expired => return,
                // Why it was ended is the answer to the client's next request.
                reason = running.cancelled(), if !is_ended => match reason {
                    Some(_) => is_ended = true,
                    None => return,
                },
            }
        };
        current = resumption.responder;
        *lock(&caller.route) = Some(RequestRoute {
            outbound: current.outbound.clone(),
            progress_token: resumption.progress_token,
        });
        if let Some(responses) = &resumption.responses {
            caller.inputs.answer(responses);
        }
        if let Some(answer) = finished {
            record.ended(&answer);
            return respond(record.request, current, answer).await;
        }
    }
}

/// Answers with a task, and polls the work to its end.
async fn run_as_task(
    mut record: RecordGuard<'_>,
    mut work: BoxFuture<'static, Answer>,
    responder: Responder,
    running: RunningGuard,
    ttl: Option<Duration>,
) {
    let caller = record.caller.clone();
    let Some(task) = responder.client.gateway.tasks.begin(&caller, ttl) else {
        let message = "too many tasks are kept; let some end or expire, then call again";
        let error = ErrorReply::new(reply::INTERNAL_ERROR, message);
        return responder.error(&error).await;
    };
    let route = client_tasks::route(&caller);
    *lock(&caller.route) = route;
    responder.result(&task.created()).await;
    let outcome = tokio::select! {
        reason = running.ended() => {
            record.record(RequestOutcome::Failed(reason));
            TaskOutcome::Failed(ErrorReply::new(reply::INTERNAL_ERROR, reason))
        }
        answer = &mut work => {
            record.ended(&answer);
            match response_of(record.request, answer) {
                Ok(result) => TaskOutcome::Completed(result),
                Err(error) => TaskOutcome::Failed(error),
            }
        }
        () = task.cancel.notified() => TaskOutcome::Cancelled,
        () = sleep_until(task.expires) => TaskOutcome::Cancelled,
    };
    drop(work);
    task.end(outcome);
}

/// What must be the same when a client repeats the request with its answers.
fn digest(request: &ClientRequest) -> RequestDigest {
    let member = |key: &str| {
        request
            .params
            .get(key)
            .map_or(&b""[..], |value| value.as_bytes())
    };
    let members = ["name", "arguments", "uri", "ref", "argument"].map(member);
    let parts: Vec<&[u8]> = [request.method.as_bytes()]
        .into_iter()
        .chain(members)
        .collect();
    suspended::digest(&parts)
}

/// Continues a call that waits for this request.
async fn resume(request: &ClientRequest, state: &str, responder: Responder) {
    let client = &request.client;
    let found = client
        .gateway
        .suspended
        .take(state, &client.principal, &digest(request))
        .await;
    let Some(call) = found else {
        client.gateway.settings.recorder.request_refused(&Refusal {
            reason: RefusalReason::InvalidState,
            peer: None,
            principal: Some(client.principal.clone()),
            path: request.method.clone(),
        });
        let message = "requestState is not valid: it was changed or used, has expired, or belongs to another request; the call may have run";
        return responder.error(&ErrorReply::invalid_params(message)).await;
    };
    client.redirect_cancel(&responder.id, &call.cancel);
    let resumption = Resumption {
        responder,
        progress_token: request.params.meta.progress_token.clone(),
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
    let requests = inputs.written();
    reply::object(
        [
            ("resultType", &b"\"input_required\""[..]),
            ("inputRequests", &requests),
            ("requestState", state.as_bytes()),
        ]
        .into_iter(),
    )
}

/// Answers a request that its client did not cancel: it waits for a response.
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

async fn respond(request: &ClientRequest, responder: Responder, answer: Answer) {
    match response_of(request, answer) {
        Ok(result) => responder.result(&result).await,
        Err(error) => responder.error(&error).await,
    }
}

/// The result for a client of this era, or the error.
fn response_of(request: &ClientRequest, answer: Answer) -> Result<Bytes, ErrorReply> {
    let answer = match answer {
        Ok(result) => Ok(result),
        Err(error) => match outcome_of(request, &error) {
            Ok(result) => Ok(result),
            Err(error) => Err(error),
        },
    };
    match (answer, request.era) {
        (Ok(result), Era::Legacy) => Ok(result.as_bytes().clone()),
        (Ok(result), Era::Modern) => {
            let extra = match request.method.as_str() {
                "resources/read" => r#","ttlMs":0,"cacheScope":"private""#,
                _ => "",
            };
            Ok(reply::completed(&result, extra))
        }
        (Err(mut error), era) => {
            // The modern era retired the legacy code for it.
            if era == Era::Modern && error.code == reply::RESOURCE_NOT_FOUND {
                error.code = reply::INVALID_PARAMS;
            }
            Err(error)
        }
    }
}

/// A tool call that did not complete is an error result, which a model can read; a server's own
/// error keeps its code.
fn outcome_of(request: &ClientRequest, error: &CallError) -> Result<RawJson, ErrorReply> {
    match error {
        CallError::Unresolved { .. } if request.calls_in_search(search::CALL_TOOL) => {
            Ok(reply::failed_call(&error.to_string()))
        }
        CallError::Unresolved { .. } | CallError::UnknownServer { .. } => {
            Err(ErrorReply::invalid_params(error.to_string()))
        }
        CallError::Request { fault, .. } if ErrorReply::of_server(fault).is_some() => {
            Err(error_reply(error))
        }
        _ if request.method == "tools/call" => Ok(reply::failed_call(&error.to_string())),
        _ => Err(error_reply(error)),
    }
}

/// The error of a request that is not a tool call.
pub(crate) fn error_reply(error: &CallError) -> ErrorReply {
    let of_server = match error {
        CallError::Request { fault, .. } => ErrorReply::of_server(fault),
        _ => None,
    };
    of_server.unwrap_or_else(|| {
        let code = match error {
            CallError::Request {
                fault: RequestFault::NotSent(_) | RequestFault::NotSupported(_),
                ..
            } => reply::METHOD_NOT_FOUND,
            _ => reply::INTERNAL_ERROR,
        };
        ErrorReply::new(code, error.to_string())
    })
}

/// The error for an address that no server has.
pub(crate) fn no_resource(uri: &str, era: Era) -> ErrorReply {
    let code = match era {
        Era::Legacy => reply::RESOURCE_NOT_FOUND,
        Era::Modern => reply::INVALID_PARAMS,
    };
    ErrorReply::new(code, "resource not found").with_data(&json!({"uri": uri}))
}

/// The server that has a resource: by the lists; else the only one there is.
pub(crate) fn server_of_resource(client: &ClientState, uri: &str) -> Option<ServerName> {
    if let ServerSelection::One(server) = &client.selection {
        return Some(server.clone());
    }
    let listed = client
        .gateway
        .catalog(&client.selection)
        .server_of_resource(uri);
    let listed = listed.or_else(|| client.gateway.skills.server_of(uri));
    listed.or_else(|| match &*client.gateway.host.servers() {
        [only] => Some(only.config.name.clone()),
        _ => None,
    })
}

impl ServerRequest {
    /// Whether the server is connected and speaks the modern era.
    fn is_for_modern_server(&self, client: &ClientState) -> bool {
        let host = &client.gateway.host;
        let catalog = host.catalog();
        let of_tool = || catalog.resolve(&self.name).ok().map(|tool| &tool.id.server);
        let server = self.server.as_ref().or_else(of_tool);
        let handle = server.and_then(|server| host.server(server.as_str()));
        let session = handle.and_then(|handle| handle.snapshot().session.clone());
        session.is_some_and(|session| session.hello().era() == Era::Modern)
    }

    /// Whether this is about an address that only lists of skills could name.
    fn is_of_unknown_skill(request: &ClientRequest) -> bool {
        let is_of_address = matches!(
            request.method.as_str(),
            "skills/get" | "resources/directory/read" | "resources/read"
        );
        is_of_address
            && request
                .params
                .text("uri")
                .is_some_and(|uri| server_of_resource(&request.client, &uri).is_none())
    }

    /// Reads what is asked, and finds the server. The error is for the client.
    fn read(request: &ClientRequest) -> Result<Self, ErrorReply> {
        match request.method.as_str() {
            "tools/call" => Self::tool_call(request),
            "prompts/get" => Self::prompt(request),
            "resources/read" => Self::resource(request),
            "skills/get" | "resources/directory/read" => Self::by_address(request),
            _ => Self::completion(request),
        }
    }

    fn tool_call(request: &ClientRequest) -> Result<Self, ErrorReply> {
        let params = &request.params;
        let name = params
            .text("name")
            .ok_or_else(|| ErrorReply::invalid_params("name is missing"))?;
        let arguments = params.get("arguments").cloned();
        let arguments = arguments.unwrap_or_else(|| RawJson::from(json!({})));
        // Resolved before anything looks at the call: rules, checks and records see the tool itself.
        let (name, arguments) = match request.calls_in_search(search::CALL_TOOL) {
            true => {
                let inner = search::inner_call(params).map_err(ErrorReply::invalid_params)?;
                (inner.0, inner.1.unwrap_or_else(|| RawJson::from(json!({}))))
            }
            false => (name, arguments),
        };
        let name = match &request.client.selection {
            ServerSelection::All => name,
            ServerSelection::One(server) => format!("{server}/{name}"),
        };
        Ok(Self {
            server: None,
            name,
            arguments: Some(arguments),
            written: &["name", "arguments"],
            replaced: None,
        })
    }

    fn prompt(request: &ClientRequest) -> Result<Self, ErrorReply> {
        let params = &request.params;
        let name = params
            .text("name")
            .ok_or_else(|| ErrorReply::invalid_params("name is missing"))?;
        let (server, name) = server_of_prompt(&request.client, &name)?;
        Ok(Self {
            server: Some(server),
            replaced: Some(("name", RawJson::from(Value::from(name.as_str())))),
            name,
            arguments: None,
            written: &[],
        })
    }

    fn resource(request: &ClientRequest) -> Result<Self, ErrorReply> {
        let uri = request
            .params
            .text("uri")
            .ok_or_else(|| ErrorReply::invalid_params("uri is missing"))?;
        let server = server_of_resource(&request.client, &uri)
            .ok_or_else(|| no_resource(&uri, request.era))?;
        Ok(Self {
            server: Some(server),
            name: uri,
            arguments: None,
            written: &["uri"],
            replaced: None,
        })
    }

    /// A request about an address that goes to its server as it came.
    fn by_address(request: &ClientRequest) -> Result<Self, ErrorReply> {
        let asked = Self {
            written: &[],
            ..Self::resource(request)?
        };
        if request.method == "resources/directory/read"
            && let Some(server) = &asked.server
            && !skills::may_list_folders(&request.client.gateway.host, server)
        {
            let message = format!("server \"{server}\" does not list the files of a skill");
            return Err(ErrorReply::new(reply::METHOD_NOT_FOUND, message));
        }
        Ok(asked)
    }

    fn completion(request: &ClientRequest) -> Result<Self, ErrorReply> {
        #[derive(Deserialize)]
        struct CompletionReference {
            #[serde(rename = "type")]
            kind: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            uri: String,
        }
        let read = request.params.get("ref");
        let reference: CompletionReference = read
            .ok_or_else(|| ErrorReply::invalid_params("ref is missing"))?
            .decode()
            .map_err(|fault| ErrorReply::invalid_params(format!("ref: {fault}")))?;
        if reference.kind == "ref/prompt" {
            let (server, name) = server_of_prompt(&request.client, &reference.name)?;
            let mut renamed = read
                .and_then(|read| read.to_value().ok())
                .unwrap_or_default();
            renamed["name"] = name.as_str().into();
            // Only a name that clients see differently is written anew.
            let is_renamed = name != reference.name;
            return Ok(Self {
                server: Some(server),
                name,
                arguments: None,
                written: &[],
                replaced: is_renamed.then(|| ("ref", RawJson::from(renamed))),
            });
        }
        let server = server_of_resource(&request.client, &reference.uri)
            .ok_or_else(|| no_resource(&reference.uri, request.era))?;
        Ok(Self {
            server: Some(server),
            name: reference.uri,
            arguments: None,
            written: &[],
            replaced: None,
        })
    }

    /// The work of the host.
    fn start(
        &self,
        request: &ClientRequest,
        caller: &Arc<RequestCaller>,
    ) -> BoxFuture<'static, Answer> {
        let host = request.client.gateway.host.clone();
        let caller: Arc<dyn Caller> = caller.clone();
        let (server, name) = (self.server.clone(), self.name.clone());
        let Some(server) = server else {
            let arguments = self.arguments.clone();
            let arguments = arguments.unwrap_or_else(|| RawJson::from(json!({})));
            let call = Call::new(name, arguments).caller(caller);
            return Box::pin(async move { host.call_with(call).await.map(|result| result.raw) });
        };
        match request.method.as_str() {
            "resources/read" => Box::pin(async move { host.read(&server, &name, &caller).await }),
            "prompts/get" => Box::pin(async move {
                let method = "prompts/get";
                host.forward(&server, method, Some(&name), &caller).await
            }),
            method => {
                let method = method.to_owned();
                Box::pin(async move { host.forward(&server, &method, None, &caller).await })
            }
        }
    }
}

fn server_of_prompt(client: &ClientState, name: &str) -> Result<(ServerName, String), ErrorReply> {
    if let Some(found) = client.gateway.catalog(&client.selection).prompt(name) {
        return Ok(found.clone());
    }
    match &client.selection {
        // It may know prompts that it does not list.
        ServerSelection::One(server) => Ok((server.clone(), name.to_owned())),
        ServerSelection::All => Err(ErrorReply::invalid_params(format!(
            "no prompt {name:.100?}"
        ))),
    }
}

/// Records the request when it ends; as cancelled, if it is dropped before.
struct RecordGuard<'a> {
    request: &'a ClientRequest,
    number: u64,
    asked: &'a ServerRequest,
    caller: &'a Arc<RequestCaller>,
    began: Instant,
    is_recorded: bool,
}

impl RecordGuard<'_> {
    fn ended(&mut self, answer: &Answer) {
        let reason;
        let is_tool_error = || {
            let report = lock(&self.caller.report);
            report
                .as_ref()
                .is_some_and(|report| report.outcome == "tool error")
        };
        let outcome = match answer {
            Ok(result) if is_input_required(result) => RequestOutcome::InputRequired,
            Ok(_) if is_tool_error() => RequestOutcome::ToolError,
            Ok(_) => RequestOutcome::Answered,
            Err(error) => {
                reason = error.to_string();
                match error {
                    CallError::Denied { .. } => RequestOutcome::Denied(&reason),
                    _ => RequestOutcome::Failed(&reason),
                }
            }
        };
        self.record(outcome);
    }

    fn record(&mut self, outcome: RequestOutcome<'_>) {
        self.is_recorded = true;
        let client = &self.request.client;
        let approval = lock(&self.caller.approval).clone();
        let report = lock(&self.caller.report).take();
        client
            .gateway
            .settings
            .recorder
            .request_ended(&RequestRecord {
                number: self.number,
                principal: &client.principal,
                client_info: self.request.client_info.as_ref(),
                method: &self.request.method,
                server: self.asked.server.as_ref(),
                name: &self.asked.name,
                arguments: self.asked.arguments.as_ref(),
                approval: approval.as_deref(),
                report: report.as_ref(),
                outcome,
                duration: self.began.elapsed(),
            });
    }
}

impl Drop for RecordGuard<'_> {
    fn drop(&mut self) {
        if !self.is_recorded {
            self.record(RequestOutcome::Cancelled);
        }
    }
}

fn is_input_required(result: &RawJson) -> bool {
    let text = result.as_str();
    text.contains("\"input_required\"") && text.contains("\"inputRequests\"")
}
