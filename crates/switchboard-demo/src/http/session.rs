//! Legacy sessions and their streams: opened by `initialize`, named in a header, closed by DELETE.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::{HeaderMap, StatusCode};

use super::events::{Stream, parse_id};
use super::{Response, Shared, accepted, refuse};
use crate::era::LEGACY_VERSIONS;
use crate::outgoing::OutgoingBuffer;
use crate::peer::Peer;
use crate::rpc::Fault;

pub(super) const SESSION_HEADER: &str = "mcp-session-id";
pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";

/// From this revision on, a stream begins with an event that carries an id and nothing else.
const PRIMING_VERSION: &str = "2025-11-25";

/// How many ended streams of one session can still be resumed.
const KEPT_STREAMS: usize = 128;

/// All open sessions of one wire.
#[derive(Debug)]
pub(super) struct Sessions {
    /// Makes ids that cannot be guessed.
    key: [u8; 32],
    limit: usize,
    /// Counts uses, to find the session that was idle the longest.
    clock: AtomicU64,
    open: Mutex<HashMap<String, Arc<Session>>>,
}

/// One legacy session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: Arc<Peer>,
    /// Messages that belong to no request, until `shared` sends them.
    outlet: OutgoingBuffer,
    /// The stream of messages that belong to no request, carried by a GET.
    shared: Arc<Stream>,
    /// The streams of requests that took time, by number.
    streams: Mutex<BTreeMap<u64, Arc<Stream>>>,
    last_stream: AtomicU64,
    /// When it was last used, by the clock of its [`Sessions`].
    used: AtomicU64,
}

impl Sessions {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            key: random_key(),
            limit: limit.max(1),
            clock: AtomicU64::new(0),
            open: Mutex::default(),
        }
    }

    /// Opens a session and gives it an id.
    pub(super) fn open(&self, session: Session) -> (String, Arc<Session>) {
        let now = self.tick();
        let id = blake3::keyed_hash(&self.key, &now.to_le_bytes()).to_hex()[..32].to_owned();
        let session = Arc::new(session);
        session.used.store(now, Ordering::Relaxed);
        let forgotten = {
            let mut open = self.sessions();
            let oldest = (open.len() >= self.limit).then(|| {
                open.iter()
                    .min_by_key(|(_, session)| session.used.load(Ordering::Relaxed))
            });
            let oldest = oldest.flatten().map(|(id, _)| id.clone());
            let forgotten = oldest.and_then(|id| open.remove(&id));
            open.insert(id.clone(), session.clone());
            forgotten
        };
        if let Some(forgotten) = forgotten {
            forgotten.end();
        }
        (id, session)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.sessions().get(id).cloned()?;
        session.used.store(self.tick(), Ordering::Relaxed);
        Some(session)
    }

    pub(super) fn close(&self, id: &str) -> bool {
        let session = self.sessions().remove(id);
        session.is_some_and(|session| {
            session.end();
            true
        })
    }

    pub(super) fn clear(&self) {
        let sessions = std::mem::take(&mut *self.sessions());
        sessions.values().for_each(|session| session.end());
    }

    pub(super) fn break_streams(&self) {
        let sessions: Vec<_> = self.sessions().values().cloned().collect();
        for session in sessions {
            session.shared.interrupt();
            session
                .streams()
                .values()
                .for_each(|stream| stream.interrupt());
        }
    }

    pub(super) fn count(&self) -> usize {
        self.sessions().len()
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Messages that belong to no request go to `outlet`.
    pub(super) fn new(peer: Arc<Peer>, outlet: OutgoingBuffer) -> Self {
        let shared = Stream::resumable(0, outlet.clone());
        Self::on_stream(peer, outlet, shared)
    }

    /// The same, on an existing stream.
    pub(super) fn on_stream(peer: Arc<Peer>, outlet: OutgoingBuffer, shared: Arc<Stream>) -> Self {
        Self {
            peer,
            outlet,
            shared,
            streams: Mutex::default(),
            last_stream: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }

    pub(super) fn outlet(&self) -> &OutgoingBuffer {
        &self.outlet
    }

    /// A stream for a request that takes time.
    pub(super) fn open_stream(&self, outlet: OutgoingBuffer) -> Arc<Stream> {
        let number = self.last_stream.fetch_add(1, Ordering::Relaxed) + 1;
        let stream = Stream::resumable(number, outlet);
        let mut streams = self.streams();
        if streams.len() >= KEPT_STREAMS {
            // Open streams are bounded by the calls in flight.
            let ended = streams
                .iter()
                .find(|(_, stream)| stream.has_ended())
                .map(|(number, _)| *number);
            ended.and_then(|number| streams.remove(&number));
        }
        streams.insert(number, stream.clone());
        stream
    }

    /// The first event of a stream.
    pub(super) fn beginning(&self, stream: &Stream, shared: &Shared) -> Vec<u8> {
        let retry = shared.options.retry;
        if self
            .peer
            .agreed_version()
            .is_some_and(|version| version >= PRIMING_VERSION)
        {
            stream.priming(retry)
        } else {
            format!("retry: {}\n\n", retry.as_millis()).into_bytes()
        }
    }

    fn end(&self) {
        self.peer.close();
        self.shared.end();
        self.streams().values().for_each(|stream| stream.end());
    }

    fn streams(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A GET: opens the stream that belongs to no request, or resumes the one that an event id names.
pub(super) fn listen(shared: &Shared, headers: &HeaderMap) -> Response {
    if !super::post::accepts(headers, "text/event-stream") {
        let fault = Fault::edge(-32000, "the request must accept text/event-stream");
        return refuse(StatusCode::NOT_ACCEPTABLE, &fault);
    }
    let session = match of(shared, headers) {
        Ok((_, session)) => session,
        Err(refusal) => return refusal,
    };
    let (stream, after) = match headers.get("last-event-id") {
        None => (Some(session.shared.clone()), None),
        Some(id) => match id.to_str().ok().and_then(parse_id) {
            Some((0, after)) => (Some(session.shared.clone()), Some(after)),
            Some((number, after)) => (session.streams().get(&number).cloned(), Some(after)),
            None => (None, None),
        },
    };
    let Some(stream) = stream else {
        return refuse(
            StatusCode::BAD_REQUEST,
            &Fault::edge(-32000, "Last-Event-ID names no stream of this session"),
        );
    };
    let beginning = session.beginning(&stream, shared);
    // A client that resumes has an event id already.
    let beginning = if after.is_some() {
        format!("retry: {}\n\n", shared.options.retry.as_millis()).into()
    } else {
        beginning
    };
    stream
        .read(beginning, after, shared.options.keep_alive)
        .into_response()
}

/// A DELETE.
pub(super) fn end(shared: &Shared, headers: &HeaderMap) -> Response {
    match of(shared, headers) {
        Ok((id, _)) => {
            shared.sessions.close(&id);
            accepted()
        }
        Err(refusal) => refusal,
    }
}

/// The session that a request names.
pub(super) fn of(shared: &Shared, headers: &HeaderMap) -> Result<(String, Arc<Session>), Response> {
    let version = headers
        .get(VERSION_HEADER)
        .map(|version| version.to_str().unwrap_or(""));
    if let Some(version) = version.filter(|version| !LEGACY_VERSIONS.contains(version)) {
        let fault = Fault::edge(-32000, format!("unsupported protocol version {version:?}"));
        return Err(refuse(StatusCode::BAD_REQUEST, &fault));
    }
    let Some(id) = headers.get(SESSION_HEADER) else {
        let fault = Fault::edge(
            -32000,
            "the header Mcp-Session-Id is missing; send initialize first",
        );
        return Err(refuse(StatusCode::BAD_REQUEST, &fault));
    };
    let id = id.to_str().unwrap_or("");
    let Some(session) = shared.sessions.find(id) else {
        return Err(refuse(
            StatusCode::NOT_FOUND,
            &Fault::edge(-32001, "there is no such session; send initialize first"),
        ));
    };
    let agreed = session.peer.agreed_version();
    if let Some(version) = version.filter(|version| Some(*version) != agreed) {
        let fault = Fault::edge(
            -32000,
            format!(
                "this session speaks {}, not {version}",
                agreed.unwrap_or("nothing")
            ),
        );
        return Err(refuse(StatusCode::BAD_REQUEST, &fault));
    }
    Ok((id.to_owned(), session))
}

/// Random bytes of the system; of the standard library's hasher if that fails.
fn random_key() -> [u8; 32] {
    let mut key = [0; 32];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut key));
    for (index, part) in key
        .chunks_exact_mut(8)
        .enumerate()
        .filter(|_| read.is_err())
    {
        part.copy_from_slice(&RandomState::new().hash_one(index).to_le_bytes());
    }
    key
}
