//! The receiving half of a session: what arrives goes to who waits for it, and what is odd is
//! counted.
//!
//! Leaves what a server says unasked to `notifications`, and what it asks to `questions`.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};

use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::in_flight::InFlight;
use super::pending::{Answer, Pending};
use super::questions::Questions;
use super::tasks::Tasks;
use super::visits::Visits;
use super::watchdog::Watchdog;
use super::wishes::Told;
use super::{Era, Oddities, OpenOptions, RequestFault, envelope};
use crate::event::Event;
use crate::panics::catch_panic;
use crate::transport::{Inbound, MessageKind, Origin, Transport, WireFault};
use crate::untrusted::{Untrusted, quoted};
use crate::wire::{Incoming, Outgoing, RawJson, RequestId, RequestMetadata};

/// After this many lines in a row that are no messages, the server is not one.
const MAX_JUNK_RUN: u64 = 1_000;

/// A late answer now and then is nothing; so many are told once (T30).
const NOTABLE_UNKNOWN_IDS: u64 = 100;

/// So much may wait for a server that asks and does not read, beyond what the transport takes at
/// once.
const MAX_UNREAD_BYTES: usize = 1024 * 1024;

/// What a server offers in lists.
const ALL_LISTS: [&str; 4] = [
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
];

/// What is kept of such lines, for `doctor`.
const JUNK_SAMPLES: usize = 20;
const JUNK_SAMPLE_BYTES: usize = 200;

/// The receiving half. The transport holds it, so it holds the transport only weakly.
pub(super) struct Receiver {
    pub(super) options: OpenOptions,
    pub(super) pending: Pending,
    pub(super) questions: Questions,
    /// Shared with the questions that send callers to pages.
    pub(super) visits: Arc<Visits>,
    pub(super) tasks: Tasks,
    pub(super) transport: OnceLock<Weak<dyn Transport>>,
    /// Known once the handshake is over.
    pub(super) era: OnceLock<Era>,
    /// Rung when the server says that a list changed.
    pub(super) changed: Notify,
    /// What the server said to the wishes it was told.
    pub(super) told: Told,
    /// Why it ended, once it has.
    pub(super) ended: watch::Sender<Option<String>>,
    /// Why we ended it, where the server gave cause.
    pub(super) misconduct: OnceLock<String>,
    /// The server has asked where nothing says for which call.
    pub(super) asked: AtomicBool,
    /// The server has asked something while a call was under way.
    pub(super) questioned: AtomicBool,
    pub(super) in_flight: InFlight,
    junk_run: AtomicU64,
    /// Counts what arrives, for whoever wonders whether anybody is there.
    arrivals: AtomicU64,
    /// Counts the answers that a request waited for.
    answers: AtomicU64,
    /// Bytes of ours that the transport was handed without room for them, since it last had some.
    unread_bytes: AtomicUsize,
    /// Ends what is late. The session's task holds the other end.
    pub(super) watchdog: Watchdog,
}

impl Receiver {
    pub(super) fn new(options: OpenOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            pending: Pending::default(),
            questions: Questions::default(),
            visits: Arc::default(),
            tasks: Tasks::default(),
            transport: OnceLock::new(),
            era: OnceLock::new(),
            changed: Notify::new(),
            told: Told::default(),
            ended: watch::Sender::new(None),
            misconduct: OnceLock::new(),
            asked: AtomicBool::new(false),
            questioned: AtomicBool::new(false),
            in_flight: InFlight::default(),
            junk_run: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            unread_bytes: AtomicUsize::new(0),
            watchdog: Watchdog::default(),
        })
    }

    pub(super) fn oddities(&self) -> MutexGuard<'_, Oddities> {
        self.options.noticed.lock()
    }

    /// How many messages have come so far.
    pub(super) fn heard(&self) -> u64 {
        self.arrivals.load(Ordering::Relaxed)
    }

    /// Sends what belongs to no request of ours: answers and notifications. They cannot wait for
    /// room, so a server that takes none of them is given up in time.
    pub(super) fn send(&self, body: &[u8], method: Option<&str>) {
        let Some(transport) = self.transport.get().and_then(Weak::upgrade) else {
            return;
        };
        if transport.wait_for_room(MessageKind::Request).is_none() {
            self.unread_bytes.store(0, Ordering::Relaxed);
        } else if self.unread_bytes.fetch_add(body.len(), Ordering::Relaxed) + body.len()
            > MAX_UNREAD_BYTES
        {
            self.end(&format!("it asks without reading the answers: more than {MAX_UNREAD_BYTES} bytes wait for it"));
            return;
        }
        // A closed connection has been told about elsewhere.
        let _ = transport.send(Outgoing {
            id: None,
            method,
            body,
            metadata: RequestMetadata::default(),
        });
    }

    /// Ends the requests that are late, and tells the server. Answers when to look again.
    pub(super) fn end_late(&self, now: Instant) -> Option<Instant> {
        let (ended, next) = self.pending.end_late(now);
        for id in ended {
            self.cancel(id, "it took too long");
        }
        next
    }

    /// Tells the server that nobody waits for this request any more.
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
            &envelope::notification("notifications/cancelled", &params),
            Some("notifications/cancelled"),
        );
    }

    pub(super) fn end(&self, reason: &str) {
        if self.pending.end(reason) {
            self.questions.withdraw_all();
            self.ended.send_replace(Some(reason.to_owned()));
        }
    }

    /// Runs a task that the session needs: without it the session ends.
    pub(super) fn spawn(
        self: &Arc<Self>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let receiver = Arc::downgrade(self);
        let supervised = async move {
            if let (Err(panicked), Some(receiver)) = (catch_panic(task).await, receiver.upgrade()) {
                receiver.end(&panicked.to_string());
            }
        };
        tokio::spawn(supervised).abort_handle()
    }

    /// Ends it because of what the server did.
    fn give_up(&self, cause: &str) {
        // The first cause is the one to tell.
        let _ = self.misconduct.set(cause.to_owned());
        self.end(cause);
    }

    fn answered(&self, id: Option<RequestId>, answer: Answer) {
        let delivered = match id {
            Some(RequestId::Number(id)) => self.pending.answer(id, answer),
            _ => false,
        };
        if delivered {
            self.answers.fetch_add(1, Ordering::Relaxed);
        } else {
            let unknown = {
                let mut oddities = self.oddities();
                oddities.unknown_ids += 1;
                oddities.unknown_ids
            };
            if unknown == NOTABLE_UNKNOWN_IDS {
                self.notice(format!(
                    "it has answered {unknown} requests that nobody made, or that were over by then"
                ));
            }
        }
    }

    /// Tells whoever listens something about this server; nobody has to.
    pub(super) fn notice(&self, line: String) {
        if let Some(events) = &self.options.events {
            let _ = events.send(Event::Notice {
                server: Some(self.options.server.clone()),
                line,
            });
        }
    }

    /// These lists are not to be relied on any more.
    pub(super) fn lists_changed(&self, methods: &[&str]) {
        self.options.cache.lists_changed(methods);
        self.changed.notify_one();
    }

    /// A subscription that stood does not any more.
    pub(super) fn lost_subscription(&self, uri: &str, fault: &RequestFault) {
        self.notice(format!(
            "the subscription to {} is lost: {fault}",
            quoted(uri)
        ));
    }
}

impl Inbound for Receiver {
    fn message(&self, message: Incoming, origin: Origin) {
        self.junk_run.store(0, Ordering::Relaxed);
        self.arrivals.fetch_add(1, Ordering::Relaxed);
        match message {
            Incoming::Result { id, result } => self.answered(Some(id), Ok(result)),
            Incoming::Error { id, error } => self.answered(id, Err(read_error(&error))),
            Incoming::Notification { method, params } => {
                self.notified(&method, params.as_ref(), origin)
            }
            Incoming::Request { id, method, params } => self.asked(id, &method, params, origin),
        }
    }

    fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    fn junk(&self, sample: &[u8]) {
        {
            let mut oddities = self.oddities();
            oddities.junk_lines += 1;
            if oddities.junk_samples.len() < JUNK_SAMPLES {
                let cut = &sample[..sample.len().min(JUNK_SAMPLE_BYTES)];
                oddities
                    .junk_samples
                    .push(self.options.redactor.words(&String::from_utf8_lossy(cut)));
            }
        }
        if self.junk_run.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_JUNK_RUN {
            self.give_up("it prints non-JSON to stdout; a server must keep stdout for messages and log to stderr");
        }
    }

    fn oversized(&self, id: Option<RequestId>) {
        let limit = self.options.max_message_bytes;
        match id {
            Some(id) => self.answered(Some(id), Err(RequestFault::TooLarge { limit })),
            None => self.give_up(&format!(
                "it sent a message of more than {limit} bytes that answers no request"
            )),
        }
    }

    fn failed(&self, id: u64, fault: WireFault) {
        // Once the era is known, a status that carries an answer is only how HTTP carries it.
        let fault = match fault {
            // But when a busy server wants to be asked again is said by HTTP alone.
            WireFault::Status {
                status: 429 | 503,
                retry_after: Some(_),
                ..
            } => RequestFault::Wire(fault),
            WireFault::Status {
                error: Some(error), ..
            } if self.era.get().is_some() => read_error(&error),
            fault => RequestFault::Wire(fault),
        };
        self.answered(Some(RequestId::Number(id)), Err(fault));
    }

    fn renewed(&self) {
        self.told.renewed();
        // A new session may offer other things.
        self.lists_changed(&ALL_LISTS);
    }

    fn missed(&self) {
        self.lists_changed(&ALL_LISTS);
    }

    fn closed(&self, reason: String) {
        self.end(&reason);
    }
}

pub(super) fn read_error(error: &RawJson) -> RequestFault {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(default)]
        code: serde_json::Value,
        #[serde(default)]
        message: String,
        #[serde(borrow, default)]
        data: Option<&'a serde_json::value::RawValue>,
    }
    match error.decode::<Wire<'_>>() {
        Ok(wire) => RequestFault::Answered {
            code: wire.code.as_i64().unwrap_or_default(),
            message: Untrusted::new(wire.message)
                .for_terminal_indented()
                .to_string(),
            data: wire.data.map(|data| error.part(data)),
        },
        Err(fault) => RequestFault::Invalid(format!("an error object that is none: {fault}")),
    }
}
