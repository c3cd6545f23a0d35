//! Ctrl-C, SIGTERM, SIGHUP and SIGQUIT: the work is dropped, which cancels its call, and the
//! servers are stopped; a second signal exits at once.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use switchboard::Host;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

use crate::failure::{Code, Failure};
use crate::progress;
use crate::terminal::tty;

/// Notified when Ctrl-C is pressed at a prompt: a raw terminal sends a key instead of a signal.
static CTRL_C_PRESSED: Notify = Notify::const_new();

/// How long a token refresh may delay the exit on a second signal: a refresh token that was used
/// and not replaced is lost.
const REFRESH_GRACE: Duration = Duration::from_secs(3);

/// Ctrl-C was pressed at a prompt.
pub(crate) fn ctrl_c_pressed() {
    CTRL_C_PRESSED.notify_one();
}

/// Runs the work until it ends or a signal arrives, then stops the host's servers.
pub(crate) async fn run_with_host(
    host: &Host,
    work: impl Future<Output = Result<u8, Failure>>,
) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    tracing::debug!("signal handlers are installed");
    let outcome = tokio::select! {
        outcome = work => outcome,
        code = signals.next() => Err(ended_by(code)),
    };
    if outcome
        .as_ref()
        .is_err_and(|failure| failure.code.is_signal())
    {
        progress::show("stopping servers; press Ctrl-C again to exit now".to_owned());
    } else {
        progress::clear();
    }
    let outcome = tokio::select! {
        () = host.stop() => outcome,
        code = signals.next() => {
            host.finish_token_refreshes(REFRESH_GRACE).await;
            exit_now(code)
        }
    };
    progress::clear();
    outcome
}

/// Runs a service until it ends. The first signal asks it to end through `closing`, so that it can
/// finish what is in flight; SIGHUP is passed to `hang_up`. Then stops the host's servers.
pub(crate) async fn run_service(
    host: &Host,
    closing: watch::Sender<bool>,
    hang_up: &Notify,
    service: impl Future<Output = Result<u8, Failure>>,
) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let mut service = std::pin::pin!(service);
    let mut ended_by_signal = None;
    let outcome = loop {
        tokio::select! {
            outcome = service.as_mut() => break outcome,
            code = signals.next() => match code {
                Code::HungUp => hang_up.notify_one(),
                code if ended_by_signal.is_some() => exit_now(code),
                code => {
                    ended_by_signal = Some(code);
                    closing.send_replace(true);
                }
            },
        }
    };
    tokio::select! {
        () = host.stop() => {}
        code = signals.next() => {
            host.finish_token_refreshes(REFRESH_GRACE).await;
            exit_now(code)
        }
    }
    ended_by_signal.map_or(outcome, |code| Err(ended_by(code)))
}

/// The same for a conversation, where Ctrl-C ends a turn and not the run: see [`Interrupts`].
pub(crate) async fn run_conversation(
    host: &Host,
    work: impl Future<Output = Result<u8, Failure>>,
) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let outcome = tokio::select! {
        outcome = work => outcome,
        code = signals.next_ending() => Err(ended_by(code)),
    };
    progress::clear();
    // An earlier Ctrl-C ended a turn; only later signals end the program.
    let mut signals = Signals::listen()?;
    tokio::select! {
        () = host.stop() => outcome,
        code = signals.next() => {
            host.finish_token_refreshes(REFRESH_GRACE).await;
            exit_now(code)
        }
    }
}

/// Ctrl-C as a conversation gets it: the signal, and the key during a dialog.
pub(crate) struct Interrupts(Signal);

impl Interrupts {
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self(listen(SignalKind::interrupt())?))
    }

    /// The next Ctrl-C. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            () = CTRL_C_PRESSED.notified() => {}
        }
    }
}

/// Runs work that needs no host until it ends or a signal arrives.
pub(crate) async fn run_until_signal<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        outcome = work => outcome,
        code = signals.next() => Err(ended_by(code)),
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    /// `None` if the parent process set it to be ignored, as `nohup` does.
    hangup: Option<Signal>,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        Ok(Self {
            hangup: if ignores_hangup() {
                None
            } else {
                Some(listen(SignalKind::hangup())?)
            },
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            quit: listen(SignalKind::quit())?,
        })
    }

    async fn next(&mut self) -> Code {
        let code = tokio::select! {
            _ = self.interrupt.recv() => Code::Interrupted,
            () = CTRL_C_PRESSED.notified() => Code::Interrupted,
            _ = self.terminate.recv() => Code::Terminated,
            _ = self.quit.recv() => Code::Quit,
            Some(_) = recv(self.hangup.as_mut()) => Code::HungUp,
        };
        tracing::debug!("received a signal: {code:?}");
        code
    }

    /// The next signal other than Ctrl-C.
    async fn next_ending(&mut self) -> Code {
        tokio::select! {
            _ = self.terminate.recv() => Code::Terminated,
            _ = self.quit.recv() => Code::Quit,
            Some(_) = recv(self.hangup.as_mut()) => Code::HungUp,
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| {
        Failure::new(
            Code::Usage,
            format!("cannot install signal handlers: {error}"),
        )
    })
}

async fn recv(signal: Option<&mut Signal>) -> Option<()> {
    signal?.recv().await
}

/// Whether SIGHUP was ignored when this process started (Linux only).
fn ignores_hangup() -> bool {
    static AT_START: OnceLock<bool> = OnceLock::new();
    *AT_START.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & 1 == 1)
    })
}

fn ended_by(code: Code) -> Failure {
    let message = match code {
        Code::Terminated => "terminated",
        Code::HungUp => "the terminal was closed",
        Code::Quit => "quit",
        _ => "interrupted",
    };
    Failure::new(code, message)
}

/// The launcher notices that its connection closed, and ends the servers.
fn exit_now(code: Code) -> ! {
    progress::clear();
    tty::restore();
    std::process::exit(i32::from(code as u8))
}
