//! What a session and its handshake send through: ids, pending answers, deadlines, cancellation. And what arrives, sorted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::clock::Verdict;
use super::envelope::{self, Field};
use super::ongoing::Ongoing;
use super::pending::{Answer, Pending};
use super::questions::Questions;
use super::{Era, Oddities, OpenOptions, RequestFault};
use crate::event::Event;
use crate::store::LogStream;
use crate::transport::{Inbound, Transport};
use crate::untrusted::{Untrusted, escaped_line};
use crate::wire::{Incoming, Outgoing, RawJson, RequestId};

/// After this many lines in a row that are no messages, the server is not one.
const MAX_JUNK_RUN: u64 = 1_000;

/// What is kept of such lines, for `doctor`.
const JUNK_SAMPLES: usize = 20;
const JUNK_SAMPLE_BYTES: usize = 200;

/// The receiving half. The transport holds it, so it holds the transport only weakly.
pub(super) struct Receiver {
    pub(super) options: OpenOptions,
    pub(super) pending: Pending,
    pub(super) questions: Questions,
    pub(super) transport: OnceLock<Weak<dyn Transport>>,
    /// Known once the handshake is over.
    pub(super) era: OnceLock<Era>,
    /// Rung when the server says that a list changed.
    pub(super) changed: Notify,
    /// Why it ended, once it has.
    pub(super) ended: watch::Sender<Option<String>>,
    /// The server has asked during a call.
    pub(super) asked: AtomicBool,
    oddities: Mutex<Oddities>,
    junk_run: AtomicU64,
}

impl Receiver {
    pub(super) fn new(options: OpenOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            pending: Pending::default(),
            questions: Questions::default(),
            transport: OnceLock::new(),
            era: OnceLock::new(),
            changed: Notify::new(),
            ended: watch::Sender::new(None),
            asked: AtomicBool::new(false),
            oddities: Mutex::default(),
            junk_run: AtomicU64::new(0),
        })
    }

    pub(super) fn oddities(&self) -> MutexGuard<'_, Oddities> {
        self.oddities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what belongs to no request of ours: answers and notifications.
    pub(super) fn send(&self, body: &[u8], method: Option<&str>) {
        if let Some(transport) = self.transport.get().and_then(Weak::upgrade) {
            // A closed connection has been told about elsewhere.
            let _ = transport.send(Outgoing { id: None, method, body });
        }
    }

    pub(super) fn end(&self, reason: &str) {
        if self.pending.end(reason) {
            self.questions.withdraw_all();
            self.ended.send_replace(Some(reason.to_owned()));
        }
    }

    fn answered(&self, id: Option<RequestId>, answer: Answer) {
        let delivered = match id {
            Some(RequestId::Number(id)) => self.pending.answer(id, answer),
            _ => false,
        };
        if !delivered {
            self.oddities().unknown_ids += 1;
        }
    }

    fn notified(&self, method: &str, params: Option<&RawJson>) {
        match method {
            "notifications/progress" => self.progress(params),
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => self.changed.notify_one(),
            "notifications/message" => self.log(params),
            "notifications/cancelled" => {
                if let Some(Cancelled { request_id }) = params.and_then(|params| params.decode().ok()) {
                    self.questions.withdraw(request_id);
                }
            }
            _ => {}
        }
    }

    fn progress(&self, params: Option<&RawJson>) {
        let Some(progress) = params.and_then(|params| params.decode::<ProgressParams>().ok()) else { return };
        if let Some(ongoing) = self.pending.ongoing(progress.progress_token) {
            ongoing.progress(progress.progress, progress.total, progress.message.map(Untrusted::new));
        }
    }

    fn log(&self, params: Option<&RawJson>) {
        let Some(log) = params.and_then(|params| params.decode::<LogParams>().ok()) else { return };
        let text = log.data.as_str().map_or_else(|| log.data.to_string(), str::to_owned);
        if let Some(file) = &self.options.log {
            file.write(LogStream::Message, &format!("{}: {text}", log.level));
        }
        let Some(events) = &self.options.events else { return };
        // Nobody listening is fine: the event is for whoever wants it.
        let level = escaped_line(&log.level).to_string();
        let _ = events.send(Event::Log { server: self.options.server.clone(), level, text: text.into() });
    }
}

impl Inbound for Receiver {
    fn message(&self, message: Incoming) {
        self.junk_run.store(0, Ordering::Relaxed);
        match message {
            Incoming::Result { id, result } => self.answered(Some(id), Ok(result)),
            Incoming::Error { id, error } => self.answered(id, Err(read_error(&error))),
            Incoming::Notification { method, params } => self.notified(&method, params.as_ref()),
            Incoming::Request { id, method, params } => self.asked(id, &method, params),
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
            self.end("it prints non-JSON to stdout; a server must keep stdout for messages and log to stderr");
        }
    }

    fn oversized(&self, id: Option<RequestId>) {
        let limit = self.options.max_message_bytes;
        match id {
            Some(id) => self.answered(Some(id), Err(RequestFault::TooLarge { limit })),
            None => self.end(&format!("it sent a message of more than {limit} bytes that answers no request")),
        }
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
struct ProgressParams {
    progress_token: u64,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct LogParams {
    #[serde(default)]
    level: String,
    #[serde(default)]
    data: serde_json::Value,
}

fn read_error(error: &RawJson) -> RequestFault {
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

/// Both halves together.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) receiver: Arc<Receiver>,
    pub(super) transport: Arc<dyn Transport>,
}

impl Link {
    /// Sends a request that belongs to no caller and waits up to `wait`.
    pub(super) async fn request(&self, era: Era, method: &str, fields: &[Field<'_>], wait: Duration) -> Answer {
        let mut waiting = self.post(era, method, fields, None, "")?;
        match timeout(wait, waiting.answer()).await {
            Ok(answer) => answer,
            Err(_) => Err(RequestFault::Timeout { after: wait, total: true }),
        }
    }

    /// Sends a request of a caller and waits as its clock says. Dropping the future cancels the request.
    pub(super) async fn request_for(
        &self,
        ongoing: &Arc<Ongoing>,
        era: Era,
        method: &str,
        fields: &[Field<'_>],
        declared: &str,
    ) -> Answer {
        let late = sleep_until(ongoing.clock.first_look());
        tokio::pin!(late);
        if !self.transport.has_room() {
            // A server that does not read its input must not keep the call past its deadline.
            tokio::select! {
                biased;
                () = self.transport.ready() => {}
                () = late.as_mut() => return Err(match ongoing.clock.judge(Instant::now()) {
                    Verdict::Late(fault) => fault,
                    Verdict::Wait(_) => RequestFault::Closed("the server does not read its input".into()),
                }),
            }
        }
        let mut waiting = self.post(era, method, fields, Some(ongoing), declared)?;
        loop {
            tokio::select! {
                biased;
                answer = waiting.answer() => return answer,
                () = late.as_mut() => match ongoing.clock.judge(Instant::now()) {
                    Verdict::Wait(until) => late.as_mut().reset(until),
                    Verdict::Late(fault) => return Err(fault),
                },
            }
        }
    }

    /// Sends a request; the answer is waited for by the holder.
    pub(super) fn post(
        &self,
        era: Era,
        method: &str,
        fields: &[Field<'_>],
        ongoing: Option<&Arc<Ongoing>>,
        declared: &str,
    ) -> Result<Waiting<'_>, RequestFault> {
        let (id, reply) = self.receiver.pending.add(ongoing.cloned())?;
        let waiting = Waiting { link: self, id, reply, cancellable: method != "initialize" };
        let common;
        let declared = if era == Era::Modern && declared.is_empty() {
            common = envelope::modern_meta(Default::default(), false);
            &common
        } else {
            declared
        };
        let body = envelope::request(era, id, method, fields, ongoing.is_some(), declared);
        match self.transport.send(Outgoing { id: Some(id), method: Some(method), body: &body }) {
            Ok(()) => Ok(waiting),
            Err(closed) => Err(RequestFault::Closed(closed.to_string())),
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
            let params = json!({"requestId": self.id, "reason": "the caller no longer waits"});
            self.link.notify("notifications/cancelled", &params);
        }
    }
}
