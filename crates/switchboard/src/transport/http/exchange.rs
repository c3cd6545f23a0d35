//! Sends one message as a POST, again if the session had to be renewed, and reads its response.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use tokio::time::timeout;

use super::channel::{Channel, MessageKey, SendBlock};
use super::headers::{self, SESSION_ID};
use super::legacy_session::LegacyHttpSession;
use super::request::HttpRequest;
use super::response::HttpResponse;
use super::response_reader::{self, ResponsePurpose, ResponseReader};
use super::{renewal, status_fault};
use crate::future::BoxFuture;
use crate::transport::{Closed, Delivery, TransportFault};
use crate::wire::{Outgoing, RawJson};

/// The upper bound for a request whose caller sets no earlier deadline.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(60 * 60);

/// The deadline of notifications and responses, which nobody waits for.
pub(super) const ONE_WAY_DEADLINE: Duration = Duration::from_secs(30);

/// Distinguishes an unknown method from an unknown session; both are HTTP 404.
const METHOD_NOT_FOUND: i64 = -32601;

/// The error code that SDKs use for requests that they reject before they handle them.
const SERVER_ERROR: i64 = -32000;

/// The body of a POST, and its own headers.
struct PostBody {
    body: Bytes,
    /// The header lines of a modern message; a legacy message has its session's headers.
    mcp_headers: Option<String>,
}

/// Sends a message and reads its response in a task.
pub(super) fn send(channel: &Arc<Channel>, message: Outgoing<'_>) -> Result<(), Closed> {
    if let Some((key, work)) = prepare(channel, message, Some(MAX_IDLE))? {
        channel.spawn(key, work);
    }
    Ok(())
}

/// Prepares a request that its waiter polls. The waiter's deadline is the only one.
pub(super) fn send_request(
    channel: &Arc<Channel>,
    message: Outgoing<'_>,
) -> Result<Option<Delivery>, Closed> {
    let id = message.id;
    Ok(prepare(channel, message, None)?
        .and_then(|(_, work)| Some(Delivery::new(id?, work, channel.clone()))))
}

/// Reserves room for a message and returns the future that sends it. `idle_timeout` limits the
/// server's silence.
fn prepare(
    channel: &Arc<Channel>,
    message: Outgoing<'_>,
    idle_timeout: Option<Duration>,
) -> Result<Option<(MessageKey, BoxFuture<'static, ()>)>, Closed> {
    let Outgoing {
        id,
        method,
        body,
        metadata,
    } = message;
    if channel.is_modern() && id.is_none() && method.is_none() {
        // A modern server sends no requests over HTTP, so it gets no responses.
        return Ok(None);
    }
    let reservation = channel.reserve(id)?;
    let key = reservation.key;
    let mcp_headers = metadata
        .version
        .map(|version| headers::mcp_headers(version, method, &metadata));
    let message = PostBody {
        body: Bytes::copy_from_slice(body),
        mcp_headers,
    };
    // Other messages wait while `notifications/initialized` is in flight.
    let mut block = None;
    let role = match (method, id) {
        (None, None) => MessageRole::Response,
        (Some("initialize"), Some(id)) => {
            channel.set_legacy(|legacy| legacy.initialize = Some((id, message.body.clone())));
            MessageRole::Initialize
        }
        (Some("notifications/initialized"), None) => {
            channel.set_legacy(|legacy| legacy.initialized = Some(message.body.clone()));
            block = Some(channel.block_sends());
            MessageRole::Initialized
        }
        _ => MessageRole::Other,
    };
    let channel = channel.clone();
    let work = Box::pin(async move {
        let _reservation = reservation;
        if matches!(role, MessageRole::Other | MessageRole::Response) {
            channel.wait_for_sends().await;
        }
        match id {
            Some(id) => {
                let sent = send_and_read(&channel, &message, id, &role, idle_timeout).await;
                if let Err(fault) = sent {
                    channel.inbound.failed(id, fault);
                }
            }
            None => Box::pin(send_one_way(&channel, &message, &role, block)).await,
        }
    });
    Ok(Some((key, work)))
}

/// The role of a message in the session.
enum MessageRole {
    Initialize,
    Initialized,
    /// A response to a request of the server.
    Response,
    Other,
}

async fn send_and_read(
    channel: &Arc<Channel>,
    message: &PostBody,
    id: u64,
    role: &MessageRole,
    idle_timeout: Option<Duration>,
) -> Result<(), TransportFault> {
    // Pinned, so that both branches poll the same future and it is stored once.
    let posting = pin!(post(channel, message, Some(id), role));
    let (response, mut session) = match idle_timeout {
        None => posting.await?,
        Some(idle_timeout) => match timeout(idle_timeout, posting).await {
            Ok(response) => response?,
            Err(_) => {
                let address = &channel.endpoint.address;
                return Err(TransportFault::Lost(format!(
                    "no response from {address} within {} s",
                    idle_timeout.as_secs()
                )));
            }
        },
    };
    let purpose = match role {
        MessageRole::Initialize => {
            let given = assigned_session(&response)?;
            channel.set_legacy(|legacy| legacy.id = given);
            session = channel.legacy();
            ResponsePurpose::Initialize
        }
        MessageRole::Initialized | MessageRole::Response | MessageRole::Other => {
            ResponsePurpose::Deliver
        }
    };
    ResponseReader::new(channel, id, purpose, session, idle_timeout)
        .read(response, message.mcp_headers.is_none())
        .await
}

/// Sends a notification or response. A failure is only logged: if the server is broken, the next
/// request fails too. Other messages are blocked until the server has accepted it.
async fn send_one_way(
    channel: &Arc<Channel>,
    message: &PostBody,
    role: &MessageRole,
    block: Option<SendBlock>,
) {
    let sent = timeout(ONE_WAY_DEADLINE, async {
        let (response, _) = post(channel, message, None, role).await?;
        drop(block);
        response_reader::drain(response).await;
        Ok::<_, TransportFault>(())
    });
    match sent.await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => {
            tracing::debug!(address = channel.endpoint.address, %fault, "a notification or response was rejected")
        }
        Err(_) => tracing::debug!(
            address = channel.endpoint.address,
            "a notification or response was not accepted in time"
        ),
    }
}

/// Sends the POST, and once more if the server had forgotten the session. Returns the session that
/// it was sent in.
async fn post(
    channel: &Arc<Channel>,
    message: &PostBody,
    id: Option<u64>,
    role: &MessageRole,
) -> Result<(HttpResponse, Arc<LegacyHttpSession>), TransportFault> {
    let endpoint = if matches!(role, MessageRole::Response) {
        &channel.reply_endpoint
    } else {
        &channel.endpoint
    };
    let mut renewed = false;
    loop {
        let legacy = channel.legacy();
        let (headers, session) = match (&message.mcp_headers, role) {
            (Some(_), _) | (None, MessageRole::Initialize) => (&endpoint.post_headers, None),
            (None, _) => (&legacy.headers, legacy.id.as_ref()),
        };
        let response = endpoint
            .send(
                HttpRequest::post(&endpoint.url, headers, &message.body)
                    .with_mcp_headers(message.mcp_headers.as_deref()),
            )
            .await?;
        let status = response.status();
        if status.is_success() {
            return Ok((response, legacy));
        }
        let fault = Box::pin(status_fault::read(response, id)).await;
        match session {
            Some(session) if !renewed && has_lost_session(status, &fault) => {
                Box::pin(renewal::renew(channel, session)).await?;
                renewed = true;
            }
            _ => return Err(fault),
        }
    }
}

/// Whether the server does not know the session any more. It must answer 404, which may also mean
/// an unknown method; several SDKs answer 400 with a text about the session.
fn has_lost_session(status: StatusCode, fault: &TransportFault) -> bool {
    let TransportFault::Status { detail, error, .. } = fault else {
        return false;
    };
    let code = error.as_ref().and_then(error_code);
    match status {
        StatusCode::NOT_FOUND => code != Some(METHOD_NOT_FOUND),
        StatusCode::BAD_REQUEST => {
            code.is_none_or(|code| code == SERVER_ERROR)
                && detail.to_ascii_lowercase().contains("session")
        }
        _ => false,
    }
}

fn error_code(error: &RawJson) -> Option<i64> {
    error.to_value().ok()?["code"].as_i64()
}

/// The session id in the response to `initialize`.
pub(super) fn assigned_session(
    response: &HttpResponse,
) -> Result<Option<HeaderValue>, TransportFault> {
    let Some(id) = response.header(&SESSION_ID) else {
        return Ok(None);
    };
    match HeaderValue::from_bytes(id) {
        Ok(value) if headers::is_visible_ascii(id) => Ok(Some(value)),
        _ => Err(TransportFault::Lost(
            "the server assigned a session id with invalid characters".to_owned(),
        )),
    }
}
