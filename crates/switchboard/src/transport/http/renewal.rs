//! Re-initializes a legacy session that the server has forgotten, once for all requests that
//! noticed.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::channel::Channel;
use super::legacy_session::LegacyHttpSession;
use super::request::HttpRequest;
use super::response_reader::{self, ResponseOutcome, ResponsePurpose, ResponseReader};
use super::{exchange, standalone_stream, status_fault};
use crate::transport::{Closed, TransportFault};

/// The deadline of the new handshake.
const DEADLINE: Duration = Duration::from_secs(30);

/// Renews the session, unless another request has done so since `forgotten` was sent. If that
/// fails, the channel is closed.
///
/// Runs in a task: other requests wait for the same renewal, and this request may be cancelled.
pub(super) async fn renew(
    channel: &Arc<Channel>,
    forgotten: &HeaderValue,
) -> Result<(), TransportFault> {
    let reservation = channel
        .reserve(None)
        .map_err(|closed| TransportFault::Lost(closed.to_string()))?;
    let (owned, forgotten, (reply, outcome)) =
        (channel.clone(), forgotten.clone(), oneshot::channel());
    let key = reservation.key;
    let work = async move {
        let _reservation = reservation;
        // Fails only if the request was cancelled.
        let _ = reply.send(renew_once(&owned, &forgotten).await);
    };
    channel.spawn(key, Box::pin(work));
    outcome
        .await
        .unwrap_or_else(|_| Err(TransportFault::Lost(Closed.to_string())))
}

async fn renew_once(channel: &Arc<Channel>, forgotten: &HeaderValue) -> Result<(), TransportFault> {
    let _one = channel.renewal_lock.lock().await;
    if channel.legacy().id.as_ref() != Some(forgotten) {
        return Ok(());
    }
    let outcome = match timeout(DEADLINE, reinitialize(channel)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(TransportFault::Lost(format!(
            "no response to a new handshake within {} s",
            DEADLINE.as_secs()
        ))),
    };
    match outcome {
        Ok(()) => {
            channel.inbound.session_renewed();
            standalone_stream::start(channel);
            Ok(())
        }
        Err(fault) => {
            channel.inbound.closed(format!(
                "the server dropped the session, and a new one could not be established: {fault}"
            ));
            Err(fault)
        }
    }
}

/// Repeats the handshake. Its result is ignored: the session continues with what was negotiated.
async fn reinitialize(channel: &Arc<Channel>) -> Result<(), TransportFault> {
    let endpoint = &channel.endpoint;
    let legacy = channel.legacy();
    let Some((id, initialize)) = &legacy.initialize else {
        return Err(TransportFault::Lost(
            "there was no handshake to repeat".to_owned(),
        ));
    };
    let response = endpoint
        .send(HttpRequest::post(
            &endpoint.url,
            &endpoint.post_headers,
            initialize,
        ))
        .await?;
    if !response.status().is_success() {
        return Err(status_fault::read(response, Some(*id)).await);
    }
    let given = exchange::assigned_session(&response)?;
    let purpose = ResponsePurpose::Renew;
    let mut reader = ResponseReader::new(channel, *id, purpose, legacy.clone(), None);
    // The new session is not known to the channel yet, so nothing is resumed in it.
    reader.read(response, false).await?;
    if reader.answered != Some(ResponseOutcome::Result) {
        return Err(TransportFault::Lost(
            "the server rejected the new handshake".to_owned(),
        ));
    }
    // Set last: until then other requests still get a 404, and wait for the renewal.
    let renewed = LegacyHttpSession {
        id: given.clone(),
        ..LegacyHttpSession::clone(&channel.legacy())
    };
    let headers = renewed.add_headers(&endpoint.post_headers);
    if let Some(initialized) = &legacy.initialized {
        let response = endpoint
            .send(HttpRequest::post(&endpoint.url, &headers, initialized))
            .await?;
        if !response.status().is_success() {
            return Err(status_fault::read(response, None).await);
        }
        response_reader::drain(response).await;
    }
    channel.set_legacy(|legacy| legacy.id = given);
    Ok(())
}
