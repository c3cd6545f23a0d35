//! Reads the answer to a request: a JSON body or a stream of events, each with bounds; a legacy
//! stream that broke is resumed.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::channel::Channel;
use super::response::Response;
use super::{listening, refusal, trouble};
use crate::transport::read_limit::{Handled, PIECE_BYTES, Pacer};
use crate::transport::{MessageOrigin, WireFault};
use crate::untrusted::quoted;
use crate::wire::events::{EventData, EventFrames, ServerEvent};
use crate::wire::lines::SHARED_LINE_BYTES;
use crate::wire::{Incoming, RawJson, RequestId, parse};

/// After its answer a stream may take this long to end: then its connection can serve again.
const TAIL: Duration = Duration::from_secs(1);

/// What is read and thrown away to keep a connection.
const MAX_DRAINED_BYTES: usize = 64 * 1024;

/// A stream that broke is resumed so often in a row without bringing anything new.
const MAX_FRUITLESS_RESUMES: u32 = 8;

/// So many ids of events are remembered, so that none is taken twice.
const REMEMBERED_EVENTS: usize = 256;

/// What an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It goes to whoever waits.
    Deliver,
    /// That too, and it says which version the session speaks.
    Initialize,
    /// Only that: nobody waits.
    Renew,
}

/// The reading of one answer.
pub(super) struct Reading<'a> {
    channel: &'a Channel,
    /// The request.
    id: u64,
    use_for: Use,
    /// How long the server may be silent, where nobody else counts.
    silence: Option<Duration>,
    pub(super) answered: Option<Answered>,
    /// Events that were taken, newest last.
    seen: VecDeque<String>,
    /// The stream broke and another continues it: what was taken before may come again.
    is_resumed: bool,
}

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    Result,
    Error,
}

/// Reads what is left of a short body.
pub(super) async fn drain(mut response: Response) {
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > MAX_DRAINED_BYTES {
            return;
        }
    }
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        channel: &'a Channel,
        id: u64,
        use_for: Use,
        silence: Option<Duration>,
    ) -> Self {
        Self {
            channel,
            id,
            use_for,
            silence,
            answered: None,
            seen: VecDeque::new(),
            is_resumed: false,
        }
    }

    /// Reads until the request is answered.
    pub(super) async fn read(
        &mut self,
        mut response: Response,
        legacy: bool,
    ) -> Result<(), WireFault> {
        match kind(response.header(&CONTENT_TYPE)) {
            Kind::Events => {
                let mut frames = EventFrames::new(self.channel.endpoint.max_message_bytes);
                match self.read_stream(&mut response, &mut frames).await {
                    Ended::Answered => Ok(()),
                    Ended::Broken { fault, .. } => {
                        drop(response);
                        Box::pin(self.resume(fault, &mut frames, legacy)).await
                    }
                }
            }
            Kind::Json => self.read_body(&mut response).await,
            Kind::Unsaid
                if matches!(
                    response.status(),
                    StatusCode::ACCEPTED | StatusCode::NO_CONTENT
                ) =>
            {
                Err(unanswered(&response))
            }
            Kind::Unsaid => self.read_body(&mut response).await,
            Kind::Other(kind) => Err(Box::pin(refusal::wrong_kind(response, &kind)).await),
        }
    }

    /// A body of one message, or a batch of them.
    async fn read_body(&mut self, response: &mut Response) -> Result<(), WireFault> {
        let max_bytes = self.channel.endpoint.max_message_bytes;
        let mut whole = Bytes::new();
        let mut gathered = BytesMut::new();
        let mut pacer = Pacer::new(&self.channel.read_limit);
        while let Some(chunk) = self.chunk(response).await? {
            if whole.len() + gathered.len() + chunk.len() > max_bytes {
                self.channel
                    .inbound
                    .oversized(Some(RequestId::Number(self.id)));
                return Ok(());
            }
            if whole.is_empty() && gathered.is_empty() {
                // Most bodies come in one piece, which need not be copied.
                whole = chunk;
                continue;
            }
            pacer.count(chunk.len(), &Handled::default());
            if let Some(pause) = pacer.pause() {
                pause.await;
            }
            if gathered.is_empty() {
                let rest =
                    usize::try_from(response.left().unwrap_or_default()).unwrap_or(max_bytes);
                gathered.reserve(
                    (whole.len() + chunk.len())
                        .saturating_add(rest)
                        .min(max_bytes),
                );
                gathered.extend_from_slice(&std::mem::take(&mut whole));
            }
            gathered.extend_from_slice(&chunk);
        }
        let body = if gathered.is_empty() {
            whole
        } else {
            gathered.freeze()
        };
        if body.trim_ascii().is_empty() {
            return Err(unanswered(response));
        }
        let place = &self.channel.endpoint.place;
        if self.take(&body, Some(&body)).is_err() {
            let start = String::from_utf8_lossy(&body[..body.len().min(200)]);
            return Err(WireFault::Lost(format!(
                "the answer of {place} is no JSON-RPC message: {}",
                quoted(&start)
            )));
        }
        match self.answered {
            Some(_) => Ok(()),
            None => Err(WireFault::Lost(format!(
                "the answer of {place} holds no response to the request"
            ))),
        }
    }

    /// The streams that continue one that broke.
    async fn resume(
        &mut self,
        mut broken: WireFault,
        frames: &mut EventFrames,
        legacy: bool,
    ) -> Result<(), WireFault> {
        let mut fruitless = 0;
        while let (true, Some(last_id)) = (legacy, frames.last_id().map(str::to_owned)) {
            if fruitless == MAX_FRUITLESS_RESUMES {
                break;
            }
            sleep(listening::pause(frames.retry(), fruitless)).await;
            let Ok(mut response) = listening::open(self.channel, Some(&last_id)).await else {
                break;
            };
            frames.restart();
            self.is_resumed = true;
            match self.read_stream(&mut response, frames).await {
                Ended::Answered => return Ok(()),
                Ended::Broken { fault, fruitful } => {
                    broken = fault;
                    fruitless = if fruitful { 0 } else { fruitless + 1 };
                }
            }
        }
        Err(broken)
    }

    /// One stream, to its end.
    async fn read_stream(&mut self, response: &mut Response, frames: &mut EventFrames) -> Ended {
        let mut fruitful = false;
        let mut too_large = false;
        let channel = self.channel;
        let mut pacer = Pacer::new(&channel.read_limit);
        loop {
            let chunk = match self.chunk(response).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    let place = &self.channel.endpoint.place;
                    let fault =
                        WireFault::Lost(format!("{place} ended the stream before it had answered"));
                    return Ended::Broken { fault, fruitful };
                }
                Err(fault) => return Ended::Broken { fault, fruitful },
            };
            for piece in chunk.chunks(PIECE_BYTES) {
                if let Some(pause) = pacer.pause() {
                    pause.await;
                }
                pacer.push(piece, frames, &*channel.inbound, &mut |event| match event {
                    ServerEvent::Event { name, data, id } => {
                        fruitful = true;
                        self.take_event(name, &data, id);
                    }
                    // Whatever it was, it came in answer to this request.
                    ServerEvent::Oversized(_) => too_large = true,
                });
                if too_large || frames.is_oversized() {
                    self.channel
                        .inbound
                        .oversized(Some(RequestId::Number(self.id)));
                    return Ended::Answered;
                }
            }
            if self.answered.is_some() {
                self.finish(response, frames, &mut pacer).await;
                return Ended::Answered;
            }
        }
    }

    /// The answer is there. A stream that ends by itself leaves its connection to others; what it
    /// still says is heard.
    async fn finish(
        &mut self,
        response: &mut Response,
        frames: &mut EventFrames,
        pacer: &mut Pacer<'_>,
    ) {
        let channel = self.channel;
        let mut deadline = None;
        loop {
            let chunk = match response.at_hand() {
                Some(chunk) => chunk,
                // Few have anything left to wait for.
                None => {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + TAIL);
                    let Ok(chunk) = timeout_at(deadline, response.chunk()).await else {
                        return;
                    };
                    chunk
                }
            };
            let Ok(Some(chunk)) = chunk else { return };
            // A server that sends without pause is never waited for above, so the deadline must be
            // looked at.
            if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + TAIL) {
                return;
            }
            for piece in chunk.chunks(PIECE_BYTES) {
                if let Some(pause) = pacer.pause() {
                    pause.await;
                }
                pacer.push(piece, frames, &*channel.inbound, &mut |event| {
                    if let ServerEvent::Event { name, data, id } = event {
                        self.take_event(name, &data, id);
                    }
                });
            }
        }
    }

    fn take_event(&mut self, name: &str, data: &EventData<'_>, id: Option<&str>) {
        if let Some(id) = id {
            if self.is_resumed && self.seen.iter().any(|seen| seen == id) {
                return;
            }
            if self.seen.len() == REMEMBERED_EVENTS {
                self.seen.pop_front();
            }
            self.seen.push_back(id.to_owned());
        }
        if !is_message(name, data) {
            return;
        }
        let shared = match data {
            EventData::Short(_) => None,
            EventData::Long(bytes) => Some(bytes),
        };
        if self.take(data.as_ref(), shared).is_err() {
            self.channel.inbound.junk(data.as_ref());
        }
    }

    /// Takes the messages in a text. Long ones share its bytes.
    fn take(&mut self, text: &[u8], shared: Option<&Bytes>) -> Result<(), ()> {
        let text = std::str::from_utf8(text).map_err(drop)?;
        let shared = shared.filter(|bytes| bytes.len() >= SHARED_LINE_BYTES);
        let keep = |part: &str| {
            shared.map_or_else(|| RawJson::keep(part), |bytes| RawJson::share(bytes, part))
        };
        parse(text, &keep, &mut |message| self.message(message)).map_err(drop)
    }

    fn message(&mut self, message: Incoming) {
        let ours = RequestId::Number(self.id);
        let message = match message {
            // An error about nothing in particular, in answer to this request, is about it.
            Incoming::Error { id: None, error } => Incoming::Error {
                id: Some(ours.clone()),
                error,
            },
            other => other,
        };
        match &message {
            Incoming::Result { id, result } if *id == ours => {
                self.answered = Some(Answered::Result);
                if self.use_for != Use::Deliver {
                    self.note_version(result);
                }
            }
            Incoming::Error { id: Some(id), .. } if *id == ours => {
                self.answered = Some(Answered::Error)
            }
            // Another request has a stream of its own.
            Incoming::Result { .. } | Incoming::Error { .. } => return,
            Incoming::Request { .. } | Incoming::Notification { .. } => {}
        }
        if self.use_for != Use::Renew {
            self.channel
                .inbound
                .message(message, MessageOrigin::Response(self.id));
        }
    }

    /// Every message after `initialize` says the version that its answer chose; the very next one,
    /// too.
    fn note_version(&self, result: &RawJson) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Chosen {
            protocol_version: String,
        }
        if let Ok(chosen) = result.decode::<Chosen>() {
            self.channel.set_legacy(|legacy| {
                legacy.version = HeaderValue::from_str(&chosen.protocol_version).ok()
            });
        }
    }

    async fn chunk(&self, response: &mut Response) -> Result<Option<Bytes>, WireFault> {
        next_chunk(self.channel, response, self.silence).await
    }
}

/// The next bytes of a body, unless it stays silent for too long, where that has a bound.
pub(super) async fn next_chunk(
    channel: &Channel,
    response: &mut Response,
    silence: Option<Duration>,
) -> Result<Option<Bytes>, WireFault> {
    let place = &channel.endpoint.place;
    let chunk = match (response.at_hand(), silence) {
        (Some(chunk), _) => chunk,
        (None, None) => response.chunk().await,
        (None, Some(silence)) => timeout(silence, response.chunk()).await.map_err(|_| {
            WireFault::Lost(format!("{place} was silent for {} s", silence.as_secs()))
        })?,
    };
    chunk.map_err(|broken| trouble::cut_off(&broken, place))
}

/// Whether an event carries a message. Others, and those that only carry an id, are no concern of
/// ours.
pub(super) fn is_message(name: &str, data: &EventData<'_>) -> bool {
    matches!(name, "" | "message") && !data.as_ref().trim_ascii().is_empty()
}

/// How a stream ended.
enum Ended {
    Answered,
    Broken { fault: WireFault, fruitful: bool },
}

/// What a body is.
pub(super) enum Kind {
    Json,
    Events,
    Unsaid,
    Other(String),
}

pub(super) fn kind(content_type: Option<&[u8]>) -> Kind {
    let Some(value) = content_type else {
        return Kind::Unsaid;
    };
    let essence = value
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        Kind::Json
    } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
        Kind::Events
    } else {
        Kind::Other(String::from_utf8_lossy(essence).into_owned())
    }
}

fn unanswered(response: &Response) -> WireFault {
    let said = ": it took the request and gave no answer".to_owned();
    WireFault::Status {
        status: response.status().as_u16(),
        said,
        retry_after: None,
        error: None,
    }
}
