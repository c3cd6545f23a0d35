//! What a session and its handshake send through: ids, pending answers, deadlines, cancellation. And what arrives, sorted.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::again;
use super::clock::Verdict;
use super::envelope::{self, Field};
use super::ongoing::Ongoing;
use super::pending::{Answer, Pending};
use super::questions::Questions;
use super::tasks::Tasks;
use super::visits::Visits;
use super::watchdog::Watchdog;
use super::wishes::{Acknowledged, Told};
use super::{Era, Oddities, OpenOptions, RequestFault, Still};
use crate::event::{Event, LogLevel};
use crate::store::LogStream;
use crate::transport::{Inbound, Origin, Transport, WireFault};
use crate::untrusted::{Untrusted, escaped_line, quoted};
use crate::wire::{Beside, Incoming, Outgoing, RawJson, RequestId};

/// After this many lines in a row that are no messages, the server is not one.
const MAX_JUNK_RUN: u64 = 1_000;

/// A late answer now and then is nothing; so many are told once (T30).
const NOTABLE_UNKNOWN_IDS: u64 = 100;

/// So much may wait for a server that asks and does not read, beyond what the transport takes at once.
const MAX_UNREAD_BYTES: usize = 1024 * 1024;

/// What a server offers in lists.
const ALL_LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

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
    junk_run: AtomicU64,
    /// Counts what arrives, for whoever wonders whether anybody is there.
    arrivals: AtomicU64,
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
            junk_run: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
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

    /// Sends what belongs to no request of ours: answers and notifications. They cannot wait for room, so a server that takes none
    /// of them is given up in time.
    pub(super) fn send(&self, body: &[u8], method: Option<&str>) {
        let Some(transport) = self.transport.get().and_then(Weak::upgrade) else { return };
        if transport.has_room() {
            self.unread_bytes.store(0, Ordering::Relaxed);
        } else if self.unread_bytes.fetch_add(body.len(), Ordering::Relaxed) + body.len() > MAX_UNREAD_BYTES {
            self.end(&format!("it asks without reading the answers: more than {MAX_UNREAD_BYTES} bytes wait for it"));
            return;
        }
        // A closed connection has been told about elsewhere.
        let _ = transport.send(Outgoing { id: None, method, body, beside: Beside::default() });
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
    fn cancel(&self, id: u64, reason: &str) {
        if self.transport.get().and_then(Weak::upgrade).is_some_and(|transport| transport.forget(id)) {
            return;
        }
        let params = json!({"requestId": id, "reason": reason});
        self.send(&envelope::notification("notifications/cancelled", &params), Some("notifications/cancelled"));
    }

    pub(super) fn end(&self, reason: &str) {
        if self.pending.end(reason) {
            self.questions.withdraw_all();
            self.ended.send_replace(Some(reason.to_owned()));
        }
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
        if !delivered {
            let unknown = {
                let mut oddities = self.oddities();
                oddities.unknown_ids += 1;
                oddities.unknown_ids
            };
            if unknown == NOTABLE_UNKNOWN_IDS {
                self.notice(format!("it has answered {unknown} requests that nobody made, or that were over by then"));
            }
        }
    }

    /// Tells whoever listens something about this server; nobody has to.
    pub(super) fn notice(&self, line: String) {
        if let Some(events) = &self.options.events {
            let _ = events.send(Event::Notice { server: Some(self.options.server.clone()), line });
        }
    }

    /// These lists are not to be relied on any more.
    pub(super) fn lists_changed(&self, methods: &[&str]) {
        self.options.cache.lists_changed(methods);
        self.changed.notify_one();
    }

    /// A subscription that stood does not any more.
    pub(super) fn lost_subscription(&self, uri: &str, fault: &RequestFault) {
        self.notice(format!("the subscription to {} is lost: {fault}", quoted(uri)));
    }

    fn notified(&self, method: &str, params: Option<&RawJson>, origin: Origin) {
        match method {
            "notifications/progress" => self.progress(params, origin),
            "notifications/message" => self.log(params, origin),
            "notifications/subscriptions/acknowledged" => self.acknowledged(params, origin),
            "notifications/elicitation/complete" => {
                if let Some(Completed { elicitation_id }) = params.and_then(|params| params.decode().ok()) {
                    self.visits.done(&self.options.server, &elicitation_id);
                }
            }
            "notifications/tasks" | "notifications/tasks/status" => self.task_changed(params),
            "notifications/cancelled" => {
                if let Some(Cancelled { request_id }) = params.and_then(|params| params.decode().ok()) {
                    self.questions.withdraw(request_id);
                }
            }
            _ if !self.is_subscribed(params, origin) => {}
            "notifications/tools/list_changed" => self.lists_changed(&["tools/list"]),
            "notifications/prompts/list_changed" => self.lists_changed(&["prompts/list"]),
            "notifications/resources/list_changed" => self.lists_changed(&["resources/list", "resources/templates/list"]),
            "notifications/resources/updated" => self.updated(params),
            _ => {}
        }
    }

    fn progress(&self, params: Option<&RawJson>, origin: Origin) {
        let Some(progress) = params.and_then(|params| params.decode::<ProgressParams>().ok()) else { return };
        if let Some(ongoing) = self.ongoing(progress.progress_token) {
            // What comes with the answer to a call is of that call, whatever it says. A task's may come with any of its requests.
            if let Origin::Answer(request) = origin
                && self.ongoing(request).is_some_and(|other| !Arc::ptr_eq(&other, &ongoing))
            {
                return;
            }
            self.task_reached(progress.progress_token, progress.progress, progress.total);
            ongoing.progress(progress.progress, progress.total, progress.message.map(Untrusted::new));
        }
    }

    /// A modern server says which standing request it tells something under; one that is over tells nothing any more.
    fn is_subscribed(&self, params: Option<&RawJson>, origin: Origin) -> bool {
        self.era.get() != Some(&Era::Modern) || subscription(params, origin).is_none_or(|id| self.pending.waits_for(id))
    }

    fn acknowledged(&self, params: Option<&RawJson>, origin: Origin) {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            notifications: Acknowledged,
        }
        let Some(id) = subscription(params, origin).filter(|id| self.pending.waits_for(*id)) else { return };
        if let Some(Wire { notifications }) = params.and_then(|params| params.decode().ok()) {
            self.told.acknowledge(id, notifications, |id| self.pending.waits_for(id));
        }
    }

    fn updated(&self, params: Option<&RawJson>) {
        #[derive(Deserialize)]
        struct Wire {
            uri: String,
        }
        let Some(Wire { uri }) = params.and_then(|params| params.decode().ok()) else { return };
        self.options.cache.resource_changed(&uri);
        if let Some(events) = &self.options.events {
            // Nobody listening is fine: the event is for whoever wants it.
            let _ = events.send(Event::ResourceUpdated { server: self.options.server.clone(), uri: uri.into() });
        }
    }

    /// The request that a log message belongs to; `true` where it is certain, and not only its caller is.
    fn logged_by(&self, origin: Origin) -> Option<(Arc<Ongoing>, bool)> {
        match origin {
            Origin::Answer(id) => self.ongoing(id).map(|ongoing| (ongoing, true)),
            // A modern server logs only for a request that wants it; a legacy one may log whenever it likes.
            Origin::Shared if self.era.get() == Some(&Era::Modern) => {
                let wanted_of_all = self.options.wishes.level().is_some();
                let (mut wanting, _) = self.suspects();
                wanting.retain(|(_, ongoing)| wanted_of_all || ongoing.caller.log_level().is_some());
                let (_, first) = wanting.first()?;
                let is_one_callers = wanting.iter().all(|(_, other)| other.caller_id == first.caller_id);
                is_one_callers.then(|| (first.clone(), wanting.len() == 1))
            }
            Origin::Shared => None,
        }
    }

    fn log(&self, params: Option<&RawJson>, origin: Origin) {
        let Some(log) = params.and_then(|params| params.decode::<LogParams>().ok()) else { return };
        let text = log.data.as_str().map_or_else(|| log.data.to_string(), str::to_owned);
        if let Some(file) = &self.options.log {
            file.write(LogStream::Message, &format!("{}: {text}", log.level));
        }
        if let Some((ongoing, is_certain)) = self.logged_by(origin) {
            return ongoing.log(LogLevel::read(&log.level), log.logger, text, is_certain);
        }
        let Some(events) = &self.options.events else { return };
        // Nobody listening is fine: the event is for whoever wants it.
        let level = escaped_line(&log.level).to_string();
        let _ = events.send(Event::Log { server: self.options.server.clone(), level, text: text.into() });
    }
}

impl Inbound for Receiver {
    fn message(&self, message: Incoming, origin: Origin) {
        self.junk_run.store(0, Ordering::Relaxed);
        self.arrivals.fetch_add(1, Ordering::Relaxed);
        match message {
            Incoming::Result { id, result } => self.answered(Some(id), Ok(result)),
            Incoming::Error { id, error } => self.answered(id, Err(read_error(&error))),
            Incoming::Notification { method, params } => self.notified(&method, params.as_ref(), origin),
            Incoming::Request { id, method, params } => self.asked(id, &method, params, origin),
        }
    }

    fn junk(&self, sample: &[u8]) {
        {
            let mut oddities = self.oddities();
            oddities.junk_lines += 1;
            if oddities.junk_samples.len() < JUNK_SAMPLES {
                let cut = &sample[..sample.len().min(JUNK_SAMPLE_BYTES)];
                oddities.junk_samples.push(Untrusted::new(String::from_utf8_lossy(cut)));
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
            None => self.give_up(&format!("it sent a message of more than {limit} bytes that answers no request")),
        }
    }

    fn failed(&self, id: u64, fault: WireFault) {
        // Once the era is known, a status that carries an answer is only how HTTP carries it.
        let fault = match fault {
            // But when a busy server wants to be asked again is said by HTTP alone.
            WireFault::Status { status: 429 | 503, retry_after: Some(_), .. } => RequestFault::Wire(fault),
            WireFault::Status { error: Some(error), .. } if self.era.get().is_some() => read_error(&error),
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

#[derive(Deserialize)]
struct Cancelled {
    #[serde(rename = "requestId")]
    request_id: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Completed {
    elicitation_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams {
    progress_token: u64,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

/// The `subscriptions/listen` request that a notification belongs to: as it says itself, else the one whose stream it came on.
fn subscription(params: Option<&RawJson>, origin: Origin) -> Option<u64> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
        id: u64,
    }
    let said = params.and_then(|params| params.decode::<Wire>().ok()).map(|wire| wire.meta.id);
    said.or(match origin {
        Origin::Answer(id) => Some(id),
        Origin::Shared => None,
    })
}

#[derive(Deserialize)]
struct LogParams {
    #[serde(default)]
    level: String,
    #[serde(default)]
    logger: Option<String>,
    #[serde(default)]
    data: serde_json::Value,
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
            message: Untrusted::new(wire.message).for_terminal_line().to_string(),
            data: wire.data.map(|data| error.part(data)),
        },
        Err(fault) => RequestFault::Invalid(format!("an error object that is none: {fault}")),
    }
}

/// A request on its way out.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) era: Era,
    pub(super) method: &'a str,
    pub(super) fields: &'a [Field<'a>],
    /// The members of a modern request's `_meta`; empty for those that a request of ours alone declares.
    pub(super) declared: &'a str,
    /// What HTTP says in `Mcp-Name`.
    pub(super) name: Option<&'a str>,
    /// What HTTP says in `Mcp-Param-*`.
    pub(super) parameters: &'a [(String, String)],
    /// Whether it does no harm to send it twice.
    pub(super) is_harmless: bool,
}

impl<'a> Request<'a> {
    /// A request that belongs to no caller.
    pub(super) fn new(era: Era, method: &'a str, fields: &'a [Field<'a>]) -> Self {
        Self { era, method, fields, declared: "", name: None, parameters: &[], is_harmless: method.ends_with("/list") }
    }
}

/// Both halves together.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) receiver: Arc<Receiver>,
    pub(super) transport: Arc<dyn Transport>,
}

impl Link {
    /// Sends a request that belongs to no caller and waits up to `wait`.
    pub(super) async fn request(&self, request: Request<'_>, wait: Duration) -> Answer {
        let deadline = Instant::now() + wait;
        let asking = async {
            let answer = self.post(request, None)?.answer().await;
            match again::pause(&answer, deadline).filter(|_| request.is_harmless) {
                Some(pause) => {
                    sleep(pause).await;
                    self.post(request, None)?.answer().await
                }
                None => answer,
            }
        };
        match timeout_at(deadline, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(RequestFault::Timeout { after: wait, total: true }),
        }
    }

    /// Sends a request of a caller and waits as its clock says, unless it must not be sent any more. Dropping the future cancels it.
    pub(super) async fn request_for(&self, ongoing: &Arc<Ongoing>, request: Request<'_>, still: Still<'_>) -> Answer {
        let answer = self.request_once(ongoing, request, still).await;
        let pause = match ongoing.clock.judge(Instant::now()) {
            Verdict::Wait(until) if request.is_harmless => again::pause(&answer, until),
            _ => None,
        };
        match pause {
            Some(pause) => {
                sleep(pause).await;
                self.request_once(ongoing, request, still).await
            }
            None => answer,
        }
    }

    async fn request_once(&self, ongoing: &Arc<Ongoing>, request: Request<'_>, still: Still<'_>) -> Answer {
        let (id, reply) = self.send_for(ongoing, request, still).await?;
        Waiting { link: self, id, reply, cancellable: true }.answer().await
    }

    /// Sends a request of a caller, unless it must not be sent any more. Whoever takes the reply cares for its end.
    pub(super) async fn send_for(
        &self,
        ongoing: &Arc<Ongoing>,
        request: Request<'_>,
        still: Still<'_>,
    ) -> Result<(u64, oneshot::Receiver<Answer>), RequestFault> {
        if !self.transport.has_room() {
            self.room_for(ongoing).await?;
        }
        // Nothing is waited for between this and the sending.
        if !still() {
            return Err(RequestFault::Moved);
        }
        let sent = self.send(request, Some(ongoing))?;
        self.receiver.watchdog.look_by(ongoing.clock.first_look());
        Ok(sent)
    }

    /// A server that does not read its input must not keep a call past its deadline.
    async fn room_for(&self, ongoing: &Ongoing) -> Result<(), RequestFault> {
        let mut look = ongoing.clock.first_look();
        loop {
            tokio::select! {
                () = self.transport.ready() => return Ok(()),
                () = sleep_until(look) => match ongoing.clock.judge(Instant::now()) {
                    Verdict::Wait(until) => look = until,
                    Verdict::Late(fault) => return Err(fault),
                },
            }
        }
    }

    /// Sends a request; the answer is waited for by the holder.
    pub(super) fn post(&self, request: Request<'_>, ongoing: Option<&Arc<Ongoing>>) -> Result<Waiting<'_>, RequestFault> {
        let cancellable = request.method != "initialize";
        let (id, reply) = self.send(request, ongoing)?;
        Ok(Waiting { link: self, id, reply, cancellable })
    }

    /// Sends a request whose answer nobody needs; its place is given up after `wait`, or when the connection ends.
    pub(super) fn tell(&self, request: Request<'_>, wait: Duration) {
        let (Ok((id, reply)), Ok(runtime)) = (self.send(request, None), tokio::runtime::Handle::try_current()) else { return };
        let receiver = self.receiver.clone();
        runtime.spawn(async move {
            if timeout(wait, reply).await.is_err() {
                receiver.pending.give_up(id);
            }
        });
    }

    fn send(
        &self,
        request: Request<'_>,
        ongoing: Option<&Arc<Ongoing>>,
    ) -> Result<(u64, oneshot::Receiver<Answer>), RequestFault> {
        let Request { era, method, fields, declared, name, parameters, is_harmless: _ } = request;
        let (id, reply) = self.receiver.pending.add(ongoing.cloned())?;
        let declared =
            if era == Era::Modern && declared.is_empty() { envelope::modern_meta(Default::default(), false) } else { declared };
        let body = envelope::request(era, id, method, fields, ongoing.is_some(), declared);
        let beside = Beside { version: (era == Era::Modern).then_some(envelope::MODERN_VERSION), name, parameters };
        match self.transport.send(Outgoing { id: Some(id), method: Some(method), body: &body, beside }) {
            Ok(()) => Ok((id, reply)),
            Err(closed) => {
                self.receiver.pending.give_up(id);
                Err(RequestFault::Closed(closed.to_string()))
            }
        }
    }

    pub(super) fn notify(&self, method: &str, params: &serde_json::Value) {
        self.receiver.send(&envelope::notification(method, params), Some(method));
    }
}

/// A request that has been sent. Dropping it before its answer tells the server to stop.
pub(super) struct Waiting<'a> {
    link: &'a Link,
    pub(super) id: u64,
    reply: oneshot::Receiver<Answer>,
    cancellable: bool,
}

impl Waiting<'_> {
    /// The answer. Cancel-safe.
    pub(super) async fn answer(&mut self) -> Answer {
        (&mut self.reply).await.unwrap_or_else(|_| Err(RequestFault::Closed("the session was dropped".into())))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.link.receiver.pending.give_up(self.id) && self.cancellable {
            self.link.receiver.cancel(self.id, "the caller no longer waits");
        }
        self.link.receiver.over(self.id);
    }
}
