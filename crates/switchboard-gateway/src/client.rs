//! One client: its `initialize`, its requests in flight, and its open questions. Requests are handled
//! by [`dispatch`](crate::dispatch).

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::RandomState;
use switchboard::caller::Root;
use switchboard::event::LogLevel;
use switchboard::revision::Revision;
use switchboard::sync::lock;
use switchboard::wire::RequestId;
use switchboard::{CallerId, RawJson};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::cluster::Cluster;
use crate::outbound::Outbound;
use crate::params::ClientCapabilities;
use crate::principal::Principal;
use crate::reply::{self, ErrorReply};
use crate::settings::ServerSelection;
use crate::spans::ServerSpan;
pub(crate) use questions::QuestionAnswer;
use questions::{OpenQuestions, QuestionSeal};
pub(crate) use roots::read_roots;

mod questions;
mod roots;

/// How many requests of one client may be in flight.
const MAX_IN_FLIGHT: usize = 1024;

pub(crate) struct ClientState {
    /// Distinguishes clients of one principal.
    pub(crate) number: u64,
    pub(crate) kind: ClientKind,
    pub(crate) principal: Principal,
    /// Two calls of one client have the same caller.
    pub(crate) caller_id: CallerId,
    pub(crate) selection: ServerSelection,
    /// The queue for messages that belong to no request.
    pub(crate) outbound: Outbound,
    pub(crate) questions: OpenQuestions,
    /// The `initialize` of a legacy client.
    handshake: Mutex<Option<Arc<ClientHandshake>>>,
    pub(crate) connected: Instant,
    /// The client sent `notifications/initialized`: it may be notified of changes.
    is_initialized: AtomicBool,
    /// Wakes the task of each request that is in flight, to cancel it.
    in_flight: Mutex<HashMap<RequestId, Arc<Notify>, RandomState>>,
    /// Notified when the last of them ends.
    ended: Notify,
    /// True once no more messages are read: open-ended requests then end, and open questions.
    is_draining: AtomicBool,
    /// Notified when that becomes true.
    drain: Notify,
    /// `logging/setLevel`.
    log_level: Mutex<Option<LogLevel>>,
    /// The roots of a legacy client, once they were listed.
    roots: Mutex<Option<ListedRoots>>,
    /// The task that asks for them.
    roots_request: Mutex<Option<AbortHandle>>,
}

/// How a client is connected, which determines the requests that it may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// A connection, which carries requests of either era.
    Connection,
    /// A session over HTTP, which only the legacy era has.
    LegacySession,
    /// One modern request over HTTP.
    Request,
}

/// A client's result of `roots/list`.
struct ListedRoots {
    roots: Vec<Root>,
    /// As it came.
    result: RawJson,
}

/// The `initialize` of a legacy client.
#[derive(Debug)]
pub struct ClientHandshake {
    /// The revision that was agreed on.
    pub revision: Revision,
    /// `clientInfo`, as it came.
    pub client_info: Option<RawJson>,
    pub(crate) capabilities: ClientCapabilities,
}

impl ClientState {
    /// A new client. `outbound` gets messages that belong to no request.
    pub(crate) fn new(
        number: u64,
        kind: ClientKind,
        principal: Principal,
        selection: ServerSelection,
        outbound: Outbound,
    ) -> Self {
        Self {
            number,
            kind,
            caller_id: match kind {
                ClientKind::Connection | ClientKind::LegacySession => {
                    CallerId::of_client(principal.as_str(), number)
                }
                ClientKind::Request => CallerId::of_request(principal.as_str(), number),
            },
            principal,
            selection,
            outbound,
            questions: OpenQuestions::default(),
            handshake: Mutex::default(),
            connected: Instant::now(),
            is_initialized: AtomicBool::new(false),
            in_flight: Mutex::default(),
            ended: Notify::new(),
            is_draining: AtomicBool::new(false),
            drain: Notify::new(),
            log_level: Mutex::default(),
            roots: Mutex::default(),
            roots_request: Mutex::default(),
        }
    }

    /// Seals the ids of questions to this client.
    pub(crate) fn question_seal<'a>(&'a self, cluster: &'a dyn Cluster) -> QuestionSeal<'a> {
        QuestionSeal {
            cluster,
            principal: &self.principal,
            client: self.number,
        }
    }

    /// Marks the end of the client's messages: open-ended requests end, and open questions.
    pub(crate) fn begin_draining(&self) {
        self.is_draining.store(true, Ordering::Release);
        self.drain.notify_waiters();
    }

    /// Waits until no request is in flight.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Enabled before the check, so that a wake-up between check and wait is not lost.
            ended.as_mut().enable();
            if !self.is_busy() {
                return;
            }
            ended.await;
        }
    }

    /// Completes when no more messages of the client are read.
    pub(crate) async fn draining(&self) {
        loop {
            let drain = self.drain.notified();
            tokio::pin!(drain);
            drain.as_mut().enable();
            if self.is_draining.load(Ordering::Acquire) {
                return;
            }
            drain.await;
        }
    }

    pub(crate) fn handshake(&self) -> Option<Arc<ClientHandshake>> {
        lock(&self.handshake).clone()
    }

    pub(crate) fn set_handshake(&self, handshake: ClientHandshake) {
        *lock(&self.handshake) = Some(Arc::new(handshake));
    }

    pub(crate) fn set_initialized(&self) {
        self.is_initialized.store(true, Ordering::Relaxed);
    }

    /// Whether this is a legacy client that may be notified of changes.
    pub(crate) fn is_initialized(&self) -> bool {
        self.is_initialized.load(Ordering::Relaxed)
    }

    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        *lock(&self.log_level)
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        *lock(&self.log_level) = Some(level);
    }

    pub(crate) fn roots(&self) -> Option<Vec<Root>> {
        let listed = lock(&self.roots);
        listed.as_ref().map(|listed| listed.roots.clone())
    }

    /// The client's result of `roots/list`, as it came.
    pub(crate) fn listed_roots(&self) -> Option<RawJson> {
        let listed = lock(&self.roots);
        listed.as_ref().map(|listed| listed.result.clone())
    }

    pub(crate) fn set_roots(&self, roots: Vec<Root>, result: &RawJson) {
        *lock(&self.roots) = Some(ListedRoots {
            roots,
            result: result.copy(),
        });
    }

    /// Replaces the task that asks for the roots: its answer may be older than the last change.
    pub(crate) fn set_roots_request(&self, task: AbortHandle) {
        if let Some(before) = lock(&self.roots_request).replace(task) {
            before.abort();
        }
    }

    /// Whether a request is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        !lock(&self.in_flight).is_empty()
    }

    /// Begins a request; `cancel` is notified when the client cancels it. The error is for the client.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: RequestId,
        outbound: Outbound,
        cancel: &Arc<Notify>,
        span: &mut ServerSpan,
    ) -> Result<Responder, ErrorReply> {
        let mut in_flight = lock(&self.in_flight);
        if in_flight.contains_key(&id) {
            let message = "a request with this id is in flight";
            return Err(ErrorReply::new(reply::INVALID_REQUEST, message));
        }
        if in_flight.len() >= MAX_IN_FLIGHT {
            let message = format!("{MAX_IN_FLIGHT} requests are in flight; wait for a response");
            return Err(ErrorReply::new(reply::INTERNAL_ERROR, message));
        }
        in_flight.insert(id.clone(), cancel.clone());
        Ok(Responder {
            client: self.clone(),
            id,
            outbound,
            span: std::mem::take(span),
            is_released: false,
        })
    }

    /// Links a request to the suspended call that it continues: cancelling it cancels that call. False
    /// if the client has cancelled it already.
    pub(crate) fn redirect_cancel(&self, id: &RequestId, cancel: &Arc<Notify>) -> bool {
        let mut in_flight = lock(&self.in_flight);
        let Some(known) = in_flight.get_mut(id) else {
            return true;
        };
        let before = std::mem::replace(known, cancel.clone());
        !pin!(before.notified()).enable()
    }

    /// Cancels a request for the client. Unknown and ended ones are ignored.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(cancel) = lock(&self.in_flight).get(id) {
            cancel.notify_one();
        }
    }

    /// Cancels every request.
    pub(crate) fn end(&self) {
        for cancel in lock(&self.in_flight).values() {
            cancel.notify_one();
        }
        self.questions.withdraw_all();
    }
}

impl std::fmt::Debug for ClientState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientSession")
            .field("principal", &self.principal)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// Answers one request, which is in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct Responder {
    pub(crate) client: Arc<ClientState>,
    pub(crate) id: RequestId,
    pub(crate) outbound: Outbound,
    /// The span of the request. It ends when the response is sent.
    pub(crate) span: ServerSpan,
    /// The request is no longer in flight.
    is_released: bool,
}

impl Responder {
    /// The result, which is JSON text.
    pub(crate) async fn result(mut self, result: &[u8]) {
        self.span.answered();
        let message = reply::result(&self.id, result);
        self.respond(message).await;
    }

    pub(crate) async fn error(mut self, error: &ErrorReply) {
        self.span.refused(error.code);
        let message = reply::error(Some(&self.id), error);
        self.respond(message).await;
    }

    /// The id is released before the client can read the response, because it may reuse it at once. And
    /// the response is in the queue before the client counts as idle, because the queue may end then.
    async fn respond(mut self, message: Bytes) {
        let outbound = self.outbound.clone();
        let sent = self.release_after(|| outbound.try_send(message));
        drop(self);
        // The queue is full.
        if let Err(message) = sent {
            outbound.respond(message).await;
        }
    }

    /// Ends the request after `last`, at once for others.
    fn release_after<T>(&mut self, last: impl FnOnce() -> T) -> T {
        self.is_released = true;
        let mut in_flight = lock(&self.client.in_flight);
        let output = last();
        in_flight.remove(&self.id);
        if in_flight.is_empty() {
            self.client.ended.notify_waiters();
        }
        output
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.is_released {
            self.release_after(|| {});
        }
    }
}
