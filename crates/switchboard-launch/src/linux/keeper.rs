//! A keeper: one small process for each child, its parent, and the subreaper of its descendants.
//!
//! The launcher process forks it. It is single-threaded and holds nothing but a socket to the host.
//! When that closes, the host has died, and the keeper ends all descendants. A process that loses
//! its parent becomes a child of the keeper (its subreaper), so no descendant is left exactly when
//! `waitpid` has no child to wait for.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::{Pid, getppid};

use super::protocol::{self, KeeperReport, SpawnStep};
use super::{exec, process_tree, program_pages};
use crate::Exit;
use crate::command::WipedBytes;

/// The kernel sends it to a keeper whose launcher process died, and to a launcher process whose
/// host died; the launcher process sends it to a keeper that was stopped. SIGCONT, because it
/// continues a stopped process: no child can keep them from ending it by SIGSTOP.
pub(crate) const RESUME: Signal = Signal::SIGCONT;

/// The time between SIGTERM and SIGKILL once the host has died.
const KILL_DELAY: Duration = Duration::from_millis(1500);
/// How often to kill again while descendants are left.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// The main function of a keeper. Runs in the forked process and never returns.
pub(crate) fn run(
    mut host: UnixStream,
    stdio: [OwnedFd; 3],
    signals: &SignalFd,
    launcher: Pid,
) -> ! {
    let _ = prctl::set_name(c"mcp-keeper");
    let prepared = prctl::set_child_subreaper(true).and_then(|()| prctl::set_pdeathsig(RESUME));
    let started = match prepared {
        Ok(()) => start_child(&mut host, stdio),
        Err(errno) => Some(Err(KeeperReport::Failed {
            step: SpawnStep::Prepare,
            errno: errno as i32,
        })),
    };
    match started {
        Some(Ok(child)) => {
            let _ = host.write_all(
                &KeeperReport::Started {
                    pid: child.as_raw(),
                }
                .encode(),
            );
            let mut keeper = Keeper {
                host: Some(host),
                child: Some(child),
                launcher,
                stage: StopStage::Running,
                has_released_code: false,
            };
            // The launcher process may have died before PDEATHSIG was set.
            keeper.terminate_without_launcher();
            keeper.run(signals);
        }
        Some(Err(failed)) => {
            let _ = host.write_all(&failed.encode());
        }
        None => {}
    }
    // SAFETY: ends this process at once. Destructors of what the fork copied from the launcher
    // process must not run here.
    unsafe { libc::_exit(0) }
}

/// `None` if the host died before it had sent a whole request.
fn start_child(host: &mut UnixStream, stdio: [OwnedFd; 3]) -> Option<Result<Pid, KeeperReport>> {
    let request = WipedBytes(protocol::read(host).ok()?);
    let request = protocol::decode(&request.0)?;
    let child = exec::start_child(&request, stdio);
    Some(child.map_err(|(step, errno)| KeeperReport::Failed {
        step,
        errno: errno as i32,
    }))
}

struct Keeper {
    /// `None` once the host has died.
    host: Option<UnixStream>,
    /// `None` once it has been waited for: then its pid may be reused.
    child: Option<Pid>,
    launcher: Pid,
    stage: StopStage,
    has_released_code: bool,
}

#[derive(Clone, Copy)]
enum StopStage {
    Running,
    /// SIGTERM was sent; SIGKILL follows at `kill_at`, or when the host asks for it.
    Terminating {
        kill_at: Option<Instant>,
    },
    Killing,
}

impl Keeper {
    /// Returns once no descendant is left.
    fn run(&mut self, signals: &SignalFd) {
        while self.reap() {
            if let StopStage::Terminating {
                kill_at: Some(moment),
            } = self.stage
                && Instant::now() >= moment
            {
                self.stage = StopStage::Killing;
            }
            if matches!(self.stage, StopStage::Killing) {
                self.kill_children();
            }
            self.poll(signals);
        }
        self.report(KeeperReport::AllEnded);
    }

    /// Waits for the processes that have ended; false once no descendant is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait_for_any(libc::WNOHANG) {
                WaitOutcome::Ended(pid, exit) if Some(pid) == self.child => {
                    self.child = None;
                    self.report(KeeperReport::Exited(exit));
                }
                WaitOutcome::Ended(..) | WaitOutcome::Stopped(_) => {}
                WaitOutcome::AllRunning => return true,
                WaitOutcome::NoChildren => return false,
            }
        }
    }

    /// Kills direct children only, because only their pids cannot have been reused. When they have
    /// died, their children are ours, and the next round kills those.
    fn kill_children(&self) {
        // The child itself is added in case /proc cannot be read.
        for pid in process_tree::children(Pid::this())
            .into_iter()
            .chain(self.child)
        {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }

    fn poll(&mut self, signals: &SignalFd) {
        let timeout = match self.stage {
            StopStage::Killing => PollTimeout::try_from(KILL_INTERVAL).unwrap_or(PollTimeout::ZERO),
            StopStage::Terminating {
                kill_at: Some(moment),
            } => {
                // Rounded up: a poll that ends a fraction early would spin.
                let left =
                    moment.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)
            }
            StopStage::Running if !self.has_released_code => {
                PollTimeout::try_from(program_pages::IDLE_TIME).unwrap_or(PollTimeout::NONE)
            }
            StopStage::Running | StopStage::Terminating { kill_at: None } => PollTimeout::NONE,
        };
        let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        watched.extend(
            self.host
                .as_ref()
                .map(|host| PollFd::new(host.as_fd(), PollFlags::POLLIN)),
        );
        let is_idle = poll(&mut watched, timeout) == Ok(0);
        let ready = |index: usize| {
            watched
                .get(index)
                .is_some_and(|fd| fd.any().unwrap_or(false))
        };
        let (signalled, host_sent) = (ready(0), ready(1));
        drop(watched);
        if is_idle && !self.has_released_code {
            program_pages::release();
            self.has_released_code = true;
        }
        if signalled {
            while let Ok(Some(signal)) = signals.read_signal() {
                if signal.ssi_signo == RESUME as u32 {
                    self.terminate_without_launcher();
                }
            }
        }
        if host_sent {
            self.read_host();
        }
    }

    fn read_host(&mut self) {
        let mut bytes = [0; 16];
        let Some(Ok(count)) = self.host.as_mut().map(|host| host.read(&mut bytes)) else {
            // An error is treated as the end of the host.
            self.host = None;
            return self.terminate_then_kill();
        };
        for byte in &bytes[..count] {
            match *byte {
                protocol::KILL => self.stage = StopStage::Killing,
                protocol::TERMINATE => self.terminate(None),
                _ => {}
            }
        }
        if count == 0 {
            self.host = None;
            self.terminate_then_kill();
        }
    }

    fn terminate_without_launcher(&mut self) {
        if getppid() != self.launcher {
            self.terminate_then_kill();
        }
    }

    fn terminate_then_kill(&mut self) {
        self.terminate(Some(Instant::now() + KILL_DELAY));
    }

    /// Sends SIGTERM, but only once: some programs exit without cleaning up at the second.
    fn terminate(&mut self, kill_at: Option<Instant>) {
        match self.stage {
            StopStage::Running => {
                process_tree::signal_descendants(Signal::SIGTERM);
                self.stage = StopStage::Terminating { kill_at };
            }
            StopStage::Terminating { kill_at: None } => {
                self.stage = StopStage::Terminating { kill_at }
            }
            StopStage::Terminating { .. } | StopStage::Killing => {}
        }
    }

    fn report(&mut self, report: KeeperReport) {
        if let Some(host) = &mut self.host {
            // If the host has died, the next read finds out.
            let _ = host.write_all(&report.encode());
        }
    }
}

/// What `waitpid` returned.
pub(crate) enum WaitOutcome {
    Ended(Pid, Exit),
    /// Only with the option `WUNTRACED`.
    Stopped(Pid),
    AllRunning,
    NoChildren,
}

/// Waits for any child once, with these options of `waitpid`.
pub(crate) fn wait_for_any(options: i32) -> WaitOutcome {
    loop {
        let mut status = 0;
        // Not nix's function: for a process that a real-time signal ended it returns an error
        // without the pid. SAFETY: the pointer is to a live integer.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, options) };
        match pid {
            0 => return WaitOutcome::AllRunning,
            pid if pid > 0 && libc::WIFSTOPPED(status) => {
                return WaitOutcome::Stopped(Pid::from_raw(pid));
            }
            pid if pid > 0 => return WaitOutcome::Ended(Pid::from_raw(pid), exit_of(status)),
            _ if nix::errno::Errno::last() == nix::errno::Errno::EINTR => {}
            _ => return WaitOutcome::NoChildren,
        }
    }
}

fn exit_of(status: i32) -> Exit {
    if libc::WIFEXITED(status) {
        Exit::Status(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Unknown
    }
}
