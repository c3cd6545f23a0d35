//! Sessions of the legacy era (2024-11-05 to 2025-11-25): a handshake, then requests in both
//! directions.
//!
//! | file | what it does |
//! |---|---|
//! | `initialize` | the handshake |
//! | `server_requests` | answers the server's requests, on behalf of the call that caused them |
//! | `caller_question` | one question: asked, declined or withdrawn |
//! | `url_elicitation` | pages that a caller must visit, also as a precondition of a request |
//! | `tasks` | calls that become tasks |
//! | `subscribe` | subscriptions and the log level |
//! | `keep_alive` | pings, on transports that do not detect the end of a connection |

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::{Instant, timeout_at};

use self::tasks::TaskCapabilities;
use super::caller_queue::{CallerQueue, CallerTurn};
use super::in_flight::InFlightCall;
use super::peer::{OutboundRequest, ParamField, Peer, PendingResponse};
use super::receiver::{EraInbound, Receiver, TaskGuard};
use super::result_kind::is_plainly_complete;
use super::roots::RootChanges;
use super::{Hello, RequestFault, RequestResult};
use crate::config::Asks;
use crate::event::SessionCallers;
use crate::gate::Permit;
use crate::transport::MessageOrigin;
use crate::untrusted::quoted;
use crate::wire::{RawJson, RequestId, TOOLS_CALL};

mod caller_question;
mod initialize;
mod keep_alive;
mod server_requests;
mod subscribe;
mod tasks;
mod url_elicitation;

pub(super) use initialize::initialize;
pub(super) use server_requests::{ServerRequests, withdraw_for};
pub(super) use url_elicitation::UrlElicitations;

/// 2025-11-25: a page must be visited before the request can be processed. The request was not
/// executed, so it may be sent again.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// The legacy half of a session.
pub(super) struct LegacyHalf {
    /// Serialises callers.
    queue: Arc<CallerQueue>,
    tasks: TaskCapabilities,
    _subscriptions: TaskGuard,
    /// If roots are offered: notifies the server of changes.
    _roots: Option<TaskGuard>,
    _keep_alive: Option<TaskGuard>,
}

/// How a legacy session handles messages of the server.
pub(super) static INBOUND: LegacyInbound = LegacyInbound;

pub(super) struct LegacyInbound;

impl EraInbound for LegacyInbound {
    fn server_request(
        &self,
        receiver: &Receiver,
        id: RequestId,
        method: &str,
        params: Option<RawJson>,
        origin: MessageOrigin,
    ) {
        server_requests::handle(receiver, id, method, params, origin);
    }

    fn oversized_request(&self, receiver: &Receiver, id: &RequestId) {
        server_requests::refuse_oversized(receiver, id);
    }

    fn cancelled(&self, receiver: &Receiver, id: RequestId) {
        receiver.server_requests.withdraw(&id);
    }

    fn is_subscribed(&self, _: &Receiver, _: Option<&RawJson>, _: MessageOrigin) -> bool {
        true
    }

    /// A legacy server may log at any time, also for a call that has ended: only a caller that
    /// requested logs gets them, and only if no other caller's call was in flight since the session
    /// last had none.
    fn call_that_logs(&self, receiver: &Receiver) -> Option<(Arc<InFlightCall>, bool)> {
        if receiver.pending.callers() == SessionCallers::Several {
            return None;
        }
        let calls = receiver.candidate_calls().in_flight;
        let (_, first) = calls.first()?;
        let is_wanted = first.caller().accepts_unattributed_logs();
        is_wanted.then(|| (first.clone(), calls.len() == 1))
    }
}

/// Refuses a result that claims to be incomplete. A caller could take it for the question of a modern
/// server, whose sampling requests the gate has decided on.
#[inline]
pub(super) fn check_complete(result: RawJson) -> Result<RawJson, Box<RequestFault>> {
    match is_plainly_complete(&result) {
        true => Ok(result),
        false => refuse_incomplete(result),
    }
}

#[cold]
fn refuse_incomplete(result: RawJson) -> Result<RawJson, Box<RequestFault>> {
    match result.member("resultType") {
        None | Some("\"complete\"") => Ok(result),
        Some(kind) => Err(Box::new(RequestFault::Invalid(format!(
            "resultType {}, which its protocol version does not have",
            quoted(kind)
        )))),
    }
}

/// A request that belongs to no caller.
pub(super) fn request<'a>(method: &'a str, fields: &'a [ParamField<'a>]) -> OutboundRequest<'a> {
    OutboundRequest {
        method,
        fields,
        meta: "",
        revision: None,
        name: None,
        parameters: &[],
        is_idempotent: method.ends_with("/list"),
        forwards_params: false,
    }
}

fn tool_fields(permit: &Permit) -> [ParamField<'_>; 2] {
    [
        ("name", permit.tool().definition.name_json.as_bytes()),
        ("arguments", permit.arguments().as_bytes()),
    ]
}

fn tool_request<'a>(permit: &'a Permit, fields: &'a [ParamField<'a>]) -> OutboundRequest<'a> {
    let tool = permit.tool();
    OutboundRequest {
        name: Some(tool.id.tool.as_wire()),
        is_idempotent: tool.idempotent,
        forwards_params: true,
        ..request(TOOLS_CALL, fields)
    }
}

/// Starts the legacy half of a session after its handshake.
pub(super) fn start(peer: &Peer, hello: &Hello, roots: Option<RootChanges>) -> LegacyHalf {
    let set = peer.receiver.era.set(&INBOUND);
    set.ok().expect("a session has one handshake");
    let tasks = TaskCapabilities::of(hello);
    let subscribing = subscribe::run(peer.clone(), hello.clone());
    LegacyHalf {
        queue: Arc::default(),
        tasks,
        _subscriptions: peer.receiver.spawn(subscribing),
        _roots: roots.map(|changes| peer.receiver.spawn(report_roots(peer.clone(), changes))),
        _keep_alive: keep_alive::start(peer),
    }
}

/// Notifies the server when the roots change. A modern server asks for them with each call.
async fn report_roots(peer: Peer, mut changes: RootChanges) {
    while changes.changed().await.is_ok() {
        peer.notify("notifications/roots/list_changed", &serde_json::Value::Null);
    }
}

impl LegacyHalf {
    /// Sends a tool call at once. `None` if something must come first: a turn among the callers,
    /// room in the transport; or if the tool must be called as a task.
    #[inline(always)]
    pub(super) fn send_call<'a>(
        &self,
        peer: &'a Peer,
        permit: &Permit,
        call: &Arc<InFlightCall>,
    ) -> Result<Option<PendingResponse<'a>>, Box<RequestFault>> {
        if self.calls_as_task(permit) || serialises_callers(&peer.receiver) {
            return Ok(None);
        }
        peer.begin_now(call, &tool_request(permit, &tool_fields(permit)))
    }

    /// Makes a call that was not sent at once, or failed with this fault.
    pub(super) async fn finish_call(
        &self,
        peer: &Peer,
        permit: &Permit,
        call: &Arc<InFlightCall>,
        fault: Option<Box<RequestFault>>,
    ) -> RequestResult {
        let (fields, as_task) = (tool_fields(permit), self.calls_as_task(permit));
        let request = tool_request(permit, &fields);
        let Some(fault) = fault else {
            return self.exchange(peer, call, &request, as_task).await;
        };
        match peer.retry(call, &request, *fault).await {
            Err(fault) => self.visit_pages(peer, call, &request, as_task, fault).await,
            Ok(result) => Ok(check_complete(result)?),
        }
    }

    fn calls_as_task(&self, permit: &Permit) -> bool {
        permit.tool().definition.is_task && self.tasks.calls
    }

    /// Sends a request for a resource or a prompt.
    pub(super) async fn send_request(
        &self,
        peer: &Peer,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
    ) -> RequestResult {
        self.exchange(peer, call, request, false).await
    }

    async fn exchange(
        &self,
        peer: &Peer,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
        as_task: bool,
    ) -> RequestResult {
        let turn = match serialises_callers(&peer.receiver) {
            true => Some(self.wait_for_turn(call).await?),
            false => None,
        };
        if turn.is_some() {
            // The server was not silent: it did not have the request. The total counts on.
            call.deadlines.restart_idle(Instant::now());
        }
        match self.send(peer, call, request, as_task).await {
            Err(fault) => self.visit_pages(peer, call, request, as_task, fault).await,
            result => result,
        }
    }

    async fn send(
        &self,
        peer: &Peer,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
        as_task: bool,
    ) -> RequestResult {
        let result = match as_task {
            true => tasks::call_as_task(peer, call, *request, self.tasks).await,
            false => peer.request_for(call, request).await,
        };
        Ok(check_complete(result?)?)
    }

    /// Sends the request again if it failed because pages must be visited first, and the caller has
    /// visited them.
    async fn visit_pages(
        &self,
        peer: &Peer,
        call: &Arc<InFlightCall>,
        request: &OutboundRequest<'_>,
        as_task: bool,
        fault: RequestFault,
    ) -> RequestResult {
        match &fault {
            RequestFault::ErrorResponse {
                code: URL_ELICITATION_REQUIRED,
                data: Some(data),
                ..
            } if peer.receiver.options.offers.elicit_url
                && call.caller().capabilities().elicit_url
                && url_elicitation::visit_pages(peer, call, data).await? =>
            {
                self.send(peer, call, request, as_task).await
            }
            _ => Err(fault),
        }
    }

    async fn wait_for_turn(&self, call: &InFlightCall) -> Result<CallerTurn, RequestFault> {
        let began = Instant::now();
        let turn = timeout_at(call.deadlines.first, self.queue.enter(call.caller_id())).await;
        call.deadlines.add_queued(began.elapsed());
        let turn = turn.map_err(|_| RequestFault::QueueTimeout {
            after: call.deadlines.shortest(),
        })?;
        call.set_queue(&self.queue);
        Ok(turn)
    }
}

/// Whether calls of different callers must not overlap: the server asks questions, and nothing
/// shows which call a question belongs to.
fn serialises_callers(receiver: &Receiver) -> bool {
    match receiver.options.asks {
        Asks::Yes => true,
        Asks::No => false,
        Asks::Auto => receiver.asked_on_shared_stream.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t32_a_legacy_result_is_complete_or_refused() {
        let check = |result: &str, is_accepted: bool| {
            let result = RawJson::parse(result.to_owned()).expect("JSON");
            assert_eq!(
                check_complete(result.clone()).is_ok(),
                is_accepted,
                "{result:?}"
            );
        };
        check(r#"{"content":[]}"#, true);
        check(r#"{"resultType":"complete"}"#, true);
        check(
            r#"{"structuredContent":{"resultType":"input_required"}}"#,
            true,
        );
        check(
            r#"{"resultType":"input_required","inputRequests":{}}"#,
            false,
        );
        check(
            r#"{"resultType":"complete","result\u0054ype":"input_required"}"#,
            false,
        );
        check(r#"{"resultType":"task"}"#, false);
    }
}
