//! What one channel keeps: the POSTs under way and their bound, the legacy session, and who hears what arrives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::endpoint::Endpoint;
use super::headers::{PROTOCOL_VERSION, SESSION_ID};
use crate::transport::{Agreed, Closed, Inbound};

/// Requests wait while so many POSTs are under way.
const MAX_UNDER_WAY: usize = 256;

/// One channel. The transport and each of its tasks hold it.
pub(super) struct Channel {
    pub(super) endpoint: Endpoint,
    pub(super) inbound: Arc<dyn Inbound>,
    /// Where tasks run: a request may be given up outside of any runtime.
    pub(super) runtime: Handle,
    legacy: Mutex<Legacy>,
    /// The handshake came to the modern era.
    modern: AtomicBool,
    /// False from the sending of `notifications/initialized` until it is answered: nothing may overtake it.
    settled: watch::Sender<bool>,
    flights: Mutex<Flights>,
    /// Rung when a POST is over. Requests that wait for room hold the other end.
    freed: Notify,
    /// How many wait for room: whoever comes later waits behind them.
    waiting: AtomicUsize,
    /// Held by the one request that begins the session anew.
    pub(super) renewing: tokio::sync::Mutex<()>,
}

/// What a legacy session is made of. Replaced as a whole when it is begun anew.
#[derive(Clone)]
pub(super) struct Legacy {
    /// The id that the server gave, if it gave one.
    pub(super) id: Option<HeaderValue>,
    pub(super) version: Option<HeaderValue>,
    /// The headers of every legacy POST, with both of these.
    pub(super) headers: Arc<HeaderMap>,
    /// Our own words, to begin anew with: the id of `initialize`, its bytes, and those of `notifications/initialized`.
    pub(super) initialize: Option<(u64, Bytes)>,
    pub(super) initialized: Option<Bytes>,
}

#[derive(Default)]
struct Flights {
    under_way: HashMap<Flight, Option<AbortHandle>>,
    /// The number of the last message that was no request.
    last_note: u64,
    /// The task that holds the stream of a legacy server.
    listening: Option<AbortHandle>,
    closed: bool,
}

/// A message under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Flight {
    Request(u64),
    /// A notification, or the answer to a question.
    Note(u64),
}

impl Channel {
    pub(super) fn new(endpoint: Endpoint, inbound: Arc<dyn Inbound>) -> Arc<Self> {
        let headers = Arc::new(endpoint.posting.clone());
        Arc::new(Self {
            endpoint,
            inbound,
            runtime: Handle::current(),
            legacy: Mutex::new(Legacy { id: None, version: None, headers, initialize: None, initialized: None }),
            modern: AtomicBool::new(false),
            settled: watch::Sender::new(true),
            flights: Mutex::default(),
            freed: Notify::new(),
            waiting: AtomicUsize::new(0),
            renewing: tokio::sync::Mutex::default(),
        })
    }

    /// Runs what a message takes, as a task of this channel's own.
    pub(super) fn launch(
        self: &Arc<Self>,
        id: Option<u64>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Closed> {
        let flight = {
            let mut flights = lock(&self.flights);
            if flights.closed {
                return Err(Closed);
            }
            let flight = id.map_or_else(
                || {
                    flights.last_note += 1;
                    Flight::Note(flights.last_note)
                },
                Flight::Request,
            );
            flights.under_way.insert(flight, None);
            flight
        };
        let landing = Landing { channel: self.clone(), flight };
        // Not under the lock: where the runtime is shutting down, the task ends here and now, and lands.
        let task = self.runtime.spawn(async move {
            let _landing = landing;
            work.await;
        });
        let task = task.abort_handle();
        match lock(&self.flights).under_way.get_mut(&flight) {
            Some(place) => *place = Some(task),
            // It is over already, or was forgotten meanwhile.
            None => task.abort(),
        }
        Ok(())
    }

    /// Ends a request: the server sees its stream close. True where that is how it is told.
    pub(super) fn forget(&self, id: u64) -> bool {
        let task = lock(&self.flights).under_way.remove(&Flight::Request(id));
        if let Some(task) = task {
            self.freed.notify_one();
            task.inspect(AbortHandle::abort);
        }
        self.modern.load(Ordering::Relaxed)
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0 && self.has_place()
    }

    fn has_place(&self) -> bool {
        let flights = lock(&self.flights);
        flights.closed || flights.under_way.len() < MAX_UNDER_WAY
    }

    /// Waits for room, behind those who have waited longer.
    pub(super) async fn ready(&self) {
        let mut first = self.waiting.fetch_add(1, Ordering::SeqCst) == 0;
        let _waiting = Waiting(self);
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if first && self.has_place() {
                return;
            }
            first = true;
            freed.await;
        }
    }

    /// What the legacy session is made of now.
    pub(super) fn legacy(&self) -> Legacy {
        lock(&self.legacy).clone()
    }

    /// Changes it; what every POST says follows.
    pub(super) fn set_legacy(&self, change: impl FnOnce(&mut Legacy)) {
        let mut legacy = lock(&self.legacy);
        change(&mut legacy);
        let mut headers = self.endpoint.posting.clone();
        legacy.say_session(&mut headers);
        legacy.headers = Arc::new(headers);
    }

    pub(super) fn agreed(&self, agreed: Agreed<'_>) {
        self.modern.store(agreed.modern, Ordering::Relaxed);
        if !agreed.modern {
            self.set_legacy(|legacy| legacy.version = HeaderValue::from_str(agreed.version).ok());
        }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.modern.load(Ordering::Relaxed)
    }

    /// From now on messages wait, until what is given here is dropped.
    pub(super) fn unsettle(self: &Arc<Self>) -> Settling {
        self.settled.send_replace(false);
        Settling(self.clone())
    }

    /// Waits while messages must.
    pub(super) async fn settled(&self) {
        if !*self.settled.borrow() {
            // The sender lives as long as this channel.
            let _ = self.settled.subscribe().wait_for(|settled| *settled).await;
        }
    }

    /// Takes the task that holds the server's own stream, and ends the one before.
    pub(super) fn listen_with(&self, task: AbortHandle) {
        let mut flights = lock(&self.flights);
        if flights.closed {
            task.abort();
        } else if let Some(before) = flights.listening.replace(task) {
            before.abort();
        }
    }

    /// Ends every request and takes no message more. False if that was done before.
    pub(super) fn shut(&self) -> bool {
        let mut flights = lock(&self.flights);
        if std::mem::replace(&mut flights.closed, true) {
            return false;
        }
        let mut ended: Vec<_> = flights.listening.take().into_iter().collect();
        flights.under_way.retain(|flight, task| {
            let is_note = matches!(flight, Flight::Note(_));
            ended.extend(task.take_if(|_| !is_note));
            is_note
        });
        drop(flights);
        ended.iter().for_each(AbortHandle::abort);
        self.freed.notify_waiters();
        true
    }

    /// Waits until every note has left.
    pub(super) async fn all_landed(&self) {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if lock(&self.flights).under_way.is_empty() {
                return;
            }
            freed.await;
        }
    }

    /// Ends the notes that have not left.
    pub(super) fn ground_all(&self) {
        let ended = std::mem::take(&mut lock(&self.flights).under_way);
        ended.into_values().flatten().for_each(|task| task.abort());
    }
}

impl Legacy {
    /// Adds what each message of a legacy session says of it.
    pub(super) fn say_session(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(SESSION_ID, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(PROTOCOL_VERSION, version.clone());
        }
    }
}

/// Messages wait while this lives.
pub(super) struct Settling(Arc<Channel>);

impl Drop for Settling {
    fn drop(&mut self) {
        self.0.settled.send_replace(true);
    }
}

/// Frees the place of a message when its task ends, however it ends.
struct Landing {
    channel: Arc<Channel>,
    flight: Flight,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let landed = lock(&self.channel.flights).under_way.remove(&self.flight);
        if landed.is_some() {
            self.channel.freed.notify_one();
        }
    }
}

/// One who waits for room. Whether it then sends or not, the next one looks as well.
struct Waiting<'a>(&'a Channel);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        if waited > 1 && self.0.has_place() {
            self.0.freed.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
