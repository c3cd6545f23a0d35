//! A live connection: detects its end, and lists again when the server reports a change.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::connect::{END_GRACE_PERIOD, redacted, without_secrets};
use super::current_config::CurrentConfig;
use super::endpoint::{LiveSession, ServerProcess};
use super::list_refresh::ListRefresh;
use super::messages;
use crate::catalog::Offerings;
use crate::config::StopMethod;
use crate::future::BoxFuture;
use crate::launch::Exit;
use crate::secret::Redactor;
use crate::session::{Era, RequestFault};

/// One session, and its process if it has one.
pub(super) struct LiveConnection {
    live_session: Arc<dyn LiveSession>,
    process: Option<Box<dyn ServerProcess>>,
    redactor: Option<Redactor>,
    lists: ListRefresh,
    /// Has the time limit of a listing.
    config: CurrentConfig,
    /// How long closing waits for the session's last messages; `None` waits for all of them.
    close_timeout: Option<Duration>,
    /// Whether [`next`](Self::next) also reports when no call is in flight.
    reports_idle: bool,
    /// Once the channel or the process has ended: until when the other is waited for.
    end_deadline: Option<Instant>,
}

/// The limit for the session's last messages in dialects whose program closes immediately.
const IMMEDIATE_CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// What a connection reports to its task.
pub(super) enum ConnectionEvent {
    /// The connection ended.
    Ended(ConnectionEnd),
    /// The server reported a changed list; this is the new listing.
    Relisted(Result<Offerings, RequestFault>),
    /// No call is in flight. Only reported after
    /// [`report_when_idle`](LiveConnection::report_when_idle).
    Idle,
}

/// How a connection ended; safe to show.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConnectionEnd {
    /// Why the channel ended.
    pub(super) reason: String,
    /// The process's exit status, if known.
    pub(super) exit: Option<Exit>,
    pub(super) last_stderr: Vec<String>,
}

impl LiveConnection {
    pub(super) fn new(
        live_session: Arc<dyn LiveSession>,
        process: Option<Box<dyn ServerProcess>>,
        redactor: Option<Redactor>,
        config: CurrentConfig,
    ) -> Self {
        let close_timeout = (config.get().dialect.profile().stop == StopMethod::Terminate)
            .then_some(IMMEDIATE_CLOSE_TIMEOUT);
        Self {
            live_session,
            process,
            redactor,
            lists: ListRefresh::default(),
            config,
            close_timeout,
            reports_idle: false,
            end_deadline: None,
        }
    }

    /// Redacts the secrets of this launch.
    pub(super) fn redactor(&self) -> Redactor {
        self.redactor.clone().unwrap_or_default()
    }

    pub(super) fn asks(&self) -> bool {
        self.live_session.asks()
    }

    pub(super) fn era(&self) -> Era {
        self.live_session.hello().era()
    }

    pub(super) fn declares_extension(&self) -> bool {
        self.live_session.hello().declares_extension()
    }

    pub(super) fn has_process(&self) -> bool {
        self.process.is_some()
    }

    /// Whether no call is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.live_session.is_idle()
    }

    /// Whether the server has asked a question during a call.
    pub(super) fn has_asked(&self) -> bool {
        self.live_session.has_asked()
    }

    /// Makes [`next`](Self::next) also report when no call is in flight.
    pub(super) fn report_when_idle(&mut self) {
        self.reports_idle = true;
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> ConnectionEvent {
        loop {
            let Self {
                live_session,
                process,
                redactor,
                lists,
                config,
                reports_idle,
                end_deadline,
                ..
            } = self;
            tokio::select! {
                biased;
                end = ended(&**live_session, process, end_deadline) => {
                    return ConnectionEvent::Ended(ConnectionEnd { reason: redacted(redactor.as_ref(), end.reason), ..end });
                }
                listed = lists.next() => match listed {
                    Some(listed) => {
                        let clean = |text: &str| redacted(redactor.as_ref(), text.to_owned());
                        let listed = listed.map_err(|fault| fault.redacted(clean));
                        return ConnectionEvent::Relisted(listed.map(|offerings| without_secrets(redactor.as_ref(), offerings)));
                    }
                    None => lists.run(list(live_session.clone(), config.get().timeouts.connect)),
                },
                () = live_session.list_changed() => lists.changed(),
                () = live_session.idle(), if *reports_idle => return ConnectionEvent::Idle,
            }
        }
    }

    /// Stops the process. A session without a process stays open for the calls in flight.
    pub(super) fn detach(self) -> BoxFuture<'static, ()> {
        if self.process.is_some() {
            self.close()
        } else {
            close_connection(None, None)
        }
    }

    /// Closes the session and stops the process.
    pub(super) fn close(self) -> BoxFuture<'static, ()> {
        self.live_session.close();
        let (flushed, close_timeout) = (self.live_session.flushed(), self.close_timeout);
        let flushed: BoxFuture<'static, ()> = Box::pin(async move {
            match close_timeout {
                // The last messages are still written in the background while the process lives.
                Some(close_timeout) => _ = timeout(close_timeout, flushed).await,
                None => flushed.await,
            }
        });
        close_connection(self.process, Some(flushed))
    }
}

/// Stops the process, if there is one, and waits for the session to send its last messages. The
/// channel is closed before; both waits are bounded.
pub(super) fn close_connection(
    process: Option<Box<dyn ServerProcess>>,
    flushed: Option<BoxFuture<'static, ()>>,
) -> BoxFuture<'static, ()> {
    match (process, flushed) {
        (Some(process), Some(flushed)) => {
            let stopped = process.stop();
            Box::pin(async {
                tokio::join!(stopped, flushed);
            })
        }
        (Some(process), None) => process.stop(),
        (None, Some(flushed)) => flushed,
        (None, None) => Box::pin(async {}),
    }
}

/// Waits for the channel or the process to end, then briefly for the other, so that both are
/// reported. Cancel-safe: the deadline of the second wait stays.
async fn ended(
    live_session: &dyn LiveSession,
    process: &mut Option<Box<dyn ServerProcess>>,
    deadline: &mut Option<Instant>,
) -> ConnectionEnd {
    let Some(process) = process else {
        return ConnectionEnd {
            reason: live_session.closed().await,
            exit: None,
            last_stderr: Vec::new(),
        };
    };
    let first = tokio::select! {
        biased;
        reason = live_session.closed() => Err(reason),
        exit = process.exited() => Ok(exit),
    };
    let until = *deadline.get_or_insert_with(|| Instant::now() + END_GRACE_PERIOD);
    let (reason, exit) = match first {
        // Another process may keep the pipe open; the server's own output has been read by then.
        Ok(exit) => (
            timeout_at(until, live_session.closed())
                .await
                .unwrap_or_else(|_| "its process ended".to_owned()),
            Some(exit),
        ),
        Err(reason) => (reason, timeout_at(until, process.exited()).await.ok()),
    };
    ConnectionEnd {
        reason,
        exit,
        last_stderr: process.last_stderr(until).await,
    }
}

async fn list(
    live_session: Arc<dyn LiveSession>,
    limit: Duration,
) -> Result<Offerings, RequestFault> {
    timeout(limit, live_session.offerings())
        .await
        .unwrap_or(Err(RequestFault::Timeout {
            after: limit,
            total: true,
        }))
}

impl ConnectionEnd {
    /// The message for the calls that were in flight.
    pub(super) fn message_for_calls(&self) -> String {
        messages::connection_end(&self.reason, self.exit, &self.last_stderr)
    }

    /// The message for the server's state.
    pub(super) fn fact(&self) -> String {
        match self.exit {
            Some(exit) => format!("lost the connection: its process {exit}"),
            None => format!("lost the connection: {}", self.reason),
        }
    }
}
