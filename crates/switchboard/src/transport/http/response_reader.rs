//! Reads the response to a request: a JSON body or an event stream, both with limits. A legacy
//! stream that broke is resumed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::channel::Channel;
use super::legacy_session::LegacyHttpSession;
use super::response::HttpResponse;
use super::{connection_fault, standalone_stream, status_fault};
use crate::transport::read_limit::{PIECE_BYTES, Pacer, ReadUsage};
use crate::transport::{MessageOrigin, TransportFault};
use crate::untrusted::quoted;
use crate::wire::events::{EventData, EventFrames, ServerEvent};
use crate::wire::lines::SHARED_LINE_BYTES;
use crate::wire::{Incoming, OversizedMessage, RawJson, RequestId, parse_inline};

/// How long an event stream may take to end after the response, so that its connection can be
/// reused.
const TRAILING_DEADLINE: Duration = Duration::from_secs(1);

/// The most bytes that are read and dropped to reuse a connection.
const MAX_DRAINED_BYTES: usize = 64 * 1024;

/// The most consecutive resumes without an event.
const MAX_FAILED_RESUMES: u32 = 8;

/// The most event ids that are remembered, so that no event is handled twice.
const MAX_SEEN_EVENT_IDS: usize = 256;

/// What a response is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponsePurpose {
    /// The session's pending request gets it.
    Deliver,
    /// The pending request gets it, and it sets the protocol version of the session.
    Initialize,
    /// It only sets the protocol version: no request waits for it.
    Renew,
}

/// Reads the response to one request.
pub(super) struct ResponseReader<'a> {
    channel: &'a Channel,
    /// The id of the request.
    id: u64,
    purpose: ResponsePurpose,
    /// The session of a legacy request: only there can its stream be resumed.
    session: Arc<LegacyHttpSession>,
    /// How long the server may be silent; `None` if the caller has a deadline.
    idle_timeout: Option<Duration>,
    pub(super) answered: Option<ResponseOutcome>,
    /// The ids of handled events, newest last.
    seen_event_ids: VecDeque<String>,
    /// Whether the stream was resumed, so that events may be repeated.
    is_resumed: bool,
}

/// The kind of the JSON-RPC response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseOutcome {
    Result,
    Error,
}

/// Reads and drops the rest of a short body.
pub(super) async fn drain(mut response: HttpResponse) {
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > MAX_DRAINED_BYTES {
            return;
        }
    }
}

impl<'a> ResponseReader<'a> {
    pub(super) fn new(
        channel: &'a Channel,
        id: u64,
        purpose: ResponsePurpose,
        session: Arc<LegacyHttpSession>,
        idle_timeout: Option<Duration>,
    ) -> Self {
        Self {
            channel,
            id,
            purpose,
            session,
            idle_timeout,
            answered: None,
            seen_event_ids: VecDeque::new(),
            is_resumed: false,
        }
    }

    /// Reads until the response is complete. A legacy stream that breaks is resumed.
    pub(super) async fn read(
        &mut self,
        mut response: HttpResponse,
        is_resumable: bool,
    ) -> Result<(), TransportFault> {
        match media_type(response.header(&CONTENT_TYPE)) {
            MediaType::Events => {
                let mut frames = EventFrames::new(self.channel.endpoint.max_message_bytes);
                match self.read_stream(&mut response, &mut frames).await {
                    StreamEnd::Answered => Ok(()),
                    StreamEnd::Broken { fault, .. } => {
                        drop(response);
                        Box::pin(self.resume(fault, &mut frames, is_resumable)).await
                    }
                }
            }
            MediaType::Json => self.read_body(&mut response).await,
            MediaType::Missing
                if matches!(
                    response.status(),
                    StatusCode::ACCEPTED | StatusCode::NO_CONTENT
                ) =>
            {
                Err(missing_response(&response))
            }
            MediaType::Missing => self.read_body(&mut response).await,
            MediaType::Other(kind) => {
                Err(Box::pin(status_fault::wrong_content_type(response, &kind)).await)
            }
        }
    }

    /// Reads a body with one message or a batch.
    async fn read_body(&mut self, response: &mut HttpResponse) -> Result<(), TransportFault> {
        let max_bytes = self.channel.endpoint.max_message_bytes;
        let mut first = Bytes::new();
        let mut collected = BytesMut::new();
        let mut pacer = Pacer::new(&self.channel.read_limit);
        while let Some(chunk) = self.chunk(response).await? {
            if first.len() + collected.len() + chunk.len() > max_bytes {
                self.fail_oversized(true);
                return Ok(());
            }
            if first.is_empty() && collected.is_empty() {
                // Most bodies arrive in one chunk, which need not be copied.
                first = chunk;
                continue;
            }
            pacer.count(chunk.len(), &ReadUsage::default());
            if let Some(pause) = pacer.pause() {
                pause.await;
            }
            if collected.is_empty() {
                let rest =
                    usize::try_from(response.remaining().unwrap_or_default()).unwrap_or(max_bytes);
                collected.reserve(
                    (first.len() + chunk.len())
                        .saturating_add(rest)
                        .min(max_bytes),
                );
                collected.extend_from_slice(&std::mem::take(&mut first));
            }
            collected.extend_from_slice(&chunk);
        }
        let body = if collected.is_empty() {
            first
        } else {
            collected.freeze()
        };
        if body.trim_ascii().is_empty() {
            return Err(missing_response(response));
        }
        let address = &self.channel.endpoint.address;
        let (mut handled, mut read, mut count) = (ReadUsage::default(), Ok(()), 0);
        let channel = self.channel;
        handled.message(body.len(), &*channel.inbound, || {
            read = self.handle_messages(&body, Some(&body), &mut count);
            count
        });
        // A batch may have more than the response.
        if count > 1 {
            handled.bytes = body.len();
            pacer.count(body.len(), &handled);
            if let Some(pause) = pacer.pause() {
                pause.await;
            }
        }
        if read.is_err() && self.answered.is_none() {
            let start = String::from_utf8_lossy(&body[..body.len().min(200)]);
            return Err(TransportFault::Lost(format!(
                "the response from {address} is not a JSON-RPC message: {}",
                quoted(&start)
            )));
        }
        if read.is_err() {
            self.channel.inbound.not_a_message(&body);
        }
        match self.answered {
            Some(_) => Ok(()),
            None => Err(TransportFault::Lost(format!(
                "the response from {address} does not answer the request"
            ))),
        }
    }

    /// Fails the request because of a message over the limit. Any message of its stream belongs to
    /// it.
    fn fail_oversized(&self, is_response: bool) {
        let inbound = &self.channel.inbound;
        if is_response {
            let id = RequestId::Number(self.id);
            inbound.oversized(Some(OversizedMessage::Response(id)));
        } else {
            inbound.oversized_on_stream(self.id);
        }
    }

    /// Resumes a broken stream, as often as needed.
    async fn resume(
        &mut self,
        mut broken: TransportFault,
        frames: &mut EventFrames,
        is_resumable: bool,
    ) -> Result<(), TransportFault> {
        let mut failed_resumes = 0;
        while let (true, Some(last_id)) = (is_resumable, frames.last_id().map(str::to_owned)) {
            if failed_resumes == MAX_FAILED_RESUMES {
                break;
            }
            sleep(standalone_stream::reconnect_delay(
                frames.retry(),
                failed_resumes,
            ))
            .await;
            let resumed = standalone_stream::open(self.channel, &self.session, Some(&last_id));
            let mut response = match resumed.await {
                Ok(response) => response,
                Err(fault) if standalone_stream::may_open_later(&fault) => {
                    failed_resumes += 1;
                    continue;
                }
                Err(_) => break,
            };
            frames.restart();
            self.is_resumed = true;
            match self.read_stream(&mut response, frames).await {
                StreamEnd::Answered => return Ok(()),
                StreamEnd::Broken { fault, has_events } => {
                    broken = fault;
                    failed_resumes = if has_events { 0 } else { failed_resumes + 1 };
                }
            }
        }
        Err(broken)
    }

    /// Reads one stream until the response, or to its end.
    async fn read_stream(
        &mut self,
        response: &mut HttpResponse,
        frames: &mut EventFrames,
    ) -> StreamEnd {
        let mut has_events = false;
        let mut oversized = None;
        let channel = self.channel;
        let mut pacer = Pacer::new(&channel.read_limit);
        loop {
            let chunk = match self.chunk(response).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    let address = &self.channel.endpoint.address;
                    let fault = TransportFault::Lost(format!(
                        "{address} ended the stream without a response"
                    ));
                    return StreamEnd::Broken { fault, has_events };
                }
                Err(fault) => return StreamEnd::Broken { fault, has_events },
            };
            for piece in chunk.chunks(PIECE_BYTES) {
                if let Some(pause) = pacer.pause() {
                    pause.await;
                }
                pacer.push(piece, frames, &*channel.inbound, &mut |event| match event {
                    ServerEvent::Event { name, data, id } => {
                        has_events = true;
                        self.handle_event(name, &data, id)
                    }
                    ServerEvent::Oversized(message) => {
                        oversized
                            .get_or_insert(matches!(message, Some(OversizedMessage::Response(_))));
                        0
                    }
                });
                if frames.is_oversized() {
                    oversized.get_or_insert(frames.is_oversized_response());
                }
                if let Some(is_response) = oversized {
                    self.fail_oversized(is_response);
                    return StreamEnd::Answered;
                }
            }
            if self.answered.is_some() {
                self.read_trailing(response, frames, &mut pacer).await;
                return StreamEnd::Answered;
            }
        }
    }

    /// Reads on after the response: a stream that ends by itself leaves its connection reusable,
    /// and late messages are handled.
    async fn read_trailing(
        &mut self,
        response: &mut HttpResponse,
        frames: &mut EventFrames,
        pacer: &mut Pacer<'_>,
    ) {
        let channel = self.channel;
        let mut deadline = None;
        loop {
            let chunk = match response.buffered_chunk() {
                Some(chunk) => chunk,
                // Rarely reached: most streams have ended already.
                None => {
                    let deadline =
                        *deadline.get_or_insert_with(|| Instant::now() + TRAILING_DEADLINE);
                    let Ok(chunk) = timeout_at(deadline, response.chunk()).await else {
                        return;
                    };
                    chunk
                }
            };
            let Ok(Some(chunk)) = chunk else { return };
            // A server that sends continuously never meets the timeout above, so the deadline is
            // checked here too.
            if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + TRAILING_DEADLINE)
            {
                return;
            }
            for piece in chunk.chunks(PIECE_BYTES) {
                if let Some(pause) = pacer.pause() {
                    pause.await;
                }
                pacer.push(piece, frames, &*channel.inbound, &mut |event| match event {
                    ServerEvent::Event { name, data, id } => self.handle_event(name, &data, id),
                    ServerEvent::Oversized(_) => 0,
                });
            }
        }
    }

    /// Returns the number of messages in the event.
    fn handle_event(&mut self, name: &str, data: &EventData<'_>, id: Option<&str>) -> usize {
        if let Some(id) = id {
            if self.is_resumed
                && self
                    .seen_event_ids
                    .iter()
                    .any(|seen_event_ids| seen_event_ids == id)
            {
                return 0;
            }
            if self.seen_event_ids.len() == MAX_SEEN_EVENT_IDS {
                self.seen_event_ids.pop_front();
            }
            self.seen_event_ids.push_back(id.to_owned());
        }
        if !is_message(name, data) {
            return 0;
        }
        let shared = match data {
            EventData::Short(_) => None,
            EventData::Long(bytes) => Some(bytes),
        };
        let mut count = 0;
        if self
            .handle_messages(data.as_ref(), shared, &mut count)
            .is_err()
        {
            self.channel.inbound.not_a_message(data.as_ref());
        }
        count
    }

    /// Handles the messages in a text, and counts them. Long ones share its bytes.
    fn handle_messages(
        &mut self,
        text: &[u8],
        shared: Option<&Bytes>,
        count: &mut usize,
    ) -> Result<(), ()> {
        let text = std::str::from_utf8(text).map_err(drop)?;
        // Some servers begin each body with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let shared = shared.filter(|bytes| bytes.len() >= SHARED_LINE_BYTES);
        let keep = |part: &str| {
            shared.map_or_else(|| RawJson::keep(part), |bytes| RawJson::share(bytes, part))
        };
        parse_inline(text, keep, |message| {
            *count += 1;
            self.message(message);
        })
        .map_err(drop)
    }

    fn message(&mut self, message: Incoming) {
        let ours = RequestId::Number(self.id);
        let message = match message {
            // An error without an id belongs to this request.
            Incoming::Error { id: None, error } => Incoming::Error {
                id: Some(ours.clone()),
                error,
            },
            other => other,
        };
        match &message {
            Incoming::Result { id, result } if *id == ours => {
                self.answered = Some(ResponseOutcome::Result);
                if self.purpose != ResponsePurpose::Deliver {
                    self.store_version(result);
                }
            }
            Incoming::Error { id: Some(id), .. } if *id == ours => {
                self.answered = Some(ResponseOutcome::Error)
            }
            // A response to another request does not belong here.
            Incoming::Result { .. } | Incoming::Error { .. } => return,
            Incoming::Request { .. } | Incoming::Notification { .. } => {}
        }
        if self.purpose != ResponsePurpose::Renew {
            self.channel
                .inbound
                .message(message, MessageOrigin::Response(self.id));
        }
    }

    /// Sets the negotiated version, which the very next message carries in a header.
    fn store_version(&self, result: &RawJson) {
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

    async fn chunk(&self, response: &mut HttpResponse) -> Result<Option<Bytes>, TransportFault> {
        next_chunk(self.channel, response, self.idle_timeout).await
    }
}

/// The next bytes of a body, or a fault if the server is silent for too long.
pub(super) async fn next_chunk(
    channel: &Channel,
    response: &mut HttpResponse,
    idle_timeout: Option<Duration>,
) -> Result<Option<Bytes>, TransportFault> {
    let address = &channel.endpoint.address;
    let chunk = match (response.buffered_chunk(), idle_timeout) {
        (Some(chunk), _) => chunk,
        (None, None) => response.chunk().await,
        (None, Some(idle_timeout)) => {
            timeout(idle_timeout, response.chunk()).await.map_err(|_| {
                TransportFault::Lost(format!(
                    "no data from {address} for {} s",
                    idle_timeout.as_secs()
                ))
            })?
        }
    };
    chunk.map_err(|broken| connection_fault::body_fault(&broken, address))
}

/// Whether an event carries a message. Other events, and those without data, are ignored.
pub(super) fn is_message(name: &str, data: &EventData<'_>) -> bool {
    matches!(name, "" | "message") && !data.as_ref().trim_ascii().is_empty()
}

/// How a stream ended.
enum StreamEnd {
    Answered,
    Broken {
        fault: TransportFault,
        has_events: bool,
    },
}

/// The content type of a response.
pub(super) enum MediaType {
    Json,
    Events,
    Missing,
    Other(String),
}

pub(super) fn media_type(content_type: Option<&[u8]>) -> MediaType {
    let Some(value) = content_type else {
        return MediaType::Missing;
    };
    let essence = value
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        MediaType::Json
    } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
        MediaType::Events
    } else {
        MediaType::Other(String::from_utf8_lossy(essence).into_owned())
    }
}

fn missing_response(response: &HttpResponse) -> TransportFault {
    let detail = ": the server accepted the request and sent no response".to_owned();
    TransportFault::Status {
        status: response.status().as_u16(),
        detail,
        retry_after: None,
        error: None,
    }
}
