//! A running child: its pipes, its exit status, and how it is stopped.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use crate::exit::Exit;
#[cfg(target_os = "linux")]
use crate::linux::KeeperConnection;
use crate::pipes::HostEnds;
use crate::process_group::ProcessGroup;

/// A running child. Dropping it kills the child and all its descendants at once (SIGKILL).
#[derive(Debug)]
pub struct Child {
    /// Its process id.
    pub pid: u32,
    /// The child's stdin; `None` once taken.
    pub stdin: Option<pipe::Sender>,
    /// The child's stdout; `None` once taken.
    pub stdout: Option<pipe::Receiver>,
    /// The child's stderr; `None` once taken.
    pub stderr: Option<pipe::Receiver>,
    control: ChildControl,
}

/// When a child that is being stopped gets which signal, counted from the closing of its stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopTiming {
    /// SIGTERM to all descendants.
    pub term: Duration,
    /// SIGKILL to all descendants.
    pub kill: Duration,
    /// How long to wait until no descendant is left.
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
    pub(crate) fn new(pid: u32, pipes: HostEnds, control: ChildControl) -> Self {
        Self {
            pid,
            stdin: Some(pipes.stdin),
            stdout: Some(pipes.stdout),
            stderr: Some(pipes.stderr),
            control,
        }
    }

    /// Waits until the child itself has ended; its descendants may still run. Cancel-safe, and may
    /// be called again.
    pub async fn exited(&mut self) -> Exit {
        self.control.exited().await
    }

    /// Closes stdin (whoever took it must have dropped it), then sends SIGTERM, then SIGKILL, and
    /// returns early once no descendant is left. When the child ends by itself, the descendants
    /// that it leaves behind are sent SIGTERM at once, and the rest of the schedule moves forward.
    pub async fn stop(mut self, timing: StopTiming) -> Exit {
        let began = Instant::now();
        drop(self.stdin.take());
        let mut moved_forward = Duration::ZERO;
        if timeout_at(began + timing.term, self.control.exited())
            .await
            .is_ok()
        {
            moved_forward = timing.term.saturating_sub(began.elapsed());
        }
        let at = |moment: Duration| began + moment.saturating_sub(moved_forward);
        if !self.control.all_ended() {
            self.control.signal(Signal::SIGTERM);
            if timeout_at(at(timing.kill), self.control.wait_all_ended())
                .await
                .is_err()
            {
                self.control.signal(Signal::SIGKILL);
                // A process that SIGKILL does not end hangs in the kernel; its keeper stays.
                let _ = timeout_at(at(timing.verified), self.control.wait_all_ended()).await;
            }
        }
        self.control.exit_if_known().await
    }
}

/// The ways in which a child is observed and signalled.
#[derive(Debug)]
pub(crate) enum ChildControl {
    #[cfg(target_os = "linux")]
    Keeper(KeeperConnection),
    Group(ProcessGroup),
}

impl ChildControl {
    async fn exited(&mut self) -> Exit {
        match self {
            #[cfg(target_os = "linux")]
            Self::Keeper(keeper) => keeper.exited().await,
            Self::Group(group) => group.exited().await,
        }
    }

    /// Waits until no descendant is left. For a process group: until the child has ended, when the
    /// others are killed.
    async fn wait_all_ended(&mut self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Keeper(keeper) => keeper.wait_all_ended().await,
            Self::Group(group) => _ = group.exited().await,
        }
    }

    fn all_ended(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Keeper(keeper) => keeper.all_ended(),
            Self::Group(group) => group.has_ended(),
        }
    }

    fn signal(&self, signal: Signal) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Keeper(keeper) if signal == Signal::SIGKILL => keeper.kill(),
            #[cfg(target_os = "linux")]
            Self::Keeper(keeper) => keeper.terminate(),
            Self::Group(group) => group.signal(signal),
        }
    }

    /// The exit status if it is known, without waiting.
    async fn exit_if_known(&mut self) -> Exit {
        timeout_at(Instant::now(), self.exited())
            .await
            .unwrap_or(Exit::Unknown)
    }
}
