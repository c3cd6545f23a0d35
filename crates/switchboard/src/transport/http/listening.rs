//! The stream on which a legacy server speaks unasked: opened where it is offered, opened again
//! when it ends, never in a hurry.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use tokio::time::{Instant, sleep, timeout};

use super::answer::{self, Kind};
use super::channel::Channel;
use super::exchange::NOTE_DEADLINE;
use super::headers::LAST_EVENT_ID;
use super::request::Request;
use super::response::Response;
use super::{refusal, renewal};
use crate::transport::read_limit::{PIECE_BYTES, Pacer};
use crate::transport::{Inbound, MessageOrigin, WireFault, supervised};
use crate::wire::events::{EventData, EventFrames, ServerEvent};
use crate::wire::{RawJson, parse};

/// A stream that says nothing at all for this long, not even a comment, is opened anew.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// A pause where the server names none, and what it may name.
const PAUSE: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A server that never opened a stream may fail so often in a row.
const MAX_FAILURES: u32 = 5;

/// A stream that lasted this long did its work, whether or not it said anything.
const WORTHWHILE: Duration = Duration::from_secs(30);

/// Listens from now on; the channel owns the task.
pub(super) fn start(channel: &Arc<Channel>) {
    let task = channel
        .runtime
        .spawn(supervised(channel.inbound.clone(), listen(channel.clone())));
    channel.listen_with(task.abort_handle());
}

/// How long to wait before a stream is opened again: what the server wants, within reason, and
/// longer each time in vain.
pub(super) fn pause(wanted: Option<Duration>, in_vain: u32) -> Duration {
    let first = wanted.unwrap_or(PAUSE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    first
        .saturating_mul(1 << in_vain.min(10))
        .min(LONGEST_PAUSE)
}

/// Opens a stream of the session, after this event if one is named.
pub(super) async fn open(channel: &Channel, last_id: Option<&str>) -> Result<Response, WireFault> {
    let endpoint = &channel.endpoint;
    let mut headers = channel.legacy().beside(&endpoint.listening);
    // The framing keeps none that a header cannot carry.
    if let Some(id) = last_id.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok()) {
        headers.insert(LAST_EVENT_ID, id);
    }
    let asked = timeout(
        NOTE_DEADLINE,
        endpoint.ask(Request::get(&endpoint.url, &headers)),
    )
    .await;
    let response = asked
        .unwrap_or_else(|_| Err(WireFault::Lost("no stream was opened in time".to_owned())))?;
    if !response.status().is_success() {
        return Err(refusal::read(response, None).await);
    }
    match answer::kind(response.header(&CONTENT_TYPE)) {
        Kind::Events => Ok(response),
        _ => Err(refusal::wrong_kind(response, "something else").await),
    }
}

async fn listen(channel: Arc<Channel>) {
    channel.settled().await;
    let mut frames = EventFrames::new(channel.endpoint.max_message_bytes);
    let mut in_vain = 0;
    let mut is_offered = false;
    // Once something was tried in vain, or has ended, there is a time of which nothing was heard.
    let mut is_first = true;
    loop {
        let session = channel.legacy().id.clone();
        let last_id = frames.last_id().map(str::to_owned);
        let mut wanted = None;
        match open(&channel, last_id.as_deref()).await {
            Ok(response) => {
                is_offered = true;
                frames.restart();
                if !is_first && last_id.is_none() {
                    channel.inbound.missed();
                }
                let fruitful = hear(&channel, response, &mut frames).await;
                in_vain = if fruitful { 0 } else { in_vain + 1 };
            }
            Err(WireFault::Status {
                status,
                retry_after,
                ..
            }) if may_come(status, is_offered, in_vain) => {
                wanted = retry_after;
                in_vain += 1;
            }
            // It has forgotten the session since, and whoever only listens would never find out.
            // Beginning anew listens anew, too.
            Err(WireFault::Status { status: 404, .. }) if is_offered => {
                if let Some(forgotten) = &session {
                    let _ = renewal::renew(&channel, forgotten).await;
                }
                return;
            }
            // It offers none (405), or not to us.
            Err(WireFault::Status { .. } | WireFault::NeedsLogin(_)) => return,
            Err(WireFault::NotSent(_) | WireFault::Lost(_)) => in_vain += 1,
        }
        is_first = false;
        sleep(pause(wanted.or(frames.retry()), in_vain)).await;
    }
}

/// Whether a server that answered so may open a stream yet: it is busy, or it fails. Where it never
/// opened one, failing may be how it says that it has none.
fn may_come(status: u16, is_offered: bool, in_vain: u32) -> bool {
    match status {
        408 | 429 | 502..=504 => true,
        500 | 505..=599 => is_offered || in_vain < MAX_FAILURES,
        _ => false,
    }
}

/// Hears a stream to its end. True if it was of use.
async fn hear(channel: &Channel, mut response: Response, frames: &mut EventFrames) -> bool {
    let begun = Instant::now();
    let mut heard = false;
    let mut pacer = Pacer::new(&channel.read_limit);
    while let Ok(Some(chunk)) = answer::next_chunk(channel, &mut response, Some(IDLE)).await {
        for piece in chunk.chunks(PIECE_BYTES) {
            if let Some(pause) = pacer.pause() {
                pause.await;
            }
            pacer.push(piece, frames, &*channel.inbound, &mut |event| {
                heard |= matches!(event, ServerEvent::Event { .. });
                deliver(event, &*channel.inbound);
            });
        }
    }
    heard || begun.elapsed() > WORTHWHILE
}

/// Hands on what came on a stream that serves all requests: nothing says which of them a message
/// belongs to.
pub(in crate::transport) fn deliver(event: ServerEvent<'_>, inbound: &dyn Inbound) {
    let data = match event {
        ServerEvent::Oversized(id) => return inbound.oversized(id),
        ServerEvent::Event { name, data, .. } if answer::is_message(name, &data) => data,
        ServerEvent::Event { .. } => return,
    };
    let keep = |part: &str| match &data {
        EventData::Short(_) => RawJson::keep(part),
        EventData::Long(bytes) => RawJson::share(bytes, part),
    };
    let text = std::str::from_utf8(data.as_ref()).ok();
    let read = text.and_then(|text| {
        parse(text, &keep, &mut |message| {
            inbound.message(message, MessageOrigin::Shared)
        })
        .ok()
    });
    if read.is_none() {
        inbound.junk(data.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f21_a_server_that_only_ever_fails_is_left_in_peace() {
        for (status, is_offered, in_vain, expected) in [
            (500, false, 0, true),
            (500, false, MAX_FAILURES, false),
            (500, true, 1_000, true),
            (507, true, 0, true),
            (503, false, 1_000, true),
            (429, false, 1_000, true),
            (501, true, 0, false),
            (405, true, 0, false),
            (400, false, 0, false),
        ] {
            assert_eq!(
                may_come(status, is_offered, in_vain),
                expected,
                "{status}, {is_offered}, {in_vain}"
            );
        }
    }

    #[test]
    fn f26_the_pause_is_what_the_server_wants_within_reason() {
        let ms = Duration::from_millis;
        for (wanted, in_vain, expected) in [
            (None, 0, PAUSE),
            (Some(Duration::ZERO), 0, SHORTEST_PAUSE),
            (Some(ms(500)), 0, ms(500)),
            (Some(ms(500)), 2, ms(2000)),
            (Some(Duration::MAX), 0, LONGEST_PAUSE),
            (Some(ms(500)), u32::MAX, LONGEST_PAUSE),
        ] {
            assert_eq!(pause(wanted, in_vain), expected, "{wanted:?}, {in_vain}");
        }
    }
}
