//! The sessions of legacy clients: their sealed ids, their streams, and the requests that open and
//! end them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use foldhash::fast::RandomState;
use hyper::header::HeaderName;
use hyper::{HeaderMap, Response, StatusCode};
use switchboard::revision::{Era, Revision};
use switchboard::sync::lock;

use super::connection::{HeadNumber, HttpExchange};
use super::events::{EventStream, RETRY_MS, parse_event_id};
use super::mirror::VERSION_HEADER;
use super::{HttpBody, HttpState, post, response};
use crate::client::ClientKind;
use crate::client_session::ClientSession;
use crate::outbound::{Outbound, OutboundQueue};
use crate::principal::Principal;
use crate::refusal::RefusalReason;
use crate::seal::{SealKind, SealedContent};
use crate::settings::ServerSelection;

pub(super) static SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// The expiry of a session id. An idle session ends long before.
const MAX_SESSION_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many streams of calls a session stores for a client that resumes.
const MAX_STREAMS: usize = 256;

/// No more is stored of the streams that have ended: checked before the next one begins and, without
/// the last one, in each sweep.
const MAX_STORED_BYTES: usize = 16 << 20;

/// How long they are kept after their end. A client resumes a second after it lost its connection.
const RESUME_TIMEOUT: Duration = Duration::from_secs(300);

/// The open sessions, by the number that stands in their sealed ids.
pub(super) struct HttpSessions {
    open: Mutex<OpenSessions>,
    last_number: AtomicU64,
    limit: usize,
}

type OpenSessions = HashMap<u64, Arc<HttpSession>, RandomState>;

/// A session id that a connection's last request had, opened. A connection sends the same again and
/// again: opening it for each request would take 7,000 instructions.
pub(super) struct OpenedSessionId {
    /// The head of that request.
    head_number: Option<HeadNumber>,
    id: Box<str>,
    principal: Principal,
    number: u64,
    expires: Instant,
}

/// A session of one client.
pub(super) struct HttpSession {
    number: u64,
    selection: ServerSelection,
    principal: Principal,
    pub(super) client: ClientSession,
    /// The queue for messages that belong to no request.
    pub(super) outbound: Outbound,
    /// The stream of messages that belong to no request, carried by a GET.
    pub(super) general: Arc<EventStream>,
    /// The streams of requests that took time, by number.
    streams: Mutex<BTreeMap<u64, Arc<EventStream>>>,
    last_stream: AtomicU64,
    used: Mutex<Instant>,
}

impl HttpSessions {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            open: Mutex::default(),
            last_number: AtomicU64::new(0),
            limit: limit.max(1),
        }
    }

    /// Ends sessions that nobody used for this time and nobody listens to. What the others kept for a
    /// client that resumes is forgotten if none did.
    pub(super) fn end_unused(&self, timeout: Duration) {
        let mut ended = Vec::new();
        lock(&self.open).retain(|_, session| {
            let is_used = !session.is_unused_for(timeout);
            if is_used {
                session.forget_streams();
            } else {
                ended.push(session.clone());
            }
            is_used
        });
        // Dropped after the lock is released, because ending a client takes other locks.
        drop(ended);
    }

    /// The edge closes: no client can answer a question any more.
    pub(super) fn begin_draining(&self) {
        for session in lock(&self.open).values() {
            session.client.begin_draining();
        }
    }

    pub(super) fn close(&self, number: u64) {
        let session = lock(&self.open).remove(&number);
        if let Some(session) = session {
            session.general.interrupt();
            // A request that has not become a stream yet keeps the session until its response.
            session.client.end_requests();
        }
    }

    fn add(&self, session: Arc<HttpSession>) {
        let mut open = lock(&self.open);
        let number = (open.len() >= self.limit).then(|| session_to_end(&open));
        let ended = number.flatten().and_then(|number| open.remove(&number));
        open.insert(session.number, session);
        drop(open);
        if let Some(ended) = ended {
            ended.general.interrupt();
        }
    }
}

/// Of the client that has the most sessions, the one that was not used for the longest time: a client
/// that opens sessions without end loses its own. One with a call or a listener is the last choice.
fn session_to_end(open: &OpenSessions) -> Option<u64> {
    let mut counts: HashMap<&Principal, usize> = HashMap::new();
    for session in open.values() {
        *counts.entry(&session.principal).or_default() += 1;
    }
    let rank = |session: &HttpSession| {
        let count = Reverse(counts[&session.principal]);
        (count, session.is_in_use(), *lock(&session.used))
    };
    let first = open.values().min_by_key(|session| rank(session));
    first.map(|session| session.number)
}

impl HttpState {
    /// Connects a client that has a stream of its own; `is_resumable` where it can be resumed.
    pub(super) fn new_session(
        &self,
        principal: &Principal,
        selection: &ServerSelection,
        is_resumable: bool,
    ) -> Arc<HttpSession> {
        let (outbound, queue) = self.gateway.outbound();
        let client = self.gateway.connect_as(
            ClientKind::LegacySession,
            principal.clone(),
            selection.clone(),
            outbound.clone(),
        );
        Arc::new(HttpSession {
            number: self.sessions.last_number.fetch_add(1, Ordering::Relaxed),
            selection: selection.clone(),
            principal: principal.clone(),
            client,
            outbound,
            general: EventStream::new(is_resumable.then_some(0), queue),
            streams: Mutex::default(),
            last_stream: AtomicU64::new(0),
            used: Mutex::new(Instant::now()),
        })
    }

    /// Stores a session; returns its sealed id.
    pub(super) fn open_session(&self, session: &Arc<HttpSession>) -> String {
        self.sessions.add(session.clone());
        let content = SealedContent {
            replica: self.gateway.cluster().replica(),
            expires: SystemTime::now() + MAX_SESSION_AGE,
            digest: [0; 32],
            payload: session.number.to_le_bytes().to_vec(),
        };
        let principal = session.principal.as_str();
        self.gateway
            .cluster()
            .seal(SealKind::Session, principal, &content)
    }

    /// Opens an id that was sealed for this client and leads to a session of this process.
    fn open_session_id(&self, id: &str, exchange: &HttpExchange<'_>) -> Option<OpenedSessionId> {
        let principal = &exchange.principal;
        let cluster = self.gateway.cluster();
        let content = cluster
            .open_sealed(SealKind::Session, principal.as_str(), id)
            .ok()?
            .content;
        // The session belongs to another replica, which this process cannot reach.
        if content.replica != cluster.replica() {
            return None;
        }
        let left = content.expires.duration_since(SystemTime::now()).ok()?;
        Some(OpenedSessionId {
            head_number: exchange.head_number,
            id: id.into(),
            principal: principal.clone(),
            number: u64::from_le_bytes(content.payload.try_into().ok()?),
            expires: exchange.arrived + left,
        })
    }
}

impl HttpSession {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether no request came in this time, none is in flight, and nobody listens.
    fn is_unused_for(&self, time: Duration) -> bool {
        lock(&self.used).elapsed() >= time && !self.is_in_use()
    }

    /// Whether a request is in flight or a client listens.
    fn is_in_use(&self) -> bool {
        self.general.has_reader() || self.client.is_busy()
    }

    /// Forgets streams that ended a while ago, those beyond the bound and, if the session is not used,
    /// all that nobody reads.
    fn forget_streams(&self) {
        let is_unused = self.is_unused_for(RESUME_TIMEOUT);
        if is_unused {
            self.general.forget_kept();
        }
        let mut streams = lock(&self.streams);
        streams.retain(|_, stream| match is_unused {
            true => stream.has_reader(),
            false => !stream.ended_before(RESUME_TIMEOUT),
        });
        bound_stored_bytes_before_last(&mut streams);
    }

    /// A stream for a request that takes time, kept for a client that resumes.
    pub(super) fn open_stream(&self, queue: OutboundQueue) -> Arc<EventStream> {
        let number = self.last_stream.fetch_add(1, Ordering::Relaxed) + 1;
        let stream = EventStream::new(Some(number), queue);
        let mut streams = lock(&self.streams);
        make_room(&mut streams);
        streams.insert(number, stream.clone());
        stream
    }

    /// The first event of a stream: since 2025-11-25, the id to resume from.
    pub(super) fn beginning(&self, stream: &EventStream) -> Vec<u8> {
        let revision = self.client.handshake().map(|handshake| handshake.revision);
        if revision >= Some(Revision::V2025_11_25) {
            stream.priming()
        } else {
            retry()
        }
    }

    fn stream(&self, number: u64) -> Option<Arc<EventStream>> {
        match number {
            0 => Some(self.general.clone()),
            number => lock(&self.streams).get(&number).cloned(),
        }
    }
}

/// Forgets streams until there is room for another, the oldest that ended first.
fn make_room(streams: &mut BTreeMap<u64, Arc<EventStream>>) {
    while streams.len() >= MAX_STREAMS {
        let ended = streams.iter().find(|(_, stream)| stream.has_ended());
        let oldest = ended.or_else(|| streams.iter().next());
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return;
        };
        streams.remove(&number);
    }
    bound_stored_bytes(streams);
}

/// Forgets streams that have ended, the oldest first, until no more is stored than the bound.
fn bound_stored_bytes(streams: &mut BTreeMap<u64, Arc<EventStream>>) {
    let mut stored_bytes: usize = streams.values().map(|stream| stream.kept_bytes()).sum();
    streams.retain(|_, stream| {
        let is_kept = stored_bytes <= MAX_STORED_BYTES || !stream.has_ended();
        if !is_kept {
            stored_bytes = stored_bytes.saturating_sub(stream.kept_bytes());
        }
        is_kept
    });
}

/// The same for all but the last stream, whose client may be about to resume it.
fn bound_stored_bytes_before_last(streams: &mut BTreeMap<u64, Arc<EventStream>>) {
    let last = streams.pop_last();
    bound_stored_bytes(streams);
    streams.extend(last);
}

fn retry() -> Vec<u8> {
    format!("retry: {RETRY_MS}\n\n").into_bytes()
}

/// The session that a request names; the error is the response.
pub(super) fn of_request(
    exchange: &HttpExchange<'_>,
) -> Result<Arc<HttpSession>, Response<HttpBody>> {
    if let Some(session) = exchange.session_of_same_head() {
        return Ok(session);
    }
    check_version(exchange.headers)?;
    let Some(id) = exchange.headers.get(&SESSION_HEADER) else {
        return Err(response::edge_error(
            StatusCode::BAD_REQUEST,
            "the header Mcp-Session-Id is missing; send initialize first",
        ));
    };
    let id = id.to_str().unwrap_or("");
    let found = exchange.find_session(id);
    found.ok_or_else(|| {
        exchange.refused(RefusalReason::UnknownSession);
        response::unknown_session()
    })
}

impl HttpExchange<'_> {
    /// The session of an id, if it is this client's and for these servers.
    pub(super) fn find_session(&self, id: &str) -> Option<Arc<HttpSession>> {
        self.find_session_of_client(id)
            .filter(|session| session.selection == self.selection)
    }

    /// The session of an id, if it is this client's.
    pub(super) fn find_session_of_client(&self, id: &str) -> Option<Arc<HttpSession>> {
        let mut opened = lock(&self.connection.opened_session);
        let number = match &mut *opened {
            Some(known) if *known.id == *id && known.principal == self.principal => {
                known.head_number = self.head_number;
                (self.arrived < known.expires).then_some(known.number)?
            }
            _ => {
                let new = self.state.open_session_id(id, self)?;
                opened.insert(new).number
            }
        };
        self.session_of_number(number)
    }

    /// The session of the connection's last request, if this one has the same headers: they need not
    /// be read again.
    fn session_of_same_head(&self) -> Option<Arc<HttpSession>> {
        let opened = lock(&self.connection.opened_session);
        let known = opened.as_ref()?;
        let is_same = self.head_number.is_some()
            && known.head_number == self.head_number
            && known.principal == self.principal
            && self.arrived < known.expires;
        let session = is_same.then(|| self.session_of_number(known.number))?;
        session.filter(|session| session.selection == self.selection)
    }

    fn session_of_number(&self, number: u64) -> Option<Arc<HttpSession>> {
        let session = lock(&self.state.sessions.open).get(&number).cloned()?;
        // A session ends with the token that opened it, also if the client has another now.
        if session.principal.token() != self.principal.token() {
            return None;
        }
        *lock(&session.used) = self.arrived;
        Some(session)
    }
}

/// A revision that we do not speak is refused; a missing header means an older one.
fn check_version(headers: &HeaderMap) -> Result<(), Response<HttpBody>> {
    let Some(version) = headers.get(&VERSION_HEADER) else {
        return Ok(());
    };
    let version = version.to_str().unwrap_or("");
    if Revision::parse_in(Era::Legacy, version).is_some() {
        return Ok(());
    }
    let supported: Vec<_> = Revision::LEGACY
        .iter()
        .map(|known| known.as_str())
        .collect();
    Err(response::edge_error(
        StatusCode::BAD_REQUEST,
        &format!(
            "MCP-Protocol-Version {version:?} has no sessions here; those that have are {}",
            supported.join(", ")
        ),
    ))
}

/// A GET: the stream of messages that belong to no request, or the one that an event id names.
pub(super) fn listen(exchange: &HttpExchange<'_>) -> Response<HttpBody> {
    if post::is_modern_version(exchange.headers) {
        return response::method_not_allowed("POST");
    }
    if !post::accepts(exchange.headers, "text/event-stream") {
        exchange.refused(RefusalReason::WrongMediaType);
        return response::edge_error(
            StatusCode::NOT_ACCEPTABLE,
            "the request must accept text/event-stream",
        );
    }
    let session = match of_request(exchange) {
        Ok(session) => session,
        Err(refusal) => return refusal,
    };
    let resumed = exchange.headers.get("last-event-id").map(|id| {
        let (number, after) = id.to_str().ok().and_then(parse_event_id)?;
        Some((session.stream(number)?, after))
    });
    let reader = match resumed {
        None => session
            .general
            .read(session.beginning(&session.general), None),
        Some(Some((stream, after))) => stream.read(retry(), Some(after)),
        Some(None) => {
            return response::edge_error(
                StatusCode::BAD_REQUEST,
                "Last-Event-ID names no stream of this session",
            );
        }
    };
    response::events(reader.ends_with(exchange.end_conditions()))
}

/// A DELETE.
pub(super) fn end(exchange: &HttpExchange<'_>) -> Response<HttpBody> {
    if post::is_modern_version(exchange.headers) {
        return response::method_not_allowed("POST");
    }
    match of_request(exchange) {
        Ok(session) => {
            exchange.state.sessions.close(session.number);
            response::empty(StatusCode::OK)
        }
        Err(refusal) => refusal,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// F35: a response whose connection is gone waits in its queue, and nobody reads that.
    #[tokio::test]
    async fn f35_responses_that_no_connection_carries_are_bounded() {
        const BYTES: usize = 1 << 20;
        let mut streams = BTreeMap::new();
        for number in 1..=50 {
            make_room(&mut streams);
            let (outbound, queue) = Outbound::channel();
            outbound.respond(Bytes::from(vec![b' '; BYTES])).await;
            streams.insert(number, EventStream::new(Some(number), queue));
        }
        let stored: usize = streams.values().map(|stream| stream.kept_bytes()).sum();
        assert_eq!(stored, MAX_STORED_BYTES + BYTES);
        assert!(streams.contains_key(&50), "the last one can be resumed");
    }

    /// F35: calls that run at the same time open their streams before any of them has a response.
    #[tokio::test]
    async fn f35_responses_of_parallel_calls_are_bounded_too() {
        const BYTES: usize = 1 << 20;
        let mut streams = BTreeMap::new();
        let mut calls = Vec::new();
        for number in 1..=50 {
            make_room(&mut streams);
            let (outbound, queue) = Outbound::channel();
            calls.push(outbound);
            streams.insert(number, EventStream::new(Some(number), queue));
        }
        for outbound in calls {
            outbound.respond(Bytes::from(vec![b' '; BYTES])).await;
        }
        bound_stored_bytes_before_last(&mut streams);
        let stored: usize = streams.values().map(|stream| stream.kept_bytes()).sum();
        assert_eq!(stored, MAX_STORED_BYTES + BYTES);
        assert!(streams.contains_key(&50), "the last one can be resumed");
    }

    #[tokio::test]
    async fn a_response_that_no_connection_carries_is_forgotten_after_a_while() {
        let (outbound, queue) = Outbound::channel();
        let stream = EventStream::new(Some(1), queue);
        outbound.respond(Bytes::from_static(b"{}")).await;
        assert!(!stream.ended_before(Duration::ZERO), "the request goes on");
        drop(outbound);
        // The first sweep notices the end.
        let _ = stream.ended_before(Duration::ZERO);
        assert!(stream.ended_before(Duration::ZERO));
        assert!(!stream.ended_before(RESUME_TIMEOUT));
    }
}
