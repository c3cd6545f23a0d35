//! One message and what comes of it: the POST, and again where the session had to be begun anew;
//! then its answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use tokio::time::timeout;

use super::answer::{self, Reading, Use};
use super::channel::{Channel, Flight, Settling};
use super::headers::{self, SESSION_ID};
use super::request::Request;
use super::response::Response;
use super::{refusal, renewal};
use crate::caller::BoxFuture;
use crate::transport::{Closed, Delivery, WireFault};
use crate::wire::{Outgoing, RawJson};

/// A request may take as long as its caller waits, but not without end.
pub(super) const LONGEST_SILENCE: Duration = Duration::from_secs(60 * 60);

/// What nobody waits for may take this long.
pub(super) const NOTE_DEADLINE: Duration = Duration::from_secs(30);

/// The error that says that there is no such method, rather than no such session.
const METHOD_NOT_FOUND: i64 = -32601;

/// A message on its way.
struct Message {
    body: Bytes,
    /// What a modern message says in headers of its own, as lines; a legacy one says what its
    /// session does.
    modern: Option<String>,
}

/// Sends a message and reads what comes of it, in a task.
pub(super) fn send(channel: &Arc<Channel>, message: Outgoing<'_>) -> Result<(), Closed> {
    if let Some((flight, work)) = begin(channel, message, Some(LONGEST_SILENCE))? {
        channel.launch(flight, work);
    }
    Ok(())
}

/// Begins a request that its waiter carries out. The waiter's deadline is the only one.
pub(super) fn send_request(
    channel: &Arc<Channel>,
    message: Outgoing<'_>,
) -> Result<Option<Delivery>, Closed> {
    let id = message.id;
    Ok(begin(channel, message, None)?
        .and_then(|(_, work)| Some(Delivery::new(id?, work, channel.clone()))))
}

/// All that a message takes, and the place it has until then. A request may be met with so much
/// silence.
fn begin(
    channel: &Arc<Channel>,
    message: Outgoing<'_>,
    silence: Option<Duration>,
) -> Result<Option<(Flight, BoxFuture<'static, ()>)>, Closed> {
    let Outgoing {
        id,
        method,
        body,
        metadata,
    } = message;
    if channel.is_modern() && id.is_none() && method.is_none() {
        // A modern server asks nothing on this wire, and must be sent no answers.
        return Ok(None);
    }
    let landing = channel.take_off(id)?;
    let flight = landing.flight;
    let modern = metadata
        .version
        .map(|version| headers::beside(version, method, &metadata));
    let message = Message {
        body: Bytes::copy_from_slice(body),
        modern,
    };
    let part = match (method, id) {
        (None, None) => Part::Answer,
        (Some("initialize"), Some(id)) => {
            channel.set_legacy(|legacy| legacy.initialize = Some((id, message.body.clone())));
            Part::Initialize
        }
        (Some("notifications/initialized"), None) => {
            channel.set_legacy(|legacy| legacy.initialized = Some(message.body.clone()));
            Part::Initialized(channel.unsettle())
        }
        _ => Part::Plain,
    };
    let line = channel.clone();
    let work = Box::pin(async move {
        let _landing = landing;
        if matches!(part, Part::Plain | Part::Answer) {
            line.settled().await;
        }
        match id {
            Some(id) => {
                if let Err(fault) = request(&line, &message, id, &part, silence).await {
                    line.inbound.failed(id, fault);
                }
            }
            None => Box::pin(note(&line, &message, &part)).await,
        }
    });
    Ok(Some((flight, work)))
}

/// What a message is to the session.
enum Part {
    Initialize,
    /// Others wait while it is under way.
    Initialized(#[allow(dead_code)] Settling),
    /// To a question of the server.
    Answer,
    Plain,
}

async fn request(
    channel: &Arc<Channel>,
    message: &Message,
    id: u64,
    part: &Part,
    silence: Option<Duration>,
) -> Result<(), WireFault> {
    // Pinned, so that it is kept once, whichever way it is waited for.
    let posting = pin!(post(channel, message, Some(id), part));
    let response = match silence {
        None => posting.await?,
        Some(silence) => match timeout(silence, posting).await {
            Ok(response) => response?,
            Err(_) => {
                let place = &channel.endpoint.place;
                return Err(WireFault::Lost(format!(
                    "{place} gave no answer within {} s",
                    silence.as_secs()
                )));
            }
        },
    };
    let use_for = match part {
        Part::Initialize => {
            let given = given_session(&response)?;
            channel.set_legacy(|legacy| legacy.id = given);
            Use::Initialize
        }
        Part::Initialized(_) | Part::Answer | Part::Plain => Use::Deliver,
    };
    Reading::new(channel, id, use_for, silence)
        .read(response, message.modern.is_none())
        .await
}

/// Nobody waits for what becomes of it. A server that goes on would refuse the next request, too.
async fn note(channel: &Arc<Channel>, message: &Message, part: &Part) {
    let sent = timeout(NOTE_DEADLINE, async {
        let response = post(channel, message, None, part).await?;
        answer::drain(response).await;
        Ok::<_, WireFault>(())
    });
    match sent.await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => {
            tracing::debug!(place = channel.endpoint.place, %fault, "a message that asks nothing was refused")
        }
        Err(_) => tracing::debug!(
            place = channel.endpoint.place,
            "a message that asks nothing was not taken in time"
        ),
    }
}

/// Sends it, and once more if the server had forgotten the session.
async fn post(
    channel: &Arc<Channel>,
    message: &Message,
    id: Option<u64>,
    part: &Part,
) -> Result<Response, WireFault> {
    let endpoint = if matches!(part, Part::Answer) {
        &channel.answering
    } else {
        &channel.endpoint
    };
    let mut renewed = false;
    loop {
        let legacy = channel.legacy();
        let (headers, session) = match (&message.modern, part) {
            (Some(_), _) | (None, Part::Initialize) => (&endpoint.posting, None),
            (None, _) => (&legacy.headers, legacy.id.as_ref()),
        };
        let response = endpoint
            .ask(
                Request::post(&endpoint.url, headers, &message.body)
                    .with_lines(message.modern.as_deref()),
            )
            .await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let fault = Box::pin(refusal::read(response, id)).await;
        match session {
            Some(session)
                if status == StatusCode::NOT_FOUND && !renewed && !knows_session(&fault) =>
            {
                Box::pin(renewal::renew(channel, session)).await?;
                renewed = true;
            }
            _ => return Err(fault),
        }
    }
}

/// A 404 that means the method.
fn knows_session(fault: &WireFault) -> bool {
    let WireFault::Status {
        error: Some(error), ..
    } = fault
    else {
        return false;
    };
    code(error) == Some(METHOD_NOT_FOUND)
}

fn code(error: &RawJson) -> Option<i64> {
    error.to_value().ok()?["code"].as_i64()
}

/// The session that an answer to `initialize` opens.
pub(super) fn given_session(response: &Response) -> Result<Option<HeaderValue>, WireFault> {
    let Some(id) = response.header(&SESSION_ID) else {
        return Ok(None);
    };
    match HeaderValue::from_bytes(id) {
        Ok(value) if headers::is_visible(id) => Ok(Some(value)),
        _ => Err(WireFault::Lost(
            "the server gave a session id with characters that no id may have".to_owned(),
        )),
    }
}
