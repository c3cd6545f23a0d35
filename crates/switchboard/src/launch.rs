//! Child processes that never outlive us.
//!
//! Owns spawning, exit status, bounded stderr, stopping. Knows nothing of messages: it hands out the pipes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;

use crate::config::ResolvedLaunch;

pub use stderr::StderrTail;

mod stderr;

/// If this process was started as a launcher, serves as one and never returns. Call it first in `main`, before any thread starts.
pub fn launcher_main() {
    todo!()
}

/// Starts children. Cheap to clone; the launcher process ends with the last clone.
#[derive(Debug, Clone)]
pub struct Launcher {
    inner: Arc<LauncherKind>,
}

#[derive(Debug)]
enum LauncherKind {}

/// How children are kept from outliving us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// Through the launcher process: nothing survives, whatever kills us.
    Launcher,
    /// Process groups and PDEATHSIG only: a grandchild that leaves its group can survive a SIGKILL of ours.
    ProcessGroups,
}

impl Launcher {
    /// Starts the launcher process: `program` run with the marker that makes [`launcher_main`] take over.
    pub fn start(program: PathBuf) -> std::io::Result<Self> {
        let _ = program;
        todo!()
    }

    /// No launcher program: process groups and PDEATHSIG.
    pub fn process_groups() -> Self {
        todo!()
    }

    /// What `status` and `doctor` say about it.
    pub fn keeping(&self) -> Keeping {
        let _ = &self.inner;
        todo!()
    }

    /// Starts one child. `stderr` receives what it writes there, drained for ever.
    pub async fn spawn(&self, launch: &ResolvedLaunch, stderr: StderrTail) -> std::io::Result<Child> {
        let _ = (launch, stderr);
        todo!()
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
        Self { term: Duration::from_secs(2), kill: Duration::from_secs(3), verified: Duration::from_millis(3500) }
    }
}

impl Child {
    /// Waits for the child itself to end (its descendants may still run). Cancel-safe; may be called again.
    pub async fn exited(&mut self) -> Exit {
        todo!()
    }

    /// Closes stdin (the transport must have dropped it), then TERM, then KILL as timed, ending early once no descendant is left.
    pub async fn stop(self, timing: StopTiming) -> Exit {
        let _ = timing;
        todo!()
    }
}
