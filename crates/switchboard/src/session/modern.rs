//! Sessions of the modern era (2026-07-28 and later): each request names its revision and the
//! caller's capabilities, and the server asks by requiring input.
//!
//! | file | what it does |
//! |---|---|
//! | `discover` | which revisions the server supports |
//! | `meta` | the `_meta` of requests |
//! | `input` | provides the input that the server requires |
//! | `listen` | the stream on which the server reports changes |
//! | `tasks` | results that are tasks |

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use self::input::InputResponder;
use super::fault::HEADER_MISMATCH;
use super::in_flight::InFlightCall;
use super::notifications::subscription;
use super::peer::{OutboundRequest, ParamField, Peer};
use super::receiver::{EraInbound, Receiver, TaskGuard};
use super::result_kind::ResultKind;
use super::{Hello, RequestFault, RequestResult, Revision};
use crate::catalog::parameters;
use crate::gate::Permit;
use crate::transport::{MessageOrigin, TransportFault};
use crate::wire::{RawJson, RequestId, TOOLS_CALL};

mod discover;
mod input;
mod listen;
mod meta;
mod tasks;

pub(super) use discover::{discover, discover_once, read_discovery, start_discover};

/// The most times that a server may require input for one request.
const MAX_ROUNDS: usize = 16;

/// The modern half of a session.
pub(super) struct ModernHalf {
    pub(super) revision: Revision,
    _listen: TaskGuard,
}

/// How a modern session handles messages of the server.
static INBOUND: ModernInbound = ModernInbound;

struct ModernInbound;

impl EraInbound for ModernInbound {
    /// A modern server may not send requests.
    fn server_request(
        &self,
        receiver: &Receiver,
        _: RequestId,
        _: &str,
        _: Option<RawJson>,
        _: MessageOrigin,
    ) {
        receiver.deviations().forbidden_requests += 1;
    }

    fn oversized_request(&self, receiver: &Receiver, _: &RequestId) {
        receiver.deviations().forbidden_requests += 1;
    }

    /// Where there is no stream to close, a server ends a subscription so. A caller's request needs a
    /// response.
    fn cancelled(&self, receiver: &Receiver, id: RequestId) {
        let RequestId::Number(id) = id else { return };
        let lost = TransportFault::Lost("the server ended the request".to_owned());
        let fault = RequestFault::Transport(lost);
        if receiver.pending.fail_without_caller(id, fault) {
            receiver.close_exchange(id);
        }
    }

    /// A notification that names a request, or came on the stream of one, counts only while that
    /// request is open.
    fn is_subscribed(
        &self,
        receiver: &Receiver,
        params: Option<&RawJson>,
        origin: MessageOrigin,
    ) -> bool {
        subscription(params, origin).is_none_or(|id| receiver.pending.contains(id))
    }

    /// A modern server logs only for a request that asked for it.
    fn call_that_logs(&self, receiver: &Receiver) -> Option<(Arc<InFlightCall>, bool)> {
        let all_want_logs = receiver.options.subscriptions.level().is_some();
        let mut calls = receiver.candidate_calls().in_flight;
        calls.retain(|(_, call)| all_want_logs || call.caller().log_level().is_some());
        let (_, first) = calls.first()?;
        let is_one_callers = calls
            .iter()
            .all(|(_, other)| other.caller_id() == first.caller_id());
        is_one_callers.then(|| (first.clone(), calls.len() == 1))
    }
}

/// A request that belongs to no caller.
pub(super) fn request<'a>(
    revision: Revision,
    method: &'a str,
    fields: &'a [ParamField<'a>],
) -> OutboundRequest<'a> {
    OutboundRequest {
        method,
        fields,
        meta: meta::meta(revision, Default::default(), false),
        revision: Some(revision),
        name: None,
        parameters: &[],
        is_idempotent: method.ends_with("/list"),
        forwards_params: false,
    }
}

/// Starts the modern half of a session after its handshake.
pub(super) fn start(peer: &Peer, hello: &Hello) -> ModernHalf {
    let set = peer.receiver.era.set(&INBOUND);
    set.ok().expect("a session has one handshake");
    ModernHalf {
        revision: hello.revision,
        _listen: peer
            .receiver
            .spawn(listen::run(peer.clone(), hello.clone())),
    }
}

impl ModernHalf {
    /// Calls a tool, with the headers that its schema requires if the transport has headers.
    pub(super) async fn call_tool(
        &self,
        peer: &Peer,
        permit: &Permit,
        call: &Arc<InFlightCall>,
    ) -> RequestResult {
        let tool = permit.tool();
        let fields: [ParamField<'_>; 2] = [
            ("name", tool.definition.name_json.as_bytes()),
            ("arguments", permit.arguments().as_bytes()),
        ];
        let parameters = match &tool.definition.mirrored {
            Ok(mirrored) if peer.transport.properties().sends_headers => {
                parameters(mirrored, permit.arguments())
                    .map_err(|fact| RequestFault::NotSent(format!("not sent: {fact}")))?
            }
            _ => Vec::new(),
        };
        let request = OutboundRequest {
            name: Some(tool.id.tool.as_wire()),
            parameters: &parameters,
            is_idempotent: tool.idempotent,
            forwards_params: true,
            ..request(self.revision, TOOLS_CALL, &fields)
        };
        self.send_request(peer, call, &request).await
    }

    /// Sends a caller's request, provides the input that the server requires, and returns the final
    /// result.
    pub(super) async fn send_request(
        &self,
        peer: &Peer,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
    ) -> RequestResult {
        let responder = InputResponder::new(peer, call);
        let level = call
            .caller()
            .log_level()
            .or_else(|| peer.receiver.options.subscriptions.level());
        let meta = meta::meta(self.revision, responder.offers, responder.roots.is_some());
        let meta = meta::with_log_level(meta, level);
        let mut input: Option<(Vec<u8>, Option<RawJson>)> = None;
        for _ in 0..MAX_ROUNDS {
            let mut fields = request.fields.to_vec();
            if let Some((responses, state)) = &input {
                // A server that only wants its state back required no input.
                if responses != b"{}" {
                    fields.push(("inputResponses", responses));
                }
                if let Some(state) = state {
                    fields.push(("requestState", state.as_bytes()));
                }
            }
            let request = OutboundRequest {
                fields: &fields,
                meta: &meta,
                ..*request
            };
            let result = match peer.request_for(call, &request).await {
                // Only in the first round: after an earlier one the call may have been executed.
                Err(RequestFault::ErrorResponse {
                    code: HEADER_MISMATCH,
                    message,
                    data,
                }) if input.is_none() => {
                    return Err(RequestFault::HeaderMismatch { message, data });
                }
                result => result?,
            };
            match ResultKind::read(&result)? {
                ResultKind::Complete => return Ok(result),
                // Rare branches are boxed: they would make every call's future larger.
                ResultKind::Task if call.permit().is_some() => {
                    let template = OutboundRequest {
                        meta: &meta,
                        ..self::request(self.revision, "", &[])
                    };
                    return Box::pin(tasks::follow(peer, call, template, &result)).await;
                }
                ResultKind::Task => {
                    return Err(RequestFault::Invalid(format!(
                        "a task in response to {}",
                        request.method
                    )));
                }
                ResultKind::InputRequired { requests, .. }
                    if call.caller().handles_input_required()
                        && responder.caller_supports(&requests) =>
                {
                    call.gave_input.store(true, Ordering::Relaxed);
                    Box::pin(responder.permit_sampling(&requests)).await?;
                    return Ok(result);
                }
                ResultKind::InputRequired { requests, state } => {
                    // The response restarts the idle deadline like progress.
                    call.deadlines.restart_idle(Instant::now());
                    call.gave_input.store(true, Ordering::Relaxed);
                    input = Some((Box::pin(responder.respond(&requests)).await?, state));
                }
            }
        }
        Err(RequestFault::Invalid(format!(
            "the server required input {MAX_ROUNDS} times without completing"
        )))
    }
}
