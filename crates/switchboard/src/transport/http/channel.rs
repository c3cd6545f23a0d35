//! What one channel keeps: the POSTs under way and their bound, the legacy session, and who hears
//! what arrives.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use reqwest::header::HeaderValue;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::exchange::LONGEST_SILENCE;
use super::legacy::Legacy;
use crate::caller::BoxFuture;
use crate::panics::catch_panic;
use crate::revision::{Era, Revision};
use crate::sync::lock;
use crate::transport::read_limit::ReadLimit;
use crate::transport::{Closed, DeliveryOwner, Inbound, WireFault};

/// Requests wait while so many POSTs are under way.
const MAX_UNDER_WAY: usize = 256;

/// Answers to questions wait while so many messages are under way that are no requests.
const MAX_NOTES: usize = 64;

/// One channel. The transport and each message under way hold it.
pub(super) struct Channel {
    pub(super) endpoint: Endpoint,
    /// The same place, over connections that no request can hold up.
    pub(super) answering: Endpoint,
    pub(super) inbound: Arc<dyn Inbound>,
    /// Shared by all streams of the server.
    pub(super) read_limit: ReadLimit,
    /// Where tasks run: a request may be given up outside of any runtime.
    pub(super) runtime: Handle,
    legacy: Mutex<Arc<Legacy>>,
    /// The handshake came to the modern era.
    modern: AtomicBool,
    /// False from the sending of `notifications/initialized` until it is answered: nothing may
    /// overtake it.
    settled: watch::Sender<bool>,
    flights: Mutex<Flights>,
    /// How many notes are under way. Answers that wait for room hold the other end.
    notes: watch::Sender<usize>,
    /// Rung when the last POST is over. The task that closes the channel holds the other end.
    landed: Notify,
    /// True once the last words are said. Whoever ends the program holds the other end.
    over: watch::Sender<bool>,
    /// Held by the one request that begins the session anew.
    pub(super) renewing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Flights {
    under_way: HashMap<Flight, Option<AbortHandle>, foldhash::fast::RandomState>,
    /// Those who wait for room, first come first: only the first may go, so that nobody is
    /// overtaken. Each holds the other end of its bell.
    queue: VecDeque<Arc<Notify>>,
    /// The number of the last message that was no request.
    last_note: u64,
    /// The task that holds the stream of a legacy server.
    listening: Option<AbortHandle>,
    closed: bool,
}

/// A message under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flight {
    Request(u64),
    /// A notification, or the answer to a question.
    Note(u64),
}

impl Channel {
    pub(super) fn new(
        endpoint: Endpoint,
        answering: Endpoint,
        inbound: Arc<dyn Inbound>,
    ) -> Arc<Self> {
        let legacy = Legacy::new(&endpoint);
        Arc::new(Self {
            endpoint,
            answering,
            inbound,
            read_limit: ReadLimit::default(),
            runtime: Handle::current(),
            legacy: Mutex::new(Arc::new(legacy)),
            modern: AtomicBool::new(false),
            settled: watch::Sender::new(true),
            flights: Mutex::default(),
            notes: watch::Sender::new(0),
            landed: Notify::new(),
            over: watch::Sender::new(false),
            renewing: tokio::sync::Mutex::default(),
        })
    }

    /// Takes a place for a message. It is free again when what comes back is dropped.
    pub(super) fn take_off(self: &Arc<Self>, id: Option<u64>) -> Result<Landing, Closed> {
        let mut flights = lock(&self.flights);
        if flights.closed {
            return Err(Closed);
        }
        let flight = id.map_or_else(
            || {
                self.notes.send_modify(|notes| *notes += 1);
                flights.last_note += 1;
                Flight::Note(flights.last_note)
            },
            Flight::Request,
        );
        flights.under_way.insert(flight, None);
        Ok(Landing {
            channel: self.clone(),
            flight,
        })
    }

    /// Goes on with a message in a task of this channel's own.
    pub(super) fn launch(&self, flight: Flight, work: BoxFuture<'static, ()>) {
        // Not under the lock: where the runtime is shutting down, the task ends here and now, and
        // lands.
        let inbound = self.inbound.clone();
        let supervised = async move {
            if let (Err(panicked), Flight::Request(id)) = (catch_panic(work).await, flight) {
                inbound.failed(id, WireFault::Lost(panicked.to_string()));
            }
        };
        let task = self.runtime.spawn(supervised).abort_handle();
        match lock(&self.flights).under_way.get_mut(&flight) {
            Some(place) => *place = Some(task),
            // It is over already, or was forgotten meanwhile.
            None => task.abort(),
        }
    }

    /// Ends a request: the server sees its stream close. True where that is how it is told.
    pub(super) fn forget(&self, id: u64) -> bool {
        if let Some(task) = self.land(Flight::Request(id)) {
            task.abort();
        }
        self.modern.load(Ordering::Relaxed)
    }

    /// Frees the place of a message; its task, if it had one and was still under way.
    fn land(&self, flight: Flight) -> Option<AbortHandle> {
        let mut flights = lock(&self.flights);
        let task = flights.under_way.remove(&flight);
        if task.is_some() && matches!(flight, Flight::Note(_)) {
            self.notes.send_modify(|notes| *notes -= 1);
        }
        flights.call_next();
        if flights.closed && flights.under_way.is_empty() {
            self.landed.notify_one();
        }
        task.flatten()
    }

    pub(super) fn has_room(&self) -> bool {
        let flights = lock(&self.flights);
        flights.closed || (flights.queue.is_empty() && flights.has_place())
    }

    /// Waits for room, behind those who have waited longer.
    pub(super) async fn ready(&self) {
        let bell = Arc::new(Notify::new());
        {
            let mut flights = lock(&self.flights);
            flights.queue.push_back(bell.clone());
            flights.call_next();
        }
        let waiting = Waiting {
            channel: self,
            bell,
        };
        loop {
            waiting.bell.notified().await;
            let flights = lock(&self.flights);
            let is_first = flights
                .queue
                .front()
                .is_some_and(|first| Arc::ptr_eq(first, &waiting.bell));
            if flights.closed || (is_first && flights.has_place()) {
                return;
            }
        }
    }

    /// Waits for room among the notes. Those who waited go on together; there are no more of them
    /// than questions may be open.
    pub(super) async fn ready_to_answer(&self) {
        // The sender lives as long as this channel.
        let _ = self
            .notes
            .subscribe()
            .wait_for(|notes| *notes < MAX_NOTES)
            .await;
    }

    /// What the legacy session is made of now.
    pub(super) fn legacy(&self) -> Arc<Legacy> {
        lock(&self.legacy).clone()
    }

    /// Changes it; what every POST says follows.
    pub(super) fn set_legacy(&self, change: impl FnOnce(&mut Legacy)) {
        let mut legacy = lock(&self.legacy);
        let legacy = Arc::make_mut(&mut legacy);
        change(legacy);
        legacy.headers = legacy.beside(&self.endpoint.posting);
    }

    pub(super) fn negotiated(&self, revision: Revision) {
        let is_modern = revision.era() == Era::Modern;
        self.modern.store(is_modern, Ordering::Relaxed);
        if !is_modern {
            let version = HeaderValue::from_static(revision.as_str());
            self.set_legacy(|legacy| legacy.version = Some(version));
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
        flights.queue.iter().for_each(|bell| bell.notify_one());
        if flights.under_way.is_empty() {
            self.landed.notify_one();
        }
        drop(flights);
        ended.iter().for_each(AbortHandle::abort);
        true
    }

    /// Waits until every note has left, once the channel is shut.
    pub(super) async fn all_landed(&self) {
        self.landed.notified().await;
    }

    /// The last words are said.
    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }

    /// Waits for that.
    pub(super) async fn over(&self) {
        // The sender lives as long as this channel.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Ends the notes that have not left.
    pub(super) fn ground_all(&self) {
        let ended = std::mem::take(&mut lock(&self.flights).under_way);
        self.notes.send_replace(0);
        ended.into_values().flatten().for_each(|task| task.abort());
    }
}

/// A request whose waiter has its response, or has gone: the rest of the exchange is carried out by
/// a task, unless the request was cancelled.
impl DeliveryOwner for Channel {
    fn abandoned(&self, id: u64, rest: BoxFuture<'static, ()>) {
        let flight = Flight::Request(id);
        let is_under_way = lock(&self.flights).under_way.contains_key(&flight);
        if is_under_way {
            self.launch(
                flight,
                Box::pin(async { drop(timeout(LONGEST_SILENCE, rest).await) }),
            );
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

/// Frees the place of a message when it is over, however it ended.
pub(super) struct Landing {
    channel: Arc<Channel>,
    pub(super) flight: Flight,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.channel.land(self.flight);
    }
}

/// One who waits for room. When its wait is over, whether it then sends or not, the next one looks.
struct Waiting<'a> {
    channel: &'a Channel,
    bell: Arc<Notify>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut flights = lock(&self.channel.flights);
        match flights.queue.front() {
            Some(first) if Arc::ptr_eq(first, &self.bell) => drop(flights.queue.pop_front()),
            _ => flights.queue.retain(|bell| !Arc::ptr_eq(bell, &self.bell)),
        }
        flights.call_next();
    }
}

impl Flights {
    fn has_place(&self) -> bool {
        self.under_way.len() < MAX_UNDER_WAY
    }

    /// Rings for whoever waits longest, if there is room.
    fn call_next(&self) {
        if let Some(bell) = self.queue.front()
            && self.has_place()
        {
            bell.notify_one();
        }
    }
}
