//! One attempt to connect: spawn, handshake and list, within one deadline.
//!
//! Owns the order and the deadlines of the steps, and what is tried after a refused handshake. The
//! server's task publishes the outcome, stops a process that is left over, and retries.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::backoff::Retry;
use super::endpoint::{Failure, LiveSession, OpenedSession, ServerEndpoint, ServerProcess};
use super::keep_policy::check_offerings;
use super::launch_store::{LaunchProfile, LaunchStore};
use super::messages;
use super::status_publisher::StatusPublisher;
use super::{ConnectStep, DetectedTransport};
use crate::auth::NeedsLogin;
use crate::catalog::Offerings;
use crate::config::{Asks, MAX_TIMEOUT, Protocol, ServerConfig};
use crate::future::BoxFuture;
use crate::launch::Exit;
use crate::name::ToolName;
use crate::secret::Redactor;
use crate::session::{DeviationCounter, Era, OpenFault, OpenOptions, RequestFault};
use crate::transport::TransportFault;

/// When process and channel end within this time of each other, both are reported.
pub(super) const END_GRACE_PERIOD: Duration = Duration::from_millis(100);

/// The state of one attempt.
pub(super) struct ConnectAttempt {
    /// The current entry.
    config: Arc<ServerConfig>,
    endpoint: Arc<dyn ServerEndpoint>,
    status: Arc<StatusPublisher>,
    launch_store: LaunchStore,
    /// The options for every session of this server.
    options: OpenOptions,
    step: ConnectStep,
    step_began: Instant,
    process: Option<Box<dyn ServerProcess>>,
    /// The end of a process that needed another approach.
    stopping: Option<BoxFuture<'static, ()>>,
    /// Set after the handshake; closed if the attempt fails later.
    live_session: Option<Arc<dyn LiveSession>>,
    redactor: Option<Redactor>,
    /// The transport that was found to work.
    wire: Option<DetectedTransport>,
    /// The profile, if it changed during this run; otherwise it is read from the store.
    known: Option<LaunchProfile>,
    profile: LaunchProfile,
}

/// How an attempt ended. A process that was started is returned in any case: the task uses it or
/// stops it.
pub(super) struct AttemptOutcome {
    pub(super) process: Option<Box<dyn ServerProcess>>,
    /// Completes when the session of a failed attempt has sent its last messages, or when the
    /// process that the attempt was stopping has ended.
    pub(super) flushed: Option<BoxFuture<'static, ()>>,
    /// The launch profile as it was when the attempt began.
    pub(super) profile: LaunchProfile,
    pub(super) result: Result<Connected, ConnectError>,
}

/// The parts of a server that is ready.
pub(super) struct Connected {
    pub(super) live_session: Arc<dyn LiveSession>,
    pub(super) wire: Option<DetectedTransport>,
    pub(super) offerings: Offerings,
    pub(super) redactor: Option<Redactor>,
}

/// Why an attempt failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectError {
    /// The task cancelled it.
    Cancelled,
    /// A person must log in first; the reason is safe to show.
    NeedsLogin(NeedsLogin),
    /// The text needs no further details.
    Failed {
        failure: Failure,
        /// The remembered era did not work and is forgotten.
        forget_era: bool,
    },
}

impl ConnectAttempt {
    pub(super) fn new(
        config: Arc<ServerConfig>,
        endpoint: Arc<dyn ServerEndpoint>,
        status: Arc<StatusPublisher>,
        launch_store: LaunchStore,
        options: OpenOptions,
        known: Option<LaunchProfile>,
    ) -> Self {
        Self {
            config,
            step: endpoint.first_step(),
            endpoint,
            status,
            launch_store,
            options,
            step_began: Instant::now(),
            process: None,
            stopping: None,
            live_session: None,
            redactor: None,
            wire: None,
            // The task takes it over even if the attempt is cancelled before it has read the store.
            profile: known.clone().unwrap_or_default(),
            known,
        }
    }

    /// Connects within the entry's `connect_timeout`. `cancelled` ends the attempt early.
    pub(super) async fn run(mut self, cancelled: oneshot::Receiver<()>) -> AttemptOutcome {
        let limit = self.limit().await.min(MAX_TIMEOUT);
        self.options.connect_timeout = limit;
        let deadline = Instant::now() + limit;
        let connected = tokio::select! {
            biased;
            _ = cancelled => Some(Err(ConnectError::Cancelled)),
            result = timeout_at(deadline, self.connect(deadline)) => result.ok(),
        };
        let result = match connected {
            Some(result) => result,
            None => Err(self
                .failed(messages::timed_out(self.step, limit), Retry::Soon)
                .await),
        };
        self.status
            .record_step_time(self.step, self.step_began.elapsed());
        let flushed = self
            .live_session
            .filter(|_| result.is_err())
            .map(|live_session| {
                live_session.close();
                live_session.flushed()
            });
        AttemptOutcome {
            process: self.process,
            flushed: self.stopping.or(flushed),
            profile: self.profile,
            result,
        }
    }

    /// The attempt's deadline: longer if a package runner may have to install the server first.
    async fn limit(&mut self) -> Duration {
        let usual = self.options.connect_timeout;
        let is_first = match self.config.first_connect {
            Some(_) => self.launch_store.clone().profile().await.is_new(),
            None => false,
        };
        self.status
            .update_quietly(|snapshot| snapshot.is_first_start = is_first);
        self.config
            .first_connect
            .filter(|_| is_first)
            .map_or(usual, |first| first.max(usual))
    }

    async fn connect(&mut self, deadline: Instant) -> Result<Connected, ConnectError> {
        let live_session = self.open(deadline).await?;
        self.live_session = Some(live_session.clone());
        self.enter(ConnectStep::List);
        let listed = run_until_exit(&mut self.process, live_session.offerings()).await;
        let offerings = match listed {
            Ok(Ok(offerings)) => without_secrets(self.redactor.as_ref(), offerings),
            Ok(Err(RequestFault::Closed(reason))) => return Err(self.ended(&reason).await),
            Ok(Err(RequestFault::Transport(TransportFault::NeedsLogin(needed)))) => {
                return Err(self.needs_login(needed));
            }
            Ok(Err(fault)) => {
                let retry = if let RequestFault::Transport(fault) = &fault {
                    when_to_retry(fault)
                } else {
                    Retry::Soon
                };
                return Err(self
                    .failed(
                        format!("connected, but listing its tools failed: {fault}"),
                        retry,
                    )
                    .await);
            }
            Err(exit) => return Err(self.exited(exit).await),
        };
        match check_offerings(
            &self.config,
            live_session.hello().declares_extension(),
            &offerings,
        ) {
            Ok(()) => Ok(Connected {
                live_session,
                wire: self.wire,
                offerings,
                redactor: self.redactor.take(),
            }),
            Err(Failure { fact, retry }) => Err(self.failed(fact, retry).await),
        }
    }

    /// Starts the server and opens a session; tries other approaches after a refusal.
    async fn open(&mut self, deadline: Instant) -> Result<Arc<dyn LiveSession>, ConnectError> {
        // The store is read while the process starts.
        let endpoint = self.endpoint.clone();
        let (profile, started_server) =
            tokio::join!(self.launch_store.clone().profile(), endpoint.start());
        self.profile = self.known.take().unwrap_or(profile);
        let mut started_server = started_server;
        let mut approach = Approach::first(self.options.protocol, self.profile.first_era());
        loop {
            let started = match started_server {
                Ok(started) => started,
                Err(Failure { fact, retry }) => return Err(self.failed(fact, retry).await),
            };
            self.started(started.process, started.unset);
            self.redactor = started.redactor;
            self.enter(ConnectStep::Handshake);
            let options = self.options_for(approach, deadline);
            self.status
                .update_quietly(|snapshot| snapshot.deviations = options.deviations.clone());
            let opened = run_until_exit(&mut self.process, started.opener.open(options)).await;
            drop(started.opener);
            let fault = match opened {
                Ok(Ok(OpenedSession { live_session, wire })) => {
                    self.wire = wire;
                    return Ok(live_session);
                }
                Ok(Err(fault)) => fault,
                Err(exit) => return Err(self.exited(exit).await),
            };
            let Some(next) = endpoint.next_approach(approach, &fault) else {
                return Err(self.refused(fault).await);
            };
            approach = next;
            if let Some(process) = self.process.take() {
                // In a field, because the attempt may be cancelled meanwhile.
                self.stopping.insert(process.stop()).await;
                self.stopping = None;
            }
            self.enter(endpoint.first_step());
            started_server = endpoint.start().await;
        }
    }

    fn started(&mut self, process: Option<Box<dyn ServerProcess>>, unset: Vec<(String, String)>) {
        let pid = process.as_ref().map(|process| process.pid());
        self.process = process;
        self.status.update_quietly(|snapshot| {
            snapshot.pid = pid;
            snapshot.started = Some(SystemTime::now());
            snapshot.unset = unset;
        });
    }

    fn enter(&mut self, step: ConnectStep) {
        let now = Instant::now();
        self.status
            .record_step_time(self.step, now - self.step_began);
        (self.step, self.step_began) = (step, now);
        self.status.set_step(step);
    }

    fn options_for(&self, approach: Approach, deadline: Instant) -> OpenOptions {
        let mut options = self.options.clone();
        options.protocol = approach.protocol;
        options.known_era = approach.known_era;
        options.deviations = DeviationCounter::default();
        options.redactor = self.redactor.clone().unwrap_or_default();
        options.connect_timeout = deadline.saturating_duration_since(Instant::now());
        if options.asks == Asks::Auto && self.profile.asks {
            options.asks = Asks::Yes;
        }
        options
    }

    async fn refused(&mut self, fault: OpenFault) -> ConnectError {
        let retry = match &fault {
            OpenFault::Transport(fault) => when_to_retry(fault),
            _ => Retry::Soon,
        };
        let is_outage = matches!(&fault, OpenFault::Transport(fault) if is_outage(fault));
        let fact = match fault {
            OpenFault::Channel(reason) => return self.ended(&reason).await,
            OpenFault::Timeout(_) => messages::timed_out(self.step, self.options.connect_timeout),
            OpenFault::ProtocolViolation(reason) => {
                messages::ended_during(self.step, &reason, None)
            }
            OpenFault::NeedsLogin(needed) => return self.needs_login(needed),
            OpenFault::Transport(fault) => messages::handshake_fault(&fault),
            OpenFault::WrongTransport(said) => format!("answered the handshake with {said}"),
            OpenFault::Refused(_) | OpenFault::RefusedAfterProbe => fault.to_string(),
        };
        match self.failed(fact, retry).await {
            ConnectError::Failed { failure, .. } if is_outage => ConnectError::Failed {
                failure,
                forget_era: false,
            },
            error => error,
        }
    }

    fn needs_login(&self, needed: NeedsLogin) -> ConnectError {
        ConnectError::NeedsLogin(NeedsLogin {
            reason: redacted(self.redactor.as_ref(), needed.reason),
            ..needed
        })
    }

    /// The channel ended; waits briefly for the process's exit status.
    async fn ended(&mut self, reason: &str) -> ConnectError {
        let until = Instant::now() + END_GRACE_PERIOD;
        let exit = match &mut self.process {
            Some(process) => timeout_at(until, process.exited()).await.ok(),
            None => None,
        };
        self.failed_until(
            until,
            messages::ended_during(self.step, reason, exit),
            Retry::Soon,
        )
        .await
    }

    async fn exited(&mut self, exit: Exit) -> ConnectError {
        let until = Instant::now() + END_GRACE_PERIOD;
        self.failed_until(
            until,
            messages::ended_during(self.step, "", Some(exit)),
            Retry::Soon,
        )
        .await
    }

    async fn failed(&mut self, fact: String, retry: Retry) -> ConnectError {
        self.failed_until(Instant::now(), fact, retry).await
    }

    /// Adds the last lines of stderr to `fact`, waiting for them until `until`.
    async fn failed_until(&mut self, until: Instant, fact: String, retry: Retry) -> ConnectError {
        let last_stderr = match &self.process {
            Some(process) => process.last_stderr(until).await,
            None => Vec::new(),
        };
        let fact = messages::with_stderr(&redacted(self.redactor.as_ref(), fact), &last_stderr);
        let is_free = self.options.protocol == Protocol::Auto;
        let forget_era =
            is_free && self.step == ConnectStep::Handshake && self.profile.first_era().is_some();
        ConnectError::Failed {
            failure: Failure { fact, retry },
            forget_era,
        }
    }
}

/// How to open a session: the entry's protocol and the remembered era, minus what was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Approach {
    protocol: Protocol,
    known_era: Option<Era>,
}

impl Approach {
    fn first(protocol: Protocol, known_era: Option<Era>) -> Self {
        Self {
            protocol,
            known_era: known_era.filter(|_| protocol == Protocol::Auto),
        }
    }

    /// What to try with a new process after `fault`. Terminates, because each approach assumes less
    /// than the previous one.
    pub(super) fn after(self, fault: &OpenFault) -> Option<Self> {
        match (fault, self) {
            (
                OpenFault::RefusedAfterProbe,
                Self {
                    protocol: Protocol::Auto,
                    ..
                },
            ) => Some(Self {
                protocol: Protocol::Legacy,
                known_era: None,
            }),
            // The server may have changed its era since it was remembered.
            (
                OpenFault::Refused(_),
                Self {
                    known_era: Some(_), ..
                },
            ) => Some(Self {
                known_era: None,
                ..self
            }),
            _ => None,
        }
    }
}

/// Whether the server was not reached, whatever its era.
fn is_outage(fault: &TransportFault) -> bool {
    match fault {
        TransportFault::NotSent(_) => true,
        TransportFault::Status { status, .. } => matches!(status, 408 | 429 | 502..=599),
        TransportFault::Lost(_) | TransportFault::NeedsLogin(_) => false,
    }
}

/// Honours Retry-After if the server sent it.
fn when_to_retry(fault: &TransportFault) -> Retry {
    match fault {
        TransportFault::Status {
            retry_after: Some(wanted),
            ..
        } => Retry::After(*wanted),
        _ => Retry::Soon,
    }
}

/// Runs `work` until the process ends, then briefly longer, to read what the process wrote before.
async fn run_until_exit<T>(
    process: &mut Option<Box<dyn ServerProcess>>,
    work: impl Future<Output = T>,
) -> Result<T, Exit> {
    let Some(process) = process else {
        return Ok(work.await);
    };
    tokio::pin!(work);
    let exit = tokio::select! {
        biased;
        done = &mut work => return Ok(done),
        exit = process.exited() => exit,
    };
    // Another process may keep the pipes open.
    timeout(END_GRACE_PERIOD, work).await.map_err(|_| exit)
}

pub(super) fn redacted(redactor: Option<&Redactor>, text: String) -> String {
    match redactor {
        Some(redactor) => redactor.redact(&text).into_owned(),
        None => text,
    }
}

/// Redacts errors of lists and withheld tools, which are shown. Definitions stay as the server sent
/// them.
pub(super) fn without_secrets(redactor: Option<&Redactor>, mut offerings: Offerings) -> Offerings {
    for (_, fault) in &mut offerings.faults {
        *fault = redacted(redactor, std::mem::take(fault));
    }
    for (tool, reason) in &mut offerings.withheld {
        *tool = ToolName::new(&redacted(redactor, tool.as_wire().to_owned()));
        *reason = redacted(redactor, std::mem::take(reason));
    }
    offerings
}

#[cfg(test)]
mod tests;
