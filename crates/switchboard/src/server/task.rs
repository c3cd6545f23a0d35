//! The task of one server: what it does when told, when an attempt ends, when a connection is lost.
//!
//! One phase at a time: a process is started only when the one before it is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::backoff::{Backoff, Retry, Verdict};
use super::board::Board;
use super::chores::Chores;
use super::connect::{Arrival, Attempt, Outcome, Unconnected};
use super::era::EraVerdict;
use super::lists::{self, News};
use super::live::{End, Happening, Live, leave};
use super::memory::{Habits, Memory};
use super::reach::{Failure, Link, Process, Reach};
use super::switching::{EraOutcome, EraRefusal};
use super::worth::verdict_on;
use super::{Snapshot, State, sentence};
use crate::caller::BoxFuture;
use crate::catalog::Offerings;
use crate::config::{Protocol, ServerConfig};
use crate::secret::Redactor;
use crate::session::{Era, OpenOptions, RequestFault};
use crate::transport::WireFault;

/// Ending takes no longer, whatever the process does (its own bound is 3.5 s).
const STOP_BOUND: Duration = Duration::from_millis(3550);

/// What a holder may tell the task, and the way to say that it was heeded.
#[derive(Debug)]
pub(super) enum Command {
    /// Someone wants to use the server.
    Wake(oneshot::Sender<()>),
    /// A call learnt that a person must log in, and why.
    NeedsLogin(String, oneshot::Sender<()>),
    /// Answered when the new process is being started.
    Restart(oneshot::Sender<()>),
    /// A request was refused in words that say which era it needs.
    EraRefused(EraRefusal, oneshot::Sender<Option<EraOutcome>>),
    /// The entry says something else beside its launch.
    Adopt(Arc<ServerConfig>),
    /// Heeded when the task is gone.
    Stop,
}

/// The owner of one server.
pub(super) struct Task {
    /// The entry as it is now.
    pub(super) config: Arc<ServerConfig>,
    pub(super) reach: Arc<dyn Reach>,
    pub(super) board: Arc<Board>,
    pub(super) memory: Memory,
    /// What every session of this server is opened with.
    pub(super) options: OpenOptions,
    /// Every handle holds the other end; the task ends when all are gone.
    pub(super) commands: mpsc::Receiver<Command>,
    /// Set by handles after a good answer.
    pub(super) worked: Arc<AtomicBool>,
    pub(super) phase: Phase,
    pub(super) backoff: Backoff,
    pub(super) habits: Habits,
    /// The habits hold a decision of this run, which the store may not have yet.
    pub(super) are_habits_known: bool,
    pub(super) chores: Chores,
    /// Holders that wait for a restart to begin.
    pub(super) restarting: Vec<oneshot::Sender<()>>,
}

/// What the task waits for, beside commands.
#[derive(Default)]
pub(super) enum Phase {
    /// Nothing.
    #[default]
    Resting,
    /// The time to connect.
    Waiting(Instant),
    /// An attempt.
    Connecting {
        attempt: BoxFuture<'static, Outcome>,
        cancel: Option<oneshot::Sender<()>>,
    },
    /// The end of a connection.
    Live(Box<Live>),
    /// The end of a process; then the time to connect, if one was set.
    Leaving {
        ending: BoxFuture<'static, ()>,
        then: Option<Instant>,
    },
}

/// What a phase came to.
enum Turn {
    Due,
    Attempted(Outcome),
    Happened(Happening),
    Left,
}

impl Task {
    /// Supervises until told to stop, or until the last handle is gone.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(Command::Wake(heeded)) => self.wake(heeded),
                    Some(Command::NeedsLogin(reason, heeded)) => self.refused(&reason, heeded),
                    Some(Command::Restart(heeded)) => self.restart(heeded),
                    Some(Command::EraRefused(refusal, answer)) => {
                        // Whoever asked may be gone by now.
                        let _ = answer.send(self.era_refused(refusal));
                    }
                    Some(Command::Adopt(config)) => self.adopt(config),
                    Some(Command::Stop) | None => break,
                },
                turn = self.phase.next() => self.turn(turn),
                () = self.chores.next() => {}
            }
        }
        self.end().await;
    }

    /// What holds from the next connection or listing on.
    fn adopt(&mut self, config: Arc<ServerConfig>) {
        self.options.connect_timeout = config.timeouts.connect;
        self.config = config;
    }

    /// A use starts what is idle, and what failed long enough ago.
    fn wake(&mut self, heeded: oneshot::Sender<()>) {
        let startable = match self.board.now().state {
            // Another process may have logged in meanwhile.
            State::Idle | State::NeedsLogin { .. } => true,
            State::Failed { .. } => self.backoff.wakes(Instant::now()),
            _ => false,
        };
        if startable {
            self.connect_now("it is needed");
        }
        let _ = heeded.send(());
    }

    fn restart(&mut self, heeded: oneshot::Sender<()>) {
        if matches!(
            self.board.now().state,
            State::Disabled | State::Blocked { .. } | State::Untrusted { .. }
        ) {
            return;
        }
        self.backoff.told();
        // Whoever restarts a server wants to see what it offers now.
        self.options.cache.forget();
        self.restarting.push(heeded);
        self.connect_now("restarted on request");
    }

    /// The server turned a call away. What it has answered or will answer yet is no worse for it:
    /// the session ends with its last call.
    fn refused(&mut self, reason: &str, heeded: oneshot::Sender<()>) {
        match std::mem::take(&mut self.phase) {
            Phase::Live(live) => {
                self.learn_from(&live);
                self.needs_login(reason, live.let_go(), false);
            }
            // It is over already, or a new connection finds out for itself.
            phase => self.phase = phase,
        }
        let _ = heeded.send(());
    }

    fn needs_login(&mut self, reason: &str, ending: BoxFuture<'static, ()>, attempted: bool) {
        self.phase = Phase::Leaving { ending, then: None };
        let state = State::NeedsLogin {
            url: self.reach.address(),
            reason: reason.to_owned(),
        };
        self.board.moved(state, "", |snapshot| {
            snapshot.attempts_ended += u64::from(attempted);
            disconnected(snapshot);
        });
    }

    /// Leaves whatever is under way and connects anew.
    fn connect_now(&mut self, because: &str) {
        let now = Instant::now();
        let step = if matches!(self.phase, Phase::Resting | Phase::Waiting(_)) {
            self.reach.first_step()
        } else {
            "stop"
        };
        self.phase = match std::mem::take(&mut self.phase) {
            Phase::Resting | Phase::Waiting(_) => Phase::Waiting(now),
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
                self.learn_from(&live);
                Phase::Leaving {
                    ending: live.leave(),
                    then: Some(now),
                }
            }
            Phase::Leaving { ending, .. } => Phase::Leaving {
                ending,
                then: Some(now),
            },
        };
        self.board.moved(connecting(step), because, |snapshot| {
            snapshot.failure = None;
            cut_off(snapshot, because);
            disconnected(snapshot);
        });
    }

    /// The connection is being left for another one.
    pub(super) fn left_for(&self, because: &str) {
        self.board.moved(connecting("stop"), because, disconnected);
    }

    fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Due => self.begin(),
            Turn::Left => {
                self.board.noted(|snapshot| snapshot.pid = None);
                if let Phase::Leaving { then, .. } = std::mem::take(&mut self.phase) {
                    self.phase = then.map_or(Phase::Resting, Phase::Waiting);
                }
            }
            Turn::Attempted(Outcome {
                process,
                farewell,
                habits,
                result,
            }) => {
                self.habits = habits;
                match result {
                    Ok(arrival) => self.arrived(arrival, process),
                    Err(Unconnected::Cancelled) => {
                        self.phase = Phase::Leaving {
                            ending: leave(process, farewell),
                            then: Some(Instant::now()),
                        };
                    }
                    Err(Unconnected::NeedsLogin(reason)) => {
                        self.needs_login(&reason, leave(process, farewell), true)
                    }
                    Err(Unconnected::Failed {
                        failure,
                        forget_era,
                    }) => {
                        if forget_era {
                            let verdict = self
                                .habits
                                .verdict
                                .map(|verdict| verdict.failed(SystemTime::now()));
                            self.keep_habits(Habits {
                                era: None,
                                verdict,
                                ..self.habits.clone()
                            });
                        }
                        self.failed(failure, leave(process, farewell), None);
                    }
                }
            }
            Turn::Happened(Happening::Ended(end)) => self.lost(end),
            Turn::Happened(Happening::Relisted(listed)) => self.relisted(listed),
            Turn::Happened(Happening::Idle) => self.reopen(),
        }
    }

    fn begin(&mut self) {
        let again = self.board.now().started.is_some();
        let fresh = |snapshot: &mut Snapshot| {
            snapshot.steps.clear();
            snapshot.restarts += u32::from(again);
        };
        if matches!(self.board.now().state, State::Connecting { .. }) {
            self.board.noted(fresh);
            self.board.step(self.reach.first_step());
        } else {
            self.board.moved(
                connecting(self.reach.first_step()),
                "its wait is over",
                fresh,
            );
        }
        let (cancel, cancelled) = oneshot::channel();
        let (reach, board, memory) = (self.reach.clone(), self.board.clone(), self.memory.clone());
        let known = self.are_habits_known.then(|| self.habits.clone());
        let attempt = Attempt::new(
            self.config.clone(),
            reach,
            board,
            memory,
            self.options.clone(),
            known,
        );
        self.phase = Phase::Connecting {
            attempt: Box::pin(attempt.run(cancelled)),
            cancel: Some(cancel),
        };
        for heeded in self.restarting.drain(..) {
            let _ = heeded.send(());
        }
    }

    fn arrived(&mut self, arrival: Arrival, process: Option<Box<dyn Process>>) {
        let Arrival {
            link,
            wire,
            offerings,
            redactor,
        } = arrival;
        let hello = link.hello();
        let state = State::Ready {
            era: hello.era(),
            version: hello.revision.to_string(),
        };
        self.keep_era(hello.era());
        for (method, fault) in &offerings.faults {
            self.board.notice(format!("{method} failed: {fault}"));
        }
        let offerings = Arc::new(offerings);
        self.chores.add(
            self.memory
                .clone()
                .keep_offerings(offerings.clone(), redactor.clone().unwrap_or_default()),
        );
        self.worked.store(false, Ordering::Relaxed);
        let other_era_tools = Arc::new(self.habits.other_era_tools(hello.era()));
        let session = Link::session(link.clone());
        self.phase = Phase::Live(Box::new(Live::new(link, process, redactor, &self.config)));
        self.board.moved(state, "", |snapshot| {
            snapshot.session = session;
            snapshot.other_era_tools = other_era_tools;
            snapshot.wire = wire;
            snapshot.offerings = offerings;
            snapshot.cached = false;
            snapshot.failure = None;
            snapshot.attempts_ended += 1;
        });
    }

    /// The connection is gone; the calls under way know it already.
    fn lost(&mut self, end: End) {
        let Phase::Live(live) = std::mem::take(&mut self.phase) else {
            return;
        };
        self.learn_from(&live);
        let fact = sentence::failure(&end.fact(), &end.last_words);
        self.failed(
            Failure {
                fact,
                retry: Retry::Soon,
            },
            live.leave(),
            Some(end.death()),
        );
    }

    fn failed(&mut self, failure: Failure, ending: BoxFuture<'static, ()>, death: Option<String>) {
        let now = Instant::now();
        let error = failure.fact;
        let mut again = None;
        let (state, then) = match self.backoff.failed(failure.retry, now, fastrand::f64()) {
            Verdict::Again { attempt, wait } => {
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
            Verdict::Rest => (State::Failed { error }, None),
        };
        self.phase = Phase::Leaving { ending, then };
        self.board.moved(state, "", |snapshot| {
            snapshot.failure = again;
            // A connection that was lost has ended no attempt: the one that made it had ended well.
            snapshot.attempts_ended += u64::from(death.is_none());
            snapshot.last_exit = death.or(snapshot.last_exit.take());
            disconnected(snapshot);
            if matches!(failure.retry, Retry::WhenTold | Retry::WhenWanted) {
                withdrawn(snapshot);
            }
        });
    }

    /// The server was listed again, because it said that a list changed.
    fn relisted(&mut self, listed: Result<Offerings, RequestFault>) {
        if let Err(RequestFault::Wire(WireFault::NeedsLogin(needed))) = &listed {
            let Phase::Live(live) = std::mem::take(&mut self.phase) else {
                return;
            };
            self.learn_from(&live);
            return self.needs_login(&needed.reason, live.let_go(), false);
        }
        let before = self.board.now().offerings.clone();
        match lists::news(&before, listed) {
            News::None => self.board.noted(|snapshot| snapshot.listings += 1),
            News::Offerings(offerings) => {
                if let Err(Failure { fact, retry }) = verdict_on(&self.config, &offerings) {
                    return self.not_worth_it(Failure {
                        fact: sentence::failure(&fact, &[]),
                        retry,
                    });
                }
                let offerings = Arc::new(offerings);
                let redactor = if let Phase::Live(live) = &self.phase {
                    live.redactor()
                } else {
                    Redactor::default()
                };
                self.chores.add(
                    self.memory
                        .clone()
                        .keep_offerings(offerings.clone(), redactor),
                );
                self.board.replaced(|snapshot| {
                    snapshot.offerings = offerings;
                    snapshot.listings += 1;
                });
            }
            News::Fault(fault) => {
                let line = format!(
                    "said that its lists changed, but listing them failed: {fault}; the lists from before are kept"
                );
                self.board.notice(line);
                self.board.noted(|snapshot| snapshot.listings += 1);
            }
        }
    }

    /// It has taken back all that it was kept for.
    fn not_worth_it(&mut self, failure: Failure) {
        let Phase::Live(live) = std::mem::take(&mut self.phase) else {
            return;
        };
        self.learn_from(&live);
        self.failed(
            failure,
            live.leave(),
            Some("closed, as it offers nothing any more".to_owned()),
        );
        self.board.noted(|snapshot| snapshot.listings += 1);
    }

    /// What a connection that is over has shown.
    pub(super) fn learn_from(&mut self, live: &Live) {
        if self.worked.swap(false, Ordering::Relaxed) {
            self.backoff.worked();
        }
        let verdict = self.habits.verdict.map(|verdict| {
            if live.was_questioned() {
                verdict.confirmed()
            } else {
                verdict
            }
        });
        self.keep_habits(Habits {
            asks: self.habits.asks || live.asks(),
            verdict,
            ..self.habits.clone()
        });
    }

    /// What an entry dictates says nothing about what another entry of the same launch should begin
    /// with.
    fn keep_era(&mut self, era: Era) {
        if self.config.protocol == Protocol::Auto {
            let is_refuted =
                |verdict: &EraVerdict| verdict.era() == Era::Legacy && era == Era::Modern;
            let verdict = self
                .habits
                .verdict
                .map(|verdict| match is_refuted(&verdict) {
                    true => verdict.failed(SystemTime::now()),
                    false => verdict,
                });
            self.keep_habits(Habits {
                era: Some(era),
                verdict,
                ..self.habits.clone()
            });
        }
    }

    pub(super) fn keep_habits(&mut self, habits: Habits) {
        if self.habits != habits {
            self.habits = habits.clone();
            self.chores.add(self.memory.clone().keep_habits(habits));
        }
    }

    /// Ends the session and the process, in bounded time; what is being written to the store gets
    /// the same time.
    async fn end(mut self) {
        // Nothing will be heeded any more, so nobody should wait for it.
        self.commands.close();
        while self.commands.try_recv().is_ok() {}
        let ending: BoxFuture<'static, ()> = match std::mem::take(&mut self.phase) {
            Phase::Resting | Phase::Waiting(_) => Box::pin(async {}),
            Phase::Leaving { ending, .. } => ending,
            Phase::Connecting { attempt, cancel } => {
                drop(cancel);
                Box::pin(async move {
                    let Outcome {
                        process, farewell, ..
                    } = attempt.await;
                    leave(process, farewell).await;
                })
            }
            Phase::Live(live) => {
                self.learn_from(&live);
                live.leave()
            }
        };
        // What never ran has nothing to tell: the log of a server is not one of every run of ours.
        let quiet = matches!(
            self.board.now().state,
            State::Disabled | State::Blocked { .. } | State::Untrusted { .. } | State::Idle
        );
        self.board.ended(quiet, |snapshot| {
            cut_off(snapshot, "stopped on request");
            disconnected(snapshot);
            withdrawn(snapshot);
        });
        let _ = timeout(STOP_BOUND, async {
            tokio::join!(ending, self.chores.all())
        })
        .await;
        self.board.noted(|snapshot| snapshot.pid = None);
    }
}

impl Phase {
    /// Waits for what the phase is about. Cancel-safe.
    async fn next(&mut self) -> Turn {
        match self {
            Self::Resting => std::future::pending().await,
            Self::Waiting(until) => {
                sleep_until(*until).await;
                Turn::Due
            }
            Self::Connecting { attempt, .. } => Turn::Attempted(attempt.await),
            Self::Live(live) => Turn::Happened(live.next().await),
            Self::Leaving { ending, .. } => {
                ending.await;
                Turn::Left
            }
        }
    }
}

fn connecting(step: &'static str) -> State {
    State::Connecting {
        since: SystemTime::now(),
        step,
    }
}

/// The calls under way on a connection that we end fail now, and this is why.
fn cut_off(snapshot: &mut Snapshot, because: &str) {
    if matches!(snapshot.state, State::Ready { .. }) {
        snapshot.last_exit = Some(because.to_owned());
    }
}

/// Without a session the offerings are those of last time. They stay on offer: a call of one of
/// them wakes the server.
fn disconnected(snapshot: &mut Snapshot) {
    snapshot.session = None;
    snapshot.cached |= matches!(snapshot.state, State::Ready { .. });
}

/// A server that no call can wake has nothing on offer.
fn withdrawn(snapshot: &mut Snapshot) {
    snapshot.offerings = Arc::default();
    snapshot.cached = false;
}
