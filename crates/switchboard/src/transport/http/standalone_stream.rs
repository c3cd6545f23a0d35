//! The standalone GET stream on which a legacy server sends messages outside of requests: opened
//! where it is offered, and reopened with backoff when it ends.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use tokio::time::{Instant, sleep, timeout};

use super::channel::Channel;
use super::exchange::ONE_WAY_DEADLINE;
use super::headers::LAST_EVENT_ID;
use super::legacy_session::LegacyHttpSession;
use super::request::HttpRequest;
use super::response::HttpResponse;
use super::response_reader::{self, MediaType};
use super::{renewal, status_fault};
use crate::transport::deliver::deliver_text;
use crate::transport::read_limit::{PIECE_BYTES, Pacer};
use crate::transport::{Inbound, TransportFault, supervised};
use crate::wire::RawJson;
use crate::wire::events::{EventData, EventFrames, ServerEvent};

/// A stream without any data for this long, not even a comment, is reopened.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The reconnection delay if the server sends none, and its bounds.
const DEFAULT_DELAY: Duration = Duration::from_secs(1);
const MIN_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// The most consecutive failures with a server that never opened a stream.
const MAX_FAILURES: u32 = 5;

/// A stream that lasted this long resets the backoff, even without events.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Starts the task that reads the stream; the channel owns it.
pub(super) fn start(channel: &Arc<Channel>) {
    let task = channel
        .runtime
        .spawn(supervised(channel.inbound.clone(), listen(channel.clone())));
    channel.set_stream_task(task.abort_handle());
}

/// The delay before a stream is reopened: what the server requests, within bounds, doubled for each
/// consecutive failure.
pub(super) fn reconnect_delay(requested: Option<Duration>, failures: u32) -> Duration {
    let first = requested
        .unwrap_or(DEFAULT_DELAY)
        .clamp(MIN_DELAY, MAX_DELAY);
    first.saturating_mul(1 << failures.min(10)).min(MAX_DELAY)
}

/// Opens a stream of this session, resuming after an event if one is given.
pub(super) async fn open(
    channel: &Channel,
    session: &LegacyHttpSession,
    last_id: Option<&str>,
) -> Result<HttpResponse, TransportFault> {
    let endpoint = &channel.endpoint;
    let mut headers = session.add_headers(&endpoint.get_headers);
    // The parser drops ids that a header cannot carry.
    if let Some(id) = last_id.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok()) {
        headers.insert(LAST_EVENT_ID, id);
    }
    let asked = timeout(
        ONE_WAY_DEADLINE,
        endpoint.send(HttpRequest::get(&endpoint.url, &headers)),
    )
    .await;
    let response = asked.unwrap_or_else(|_| {
        Err(TransportFault::Lost(
            "timed out opening the event stream".to_owned(),
        ))
    })?;
    if !response.status().is_success() {
        return Err(status_fault::read(response, None).await);
    }
    match response_reader::media_type(response.header(&CONTENT_TYPE)) {
        MediaType::Events => Ok(response),
        _ => Err(status_fault::wrong_content_type(response, "something else").await),
    }
}

async fn listen(channel: Arc<Channel>) {
    channel.wait_for_sends().await;
    // A renewed session has a stream of its own.
    let session = channel.legacy();
    let mut frames = EventFrames::new(channel.endpoint.max_message_bytes);
    let mut failures = 0;
    let mut has_opened = false;
    // After the first attempt, messages may have been missed.
    let mut is_first = true;
    loop {
        let last_id = frames.last_id().map(str::to_owned);
        let mut requested = None;
        match open(&channel, &session, last_id.as_deref()).await {
            Ok(response) => {
                has_opened = true;
                frames.restart();
                if !is_first && last_id.is_none() {
                    channel.inbound.notifications_missed();
                }
                let was_useful = read(&channel, response, &mut frames).await;
                failures = if was_useful { 0 } else { failures + 1 };
            }
            Err(TransportFault::Status {
                status,
                retry_after,
                ..
            }) if is_retryable(status, has_opened, failures) => {
                requested = retry_after;
                failures += 1;
            }
            // The server has lost the session, which no request may notice for a long time. The
            // renewal starts a new stream.
            Err(TransportFault::Status { status: 404, .. }) if has_opened => {
                if let Some(forgotten) = &session.id {
                    let _ = renewal::renew(&channel, forgotten).await;
                }
                return;
            }
            // A token that could not be refreshed now may be refreshed later.
            Err(TransportFault::NeedsLogin(_)) if has_opened => failures += 1,
            // The server has no such stream (405), or rejects the request.
            Err(TransportFault::Status { .. } | TransportFault::NeedsLogin(_)) => return,
            Err(TransportFault::NotSent(_) | TransportFault::Lost(_)) => failures += 1,
        }
        is_first = false;
        sleep(reconnect_delay(requested.or(frames.retry()), failures)).await;
    }
}

/// Whether the server may still open a stream: it is busy or failing. From a server that never
/// opened one, a 5xx may mean that it has none. One that did may refuse another stream until it
/// notices that the last one is closed (409).
fn is_retryable(status: u16, has_opened: bool, failures: u32) -> bool {
    match status {
        408 | 429 | 502..=504 => true,
        404 | 405 | 501 => false,
        500 | 505..=599 => has_opened || failures < MAX_FAILURES,
        _ => has_opened,
    }
}

/// Whether a stream that was open before may be opened again after this fault.
pub(super) fn may_open_later(fault: &TransportFault) -> bool {
    match fault {
        TransportFault::Status { status, .. } => is_retryable(*status, false, MAX_FAILURES),
        TransportFault::NotSent(_) | TransportFault::Lost(_) => true,
        TransportFault::NeedsLogin(_) => false,
    }
}

/// Reads a stream to its end. True if it delivered an event or lasted.
async fn read(channel: &Channel, mut response: HttpResponse, frames: &mut EventFrames) -> bool {
    let opened_at = Instant::now();
    let mut has_events = false;
    let mut pacer = Pacer::new(&channel.read_limit);
    while let Ok(Some(chunk)) =
        response_reader::next_chunk(channel, &mut response, Some(IDLE_TIMEOUT)).await
    {
        for piece in chunk.chunks(PIECE_BYTES) {
            if let Some(pause) = pacer.pause() {
                pause.await;
            }
            pacer.push(piece, frames, &*channel.inbound, &mut |event| {
                has_events |= matches!(event, ServerEvent::Event { .. });
                deliver(event, &*channel.inbound)
            });
        }
    }
    has_events || opened_at.elapsed() > STABLE_AFTER
}

/// Delivers an event of a stream that is shared by all requests. Returns the number of messages in
/// it.
pub(in crate::transport) fn deliver(event: ServerEvent<'_>, inbound: &dyn Inbound) -> usize {
    let data = match event {
        ServerEvent::Oversized(message) => {
            inbound.oversized(message);
            return 0;
        }
        ServerEvent::Event { name, data, .. } if response_reader::is_message(name, &data) => data,
        ServerEvent::Event { .. } => return 0,
    };
    match &data {
        EventData::Short(text) => deliver_text(text, RawJson::keep, inbound),
        EventData::Long(bytes) => deliver_text(bytes, |part| RawJson::share(bytes, part), inbound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f21_a_stream_that_never_opens_is_given_up() {
        for (status, has_opened, failures, expected) in [
            (500, false, 0, true),
            (500, false, MAX_FAILURES, false),
            (500, true, 1_000, true),
            (507, true, 0, true),
            (503, false, 1_000, true),
            (429, false, 1_000, true),
            (501, true, 0, false),
            (405, true, 0, false),
            (400, false, 0, false),
            (409, false, 0, false),
            (409, true, 1_000, true),
        ] {
            assert_eq!(
                is_retryable(status, has_opened, failures),
                expected,
                "{status}, {has_opened}, {failures}"
            );
        }
    }

    #[test]
    fn f26_the_reconnect_delay_requested_by_the_server_is_bounded() {
        let ms = Duration::from_millis;
        for (requested, failures, expected) in [
            (None, 0, DEFAULT_DELAY),
            (Some(Duration::ZERO), 0, MIN_DELAY),
            (Some(ms(500)), 0, ms(500)),
            (Some(ms(500)), 2, ms(2000)),
            (Some(Duration::MAX), 0, MAX_DELAY),
            (Some(ms(500)), u32::MAX, MAX_DELAY),
        ] {
            assert_eq!(
                reconnect_delay(requested, failures),
                expected,
                "{requested:?}, {failures}"
            );
        }
    }
}
