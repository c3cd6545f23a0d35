//! One spinner on stderr for long work: on a terminal only, away while a question is on the screen.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard::Host;
use switchboard::caller::Progress;
use switchboard::server::{ServerHandle, State};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::arguments::Options;
use crate::view::table;

/// Work that is done sooner shows nothing.
const PATIENCE: Duration = Duration::from_millis(150);
const TURN: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const ERASE: &str = "\r\x1b[2K";

struct Shown {
    /// What is being done; shown again after a question.
    message: Option<String>,
    /// The spinner is on the screen.
    drawn: bool,
    frame: usize,
    /// A thread turns the spinner, until there is no message.
    turning: bool,
    /// A question has the screen.
    paused: bool,
    /// Lines that wait for the question to go.
    held: Vec<String>,
}

static SHOWN: Mutex<Shown> = Mutex::new(Shown {
    message: None,
    drawn: false,
    frame: 0,
    turning: false,
    paused: false,
    held: Vec::new(),
});

/// Shows what is being done, if anybody is looking.
pub(crate) fn show(message: String) {
    let mut shown = shown();
    shown.message = Some(message);
    shown.draw();
}

/// Takes the spinner away.
pub(crate) fn clear() {
    let mut shown = shown();
    shown.message = None;
    shown.erase();
}

impl Shown {
    fn draw(&mut self) {
        let Some(message) = self
            .message
            .as_ref()
            .filter(|_| !self.paused && std::io::stderr().is_terminal())
        else {
            return;
        };
        // Room for the `^C` that a terminal echoes: on the next line it would keep the spinner from
        // being erased.
        let columns = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        let message = table::cut(message, columns.saturating_sub(6).max(10));
        let message = crate::output::isolated(&message);
        let _ = write!(
            std::io::stderr(),
            "{ERASE}{} {message}",
            FRAMES[self.frame % FRAMES.len()]
        );
        self.drawn = true;
        if !self.turning {
            self.turning = std::thread::Builder::new()
                .name("spinner".into())
                .spawn(turn)
                .is_ok();
        }
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(std::io::stderr(), "{ERASE}");
        }
    }
}

fn turn() {
    loop {
        std::thread::sleep(TURN);
        let mut shown = shown();
        if shown.message.is_none() {
            shown.turning = false;
            return;
        }
        shown.frame += 1;
        shown.draw();
    }
}

/// Does the work, and says what is being done once that takes a while.
pub(crate) async fn during<T>(message: String, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    let done = tokio::select! {
        done = &mut work => done,
        () = tokio::time::sleep(PATIENCE) => {
            // What the work says of itself is worth more.
            if shown().message.is_none() {
                show(message);
            }
            work.await
        }
    };
    clear();
    done
}

/// Keeps the screen free until the guard is dropped.
pub(crate) fn pause() -> Paused {
    let mut shown = shown();
    shown.erase();
    shown.paused = true;
    Paused
}

/// See [`pause`].
pub(crate) struct Paused;

impl Drop for Paused {
    fn drop(&mut self) {
        let mut shown = shown();
        shown.paused = false;
        shown
            .held
            .drain(..)
            .for_each(|line| crate::output::line_on_stderr(&line));
        shown.draw();
    }
}

/// One line on stderr, with the spinner out of the way; after the question, while one has the
/// screen.
pub(crate) fn line(line: String) {
    let mut shown = shown();
    if shown.paused {
        shown.held.push(line);
        return;
    }
    shown.erase();
    crate::output::line_on_stderr(&line);
    shown.draw();
}

/// Writes to stderr with the spinner out of the way.
pub(crate) fn suspended(write: impl FnOnce()) {
    let mut shown = shown();
    shown.erase();
    write();
    shown.draw();
}

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long servers are waited for: as long as was said; else until they settle where somebody is
/// looking, who can end it; else ten seconds, and longer for one that may be being installed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimit {
    began: Instant,
    said: Option<Duration>,
    is_watched: bool,
}

/// How long servers are waited for where nobody is looking.
const UNWATCHED: Duration = Duration::from_secs(10);

impl WaitLimit {
    pub(crate) fn start(options: &Options) -> Self {
        Self {
            began: Instant::now(),
            said: options.wait,
            is_watched: std::io::stderr().is_terminal(),
        }
    }

    /// What is left for one server. Its own deadline for connecting holds in any case.
    pub(crate) fn left(&self, server: &ServerHandle) -> Duration {
        let most = server.config.longest_connect() + Duration::from_secs(1);
        match self.said {
            Some(said) => said.saturating_sub(self.began.elapsed()),
            None if self.is_watched || may_be_installing(server) => most,
            None => UNWATCHED.saturating_sub(self.began.elapsed()).min(most),
        }
    }
}

/// Whether a package runner may be installing it.
fn may_be_installing(server: &ServerHandle) -> bool {
    let snapshot = server.snapshot();
    snapshot.is_first_start && matches!(snapshot.state, State::Connecting { .. })
}

/// Waits until every server is settled, or for as long as the limit says, naming those that are not
/// yet.
pub(crate) async fn settle(host: &Host, limit: WaitLimit) {
    let mut waiting = JoinSet::new();
    for server in host.servers().iter() {
        let server = server.clone();
        waiting.spawn(async move { settle_one(&server, limit).await });
    }
    let all = waiting.join_all();
    tokio::pin!(all);
    let mut tick = tokio::time::interval_at(Instant::now() + PATIENCE, Duration::from_millis(200));
    loop {
        tokio::select! {
            _ = &mut all => break,
            _ = tick.tick() => show(connecting(host)),
        }
    }
    clear();
}

async fn settle_one(server: &ServerHandle, limit: WaitLimit) {
    let settled = server.settled();
    tokio::pin!(settled);
    // That it is being installed may turn out while it is waited for.
    let mut look = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            () = &mut settled => return,
            _ = look.tick() => if limit.left(server).is_zero() { return },
        }
    }
}

fn connecting(host: &Host) -> String {
    let servers = host.servers();
    let late: Vec<_> = servers
        .iter()
        .filter_map(|server| match &server.snapshot().state {
            State::Connecting { step, .. } => {
                Some(format!("{} ({})", server.config.name, doing(server, step)))
            }
            _ => None,
        })
        .collect();
    match late.as_slice() {
        [only] => format!("connecting {only}"),
        _ => format!(
            "connecting {} of {} servers: {}",
            late.len(),
            servers.len(),
            late.join(", ")
        ),
    }
}

/// What a server that is not there yet is doing.
pub(crate) fn doing(server: &ServerHandle, step: &str) -> String {
    match server
        .config
        .endpoint
        .package_runner()
        .filter(|_| may_be_installing(server))
    {
        Some(runner) => format!("first start, {runner} may be installing it"),
        None => step.to_owned(),
    }
}

/// A call's own report: `step 3 of 10: reading`.
pub(crate) fn of_call(progress: &Progress) -> String {
    let share = match progress.total {
        Some(total) if total > 0.0 => format!("{} of {}", progress.progress, total),
        _ => format!("{}", progress.progress),
    };
    let words = progress
        .message
        .as_ref()
        .map(|message| format!(": {}", message.for_terminal_line()))
        .unwrap_or_default();
    format!(
        "{}/{} {share}{words}",
        progress.id.server,
        progress.id.tool.untrusted().for_terminal_line()
    )
}
