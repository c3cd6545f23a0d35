//! Child processes that never outlive us.
//!
//! Owns spawning, exit status, bounded stderr, stopping. Knows nothing of messages: it hands out
//! the pipes.
//!
//! On Linux a *launcher* process stands between the host and its servers (`zygote.rs`). For each
//! server it forks a *keeper* (`keeper.rs`), the parent of that server and the reaper of all that
//! descends from it. The host (`kept.rs`) hands over the server's ends of its pipes and a socket to
//! talk with the keeper (`order.rs`); when that socket closes, whatever the reason, the keeper ends
//! all descendants. A keeper that is killed takes its server with it (`birth.rs`), and the launcher
//! kills the rest; a keeper that is stopped is continued by the launcher, and a launcher that is
//! stopped by the host, or by the kernel once the host is gone; a launcher that is killed makes its
//! keepers end theirs. Without a launcher there are process groups (`group.rs`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

pub use command::Command;
pub use stderr::{StderrTail, TAIL_BYTES};

#[cfg(target_os = "linux")]
mod birth;
mod command;
#[cfg(target_os = "linux")]
mod descent;
mod group;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod kept;
#[cfg(target_os = "linux")]
mod order;
mod pipes;
mod stderr;
#[cfg(target_os = "linux")]
mod zygote;

/// If this process was started as a launcher, serves as one and never returns. Call it first in
/// `main`, before any thread starts.
pub fn launcher_main() {
    #[cfg(target_os = "linux")]
    zygote::main_if_marked();
}

/// Starts children. Cheap to clone; the launcher process ends with the last clone, once the
/// children that it keeps have ended.
#[derive(Debug, Clone)]
pub struct Launcher {
    kind: Arc<LauncherKind>,
}

#[derive(Debug)]
enum LauncherKind {
    #[cfg(target_os = "linux")]
    Process(kept::LauncherProcess),
    Groups,
}

/// How children are kept from outliving us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// Through the launcher process: nothing survives, whatever kills us.
    Launcher,
    /// Process groups and PDEATHSIG only: a grandchild that leaves its group can survive us, and so
    /// can any grandchild (any child, where there is no PDEATHSIG) if we are killed by SIGKILL.
    ProcessGroups,
}

impl Launcher {
    /// Starts the launcher process: `program` run with the marker that makes [`launcher_main`] take
    /// over. Process groups where the system is not Linux.
    pub fn start(program: PathBuf) -> std::io::Result<Self> {
        #[cfg(target_os = "linux")]
        let kind = LauncherKind::Process(kept::LauncherProcess::start(program)?);
        #[cfg(not(target_os = "linux"))]
        let kind = {
            let _ = program;
            LauncherKind::Groups
        };
        Ok(Self {
            kind: Arc::new(kind),
        })
    }

    /// No launcher program: process groups and PDEATHSIG.
    pub fn process_groups() -> Self {
        Self {
            kind: Arc::new(LauncherKind::Groups),
        }
    }

    /// What `status` and `doctor` say about it.
    pub fn keeping(&self) -> Keeping {
        match *self.kind {
            #[cfg(target_os = "linux")]
            LauncherKind::Process(_) => Keeping::Launcher,
            LauncherKind::Groups => Keeping::ProcessGroups,
        }
    }

    /// Starts one child, and returns once its program runs. All three of its standard streams are
    /// pipes, which must be read: see [`StderrTail::drain`].
    pub async fn spawn(&self, command: &Command) -> std::io::Result<Child> {
        let (host, child) = pipes::open()?;
        let (pid, leash) = match &*self.kind {
            #[cfg(target_os = "linux")]
            LauncherKind::Process(process) => {
                let (pid, control) = process.spawn(command, child).await?;
                (pid, Leash::Keeper(control))
            }
            LauncherKind::Groups => {
                let (pid, group) = group::Group::spawn(command, child).await?;
                (pid, Leash::Group(group))
            }
        };
        Ok(Child {
            pid,
            stdin: Some(host.stdin),
            stdout: Some(host.stdout),
            stderr: Some(host.stderr),
            leash,
        })
    }
}

/// A running child. Dropping it stops the child and all its descendants at once (SIGKILL).
#[derive(Debug)]
pub struct Child {
    /// Its process id.
    pub pid: u32,
    /// Taken by the transport.
    pub stdin: Option<pipe::Sender>,
    /// Taken by the transport.
    pub stdout: Option<pipe::Receiver>,
    /// Taken by whoever reads it, such as a [`StderrTail`].
    pub stderr: Option<pipe::Receiver>,
    leash: Leash,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// The launcher is gone, so nobody knows.
    Unknown,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(code) => write!(f, "exited with status {code}"),
            Self::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(known) => write!(f, "was killed by {known}"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
            Self::Unknown => write!(f, "ended in an unknown way"),
        }
    }
}

/// When a stopping child is sent what, counted from the moment its stdin was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopTiming {
    /// SIGTERM to all descendants.
    pub term: Duration,
    /// SIGKILL to all descendants.
    pub kill: Duration,
    /// By then it is verified that none is left.
    pub verified: Duration,
}

impl Default for StopTiming {
    fn default() -> Self {
        Self {
            term: Duration::from_secs(2),
            kill: Duration::from_secs(3),
            verified: Duration::from_millis(3500),
        }
    }
}

impl Child {
    /// Waits for the child itself to end (its descendants may still run). Cancel-safe; may be
    /// called again.
    pub async fn exited(&mut self) -> Exit {
        self.leash.exited().await
    }

    /// Closes stdin (the transport must have dropped it), then TERM, then KILL as timed, ending
    /// early once no descendant is left. Descendants that the child leaves behind are sent TERM
    /// as soon as it has ended.
    pub async fn stop(mut self, timing: StopTiming) -> Exit {
        let began = Instant::now();
        drop(self.stdin.take());
        // From here on the schedule is only ever brought forward.
        let mut ahead = Duration::ZERO;
        if timeout_at(began + timing.term, self.leash.exited())
            .await
            .is_ok()
        {
            ahead = timing.term.saturating_sub(began.elapsed());
        }
        if !self.leash.is_gone() {
            self.leash.signal(Signal::SIGTERM);
            if timeout_at(began + timing.kill.saturating_sub(ahead), self.leash.gone())
                .await
                .is_err()
            {
                self.leash.signal(Signal::SIGKILL);
                // What cannot be killed now hangs in the kernel; its keeper stays with it.
                let _ = timeout_at(
                    began + timing.verified.saturating_sub(ahead),
                    self.leash.gone(),
                )
                .await;
            }
        }
        self.leash.exit_if_known().await
    }
}

/// By what a child is held.
#[derive(Debug)]
enum Leash {
    #[cfg(target_os = "linux")]
    Keeper(kept::Control),
    Group(group::Group),
}

impl Leash {
    async fn exited(&mut self) -> Exit {
        match self {
            #[cfg(target_os = "linux")]
            Self::Keeper(control) => control.exited().await,
            Self::Group(group) => group.exited().await,
        }
    }

    async fn gone(&mut self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Keeper(control) => control.gone().await,
            Self::Group(group) => _ = group.exited().await,
        }
    }

    fn is_gone(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Keeper(control) => control.is_gone(),
            Self::Group(group) => group.is_gone(),
        }
    }

    fn signal(&self, signal: Signal) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Keeper(control) if signal == Signal::SIGKILL => control.kill(),
            #[cfg(target_os = "linux")]
            Self::Keeper(control) => control.term(),
            Self::Group(group) => group.signal(signal),
        }
    }

    /// Without waiting for it.
    async fn exit_if_known(&mut self) -> Exit {
        timeout_at(Instant::now(), self.exited())
            .await
            .unwrap_or(Exit::Unknown)
    }
}
