//! A connection in use: notices its end, and lists again when the server says that a list changed (F14).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::connect::{ENDS_TOGETHER, exit_of, redacted};
use super::reach::{Link, Process};
use super::sentence;
use crate::caller::Answering;
use crate::catalog::Offerings;
use crate::launch::Exit;
use crate::secret::Redactor;
use crate::session::RequestFault;

/// From the first change to the listing: what changes together is listed together.
const QUIET: Duration = Duration::from_millis(200);

/// One session, and the process it speaks to if it has one.
pub(super) struct Live {
    link: Arc<dyn Link>,
    process: Option<Box<dyn Process>>,
    redactor: Option<Redactor>,
    lists: Lists,
    /// How long a listing may take.
    limit: Duration,
}

/// What a task learns from a connection.
pub(super) enum Happening {
    /// It is over.
    Ended(End),
    /// The server said that a list changed; this is what it offers now.
    Relisted(Result<Offerings, RequestFault>),
}

/// How a connection ended: safe to show.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Of the channel.
    pub(super) reason: String,
    /// Of the process.
    pub(super) exit: Option<Exit>,
    pub(super) last_words: Vec<String>,
}

/// One listing at a time; changes that come meanwhile lead to one more.
#[derive(Default)]
struct Lists {
    due: Option<Instant>,
    running: Option<Answering<'static, Result<Offerings, RequestFault>>>,
}

impl Live {
    pub(super) fn new(
        link: Arc<dyn Link>,
        process: Option<Box<dyn Process>>,
        redactor: Option<Redactor>,
        limit: Duration,
    ) -> Self {
        Self { link, process, redactor, lists: Lists::default(), limit }
    }

    pub(super) fn asks(&self) -> bool {
        self.link.asks()
    }

    /// Waits for the next thing to know. Cancel-safe.
    pub(super) async fn next(&mut self) -> Happening {
        loop {
            let Self { link, process, redactor, lists, limit } = self;
            tokio::select! {
                biased;
                (reason, exit) = ended(&**link, process) => {
                    let last_words = process.as_ref().map(|process| process.last_words()).unwrap_or_default();
                    return Happening::Ended(End { reason: redacted(redactor.as_ref(), reason), exit, last_words });
                }
                listed = lists.next() => match listed {
                    Some(listed) => return Happening::Relisted(listed),
                    None => lists.run(list(link.clone(), *limit)),
                },
                () = link.list_changed() => lists.changed(),
            }
        }
    }

    /// Closes the session and ends the process.
    pub(super) fn leave(self) -> Answering<'static, ()> {
        self.link.close();
        leave(self.process)
    }
}

/// Ends a process, if there is one. Its channel is closed by now.
pub(super) fn leave(process: Option<Box<dyn Process>>) -> Answering<'static, ()> {
    match process {
        Some(process) => process.stop(),
        None => Box::pin(async {}),
    }
}

/// Waits for the channel or the process to end, then a moment for the other: whichever is seen first, the end is told whole.
async fn ended(link: &dyn Link, process: &mut Option<Box<dyn Process>>) -> (String, Option<Exit>) {
    let exit = match process {
        Some(process) => tokio::select! {
            biased;
            reason = link.closed() => Err(reason),
            exit = process.exited() => Ok(exit),
        },
        None => Err(link.closed().await),
    };
    match exit {
        Ok(exit) => {
            // A process that was left behind may hold the pipe open; what the server itself has written is read by then.
            let reason = timeout(ENDS_TOGETHER, link.closed()).await;
            (reason.unwrap_or_else(|_| "its process ended".to_owned()), Some(exit))
        }
        Err(reason) => (reason, exit_of(process).await),
    }
}

async fn list(link: Arc<dyn Link>, limit: Duration) -> Result<Offerings, RequestFault> {
    timeout(limit, link.offerings()).await.unwrap_or(Err(RequestFault::Timeout { after: limit, total: true }))
}

impl Lists {
    /// The first of many changes starts the clock and later ones do not move it, so a storm cannot put the listing off for ever.
    fn changed(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + QUIET);
    }

    /// The answer of a running listing, or `None` when it is time to run one.
    async fn next(&mut self) -> Option<Result<Offerings, RequestFault>> {
        match (&mut self.running, self.due) {
            (Some(running), _) => {
                let listed = running.await;
                self.running = None;
                Some(listed)
            }
            (None, Some(due)) => {
                sleep_until(due).await;
                None
            }
            (None, None) => std::future::pending().await,
        }
    }

    fn run(&mut self, listing: impl Future<Output = Result<Offerings, RequestFault>> + Send + 'static) {
        self.due = None;
        self.running = Some(Box::pin(listing));
    }
}

impl End {
    /// For the calls that were under way.
    pub(super) fn death(&self) -> String {
        sentence::death(&self.reason, self.exit, &self.last_words)
    }

    /// For the state that follows.
    pub(super) fn fact(&self) -> String {
        match self.exit {
            Some(exit) => format!("lost the connection: its process {exit}"),
            None => format!("lost the connection: {}", self.reason),
        }
    }
}
