//! The keeper: one small process per server (Linux), its parent, and the reaper of everything that
//! descends from it.
//!
//! It is forked by the launcher, single-threaded, and holds nothing but its control socket to the
//! host. When that closes, the host is gone, and so will be the server and all its descendants.
//! That none is left shows in one exact way: `waitpid` has nobody to wait for, since whoever loses
//! its parent below a subreaper becomes that subreaper's child.

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

use super::order::{self, Report};
use super::{Exit, birth, descent};

/// Sent by the kernel to a keeper whose launcher died, and to a launcher whose host died; by the
/// launcher to a keeper that was stopped. It continues a stopped process, so that no server can
/// keep them from their work by SIGSTOP.
pub(crate) const RESUME: Signal = Signal::SIGCONT;

/// How long descendants have after SIGTERM once the host is gone.
const GRACE: Duration = Duration::from_millis(1500);
/// How soon to look again while killing, should no SIGCHLD come first.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The life of a keeper. Runs in the forked process and never returns.
pub(crate) fn run(
    mut control: UnixStream,
    stdio: [OwnedFd; 3],
    signals: &SignalFd,
    launcher: Pid,
) -> ! {
    let _ = prctl::set_name(c"mcp-keeper");
    let prepared = prctl::set_child_subreaper(true).and_then(|()| prctl::set_pdeathsig(RESUME));
    let started = match prepared {
        Ok(()) => start(&mut control, stdio),
        Err(errno) => Some(Err(Report::Failed {
            step: order::Step::Prepare,
            errno: errno as i32,
        })),
    };
    match started {
        Some(Ok(server)) => {
            let _ = control.write_all(
                &Report::Started {
                    pid: server.as_raw(),
                }
                .encode(),
            );
            let mut keeper = Keeper {
                control: Some(control),
                server: Some(server),
                launcher,
                ending: Ending::No,
            };
            // The launcher may have died before the kernel knew that we want to hear of it.
            keeper.end_without_launcher();
            keeper.keep(signals);
        }
        Some(Err(failed)) => {
            let _ = control.write_all(&failed.encode());
        }
        None => {}
    }
    // SAFETY: ends this process at once; nothing of the launcher's that was copied by the fork may
    // run its destructor here.
    unsafe { libc::_exit(0) }
}

/// `None`: the host went away before it had said what to start.
fn start(control: &mut UnixStream, stdio: [OwnedFd; 3]) -> Option<Result<Pid, Report>> {
    let mut text = order::read(control).ok()?;
    let born = order::decode(&text).map(|order| birth::give(&order, stdio));
    // It holds the server's secrets, and a keeper lives long.
    text.fill(0);
    std::hint::black_box(&text);
    Some(born?.map_err(|(step, errno)| Report::Failed {
        step,
        errno: errno as i32,
    }))
}

struct Keeper {
    /// `None` once the host is gone.
    control: Option<UnixStream>,
    /// `None` once it has been waited for: from then on its pid is anybody's.
    server: Option<Pid>,
    launcher: Pid,
    ending: Ending,
}

#[derive(Clone, Copy)]
enum Ending {
    No,
    /// SIGTERM was sent; SIGKILL follows at that moment, or when the host says so.
    Asked {
        kill_at: Option<Instant>,
    },
    Killing,
}

impl Keeper {
    /// Until no descendant is left.
    fn keep(&mut self, signals: &SignalFd) {
        while self.reap() {
            if let Ending::Asked {
                kill_at: Some(moment),
            } = self.ending
                && Instant::now() >= moment
            {
                self.ending = Ending::Killing;
            }
            if matches!(self.ending, Ending::Killing) {
                self.kill_children();
            }
            self.wait(signals);
        }
        self.report(Report::Gone);
    }

    /// Takes in who has ended; false once nobody is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait_for_any(libc::WNOHANG) {
                Waited::Ended(pid, exit) if Some(pid) == self.server => {
                    self.server = None;
                    self.report(Report::Exited(exit));
                }
                Waited::Ended(..) | Waited::Stopped(_) => {}
                Waited::AllRun => return true,
                Waited::NobodyLeft => return false,
            }
        }
    }

    /// By layers: only direct children, whose pids cannot have passed to strangers; theirs become
    /// ours as they die.
    fn kill_children(&self) {
        // The server once more by itself, should /proc be closed to us.
        for pid in descent::children(Pid::this())
            .into_iter()
            .chain(self.server)
        {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }

    fn wait(&mut self, signals: &SignalFd) {
        let timeout = match self.ending {
            Ending::Killing => PollTimeout::try_from(LOOK_AGAIN).unwrap_or(PollTimeout::ZERO),
            Ending::Asked {
                kill_at: Some(moment),
            } => {
                // Rounded up: a poll that ends a fraction early would spin.
                let left =
                    moment.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)
            }
            Ending::No | Ending::Asked { kill_at: None } => PollTimeout::NONE,
        };
        let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        watched.extend(
            self.control
                .as_ref()
                .map(|control| PollFd::new(control.as_fd(), PollFlags::POLLIN)),
        );
        let _ = poll(&mut watched, timeout);
        let ready = |index: usize| {
            watched
                .get(index)
                .is_some_and(|fd| fd.any().unwrap_or(false))
        };
        let (signalled, told) = (ready(0), ready(1));
        drop(watched);
        if signalled {
            while let Ok(Some(signal)) = signals.read_signal() {
                if signal.ssi_signo == RESUME as u32 {
                    self.end_without_launcher();
                }
            }
        }
        if told {
            self.listen();
        }
    }

    fn listen(&mut self) {
        let mut words = [0; 16];
        let Some(Ok(count)) = self
            .control
            .as_mut()
            .map(|control| control.read(&mut words))
        else {
            // A socket that fails is as good as closed.
            self.control = None;
            return self.end_with_grace();
        };
        for word in &words[..count] {
            match *word {
                order::KILL => self.ending = Ending::Killing,
                order::TERM => self.ask(None),
                _ => {}
            }
        }
        if count == 0 {
            self.control = None;
            self.end_with_grace();
        }
    }

    fn end_without_launcher(&mut self) {
        if getppid() != self.launcher {
            self.end_with_grace();
        }
    }

    fn end_with_grace(&mut self) {
        self.ask(Some(Instant::now() + GRACE));
    }

    /// SIGTERM, once: some programs take a second one for impatience.
    fn ask(&mut self, kill_at: Option<Instant>) {
        match self.ending {
            Ending::No => {
                descent::signal_all(Signal::SIGTERM);
                self.ending = Ending::Asked { kill_at };
            }
            Ending::Asked { kill_at: None } => self.ending = Ending::Asked { kill_at },
            Ending::Asked { .. } | Ending::Killing => {}
        }
    }

    fn report(&mut self, report: Report) {
        if let Some(control) = &mut self.control {
            // Nobody left to tell is what the next read says, too.
            let _ = control.write_all(&report.encode());
        }
    }
}

/// What `waitpid` says of all children.
pub(crate) enum Waited {
    Ended(Pid, Exit),
    /// Only where that is asked for (`WUNTRACED`).
    Stopped(Pid),
    AllRun,
    NobodyLeft,
}

/// Looks once. The options are those of `waitpid`.
pub(crate) fn wait_for_any(options: i32) -> Waited {
    loop {
        let mut status = 0;
        // Not nix's: it answers with an error, and loses the pid, where a real-time signal ended
        // the process. SAFETY: the pointer is to a live integer.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, options) };
        match pid {
            0 => return Waited::AllRun,
            pid if pid > 0 && libc::WIFSTOPPED(status) => {
                return Waited::Stopped(Pid::from_raw(pid));
            }
            pid if pid > 0 => return Waited::Ended(Pid::from_raw(pid), exit_of(status)),
            _ if nix::errno::Errno::last() == nix::errno::Errno::EINTR => {}
            _ => return Waited::NobodyLeft,
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
