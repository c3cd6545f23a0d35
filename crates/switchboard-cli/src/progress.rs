//! The spinner on stderr during long work: only on a terminal, hidden while a question is on the
//! screen.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard::Host;
use switchboard::caller::Progress;
use switchboard::server::{ConnectStep, ServerHandle, State};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::arguments::Options;
use crate::terminal::tty;
use crate::view::table;

/// Work that takes less shows no spinner.
const SPINNER_DELAY: Duration = Duration::from_millis(150);
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const ERASE: &str = "\r\x1b[2K";

struct Spinner {
    /// The current activity; shown again after a question.
    message: Option<String>,
    /// The spinner is on the screen.
    is_drawn: bool,
    frame: usize,
    /// A thread animates the spinner until there is no message.
    animated: bool,
    /// A question is on the screen.
    is_paused: bool,
    /// Lines to print after the question.
    waiting_lines: Vec<String>,
    /// When the activity goes on, which is counted down.
    resumes_at: Option<Instant>,
    /// What is being typed during the activity.
    typed: String,
    /// Gets the lines in place of stderr while a line editor has the terminal.
    line_editor: Option<SyncSender<String>>,
}

static SPINNER: Mutex<Spinner> = Mutex::new(Spinner {
    message: None,
    is_drawn: false,
    frame: 0,
    animated: false,
    is_paused: false,
    waiting_lines: Vec::new(),
    resumes_at: None,
    typed: String::new(),
    line_editor: None,
});

/// Shows the current activity, if stderr is a terminal.
pub(crate) fn show(message: String) {
    let mut spinner = spinner();
    spinner.message = Some(message);
    spinner.resumes_at = None;
    spinner.draw();
}

/// Shows what happens after a pause, with the seconds until then.
pub(crate) fn show_countdown(message: String, pause: Duration) {
    let mut spinner = spinner();
    spinner.message = Some(message);
    spinner.resumes_at = Some(Instant::now() + pause);
    spinner.draw();
}

/// Shows what is being typed beside the current activity.
pub(crate) fn show_typed(text: &str) {
    let mut spinner = spinner();
    text.clone_into(&mut spinner.typed);
    spinner.draw();
}

/// While a line editor has the terminal, it prints the lines: above what is being typed.
pub(crate) fn set_line_editor(lines: Option<SyncSender<String>>) {
    let mut spinner = spinner();
    spinner.erase();
    spinner.line_editor = lines;
}

/// Removes the spinner.
pub(crate) fn clear() {
    let mut spinner = spinner();
    spinner.message = None;
    spinner.erase();
}

impl Spinner {
    fn draw(&mut self) {
        let Some(message) = self
            .message
            .as_ref()
            .filter(|_| !self.is_paused && stderr_moves_the_cursor())
        else {
            return;
        };
        // Leaves room for the `^C` that a terminal echoes: wrapped to the next line, the spinner
        // could not be erased.
        let columns = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        let left = self.resumes_at.map(|at| at - Instant::now());
        let message = match left.filter(|left| !left.is_zero()) {
            Some(left) => &format!("{message} in {} s", left.as_secs_f64().ceil()),
            None => message,
        };
        let message = match self.typed.is_empty() {
            true => message.clone(),
            // The end of what is typed is what changes.
            false => {
                let start = self.typed.char_indices().rev().nth(columns / 2);
                let end = &self.typed[start.map_or(0, |(at, _)| at)..];
                let left = columns.saturating_sub(table::width(end) + 10);
                format!("{} > {end}", table::cut(message, left))
            }
        };
        let message = table::cut(&message, columns.saturating_sub(6).max(10));
        let message = crate::output::isolate_right_to_left(&message);
        let _ = write!(
            std::io::stderr(),
            "{ERASE}{} {message}",
            FRAMES[self.frame % FRAMES.len()]
        );
        self.is_drawn = true;
        if !self.animated {
            self.animated = std::thread::Builder::new()
                .name("spinner".into())
                .spawn(animate)
                .is_ok();
        }
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(std::io::stderr(), "{ERASE}");
        }
    }
}

fn animate() {
    loop {
        std::thread::sleep(FRAME_INTERVAL);
        let mut spinner = spinner();
        if spinner.message.is_none() {
            spinner.animated = false;
            return;
        }
        spinner.frame += 1;
        spinner.draw();
    }
}

/// Runs the work, and shows a message if it takes a while.
pub(crate) async fn with_spinner<T>(message: String, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    let done = tokio::select! {
        done = &mut work => done,
        () = tokio::time::sleep(SPINNER_DELAY) => {
            // A message from the work itself is more precise.
            if spinner().message.is_none() {
                show(message);
            }
            work.await
        }
    };
    clear();
    done
}

/// Whether stderr is a terminal that can erase a line.
fn stderr_moves_the_cursor() -> bool {
    std::io::stderr().is_terminal() && tty::moves_the_cursor()
}

/// Hides the spinner until the guard is dropped.
pub(crate) fn pause() -> Paused {
    let mut spinner = spinner();
    spinner.erase();
    spinner.is_paused = true;
    Paused
}

/// See [`pause`].
pub(crate) struct Paused;

impl Drop for Paused {
    fn drop(&mut self) {
        let mut spinner = spinner();
        spinner.is_paused = false;
        spinner
            .waiting_lines
            .drain(..)
            .for_each(|line| crate::output::line_on_stderr(&line));
        spinner.draw();
    }
}

/// Prints one line on stderr above the spinner; during a question, after it.
pub(crate) fn print_line(line: String) {
    let mut spinner = spinner();
    if spinner.is_paused {
        spinner.waiting_lines.push(line);
        return;
    }
    if let Some(editor) = &spinner.line_editor {
        // A full queue loses the line: the editor prints what came before it first.
        let _ = editor.try_send(crate::output::styled_for_stderr(&line));
        return;
    }
    spinner.erase();
    crate::output::line_on_stderr(&line);
    spinner.draw();
}

/// Writes to stderr with the spinner hidden.
pub(crate) fn with_spinner_hidden(write: impl FnOnce()) {
    let mut spinner = spinner();
    spinner.erase();
    write();
    spinner.draw();
}

fn spinner() -> MutexGuard<'static, Spinner> {
    SPINNER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long to wait for servers: as requested; otherwise until they settle if a person is watching,
/// who can press Ctrl-C; otherwise ten seconds, and longer for one that may be installing packages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimit {
    started_at: Instant,
    requested: Option<Duration>,
    is_interactive: bool,
}

/// The limit if nobody is watching.
const NON_INTERACTIVE_WAIT: Duration = Duration::from_secs(10);

impl WaitLimit {
    pub(crate) fn start(options: &Options) -> Self {
        Self {
            started_at: Instant::now(),
            requested: options.wait,
            is_interactive: std::io::stderr().is_terminal(),
        }
    }

    /// As if nobody was watching: for work that can begin without a slow server.
    pub(crate) fn unattended(options: &Options) -> Self {
        Self {
            is_interactive: false,
            ..Self::start(options)
        }
    }

    /// The time since the wait began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// The remaining time for one server. Its own connect timeout applies in any case.
    pub(crate) fn remaining(&self, server: &ServerHandle) -> Duration {
        let most = server.config.longest_connect() + Duration::from_secs(1);
        match self.requested {
            Some(requested) => requested.saturating_sub(self.started_at.elapsed()),
            None if self.is_interactive || may_be_installing(server) => most,
            None => NON_INTERACTIVE_WAIT
                .saturating_sub(self.started_at.elapsed())
                .min(most),
        }
    }
}

/// Whether a package runner may be installing it.
fn may_be_installing(server: &ServerHandle) -> bool {
    let snapshot = server.snapshot();
    snapshot.is_first_start && matches!(snapshot.state, State::Connecting { .. })
}

/// Waits until every server is settled or the limit is over, and shows which are still connecting.
pub(crate) async fn wait_until_settled(host: &Host, limit: WaitLimit) {
    let mut waiting = JoinSet::new();
    for server in host.servers().iter() {
        let server = server.clone();
        waiting.spawn(async move { wait_for_one(&server, limit).await });
    }
    let all = waiting.join_all();
    tokio::pin!(all);
    let mut tick =
        tokio::time::interval_at(Instant::now() + SPINNER_DELAY, Duration::from_millis(200));
    loop {
        tokio::select! {
            _ = &mut all => break,
            _ = tick.tick() => show(connecting_message(host)),
        }
    }
    clear();
}

async fn wait_for_one(server: &ServerHandle, limit: WaitLimit) {
    let settled = server.wait_until_settled();
    tokio::pin!(settled);
    // Whether it is installing becomes known only while waiting.
    let mut poll = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            () = &mut settled => return,
            _ = poll.tick() => if limit.remaining(server).is_zero() { return },
        }
    }
}

fn connecting_message(host: &Host) -> String {
    let servers = host.servers();
    let late: Vec<_> = servers
        .iter()
        .filter_map(|server| match &server.snapshot().state {
            State::Connecting { step, .. } => Some(format!(
                "{} ({})",
                server.config.name,
                connecting_step(server, *step)
            )),
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

/// The current step of a connecting server.
pub(crate) fn connecting_step(server: &ServerHandle, step: ConnectStep) -> String {
    match server
        .config
        .endpoint
        .package_runner()
        .filter(|_| may_be_installing(server))
    {
        Some(runner) => format!("first start, {runner} may be installing it"),
        None => step.to_string(),
    }
}

/// A request's progress: `server/tool 3 of 10: reading`.
pub(crate) fn describe(progress: &Progress) -> String {
    let share = match progress.total {
        Some(total) if total > 0.0 => format!("{} of {}", progress.progress, total),
        _ => format!("{}", progress.progress),
    };
    let words = progress
        .message
        .as_ref()
        .map(|message| format!(": {}", message.for_terminal_line()))
        .unwrap_or_default();
    match &progress.id {
        Some(id) => {
            let tool = id.tool.untrusted();
            let tool = tool.for_terminal_line();
            format!("{}/{tool} {share}{words}", id.server)
        }
        None => format!("{share}{words}"),
    }
}
