//! The task of one server: handles commands, the results of attempts to connect, and lost
//! connections.
//!
//! It is in one phase at a time, so a process is started only after the previous one has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::backoff::{Backoff, BackoffDecision, Retry};
use super::connect::{AttemptOutcome, ConnectAttempt, ConnectError, Connected};
use super::connection::{ConnectionEnd, ConnectionEvent, LiveConnection, close_connection};
use super::current_config::CurrentConfig;
use super::endpoint::{Failure, LiveSession, ServerEndpoint, ServerProcess};
use super::era::EraVerdict;
use super::keep_policy::check_offerings;
use super::launch_store::{LaunchProfile, LaunchStore};
use super::list_refresh::{self, ListUpdate};
use super::status_publisher::StatusPublisher;
use super::store_writes::StoreWrites;
use super::switching::{EraOutcome, EraRefusal};
use super::{ConnectStep, Snapshot, State, messages};
use crate::auth::NeedsLogin;
use crate::catalog::Offerings;
use crate::config::Protocol;
use crate::future::BoxFuture;
use crate::secret::Redactor;
use crate::session::{Era, OpenOptions, RequestFault};
use crate::store::StoreTable;
use crate::transport::TransportFault;

/// The upper bound on stopping; stopping the process itself takes at most 3.5 s.
const STOP_BOUND: Duration = Duration::from_millis(3550);

/// Commands from the handles. The task uses a command's sender once it has handled the command.
#[derive(Debug)]
pub(super) enum TaskCommand {
    /// A call needs the server.
    Wake(oneshot::Sender<()>),
    /// A call failed because a login is needed, with the reason.
    NeedsLogin(NeedsLogin, oneshot::Sender<()>),
    /// Handled when the new start begins.
    Restart(oneshot::Sender<()>),
    /// Close the connection, with the reason.
    Close(String, oneshot::Sender<()>),
    /// A request was refused with a text that shows which era it needs.
    EraRefused(EraRefusal, oneshot::Sender<Option<EraOutcome>>),
    /// Ends the task.
    Stop,
}

/// The task's state.
pub(super) struct ServerTask {
    pub(super) config: CurrentConfig,
    pub(super) endpoint: Arc<dyn ServerEndpoint>,
    pub(super) status: Arc<StatusPublisher>,
    pub(super) launch_store: LaunchStore,
    /// The options for every session of this server.
    pub(super) options: OpenOptions,
    /// Every handle owns a sender; the task ends when all are dropped.
    pub(super) commands: mpsc::Receiver<TaskCommand>,
    /// Set by handles after a successful response.
    pub(super) worked: Arc<AtomicBool>,
    pub(super) phase: Phase,
    pub(super) backoff: Backoff,
    pub(super) profile: LaunchProfile,
    /// Whether the profile was changed in this run, so that the store may have an older one.
    pub(super) is_profile_current: bool,
    pub(super) store_writes: StoreWrites,
    /// Notified when a restart begins.
    pub(super) restarting: Vec<oneshot::Sender<()>>,
}

/// What the task waits for, besides commands.
#[derive(Default)]
pub(super) enum Phase {
    /// Nothing.
    #[default]
    Idle,
    /// The time of the next attempt to connect.
    Waiting(Instant),
    /// An attempt to connect.
    Connecting {
        attempt: BoxFuture<'static, AttemptOutcome>,
        cancel: Option<oneshot::Sender<()>>,
    },
    /// A live connection.
    Live(Box<LiveConnection>),
    /// The end of the old connection; then the time of the next attempt, if there is one.
    Stopping {
        stopping: BoxFuture<'static, ()>,
        then: Option<Instant>,
    },
}

/// How a phase's wait ended.
enum PhaseEvent {
    Due,
    Attempted(AttemptOutcome),
    Connection(ConnectionEvent),
    Stopped,
}

impl ServerTask {
    /// Runs until a stop command, or until the last handle is dropped.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(TaskCommand::Wake(done)) => self.wake(done),
                    Some(TaskCommand::NeedsLogin(needed, done)) => self.refused(needed, done),
                    Some(TaskCommand::Restart(done)) => self.restart(done),
                    Some(TaskCommand::Close(reason, done)) => {
                        self.close_on_request(reason);
                        let _ = done.send(());
                    }
                    Some(TaskCommand::EraRefused(refusal, answer)) => {
                        // The caller may have given up.
                        let _ = answer.send(self.era_refused(refusal));
                    }
                    Some(TaskCommand::Stop) | None => break,
                },
                event = self.phase.next() => self.handle_event(event),
                () = self.store_writes.next() => {}
            }
        }
        self.end().await;
    }

    /// Starts a server that is idle, or whose backoff allows it.
    fn wake(&mut self, done: oneshot::Sender<()>) {
        let startable = match self.status.snapshot().state {
            // Another process may have logged in.
            State::Idle | State::NeedsLogin { .. } => true,
            State::Failed { .. } => self.backoff.may_start(Instant::now()),
            _ => false,
        };
        if startable {
            self.connect_now("it is needed");
        }
        let _ = done.send(());
    }

    fn restart(&mut self, done: oneshot::Sender<()>) {
        if self.may_not_start() {
            return;
        }
        // It waits for the calls of the server that it replaces, and then starts.
        if matches!(
            self.status.snapshot().state,
            State::Connecting {
                step: ConnectStep::Drain,
                ..
            }
        ) {
            let _ = done.send(());
            return;
        }
        self.backoff.reset();
        // A restart must show what the server offers now.
        self.options.cache.clear();
        self.restarting.push(done);
        self.connect_now("restarted on request");
    }

    fn close_on_request(&mut self, reason: String) {
        if self.may_not_start() {
            return;
        }
        let retry = Retry::OnRequest;
        self.close(
            Failure {
                fact: reason,
                retry,
            },
            "closed on request",
        );
    }

    fn may_not_start(&self) -> bool {
        matches!(
            self.status.snapshot().state,
            State::Disabled | State::Blocked { .. } | State::Untrusted { .. }
        )
    }

    /// A call failed because a login is needed. Other calls of the session may finish.
    fn refused(&mut self, needed: NeedsLogin, done: oneshot::Sender<()>) {
        match std::mem::take(&mut self.phase) {
            Phase::Live(live) => {
                self.record_connection(&live);
                self.needs_login(needed, live.detach(), false);
            }
            // The connection has ended, or a new one will find out by itself.
            phase => self.phase = phase,
        }
        let _ = done.send(());
    }

    fn needs_login(
        &mut self,
        needed: NeedsLogin,
        stopping: BoxFuture<'static, ()>,
        attempted: bool,
    ) {
        self.phase = Phase::Stopping {
            stopping,
            then: None,
        };
        let state = State::NeedsLogin {
            url: self.endpoint.address(),
            reason: needed.reason,
            hint: needed.hint,
        };
        self.status.set_state(state, "", |snapshot| {
            snapshot.attempts_ended += u64::from(attempted);
            disconnected(snapshot);
        });
    }

    /// Ends the current phase and connects.
    fn connect_now(&mut self, because: &str) {
        let now = Instant::now();
        let step = if matches!(self.phase, Phase::Idle | Phase::Waiting(_)) {
            self.endpoint.first_step()
        } else {
            ConnectStep::Stop
        };
        self.phase = match std::mem::take(&mut self.phase) {
            Phase::Idle | Phase::Waiting(_) => Phase::Waiting(now),
            Phase::Connecting {
                attempt,
                mut cancel,
            } => {
                if let Some(cancel) = cancel.take() {
                    let _ = cancel.send(());
                }
                Phase::Connecting { attempt, cancel }
            }
            Phase::Live(live) => {
                self.record_connection(&live);
                Phase::Stopping {
                    stopping: live.close(),
                    then: Some(now),
                }
            }
            Phase::Stopping { stopping, .. } => Phase::Stopping {
                stopping,
                then: Some(now),
            },
        };
        self.status
            .set_state(State::connecting(step), because, |snapshot| {
                snapshot.failure = None;
                set_end_reason(snapshot, because);
                disconnected(snapshot);
            });
    }

    /// Publishes that the current connection is being replaced.
    pub(super) fn set_reconnecting(&self, because: &str) {
        self.status
            .set_state(State::connecting(ConnectStep::Stop), because, disconnected);
    }

    fn handle_event(&mut self, event: PhaseEvent) {
        match event {
            PhaseEvent::Due => self.begin_attempt(),
            PhaseEvent::Stopped => {
                self.status.update_quietly(|snapshot| snapshot.pid = None);
                if let Phase::Stopping { then, .. } = std::mem::take(&mut self.phase) {
                    self.phase = then.map_or(Phase::Idle, Phase::Waiting);
                }
            }
            PhaseEvent::Attempted(AttemptOutcome {
                process,
                flushed,
                profile,
                result,
            }) => {
                self.profile = profile;
                match result {
                    Ok(connected) => self.connected(connected, process),
                    Err(ConnectError::Cancelled) => {
                        self.phase = Phase::Stopping {
                            stopping: close_connection(process, flushed),
                            then: Some(Instant::now()),
                        };
                    }
                    Err(ConnectError::NeedsLogin(needed)) => {
                        self.needs_login(needed, close_connection(process, flushed), true)
                    }
                    Err(ConnectError::Failed {
                        failure,
                        forget_era,
                    }) => {
                        if forget_era {
                            self.forget_era();
                        }
                        self.failed(failure, close_connection(process, flushed), None);
                    }
                }
            }
            PhaseEvent::Connection(ConnectionEvent::Ended(end)) => self.lost(end),
            PhaseEvent::Connection(ConnectionEvent::Relisted(listed)) => self.relisted(listed),
            PhaseEvent::Connection(ConnectionEvent::Idle) => self.reopen(),
        }
    }

    fn begin_attempt(&mut self) {
        let again = self.status.snapshot().started.is_some();
        let fresh = |snapshot: &mut Snapshot| {
            snapshot.steps.clear();
            snapshot.restarts += u32::from(again);
        };
        if matches!(self.status.snapshot().state, State::Connecting { .. }) {
            self.status.update_quietly(fresh);
            self.status.set_step(self.endpoint.first_step());
        } else {
            self.status.set_state(
                State::connecting(self.endpoint.first_step()),
                "the backoff delay has passed",
                fresh,
            );
        }
        let (cancel, cancelled) = oneshot::channel();
        let (endpoint, status, launch_store) = (
            self.endpoint.clone(),
            self.status.clone(),
            self.launch_store.clone(),
        );
        let known = self.is_profile_current.then(|| self.profile.clone());
        let config = self.config.get();
        self.options.connect_timeout = config.timeouts.connect;
        let attempt = ConnectAttempt::new(
            config,
            endpoint,
            status,
            launch_store,
            self.options.clone(),
            known,
        );
        self.phase = Phase::Connecting {
            attempt: Box::pin(attempt.run(cancelled)),
            cancel: Some(cancel),
        };
        for done in self.restarting.drain(..) {
            let _ = done.send(());
        }
    }

    fn connected(&mut self, connected: Connected, process: Option<Box<dyn ServerProcess>>) {
        let Connected {
            live_session,
            wire,
            offerings,
            redactor,
        } = connected;
        let hello = live_session.hello();
        let state = State::Ready {
            era: hello.era(),
            version: hello.revision.to_string(),
        };
        self.remember_era(hello.era());
        for (method, fault) in &offerings.faults {
            self.status.notice(format!("{method} failed: {fault}"));
        }
        let offerings = Arc::new(offerings.replace(&self.status.snapshot().offerings));
        self.store_writes.add(
            StoreTable::Catalogs,
            self.launch_store
                .clone()
                .store_offerings(offerings.clone(), redactor.clone().unwrap_or_default()),
        );
        self.worked.store(false, Ordering::Relaxed);
        let other_era_tools = Arc::new(self.profile.other_era_tools(hello.era()));
        let session = LiveSession::session(live_session.clone());
        self.phase = Phase::Live(Box::new(LiveConnection::new(
            live_session,
            process,
            redactor,
            self.config.clone(),
        )));
        self.status.set_state(state, "", |snapshot| {
            snapshot.session = session;
            snapshot.other_era_tools = other_era_tools;
            snapshot.wire = wire;
            snapshot.offerings = offerings;
            snapshot.cached = false;
            snapshot.failure = None;
            snapshot.attempts_ended += 1;
        });
    }

    /// The connection was lost. Its calls have failed already.
    fn lost(&mut self, end: ConnectionEnd) {
        let Phase::Live(live) = std::mem::take(&mut self.phase) else {
            return;
        };
        self.record_connection(&live);
        let fact = messages::with_stderr(&end.fact(), &end.last_stderr);
        self.failed(
            Failure {
                fact,
                retry: Retry::Soon,
            },
            live.close(),
            Some(end.message_for_calls()),
        );
    }

    fn failed(
        &mut self,
        failure: Failure,
        stopping: BoxFuture<'static, ()>,
        death: Option<String>,
    ) {
        let now = Instant::now();
        let error = failure.fact;
        let mut again = None;
        let (state, then) = match self.backoff.failed(failure.retry, now, fastrand::f64()) {
            BackoffDecision::Retry { attempt, wait } => {
                again = Some((error.clone(), attempt));
                (
                    State::Backoff {
                        error,
                        attempt,
                        retry_at: SystemTime::now() + wait,
                    },
                    Some(now + wait),
                )
            }
            BackoffDecision::Pause => (State::Failed { error }, None),
        };
        self.phase = Phase::Stopping { stopping, then };
        self.status.set_state(state, "", |snapshot| {
            snapshot.failure = again;
            // The attempt that opened a lost connection was counted when it succeeded.
            snapshot.attempts_ended += u64::from(death.is_none());
            snapshot.last_exit = death.or(snapshot.last_exit.take());
            disconnected(snapshot);
            if matches!(failure.retry, Retry::OnRequest | Retry::OnUseWithdrawn) {
                withdrawn(snapshot);
            }
        });
    }

    /// Handles a new listing after the server reported a changed list.
    fn relisted(&mut self, listed: Result<Offerings, RequestFault>) {
        if let Err(RequestFault::Transport(TransportFault::NeedsLogin(needed))) = &listed {
            let Phase::Live(live) = std::mem::take(&mut self.phase) else {
                return;
            };
            self.record_connection(&live);
            return self.needs_login(needed.clone(), live.detach(), false);
        }
        let before = self.status.snapshot().offerings.clone();
        let ListUpdate { changed, failure } = list_refresh::compare(&before, listed);
        if let Some(fault) = failure {
            self.status.notice(format!(
                "reported changed lists, but listing failed: {fault}; the previous lists are kept"
            ));
        }
        match changed {
            Some(offerings) => self.replace_offerings(offerings, &before),
            None => self
                .status
                .update_quietly(|snapshot| snapshot.listings += 1),
        }
    }

    /// Publishes what a live connection has listed now.
    fn replace_offerings(&mut self, offerings: Offerings, before: &Offerings) {
        let declares_extension =
            matches!(&self.phase, Phase::Live(live) if live.declares_extension());
        let kept = check_offerings(&self.config.get(), declares_extension, &offerings);
        if let Err(Failure { fact, retry }) = kept {
            let fact = messages::with_stderr(&fact, &[]);
            let failure = Failure { fact, retry };
            return self.close(failure, "closed: it no longer offers anything");
        }
        let offerings = Arc::new(offerings.replace(before));
        let redactor = if let Phase::Live(live) = &self.phase {
            live.redactor()
        } else {
            Redactor::default()
        };
        self.store_writes.add(
            StoreTable::Catalogs,
            self.launch_store
                .clone()
                .store_offerings(offerings.clone(), redactor),
        );
        self.status.update(|snapshot| {
            snapshot.offerings = offerings;
            snapshot.listings += 1;
        });
    }

    /// Ends the current phase, with a failure that is not retried.
    fn close(&mut self, failure: Failure, how: &str) {
        let stopping = self.end_phase();
        // A restart that has not begun does not begin any more.
        self.restarting.clear();
        self.failed(failure, stopping, Some(how.to_owned()));
        self.status
            .update_quietly(|snapshot| snapshot.listings += 1);
    }

    /// Records what an ended connection showed about the server.
    pub(super) fn record_connection(&mut self, live: &LiveConnection) {
        if self.worked.swap(false, Ordering::Relaxed) {
            self.backoff.worked();
        }
        let verdict = self.profile.verdict.map(|verdict| {
            if live.has_asked() {
                verdict.confirmed()
            } else {
                verdict
            }
        });
        self.set_profile(LaunchProfile {
            asks: self.profile.asks || live.asks(),
            verdict,
            ..self.profile.clone()
        });
    }

    /// Only with `protocol = "auto"`: an era that the entry fixes says nothing about other entries
    /// with the same launch.
    fn remember_era(&mut self, era: Era) {
        if self.config.get().protocol == Protocol::Auto {
            let is_refuted =
                |verdict: &EraVerdict| verdict.era() == Era::Legacy && era == Era::Modern;
            let verdict = self
                .profile
                .verdict
                .map(|verdict| match is_refuted(&verdict) {
                    true => verdict.refuted(SystemTime::now()),
                    false => verdict,
                });
            self.set_profile(LaunchProfile {
                era: Some(era),
                verdict,
                ..self.profile.clone()
            });
        }
    }

    /// The remembered era did not work: the next attempt finds it out anew.
    fn forget_era(&mut self) {
        let now = SystemTime::now();
        self.set_profile(LaunchProfile {
            era: None,
            was_connected: true,
            verdict: self.profile.verdict.map(|verdict| verdict.failed(now)),
            ..self.profile.clone()
        });
    }

    pub(super) fn set_profile(&mut self, profile: LaunchProfile) {
        if self.profile != profile {
            self.profile = profile.clone();
            let write = self.launch_store.clone().store_profile(profile);
            self.store_writes.add(StoreTable::Eras, write);
        }
    }

    /// Ends the current phase; the future completes when its connection is closed.
    fn end_phase(&mut self) -> BoxFuture<'static, ()> {
        match std::mem::take(&mut self.phase) {
            Phase::Idle | Phase::Waiting(_) => Box::pin(async {}),
            Phase::Stopping { stopping, .. } => stopping,
            Phase::Connecting { attempt, cancel } => {
                drop(cancel);
                Box::pin(async move {
                    let AttemptOutcome {
                        process, flushed, ..
                    } = attempt.await;
                    close_connection(process, flushed).await;
                })
            }
            Phase::Live(live) => {
                self.record_connection(&live);
                live.close()
            }
        }
    }

    /// Closes the session, stops the process and finishes writes to the store, within one time
    /// limit.
    async fn end(mut self) {
        // Commands in the queue are dropped, which answers their senders.
        self.commands.close();
        while self.commands.try_recv().is_ok() {}
        let stopping = self.end_phase();
        // A server that never ran writes nothing to its log.
        let quiet = matches!(
            self.status.snapshot().state,
            State::Disabled | State::Blocked { .. } | State::Untrusted { .. } | State::Idle
        );
        self.status.set_stopped(quiet, |snapshot| {
            set_end_reason(snapshot, "stopped on request");
            disconnected(snapshot);
            withdrawn(snapshot);
        });
        let _ = timeout(STOP_BOUND, async {
            tokio::join!(stopping, self.store_writes.finish())
        })
        .await;
        self.status.update_quietly(|snapshot| snapshot.pid = None);
    }
}

impl Phase {
    /// Waits for the end of the phase. Cancel-safe.
    async fn next(&mut self) -> PhaseEvent {
        match self {
            Self::Idle => std::future::pending().await,
            Self::Waiting(until) => {
                sleep_until(*until).await;
                PhaseEvent::Due
            }
            Self::Connecting { attempt, .. } => PhaseEvent::Attempted(attempt.await),
            Self::Live(live) => PhaseEvent::Connection(live.next().await),
            Self::Stopping { stopping, .. } => {
                stopping.await;
                PhaseEvent::Stopped
            }
        }
    }
}

/// Records why the calls on a connection that the task closes have failed.
fn set_end_reason(snapshot: &mut Snapshot, because: &str) {
    if matches!(snapshot.state, State::Ready { .. }) {
        snapshot.last_exit = Some(because.to_owned());
    }
}

/// Marks the offerings as cached. They stay on offer, since a call starts the server.
fn disconnected(snapshot: &mut Snapshot) {
    snapshot.session = None;
    snapshot.cached |= matches!(snapshot.state, State::Ready { .. });
}

/// Withdraws the offerings of a server that no call can start.
fn withdrawn(snapshot: &mut Snapshot) {
    snapshot.offerings = Arc::new(Offerings::default().replace(&snapshot.offerings));
    snapshot.cached = false;
}
