//! The launcher process: it forks a keeper for every child, and kills processes whose keeper died.
//!
//! It parses nothing: each message is one byte and four descriptors, which it passes on to a new
//! keeper. It is single-threaded, so a fork without exec is sound, and small, so a fork is cheap.

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

use super::keeper::{self, RESUME, WaitOutcome};
use super::protocol::{KeeperReport, SpawnStep};
use super::{exec, process_tree, program_pages};

/// The environment variable that makes a program serve as launcher process. No child has it.
pub(crate) const MARKER: &str = "SWITCHBOARD_LAUNCHER";
/// Sent to the host first, to show that the program called `launcher_main`.
pub(crate) const READY: u8 = b'R';

/// How often to kill again while there are orphans.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// A keeper that was stopped this often is killed instead of continued, and its child with it.
const MAX_STOPS: u32 = 3;

/// Serves and exits if the marker is set and stdin is a socket; otherwise returns at once.
pub(crate) fn serve_if_marked() {
    let stdin = std::io::stdin();
    if std::env::var_os(MARKER).is_none() || getsockopt(&stdin, sockopt::SockType).is_err() {
        return;
    }
    let status = match serve() {
        Ok(()) => 0,
        // No message: stderr is /dev/null. The host sees its socket close.
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
    let mut launcher = LauncherProcess {
        host: Some(socket),
        keepers: BTreeMap::new(),
        has_released_code: false,
    };
    launcher.serve(&signals);
    Ok(())
}

/// Leaves the terminal, and closes every inherited descriptor but the host's socket.
fn detach() -> nix::Result<UnixStream> {
    let _ = prctl::set_name(c"mcp-launcher");
    // Fails if we already lead a process group, which is good enough.
    let _ = setsid();
    // SAFETY: nothing owns a descriptor above 2 yet: this is the first thing the program does.
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
        // SAFETY: as above. The descriptor of the listing itself is closed already, and closing it
        // again fails harmlessly.
        unsafe { libc::close(fd) };
    }
}

/// Resets every signal, so that children inherit no ignored one; ignores those that are not meant
/// for us; and blocks those that are read from the returned descriptor.
fn prepare_signals() -> nix::Result<SignalFd> {
    exec::default_signals();
    for number in exec::IGNORED {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { signal(number, SigHandler::SigIgn) }?;
    }
    let awaited: SigSet = [Signal::SIGCHLD, RESUME].into_iter().collect();
    awaited.thread_set_mask()?;
    SignalFd::with_flags(&awaited, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

struct LauncherProcess {
    /// `None` once the host has died, or dropped its last `Launcher`.
    host: Option<UnixStream>,
    /// The running keepers, and how often each was stopped. Any other child of ours is an orphan:
    /// its keeper was killed.
    keepers: BTreeMap<Pid, u32>,
    /// Since it forked the last keeper.
    has_released_code: bool,
}

struct Reaped {
    any_ended: bool,
    none_left: bool,
}

impl LauncherProcess {
    /// Returns once the host has closed its socket and no keeper or orphan is left.
    fn serve(&mut self, signals: &SignalFd) {
        let mut orphans = false;
        loop {
            let reaped = self.reap();
            if self.host.is_none() && reaped.none_left {
                return;
            }
            // There can be orphans only after a keeper has ended.
            orphans = (orphans || reaped.any_ended) && self.kill_orphans();
            let timeout = match (orphans, self.has_released_code) {
                (true, _) => PollTimeout::try_from(KILL_INTERVAL).unwrap_or(PollTimeout::ZERO),
                (false, false) => {
                    PollTimeout::try_from(program_pages::IDLE_TIME).unwrap_or(PollTimeout::NONE)
                }
                (false, true) => PollTimeout::NONE,
            };
            let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            watched.extend(
                self.host
                    .as_ref()
                    .map(|host| PollFd::new(host.as_fd(), PollFlags::POLLIN)),
            );
            let is_idle = poll(&mut watched, timeout) == Ok(0);
            let host_sent = watched.get(1).is_some_and(|fd| fd.any().unwrap_or(false));
            drop(watched);
            if is_idle && !orphans && !self.has_released_code {
                program_pages::release();
                self.has_released_code = true;
            }
            while let Ok(Some(_)) = signals.read_signal() {}
            if host_sent {
                self.read_request(signals);
            }
        }
    }

    fn reap(&mut self) -> Reaped {
        let mut any_ended = false;
        loop {
            match keeper::wait_for_any(libc::WNOHANG | libc::WUNTRACED) {
                WaitOutcome::Ended(pid, _) => {
                    self.keepers.remove(&pid);
                    any_ended = true;
                }
                WaitOutcome::Stopped(pid) => self.resume(pid),
                WaitOutcome::AllRunning => {
                    return Reaped {
                        any_ended,
                        none_left: false,
                    };
                }
                WaitOutcome::NoChildren => {
                    return Reaped {
                        any_ended,
                        none_left: true,
                    };
                }
            }
        }
    }

    /// Continues a keeper that was stopped. Only its own child has a reason to stop it.
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

    /// Returns whether there were any.
    fn kill_orphans(&self) -> bool {
        let mut found = false;
        for orphan in process_tree::children(Pid::this())
            .into_iter()
            .filter(|pid| !self.keepers.contains_key(pid))
        {
            found = true;
            let _ = kill(orphan, Signal::SIGKILL);
        }
        found
    }

    fn read_request(&mut self, signals: &SignalFd) {
        let Some(host) = &self.host else { return };
        match receive(host) {
            Ok(Some([keeper_end, stdio @ ..])) => {
                self.fork_keeper(UnixStream::from(keeper_end), stdio, signals)
            }
            // Fewer than four descriptors arrived: the host sees its ends closed.
            Ok(None) => {}
            Err(_) => self.host = None,
        }
    }

    fn fork_keeper(&mut self, mut keeper_end: UnixStream, stdio: [OwnedFd; 3], signals: &SignalFd) {
        let launcher = Pid::this();
        // SAFETY: this process has one thread, so the forked one may call any function.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => {
                // As long as a keeper holds it, the host does not see that the launcher process
                // died.
                self.host = None;
                keeper::run(keeper_end, stdio, signals, launcher)
            }
            // Our copies of the descriptors are closed here: only the keeper and its child hold
            // them.
            Ok(ForkResult::Parent { child }) => {
                self.keepers.insert(child, 0);
                self.has_released_code = false;
            }
            Err(errno) => {
                let _ = keeper_end.write_all(
                    &KeeperReport::Failed {
                        step: SpawnStep::ForkKeeper,
                        errno: errno as i32,
                    }
                    .encode(),
                );
            }
        }
    }
}

/// Receives one message: its four descriptors, `None` if some are missing, an error if the host has
/// died.
fn receive(host: &UnixStream) -> nix::Result<Option<[OwnedFd; 4]>> {
    let mut byte = [0];
    let mut space = nix::cmsg_space!([RawFd; 4]);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = match recvmsg::<()>(host.as_raw_fd(), &mut parts, Some(&mut space), flags) {
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
        Err(errno) => return Err(errno),
        Ok(message) if message.bytes == 0 => return Err(Errno::EPIPE),
        Ok(message) => message,
    };
    let mut received = Vec::new();
    for control in message.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(descriptors) = control {
            // SAFETY: the kernel has just created them for this process.
            received.extend(
                descriptors
                    .into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    Ok(received.try_into().ok())
}
