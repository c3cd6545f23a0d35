//! A live connection: notices its end, and lists again when the server says that a list changed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::connect::{ENDS_TOGETHER, redacted, without_secrets};
use super::endpoint::{LiveSession, ServerProcess};
use super::list_refresh::ListRefresh;
use super::messages;
use crate::catalog::Offerings;
use crate::config::{ServerConfig, StopMethod};
use crate::future::BoxFuture;
use crate::launch::Exit;
use crate::secret::Redactor;
use crate::session::{Era, RequestFault};

/// One session, and its process if it has one.
pub(super) struct LiveConnection {
    link: Arc<dyn LiveSession>,
    process: Option<Box<dyn ServerProcess>>,
    redactor: Option<Redactor>,
    lists: ListRefresh,
    /// How long a listing may take.
    limit: Duration,
    /// How long closing waits for the session's last messages; `None` waits for all of them.
    patience: Option<Duration>,
    /// [`next`](Self::next) also reports when no call is in flight.
    tells_when_idle: bool,
}

/// Where the dialect's program closes at once: the time for the session's last messages.
const AT_ONCE: Duration = Duration::from_millis(100);

/// What a connection reports to its task.
pub(super) enum ConnectionEvent {
    /// The connection ended.
    Ended(ConnectionEnd),
    /// The server said that a list changed; this is what it offers now.
    Relisted(Result<Offerings, RequestFault>),
    /// No call is in flight, and the task asked to know.
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
        link: Arc<dyn LiveSession>,
        process: Option<Box<dyn ServerProcess>>,
        redactor: Option<Redactor>,
        config: &ServerConfig,
    ) -> Self {
        let patience = (config.dialect.profile().stop == StopMethod::Terminate).then_some(AT_ONCE);
        Self {
            link,
            process,
            redactor,
            lists: ListRefresh::default(),
            limit: config.timeouts.connect,
            patience,
            tells_when_idle: false,
        }
    }

    /// Redacts the secrets of this launch.
    pub(super) fn redactor(&self) -> Redactor {
        self.redactor.clone().unwrap_or_default()
    }

    pub(super) fn asks(&self) -> bool {
        self.link.asks()
    }

    pub(super) fn era(&self) -> Era {
        self.link.hello().era()
    }

    pub(super) fn declares_extension(&self) -> bool {
        self.link.hello().declares_extension()
    }

    pub(super) fn has_process(&self) -> bool {
        self.process.is_some()
    }

    /// Whether no call is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.link.is_idle()
    }

    /// Whether the server has asked something during a call.
    pub(super) fn was_questioned(&self) -> bool {
        self.link.was_questioned()
    }

    /// From now on [`next`](Self::next) also reports when no call is in flight.
    pub(super) fn tell_when_idle(&mut self) {
        self.tells_when_idle = true;
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> ConnectionEvent {
        loop {
            let Self {
                link,
                process,
                redactor,
                lists,
                limit,
                tells_when_idle,
                ..
            } = self;
            tokio::select! {
                biased;
                end = ended(&**link, process) => {
                    return ConnectionEvent::Ended(ConnectionEnd { reason: redacted(redactor.as_ref(), end.reason), ..end });
                }
                listed = lists.next() => match listed {
                    Some(listed) => {
                        let clean = |text: &str| redacted(redactor.as_ref(), text.to_owned());
                        let listed = listed.map_err(|fault| fault.redacted(clean));
                        return ConnectionEvent::Relisted(listed.map(|offerings| without_secrets(redactor.as_ref(), offerings)));
                    }
                    None => lists.run(list(link.clone(), *limit)),
                },
                () = link.list_changed() => lists.changed(),
                () = link.idle(), if *tells_when_idle => return ConnectionEvent::Idle,
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
        self.link.close();
        let (farewell, patience) = (self.link.farewell(), self.patience);
        let farewell: BoxFuture<'static, ()> = Box::pin(async move {
            match patience {
                // The last messages are still written in the background while the process lives.
                Some(patience) => _ = timeout(patience, farewell).await,
                None => farewell.await,
            }
        });
        close_connection(self.process, Some(farewell))
    }
}

/// Stops a process, if there is one, and waits for the session to close. The channel is closed by
/// now; both are bounded.
pub(super) fn close_connection(
    process: Option<Box<dyn ServerProcess>>,
    farewell: Option<BoxFuture<'static, ()>>,
) -> BoxFuture<'static, ()> {
    match (process, farewell) {
        (Some(process), Some(farewell)) => {
            let stopped = process.stop();
            Box::pin(async {
                tokio::join!(stopped, farewell);
            })
        }
        (Some(process), None) => process.stop(),
        (None, Some(farewell)) => farewell,
        (None, None) => Box::pin(async {}),
    }
}

/// Waits for the channel or the process to end, then a moment for the other, so that both are
/// reported.
async fn ended(
    link: &dyn LiveSession,
    process: &mut Option<Box<dyn ServerProcess>>,
) -> ConnectionEnd {
    let Some(process) = process else {
        return ConnectionEnd {
            reason: link.closed().await,
            exit: None,
            last_stderr: Vec::new(),
        };
    };
    let first = tokio::select! {
        biased;
        reason = link.closed() => Err(reason),
        exit = process.exited() => Ok(exit),
    };
    let until = Instant::now() + ENDS_TOGETHER;
    let (reason, exit) = match first {
        // Another process may keep the pipe open; what the server itself wrote has been read by
        // then.
        Ok(exit) => (
            timeout_at(until, link.closed())
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

async fn list(link: Arc<dyn LiveSession>, limit: Duration) -> Result<Offerings, RequestFault> {
    timeout(limit, link.offerings())
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
