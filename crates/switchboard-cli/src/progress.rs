//! One spinner on stderr for long work: on a terminal only, away while a question is on the screen.

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use switchboard::Host;
use switchboard::caller::Progress;
use switchboard::server::State;

#[derive(Default)]
struct Shown {
    bar: Option<ProgressBar>,
    /// A question has the screen.
    paused: bool,
}

static SHOWN: Mutex<Shown> = Mutex::new(Shown { bar: None, paused: false });

/// Shows what is being done, if anybody is looking.
pub(crate) fn show(message: String) {
    let mut shown = shown();
    if shown.paused || !std::io::stderr().is_terminal() {
        return;
    }
    let bar = shown.bar.get_or_insert_with(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    });
    bar.set_message(message);
}

/// Takes the spinner away.
pub(crate) fn clear() {
    if let Some(bar) = shown().bar.take() {
        bar.finish_and_clear();
    }
}

/// Keeps the screen free until the guard is dropped.
pub(crate) fn pause() -> Paused {
    clear();
    shown().paused = true;
    Paused
}

/// See [`pause`].
pub(crate) struct Paused;

impl Drop for Paused {
    fn drop(&mut self) {
        shown().paused = false;
    }
}

/// Writes to stderr with the spinner out of the way.
pub(crate) fn suspended(write: impl FnOnce()) {
    let bar = shown().bar.clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until every server is settled, or for `wait`, naming those that are not yet.
pub(crate) async fn settle(host: &Host, wait: Duration) {
    let settled = host.settled(wait);
    tokio::pin!(settled);
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            _ = &mut settled => break,
            _ = tick.tick() => show(connecting(host)),
        }
    }
    clear();
}

fn connecting(host: &Host) -> String {
    let servers = host.servers();
    let late: Vec<_> = servers
        .iter()
        .filter_map(|server| match &server.snapshot().state {
            State::Connecting { step, .. } => Some(format!("{} ({step})", server.config.name)),
            _ => None,
        })
        .collect();
    format!("connecting {} of {}: {}", late.len(), servers.len(), late.join(", "))
}

/// A call's own report: `step 3 of 10: reading`.
pub(crate) fn of_call(progress: &Progress) -> String {
    let share = match progress.total {
        Some(total) if total > 0.0 => format!("{} of {}", progress.progress, total),
        _ => format!("{}", progress.progress),
    };
    let words = progress.message.as_ref().map(|message| format!(": {}", message.for_terminal_line())).unwrap_or_default();
    format!("{}/{} {share}{words}", progress.id.server, progress.id.tool.untrusted().for_terminal_line())
}
