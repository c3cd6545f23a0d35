//! Child processes that never outlive the program that started them.
//!
//! A [`Launcher`] starts a [`Command`] and returns a [`Child`]: three pipes, the exit status, and a
//! [`stop`](Child::stop) that closes stdin, then sends SIGTERM, then SIGKILL, to the child and to
//! everything that the child has started. [`StderrTail`] holds the last 64 KiB of its stderr.
//!
//! ```standalone_crate
//! use std::time::Duration;
//! use switchboard_launch::{Command, Exit, Launcher, StderrTail, StopTiming, launcher_main};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First of all: the launcher process is this program, started once more.
//!     launcher_main();
//!     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//!     runtime.block_on(run())
//! }
//!
//! async fn run() -> Result<(), Box<dyn std::error::Error>> {
//!     let launcher = Launcher::start(std::env::current_exe()?)?;
//!     let script = "read name; echo hello $name; exec sleep 60";
//!     let command = Command::new("/bin/sh").args(["-c", script]);
//!     let mut child = launcher.spawn(&command).await?;
//!
//!     let stderr = StderrTail::default();
//!     stderr.drain(child.stderr.take().ok_or("no stderr")?, |_chunk| {});
//!
//!     child.stdin.as_mut().ok_or("no stdin")?.write_all(b"world\n").await?;
//!     let mut greeting = [0; 12];
//!     child.stdout.as_mut().ok_or("no stdout")?.read_exact(&mut greeting).await?;
//!     assert_eq!(&greeting, b"hello world\n");
//!
//!     // `sleep` does not read stdin, so SIGTERM ends it.
//!     let timing = StopTiming { term: Duration::from_millis(100), ..StopTiming::default() };
//!     assert_eq!(child.stop(timing).await, Exit::Signal(15));
//!     Ok(())
//! }
//! ```
//!
//! # What ends the children
//!
//! | event | [`Containment::Launcher`] | [`Containment::ProcessGroups`] |
//! |---|---|---|
//! | [`Child::stop`] | stdin closed, SIGTERM, SIGKILL to all descendants | the same to the child's process group |
//! | a [`Child`] is dropped | SIGKILL to all descendants | SIGKILL to its process group |
//! | this program exits or is killed, also by SIGKILL | SIGTERM to all descendants, SIGKILL 1.5 s later | SIGKILL to the child (Linux); nothing elsewhere |
//! | a descendant has left the process group (a daemon) | ended with the others | survives |
//!
//! # How it works
//!
//! On Linux, [`Launcher::start`] starts one *launcher process*, which does nothing but fork. For
//! each child it forks a *keeper*: the parent of that child, and the subreaper of everything that
//! descends from it. The keeper holds a socket to the *host*, the program that uses this crate.
//! When that socket closes, for whatever reason, the keeper ends all descendants. The pipes are
//! passed to the child through the launcher process (SCM_RIGHTS), so bytes go directly between host
//! and child.
//!
//! These processes watch each other, so a child cannot escape by killing or stopping one of them:
//! - A keeper is killed: the kernel kills its child (PDEATHSIG), and the launcher process, to which
//!   the child's descendants are then reparented, kills them.
//! - A keeper is stopped (SIGSTOP): the launcher process continues it, and kills it the third time.
//! - The launcher process is killed: its keepers notice (PDEATHSIG) and end their children. The
//!   host starts another launcher process when it is next needed.
//! - The launcher process is stopped: the host continues it with every request, and the kernel does
//!   once the host has died (PDEATHSIG is SIGCONT).
//!
//! # Platforms
//!
//! Unix only. The launcher process exists on Linux only; elsewhere, and where
//! [`Launcher::process_groups`] is chosen, each child leads a process group.
//!
//! # Where to look
//!
//! `launcher` (start a child), `child` (its pipes, and how it is stopped), `command`, `exit`, `pipes`,
//! `stderr`, `process_group` (without a launcher process), `linux` (with one). [`release_code`] is for
//! any process that waits; the launcher process uses it, too.
#![cfg(unix)]

mod child;
mod command;
mod exit;
mod launcher;
#[cfg(target_os = "linux")]
mod linux;
mod pipes;
mod process_group;
mod stderr;

pub use child::{Child, StopTiming};
pub use command::Command;
pub use exit::Exit;
pub use launcher::{Containment, Launcher};
pub use stderr::{StderrTail, TAIL_BYTES};

/// If this process was started as a launcher process, serves as one and never returns; otherwise
/// returns at once. Call it first in `main`, before any thread starts. Does nothing where the
/// system is not Linux.
pub fn launcher_main() {
    #[cfg(target_os = "linux")]
    linux::launcher_process::serve_if_marked();
}

/// Takes the program's code out of this process's memory; what runs again is mapped again. For a
/// process that waits for long: most of the code that it has run, only its start needed. Does nothing
/// where the system is not Linux.
pub fn release_code() {
    #[cfg(target_os = "linux")]
    linux::program_pages::release();
}
