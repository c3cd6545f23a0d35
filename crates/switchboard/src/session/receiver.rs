//! The receiving half of a session: dispatches messages to whoever waits for them, and counts
//! deviations.
//!
//! Notifications are left to `notifications`, requests of the server to the era.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::event_limit::EventLimit;
use super::fault::{ResponseResult, read_error};
use super::in_flight::{InFlightCall, InFlightCalls};
use super::legacy::{self, ServerRequests, UrlElicitations};
use super::peer::notification;
use super::pending::PendingRequests;
use super::subscriptions::SubscriptionStatus;
use super::tasks::TaskTable;
use super::{OpenOptions, ProtocolDeviations, RequestFault};
use crate::event::Event;
use crate::panics::catch_panic;
use crate::transport::{Inbound, MessageKind, MessageOrigin, Transport, TransportFault};
use crate::untrusted::quoted;
use crate::wire::{Incoming, Outgoing, OversizedMessage, RawJson, RequestId, RequestMetadata};

/// After this many consecutive lines that are not messages, the session ends.
const MAX_JUNK_RUN: u64 = 1_000;

/// Occasional late responses are normal; this many are reported once.
const NOTABLE_UNKNOWN_IDS: u64 = 100;

/// The most bytes queued, beyond the transport's own queue, for a server that sends requests
/// without reading the responses.
const MAX_UNREAD_BYTES: usize = 1024 * 1024;

/// How many events of each kind are sent at once after a pause. A server that starts logs more, many
/// subscribed resources may change at once, and many calls may ask; all fit the queue of a reader.
const MAX_LOG_BURST: u32 = 50;
const MAX_UPDATE_BURST: u32 = 500;
const MAX_NOTICE_BURST: u32 = 200;

/// All lists that a server can offer.
const ALL_LISTS: [&str; 4] = [
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
];

/// How many lines that are not messages are kept for diagnosis, and how many bytes of each.
const JUNK_SAMPLES: usize = 20;
const JUNK_SAMPLE_BYTES: usize = 200;

/// How messages of the server are handled in one era.
pub(super) trait EraInbound: Send + Sync {
    /// Handles a request of the server.
    fn server_request(
        &self,
        receiver: &Receiver,
        id: RequestId,
        method: &str,
        params: Option<RawJson>,
        origin: MessageOrigin,
    );

    /// Refuses a request of the server that was too large to be read.
    fn oversized_request(&self, receiver: &Receiver, id: &RequestId);

    /// Handles the cancellation of a request by the server.
    fn cancelled(&self, receiver: &Receiver, id: RequestId);

    /// Whether a reported change was subscribed to.
    fn is_subscribed(
        &self,
        receiver: &Receiver,
        params: Option<&RawJson>,
        origin: MessageOrigin,
    ) -> bool;

    /// The call that a log message on a shared stream belongs to; `true` if the call is certain,
    /// not only its caller.
    fn call_that_logs(&self, receiver: &Receiver) -> Option<(Arc<InFlightCall>, bool)>;
}

/// The receiving half. The transport owns it, so its own reference to the transport is weak.
pub(super) struct Receiver {
    pub(super) options: OpenOptions,
    pub(super) pending: PendingRequests,
    /// Where a request is encoded before the transport copies it, so that none allocates.
    pub(super) encoded: Mutex<Vec<u8>>,
    /// Requests of a legacy server that wait for a caller's answer.
    pub(super) server_requests: ServerRequests,
    /// Shared with the tasks that answer those requests.
    pub(super) url_elicitations: Arc<UrlElicitations>,
    pub(super) tasks: TaskTable,
    pub(super) transport: OnceLock<Weak<dyn Transport>>,
    /// Set after the handshake; until then messages are handled as on a legacy session.
    pub(super) era: OnceLock<&'static dyn EraInbound>,
    /// Notified when the server reports a changed list.
    pub(super) list_changed: Notify,
    /// The server's responses to the subscriptions.
    pub(super) subscription_status: SubscriptionStatus,
    /// Why the session ended, once it has.
    pub(super) ended: watch::Sender<Option<String>>,
    /// Whether `ended` is set: every call asks, and the channel would be locked for it.
    pub(super) is_ended: AtomicBool,
    /// How the server violated the protocol, if the session was ended for that.
    pub(super) violation: OnceLock<String>,
    /// Whether the server has asked a question on a stream that belongs to no call.
    pub(super) asked_on_shared_stream: AtomicBool,
    /// Whether the server has asked a question while a call was in flight.
    pub(super) asked_during_call: AtomicBool,
    pub(super) in_flight: InFlightCalls,
    pub(super) log_events: EventLimit,
    pub(super) update_events: EventLimit,
    /// Limits the notices about questions, each of which a server may cause with a message.
    question_notices: EventLimit,
    /// Consecutive lines that were not messages.
    junk_run: AtomicU64,
    /// Counts messages, so that keep-alive detects activity.
    received: AtomicU64,
    /// Counts the responses to pending requests.
    responses: AtomicU64,
    /// Bytes passed to the transport without room for them, since it last had room.
    unread_bytes: AtomicUsize,
}

/// Aborts a task when dropped.
#[derive(Debug)]
pub(super) struct TaskGuard(AbortHandle);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Receiver {
    pub(super) fn new(options: OpenOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            pending: PendingRequests::default(),
            encoded: Mutex::default(),
            server_requests: ServerRequests::default(),
            url_elicitations: Arc::default(),
            tasks: TaskTable::default(),
            transport: OnceLock::new(),
            era: OnceLock::new(),
            list_changed: Notify::new(),
            subscription_status: SubscriptionStatus::default(),
            ended: watch::Sender::new(None),
            is_ended: AtomicBool::new(false),
            violation: OnceLock::new(),
            asked_on_shared_stream: AtomicBool::new(false),
            asked_during_call: AtomicBool::new(false),
            in_flight: InFlightCalls::default(),
            log_events: EventLimit::new(MAX_LOG_BURST),
            update_events: EventLimit::new(MAX_UPDATE_BURST),
            question_notices: EventLimit::new(MAX_NOTICE_BURST),
            junk_run: AtomicU64::new(0),
            received: AtomicU64::new(0),
            responses: AtomicU64::new(0),
            unread_bytes: AtomicUsize::new(0),
        })
    }

    /// The handlers of this session's era.
    pub(super) fn era(&self) -> &'static dyn EraInbound {
        self.era.get().copied().unwrap_or(&legacy::INBOUND)
    }

    pub(super) fn deviations(&self) -> MutexGuard<'_, ProtocolDeviations> {
        self.options.deviations.lock()
    }

    /// The number of messages so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Sends a response or a notification. They cannot wait for room, so the session ends when too
    /// much is queued for a server that does not read.
    pub(super) fn send(&self, body: &[u8], method: Option<&str>) {
        let Some(transport) = self.transport.get().and_then(Weak::upgrade) else {
            return;
        };
        if transport.wait_for_room(MessageKind::Request).is_none() {
            self.unread_bytes.store(0, Ordering::Relaxed);
        } else if self.unread_bytes.fetch_add(body.len(), Ordering::Relaxed) + body.len()
            > MAX_UNREAD_BYTES
        {
            self.end(&format!("it sends requests without reading the responses: more than {MAX_UNREAD_BYTES} bytes are queued"));
            return;
        }
        // A closed connection is reported elsewhere.
        let _ = transport.send(Outgoing {
            id: None,
            method,
            body,
            metadata: RequestMetadata::default(),
        });
    }

    /// Notifies the server that a request is cancelled.
    pub(super) fn cancel(&self, id: u64, reason: &str) {
        if self
            .transport
            .get()
            .and_then(Weak::upgrade)
            .is_some_and(|transport| transport.cancel(id))
        {
            return;
        }
        let params = json!({"requestId": id, "reason": reason});
        self.send(
            &notification("notifications/cancelled", &params),
            Some("notifications/cancelled"),
        );
    }

    /// Ends the exchange of a request that the server has cancelled, if the transport has one.
    pub(super) fn close_exchange(&self, id: u64) {
        if let Some(transport) = self.transport.get().and_then(Weak::upgrade) {
            transport.cancel(id);
        }
    }

    /// Waits for the end of the session; the reason is one line, safe to show. Cancel-safe.
    pub(super) async fn end_reason(&self) -> String {
        let mut ended = self.ended.subscribe();
        let reason = ended.wait_for(Option::is_some).await;
        // The sender is the receiver's own, so the wait ends with a reason.
        reason
            .ok()
            .and_then(|reason| reason.clone())
            .unwrap_or_default()
    }

    pub(super) fn end(&self, reason: &str) {
        // Set before calls fail, so that whoever sees a call fail sees that the session has ended.
        self.is_ended.store(true, Ordering::Release);
        let is_first = self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert_with(|| reason.to_owned());
            is_first
        });
        if is_first {
            self.pending.end(reason);
            self.server_requests.withdraw_all();
        }
    }

    /// Spawns a task that the session needs: if it panics, the session ends.
    pub(super) fn spawn(
        self: &Arc<Self>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> TaskGuard {
        let receiver = Arc::downgrade(self);
        let supervised = async move {
            if let (Err(panicked), Some(receiver)) = (catch_panic(task).await, receiver.upgrade()) {
                receiver.end(&panicked.to_string());
            }
        };
        TaskGuard(tokio::spawn(supervised).abort_handle())
    }

    /// Ends the session because the server violated the protocol.
    fn end_by_violation(&self, cause: &str) {
        // Only the first cause is reported.
        let _ = self.violation.set(cause.to_owned());
        self.end(cause);
    }

    #[inline(always)]
    fn response(&self, id: Option<RequestId>, result: ResponseResult) {
        match id {
            Some(RequestId::Number(id)) if self.pending.deliver(id, result) => {
                self.responses.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.unknown_response(),
        }
    }

    /// Fails a request that the server may still execute, and ask a question on behalf of.
    #[cold]
    fn fail_executing(&self, id: u64, fault: RequestFault) {
        if !self.pending.fail(id, fault) {
            self.unknown_response();
        }
    }

    #[cold]
    fn unknown_response(&self) {
        let unknown = {
            let mut deviations = self.deviations();
            deviations.unknown_ids += 1;
            deviations.unknown_ids
        };
        if unknown == NOTABLE_UNKNOWN_IDS {
            self.notice(format!(
                "it has responded to {unknown} unknown or ended requests"
            ));
        }
    }

    /// Publishes a notice about this server.
    pub(super) fn notice(&self, line: String) {
        if let Some(events) = &self.options.events {
            let _ = events.send(Event::Notice {
                server: Some(self.options.server.clone()),
                line,
            });
        }
    }

    /// Publishes that a question was declined because the caller does not support it.
    pub(super) fn notice_unanswered(&self) {
        self.notice_declined("no caller can answer it");
    }

    /// Publishes that a question was declined, within the limit.
    pub(super) fn notice_declined(&self, reason: &str) {
        if self.question_notices.allows()
            && let Some(events) = &self.options.events
        {
            let _ = events.send(Event::QuestionDeclined {
                server: self.options.server.clone(),
                reason: reason.to_owned(),
            });
        }
    }

    /// Withdraws the server's questions on behalf of a request that has ended.
    #[inline]
    pub(super) fn request_ended(&self, id: u64) {
        if self.server_requests.is_used() {
            legacy::withdraw_for(self, id);
        }
    }

    /// Invalidates these lists.
    pub(super) fn lists_changed(&self, methods: &[&str]) {
        self.options.cache.lists_changed(methods);
        self.list_changed.notify_one();
    }

    /// Publishes that the server ended a subscription.
    pub(super) fn lost_subscription(&self, uri: &str, fault: &RequestFault) {
        self.notice(format!(
            "the subscription to {} is lost: {fault}",
            quoted(uri)
        ));
    }
}

impl Inbound for Receiver {
    fn message(&self, message: Incoming, origin: MessageOrigin) {
        self.junk_run.store(0, Ordering::Relaxed);
        self.received.fetch_add(1, Ordering::Relaxed);
        match message {
            Incoming::Result { id, result } => self.response(Some(id), Ok(result)),
            Incoming::Error { id, error } => self.response(id, Err(Box::new(read_error(&error)))),
            Incoming::Notification { method, params } => {
                self.notification(&method, params.as_ref(), origin)
            }
            Incoming::Request { id, method, params } => {
                self.era().server_request(self, id, &method, params, origin)
            }
        }
    }

    fn awaited_responses(&self) -> u64 {
        self.responses.load(Ordering::Relaxed)
    }

    fn not_a_message(&self, sample: &[u8]) {
        {
            let mut deviations = self.deviations();
            deviations.junk_lines += 1;
            if deviations.junk_samples.len() < JUNK_SAMPLES {
                // Redacted first: a part of a secret would not be recognised.
                let redacted = self
                    .options
                    .redactor
                    .redact(&String::from_utf8_lossy(sample))
                    .into_owned();
                let cut = &redacted[..redacted.floor_char_boundary(JUNK_SAMPLE_BYTES)];
                deviations
                    .junk_samples
                    .push(self.options.redactor.words(cut));
            }
        }
        if self.junk_run.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_JUNK_RUN {
            self.end_by_violation(&format!(
                "{MAX_JUNK_RUN} consecutive lines or events are not JSON-RPC messages; a server on standard streams must log to stderr"
            ));
        }
    }

    fn oversized(&self, message: Option<OversizedMessage>) {
        let limit = self.options.max_message_bytes;
        match message {
            Some(OversizedMessage::Response(id)) => {
                self.response(Some(id), Err(Box::new(RequestFault::TooLarge { limit })))
            }
            Some(OversizedMessage::Request(id)) => self.era().oversized_request(self, &id),
            None => self.end_by_violation(&format!(
                "it sent a message of more than {limit} bytes that answers no request"
            )),
        }
    }

    fn oversized_on_stream(&self, id: u64) {
        let limit = self.options.max_message_bytes;
        self.fail_executing(id, RequestFault::TooLarge { limit });
    }

    fn failed(&self, id: u64, fault: TransportFault) {
        // After the handshake, an error object counts whatever its HTTP status.
        let fault = match fault {
            // Except for a busy server: only HTTP states when to retry.
            TransportFault::Status {
                status: 429 | 503,
                retry_after: Some(_),
                ..
            } => RequestFault::Transport(fault),
            TransportFault::Status {
                error: Some(error), ..
            } if self.era.get().is_some() => read_error(&error),
            fault if fault.may_have_run() => {
                return self.fail_executing(id, RequestFault::Transport(fault));
            }
            fault => RequestFault::Transport(fault),
        };
        self.response(Some(RequestId::Number(id)), Err(Box::new(fault)));
    }

    fn session_renewed(&self) {
        self.subscription_status.reset();
        // A new session may offer something else.
        self.lists_changed(&ALL_LISTS);
    }

    fn notifications_missed(&self) {
        self.lists_changed(&ALL_LISTS);
    }

    fn closed(&self, reason: String) {
        self.end(&reason);
    }
}
