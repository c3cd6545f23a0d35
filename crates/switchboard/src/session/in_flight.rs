//! A caller's request while it is in flight: its caller, its tool and its deadlines.
//!
//! One request of the caller may need several to the server (retries, input that the server
//! requires, polls of a task). All of them share these deadlines.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::caller_queue::CallerQueue;
use super::{CallOptions, RequestFault};
use crate::caller::{Caller, CallerId, LogLine, Progress};
use crate::catalog::ToolDefinition;
use crate::config::{MAX_TIMEOUT, Timeouts};
use crate::event::LogLevel;
use crate::gate::Permit;
use crate::name::{ServerName, ToolId};
use crate::secret::Redacted;
use crate::sync::lock;
use crate::wire::RawJson;

/// How often deadlines are checked while a person is being asked.
const CHECK_WHILE_PAUSED: Duration = Duration::from_millis(250);

/// How much longer than its total limit a request may take because its caller is being asked. A
/// server could ask without end.
const MAX_PAUSED: Duration = Duration::from_secs(60 * 60);

/// How long a person may take to answer a server's question; then it is cancelled.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a question stays open while a call of another caller waits for this one: less than that
/// call waits by default.
const CONTENDED_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A tool call, a read or a prompt, from its first request to the server to its final result.
pub(super) struct InFlightCall {
    purpose: RequestPurpose,
    pub(super) deadlines: Deadlines,
    /// Where calls of other callers wait for this one, if the server gets one caller's at a time.
    queue: OnceLock<Arc<CallerQueue>>,
    /// Whether the server was given input before the result.
    pub(super) gave_input: AtomicBool,
    /// How many sampling requests the server has made so far.
    pub(super) samplings: AtomicUsize,
}

/// What the caller requested.
enum RequestPurpose {
    ToolCall {
        permit: Permit,
        /// The definitions that must still be offered when the request is sent, if they are not the
        /// permit's own: [`CallOptions::definition`] and [`CallOptions::own_definition`].
        definitions: [Option<Arc<ToolDefinition>>; 2],
    },
    /// A resource or a prompt.
    Other {
        server: ServerName,
        caller: Arc<dyn Caller>,
    },
}

/// A tool call that is not sent yet. Only a permit makes one.
pub(crate) struct PermittedCall(pub(super) Arc<InFlightCall>);

impl PermittedCall {
    #[inline(always)]
    pub(crate) fn new(permit: Permit, options: CallOptions) -> Self {
        Self(InFlightCall::of_tool(permit, options))
    }

    /// Measures the call once it is sent.
    pub(crate) fn clock(&self) -> CallClock {
        CallClock(self.0.clone())
    }
}

impl std::fmt::Debug for InFlightCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlightCall")
            .field("tool", &self.tool_id())
            .field("caller", self.caller_id())
            .finish_non_exhaustive()
    }
}

impl InFlightCall {
    /// For a tool call.
    #[inline(always)]
    fn of_tool(permit: Permit, options: CallOptions) -> Arc<Self> {
        let CallOptions {
            timeouts,
            since,
            definition,
            own_definition,
        } = options;
        let purpose = RequestPurpose::ToolCall {
            permit,
            definitions: [definition, own_definition],
        };
        Self::start(purpose, timeouts, since)
    }

    /// For a resource or a prompt.
    pub(super) fn of_other(
        server: &ServerName,
        caller: &Arc<dyn Caller>,
        timeouts: Timeouts,
    ) -> Arc<Self> {
        let purpose = RequestPurpose::Other {
            server: server.clone(),
            caller: caller.clone(),
        };
        Self::start(purpose, timeouts, None)
    }

    #[inline(always)]
    fn start(purpose: RequestPurpose, timeouts: Timeouts, since: Option<Instant>) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            purpose,
            deadlines: Deadlines::start(timeouts, since.unwrap_or(now), now),
            queue: OnceLock::new(),
            gave_input: AtomicBool::new(false),
            samplings: AtomicUsize::new(0),
        })
    }

    pub(super) fn server(&self) -> &ServerName {
        match &self.purpose {
            RequestPurpose::ToolCall { permit, .. } => &permit.tool().id.server,
            RequestPurpose::Other { server, .. } => server,
        }
    }

    pub(super) fn caller(&self) -> &Arc<dyn Caller> {
        match &self.purpose {
            RequestPurpose::ToolCall { permit, .. } => permit.caller(),
            RequestPurpose::Other { caller, .. } => caller,
        }
    }

    pub(super) fn caller_id(&self) -> &CallerId {
        self.caller().id()
    }

    /// The permit of a tool call.
    pub(super) fn permit(&self) -> Option<&Permit> {
        match &self.purpose {
            RequestPurpose::ToolCall { permit, .. } => Some(permit),
            RequestPurpose::Other { .. } => None,
        }
    }

    pub(super) fn tool_id(&self) -> Option<ToolId> {
        Some(self.permit()?.tool().id.clone())
    }

    /// Whether the tool is still offered as it was approved.
    pub(super) fn is_still_approved(&self) -> bool {
        match &self.purpose {
            RequestPurpose::ToolCall {
                permit,
                definitions: [definition, own_definition],
            } => {
                let definition = definition.as_ref().unwrap_or(&permit.tool().definition);
                definition.is_offered()
                    && own_definition.as_ref().is_none_or(|own| own.is_offered())
            }
            RequestPurpose::Other { .. } => false,
        }
    }

    /// Passes progress on and restarts the idle deadline.
    pub(super) fn progress(
        &self,
        progress: f64,
        total: Option<f64>,
        message: Option<Redacted>,
        params: Option<&RawJson>,
    ) {
        self.deadlines.restart_idle(Instant::now());
        self.caller().progress(&Progress {
            id: self.tool_id(),
            progress,
            total,
            message,
            params: params.cloned(),
        });
    }

    /// Passes a log message on. `is_certain`: the message belongs to this request, not to another
    /// one of the same caller.
    pub(super) fn log(
        &self,
        level: Option<LogLevel>,
        logger: Option<Redacted>,
        text: Redacted,
        params: &RawJson,
        is_certain: bool,
    ) {
        let tool = if is_certain { self.tool_id() } else { None };
        self.caller().log(&LogLine {
            server: self.server().clone(),
            tool,
            level,
            logger,
            text,
            params: params.clone(),
        });
    }

    /// Calls of other callers wait in this queue until this one has ended.
    pub(super) fn set_queue(&self, queue: &Arc<CallerQueue>) {
        let _ = self.queue.set(queue.clone());
    }

    /// Waits for the caller's answer to a question of the server; the time does not count against the
    /// deadlines. The error says why there is none.
    pub(super) async fn answer<T>(&self, answer: impl Future<Output = T>) -> Result<T, String> {
        let _pause = self.pause_deadlines();
        tokio::select! {
            biased;
            answer = timeout(ANSWER_TIMEOUT, answer) => {
                answer.map_err(|_| format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))
            }
            () = self.until_contended() => Err(format!(
                "no answer, and calls of others have waited for {} s",
                CONTENDED_ANSWER_TIMEOUT.as_secs()
            )),
        }
    }

    /// Completes when a question has kept calls of other callers waiting for long enough.
    async fn until_contended(&self) {
        let Some(queue) = self.queue.get() else {
            return std::future::pending().await;
        };
        loop {
            queue.until_others_wait().await;
            sleep(CONTENDED_ANSWER_TIMEOUT).await;
            if queue.has_waiters() {
                return;
            }
        }
    }

    /// Pauses the deadlines while the guard lives.
    pub(super) fn pause_deadlines(&self) -> DeadlinePause<'_> {
        self.deadlines.pause(Instant::now());
        DeadlinePause(&self.deadlines)
    }
}

/// The deadlines of a request: idle time and total time. The time that a person takes to answer
/// counts against neither.
#[derive(Debug)]
pub(super) struct Deadlines {
    timeouts: Timeouts,
    started: Instant,
    /// The first moment at which a deadline can pass.
    pub(super) first: Instant,
    times: Mutex<DeadlineTimes>,
}

#[derive(Debug)]
struct DeadlineTimes {
    /// The start, or the last progress.
    last_activity: Instant,
    /// How many questions are open.
    pauses: u32,
    /// When the first of them was asked.
    paused_at: Instant,
    /// The sum of the pauses that are over.
    paused_for: Duration,
    /// The time spent waiting for calls of other callers.
    queued_for: Duration,
}

/// Which parts of a call's time were not the server's. A clone of the call's own record, readable
/// when the call has ended.
pub(crate) struct CallClock(Arc<InFlightCall>);

impl CallClock {
    /// The time spent waiting for calls of other callers.
    pub(crate) fn queued(&self) -> Duration {
        self.0.deadlines.times().queued_for
    }

    /// The time in which questions of the server were open.
    pub(crate) fn questions(&self) -> Duration {
        self.0.deadlines.times().paused_until(Instant::now())
    }
}

impl DeadlineTimes {
    /// The sum of the pauses until now.
    fn paused_until(&self, now: Instant) -> Duration {
        match self.pauses {
            0 => self.paused_for,
            _ => self.paused_for + (now - self.paused_at),
        }
    }
}

/// The result of checking the deadlines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeadlineCheck {
    /// In time; check again at this moment.
    Wait(Instant),
    /// A deadline has passed.
    Late(RequestFault),
}

impl Deadlines {
    /// The total is counted from `started`, which may lie before `now`.
    pub(super) fn start(mut timeouts: Timeouts, started: Instant, now: Instant) -> Self {
        timeouts.call = timeouts.call.min(MAX_TIMEOUT);
        timeouts.call_max = timeouts.call_max.min(MAX_TIMEOUT);
        let times = DeadlineTimes {
            last_activity: now,
            pauses: 0,
            paused_at: now,
            paused_for: Duration::ZERO,
            queued_for: Duration::ZERO,
        };
        Self {
            timeouts,
            started,
            first: (now + timeouts.call).min(started + timeouts.call_max),
            times: Mutex::new(times),
        }
    }

    fn times(&self) -> MutexGuard<'_, DeadlineTimes> {
        lock(&self.times)
    }

    /// The shorter of the two limits.
    pub(super) fn shortest(&self) -> Duration {
        self.timeouts.call.min(self.timeouts.call_max)
    }

    pub(super) fn total(&self) -> Duration {
        self.timeouts.call_max
    }

    /// Restarts the idle deadline after progress.
    pub(super) fn restart_idle(&self, now: Instant) {
        self.times().last_activity = now;
    }

    /// Adds time spent waiting for calls of other callers.
    pub(super) fn add_queued(&self, time: Duration) {
        self.times().queued_for += time;
    }

    /// Pauses the deadlines while a question is open.
    pub(super) fn pause(&self, now: Instant) {
        let mut times = self.times();
        if times.pauses == 0 {
            times.paused_at = now;
        }
        times.pauses += 1;
    }

    /// Resumes the deadlines after a question was answered.
    pub(super) fn resume(&self, now: Instant) {
        let mut times = self.times();
        times.pauses = times.pauses.saturating_sub(1);
        if times.pauses == 0 {
            let pause = now - times.paused_at;
            times.paused_for += pause;
            times.last_activity = now;
        }
    }

    pub(super) fn check(&self, now: Instant) -> DeadlineCheck {
        let times = self.times();
        let is_paused = times.pauses > 0;
        let paused_for = times.paused_until(now);
        let idle_end = times.last_activity + self.timeouts.call;
        let total_end = self.started + self.timeouts.call_max + paused_for.min(MAX_PAUSED);
        if is_paused && now < total_end {
            return DeadlineCheck::Wait(now + CHECK_WHILE_PAUSED);
        }
        if now >= total_end {
            return DeadlineCheck::Late(RequestFault::Timeout {
                after: self.timeouts.call_max,
                total: true,
            });
        }
        if now >= idle_end {
            return DeadlineCheck::Late(RequestFault::Timeout {
                after: self.timeouts.call,
                total: false,
            });
        }
        DeadlineCheck::Wait(idle_end.min(total_end))
    }
}

/// Ends the pause when the question is answered or withdrawn.
pub(super) struct DeadlinePause<'a>(&'a Deadlines);

impl Drop for DeadlinePause<'_> {
    fn drop(&mut self) {
        self.0.resume(Instant::now());
    }
}

/// Counts the callers' requests in flight on a session, so that its server can be restarted when
/// there are none.
#[derive(Debug, Default)]
pub(super) struct InFlightCalls {
    count: AtomicUsize,
    /// Notified when the last one ends.
    idle: Notify,
}

/// Counts one request until it is dropped.
pub(super) struct InFlightGuard<'a>(&'a InFlightCalls);

impl InFlightCalls {
    pub(super) fn begin(&self) -> InFlightGuard<'_> {
        self.count.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(self)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Waits until no request is in flight. Cancel-safe.
    pub(super) async fn idle(&self) {
        loop {
            let ended = self.idle.notified();
            tokio::pin!(ended);
            // Registered before the check, so that an end between the check and the wait is not
            // missed.
            ended.as_mut().enable();
            if self.is_idle() {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
