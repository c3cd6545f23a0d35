//! Begins a session anew that the server has forgotten: once for all the requests that found out,
//! with our own first words.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answer::{self, Answered, Reading, Use};
use super::channel::Channel;
use super::legacy::Legacy;
use super::request::Request;
use super::{exchange, listening, refusal};
use crate::transport::{Closed, WireFault};

/// Beginning anew may take this long.
const DEADLINE: Duration = Duration::from_secs(30);

/// Begins anew, unless another request has done so since `forgotten` was sent. If it fails, the
/// channel has ended.
///
/// In a task: others wait for the same, and whoever found out may stop waiting.
pub(super) async fn renew(
    channel: &Arc<Channel>,
    forgotten: &HeaderValue,
) -> Result<(), WireFault> {
    let landing = channel
        .take_off(None)
        .map_err(|closed| WireFault::Lost(closed.to_string()))?;
    let (line, forgotten, (told, outcome)) =
        (channel.clone(), forgotten.clone(), oneshot::channel());
    let flight = landing.flight;
    let work = async move {
        let _landing = landing;
        // Nobody may be there any more.
        let _ = told.send(renew_once(&line, &forgotten).await);
    };
    channel.launch(flight, Box::pin(work));
    outcome
        .await
        .unwrap_or_else(|_| Err(WireFault::Lost(Closed.to_string())))
}

async fn renew_once(channel: &Arc<Channel>, forgotten: &HeaderValue) -> Result<(), WireFault> {
    let _one = channel.renewing.lock().await;
    if channel.legacy().id.as_ref() != Some(forgotten) {
        return Ok(());
    }
    let begun = match timeout(DEADLINE, begin(channel)).await {
        Ok(begun) => begun,
        Err(_) => Err(WireFault::Lost(format!(
            "no answer to a new handshake within {} s",
            DEADLINE.as_secs()
        ))),
    };
    match begun {
        Ok(()) => {
            channel.inbound.renewed();
            listening::start(channel);
            Ok(())
        }
        Err(fault) => {
            channel.inbound.closed(format!(
                "the server forgot the session, and a new one could not be begun: {fault}"
            ));
            Err(fault)
        }
    }
}

/// Says our first words again. Nobody waits for the answer: the session goes on as it was agreed.
async fn begin(channel: &Arc<Channel>) -> Result<(), WireFault> {
    let endpoint = &channel.endpoint;
    let legacy = channel.legacy();
    let Some((id, initialize)) = &legacy.initialize else {
        return Err(WireFault::Lost(
            "there was no handshake to repeat".to_owned(),
        ));
    };
    let response = endpoint
        .ask(Request::post(&endpoint.url, &endpoint.posting, initialize))
        .await?;
    if !response.status().is_success() {
        return Err(refusal::read(response, Some(*id)).await);
    }
    let given = exchange::given_session(&response)?;
    let mut reading = Reading::new(channel, *id, Use::Renew, None);
    reading.read(response, true).await?;
    if reading.answered != Some(Answered::Result) {
        return Err(WireFault::Lost(
            "the server refused the handshake this time".to_owned(),
        ));
    }
    // Only now do others use it: until here they find out by themselves, and wait.
    let renewed = Legacy {
        id: given.clone(),
        ..Legacy::clone(&channel.legacy())
    };
    let headers = renewed.beside(&endpoint.posting);
    if let Some(initialized) = &legacy.initialized {
        let response = endpoint
            .ask(Request::post(&endpoint.url, &headers, initialized))
            .await?;
        if !response.status().is_success() {
            return Err(refusal::read(response, None).await);
        }
        answer::drain(response).await;
    }
    channel.set_legacy(|legacy| legacy.id = given);
    Ok(())
}
