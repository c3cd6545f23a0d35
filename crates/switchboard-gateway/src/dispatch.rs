//! Dispatches a message: a request that needs no server is answered at once, any other is returned
//! for a task to answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use switchboard::RawJson;
use switchboard::revision::Era;
use switchboard::wire::RequestId;
use tokio::sync::Notify;

use crate::client::{ClientKind, ClientState, read_roots};
use crate::client_catalog::ListKind;
use crate::client_request::ClientRequest;
use crate::deferred::DeferredRequest;
use crate::gateway_state::GatewayState;
use crate::immediate;
use crate::outbound::Outbound;
use crate::params::{ReadParams, RequestParams};
use crate::reply::{self, ErrorReply};
use crate::spans::{Arrival, RequestStart, ServerSpan};

/// How long a client may take to list its roots.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(60);

/// A request as an edge received it.
pub(crate) struct ReceivedRequest<'a> {
    pub(crate) id: RequestId,
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: ReadParams,
    pub(crate) arrived: Instant,
    pub(crate) arrival: Arrival<'a>,
}

/// A request whose params are valid.
struct ValidRequest<'a> {
    id: &'a RequestId,
    method: Cow<'static, str>,
    params: RequestParams,
    arrived: Instant,
}

/// Answers a request, or returns it for a task to answer.
pub(crate) fn request(
    gateway: &Arc<GatewayState>,
    client: &Arc<ClientState>,
    request: ReceivedRequest<'_>,
    outbound: &Outbound,
) -> Option<DeferredRequest> {
    let ReceivedRequest {
        id,
        method,
        params,
        arrived,
        arrival,
    } = request;
    let params = match params {
        Ok(params) => params,
        Err(fault) => {
            let error = ErrorReply::invalid_params(fault);
            outbound.send(reply::error(Some(&id), &error));
            return None;
        }
    };
    let mut span = gateway.settings.traces.server_span(|| RequestStart {
        method: &method,
        id: &id,
        params: &params,
        legacy_revision: client.handshake().map(|handshake| handshake.revision),
        arrival,
    });
    let request = ValidRequest {
        id: &id,
        method,
        params,
        arrived,
    };
    match begin(gateway, client, request, outbound, &mut span) {
        Ok(Dispatched::Answered(result)) => {
            span.answered();
            outbound.send(reply::result(&id, &result));
        }
        Ok(Dispatched::Deferred(request)) => return Some(request),
        Err(error) => {
            span.refused(error.code);
            outbound.send(reply::error(Some(&id), &error));
        }
    }
    None
}

/// The outcome of dispatching a request.
#[allow(clippy::large_enum_variant)] // Moved once, and the large variant is the usual one.
enum Dispatched {
    Answered(Bytes),
    Deferred(DeferredRequest),
}

fn begin(
    gateway: &Arc<GatewayState>,
    client: &Arc<ClientState>,
    request: ValidRequest<'_>,
    outbound: &Outbound,
    span: &mut ServerSpan,
) -> Result<Dispatched, ErrorReply> {
    let ValidRequest {
        id,
        method,
        params,
        arrived,
    } = request;
    if method != "server/discover" {
        gateway.start_servers();
    }
    if method == "initialize" {
        let result = immediate::initialize(gateway, client, &params)?;
        gateway.update_roots();
        return Ok(Dispatched::Answered(result));
    }
    let request = ClientRequest::read(client, arrived, method, params)?;
    // A legacy server has one log level for all requests.
    if request.era == Era::Modern
        && let Some(level) = request.params.meta().log_level
        && client.log_level() != Some(level)
    {
        client.set_log_level(level);
        match client.kind {
            ClientKind::Request => gateway.lower_log_level(level),
            _ => gateway.update_log_level(),
        }
    }
    let awaits_servers = ListKind::of_method(&request.method).is_some()
        && gateway.awaits_first_lists(&client.selection);
    if !awaits_servers && let Some(result) = immediate::answer(gateway, &request)? {
        return Ok(Dispatched::Answered(result));
    }
    let cancel = Arc::new(Notify::new());
    let responder = client.begin(id.clone(), outbound.clone(), &cancel, span)?;
    Ok(Dispatched::Deferred(DeferredRequest {
        gateway: gateway.clone(),
        request,
        responder,
        cancel,
    }))
}

/// Handles a notification. Unknown ones are ignored.
pub(crate) fn notification(
    gateway: &Arc<GatewayState>,
    client: &Arc<ClientState>,
    method: &str,
    params: Option<&RawJson>,
) {
    #[derive(Deserialize)]
    struct CancelledRequest {
        #[serde(rename = "requestId")]
        id: Box<serde_json::value::RawValue>,
    }
    match method {
        "notifications/initialized" => {
            client.set_initialized();
            ask_roots(gateway, client);
        }
        "notifications/roots/list_changed" => ask_roots(gateway, client),
        "notifications/cancelled" => {
            let cancelled = params.and_then(|params| params.decode::<CancelledRequest>().ok());
            if let Some(cancelled) = cancelled {
                client.cancel(&request_id(cancelled.id.get()));
            }
        }
        _ => {}
    }
}

fn request_id(text: &str) -> RequestId {
    match text.parse() {
        Ok(number) => RequestId::Number(number),
        Err(_) => RequestId::Other(text.parse().unwrap_or_else(|_| RawJson::from(Value::Null))),
    }
}

/// Asks a legacy client for its roots, if it declared that it has any.
fn ask_roots(gateway: &Arc<GatewayState>, client: &Arc<ClientState>) {
    if !client
        .handshake()
        .is_some_and(|handshake| handshake.capabilities.roots)
    {
        return;
    }
    let (gateway, asked) = (gateway.clone(), client.clone());
    let task = tokio::spawn(async move {
        let client = asked;
        let seal = client.question_seal(&*gateway.settings.cluster);
        let question = client
            .questions
            .ask(seal, &client.outbound, "roots/list", b"{}");
        let Ok(Some(Ok(result))) = tokio::time::timeout(ROOTS_TIMEOUT, question).await else {
            return;
        };
        let Some(roots) = read_roots(&result) else {
            return;
        };
        client.set_roots(roots, &result);
        gateway.update_roots();
    });
    client.set_roots_request(task.abort_handle());
}
