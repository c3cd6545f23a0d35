//! The launcher process (Linux): started once, it forks a keeper for every server and adopts
//! whoever loses its keeper.
//!
//! It parses nothing: each message is one byte and four descriptors, handed on to a new keeper. It
//! is single-threaded, so a fork without exec is sound, and small, so a fork is cheap.

use std::collections::BTreeMap;
use std::io::{IoSliceMut, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, Signal, kill, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, getsockopt, recvmsg, sockopt};
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, setsid};

use super::keeper::{self, RESUME, Waited};
use super::order::{Report, Step};
use super::{birth, descent};

/// Set in the environment of a launcher, and of no server.
pub(crate) const MARKER: &str = "SWITCHBOARD_LAUNCHER";
/// Written to the host once, to show that the program is a launcher indeed.
pub(crate) const READY: u8 = b'R';

/// How soon to look again while strays are being killed, should no SIGCHLD come first.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A keeper is continued so often when it was stopped; then it is killed, and its server with it.
const MAX_STOPS: u32 = 3;

/// Serves and exits where the marker is set and stdin is the host's socket; otherwise returns at
/// once.
pub(crate) fn main_if_marked() {
    let stdin = std::io::stdin();
    if std::env::var_os(MARKER).is_none() || getsockopt(&stdin, sockopt::SockType).is_err() {
        return;
    }
    let status = match serve() {
        Ok(()) => 0,
        // Nobody reads a message: our stderr is /dev/null. The host sees its socket close.
        Err(errno) => errno as i32,
    };
    std::process::exit(status)
}

fn serve() -> nix::Result<()> {
    let socket = detach()?;
    let signals = prepare_signals()?;
    prctl::set_child_subreaper(true)?;
    prctl::set_pdeathsig(RESUME)?;
    let _ = (&socket).write_all(&[READY]);
    let mut launcher = Zygote {
        socket: Some(socket),
        keepers: BTreeMap::new(),
    };
    launcher.serve(&signals);
    Ok(())
}

/// Leaves the terminal and every inherited descriptor behind, but for the host's socket.
fn detach() -> nix::Result<UnixStream> {
    let _ = prctl::set_name(c"mcp-launcher");
    // Fails where we lead a process group already, which serves as well.
    let _ = setsid();
    // SAFETY: descriptors above 2 are nobody's yet: this is the first thing the program does.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } != 0 {
        close_each();
    }
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    let socket = fcntl(std::io::stdin(), FcntlArg::F_DUPFD_CLOEXEC(3))?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    // SAFETY: the duplicate was made above and has no other owner.
    Ok(unsafe { UnixStream::from_raw_fd(socket) })
}

/// For kernels before 5.9.
fn close_each() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<RawFd> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // SAFETY: as above; the listing's own descriptor is closed by now, and closing it again
        // fails harmlessly.
        unsafe { libc::close(fd) };
    }
}

/// Every signal at its default, so that no ignored one is passed on to servers; then those that are
/// not for us ignored, and those that we wait for blocked and readable.
fn prepare_signals() -> nix::Result<SignalFd> {
    birth::default_signals();
    for number in birth::IGNORED {
        // SAFETY: to ignore a signal runs no code of ours.
        unsafe { signal(number, SigHandler::SigIgn) }?;
    }
    let waited_for: SigSet = [Signal::SIGCHLD, RESUME].into_iter().collect();
    waited_for.thread_set_mask()?;
    SignalFd::with_flags(&waited_for, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

struct Zygote {
    /// `None` once the host, or its last `Launcher`, is gone.
    socket: Option<UnixStream>,
    /// Forked and not yet waited for, and how often each was stopped. Any other child of ours is a
    /// stray: its keeper was killed.
    keepers: BTreeMap<Pid, u32>,
}

struct Reaped {
    somebody_ended: bool,
    nobody_left: bool,
}

impl Zygote {
    /// Until the host is gone and so is everybody else.
    fn serve(&mut self, signals: &SignalFd) {
        let mut strays = false;
        loop {
            let reaped = self.reap();
            if self.socket.is_none() && reaped.nobody_left {
                return;
            }
            // Only where a keeper ended can a stray have come to us.
            strays = (strays || reaped.somebody_ended) && self.kill_strays();
            let timeout = if strays {
                PollTimeout::try_from(LOOK_AGAIN).unwrap_or(PollTimeout::ZERO)
            } else {
                PollTimeout::NONE
            };
            let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            watched.extend(
                self.socket
                    .as_ref()
                    .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)),
            );
            let _ = poll(&mut watched, timeout);
            let asked = watched.get(1).is_some_and(|fd| fd.any().unwrap_or(false));
            drop(watched);
            while let Ok(Some(_)) = signals.read_signal() {}
            if asked {
                self.take_order(signals);
            }
        }
    }

    fn reap(&mut self) -> Reaped {
        let mut somebody_ended = false;
        loop {
            match keeper::wait_for_any(libc::WNOHANG | libc::WUNTRACED) {
                Waited::Ended(pid, _) => {
                    self.keepers.remove(&pid);
                    somebody_ended = true;
                }
                Waited::Stopped(pid) => self.resume(pid),
                Waited::AllRun => {
                    return Reaped {
                        somebody_ended,
                        nobody_left: false,
                    };
                }
                Waited::NobodyLeft => {
                    return Reaped {
                        somebody_ended,
                        nobody_left: true,
                    };
                }
            }
        }
    }

    /// Nobody but its own server has a reason to stop a keeper.
    fn resume(&mut self, stopped: Pid) {
        if let Some(stops) = self.keepers.get_mut(&stopped) {
            *stops += 1;
            let _ = kill(
                stopped,
                if *stops < MAX_STOPS {
                    RESUME
                } else {
                    Signal::SIGKILL
                },
            );
        }
    }

    /// Whether there were any.
    fn kill_strays(&self) -> bool {
        let mut found = false;
        for stray in descent::children(Pid::this())
            .into_iter()
            .filter(|pid| !self.keepers.contains_key(pid))
        {
            found = true;
            let _ = kill(stray, Signal::SIGKILL);
        }
        found
    }

    fn take_order(&mut self, signals: &SignalFd) {
        let Some(socket) = &self.socket else { return };
        match receive(socket) {
            Ok(Some([control, stdio @ ..])) => {
                self.fork_keeper(UnixStream::from(control), stdio, signals)
            }
            // Less than four descriptors came through: the host sees them closed.
            Ok(None) => {}
            Err(_) => self.socket = None,
        }
    }

    fn fork_keeper(&mut self, mut control: UnixStream, stdio: [OwnedFd; 3], signals: &SignalFd) {
        let launcher = Pid::this();
        // SAFETY: this process has one thread, so the child may do whatever it could do itself.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => {
                // Held by a keeper, it would keep the host from seeing that the launcher died.
                self.socket = None;
                keeper::run(control, stdio, signals, launcher)
            }
            // Our copies of the descriptors close here, so that the keeper and its server hold the
            // only ones.
            Ok(ForkResult::Parent { child }) => _ = self.keepers.insert(child, 0),
            Err(errno) => {
                let _ = control.write_all(
                    &Report::Failed {
                        step: Step::Keeper,
                        errno: errno as i32,
                    }
                    .encode(),
                );
            }
        }
    }
}

/// One message: its four descriptors, `None` where some are missing, an error where the host is
/// gone.
fn receive(socket: &UnixStream) -> nix::Result<Option<[OwnedFd; 4]>> {
    let mut byte = [0];
    let mut space = nix::cmsg_space!([RawFd; 4]);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
        Err(errno) => return Err(errno),
        Ok(message) if message.bytes == 0 => return Err(Errno::EPIPE),
        Ok(message) => message,
    };
    let mut received = Vec::new();
    for control in message.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(descriptors) = control {
            // SAFETY: the kernel has just made them for us.
            received.extend(
                descriptors
                    .into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    Ok(received.try_into().ok())
}
