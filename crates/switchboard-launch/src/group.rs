//! Children without a launcher: each leads a process group, which is killed as a whole.
//!
//! A thread per child starts it, waits for it and is the only one to reap it: PDEATHSIG (Linux) is
//! tied to the thread that forked, and a group's number cannot pass to strangers before its leader
//! is reaped. As soon as the leader has ended, the rest of its group is killed; nobody waits for
//! it, as its parent is init.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::{oneshot, watch};

use super::Command;
use super::Exit;

/// A running group. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Arc<Leader>,
    ended: watch::Receiver<Option<Exit>>,
}

/// The leader's pid, until it is reaped: from then on the number is anybody's.
#[derive(Debug, Default)]
struct Leader(Mutex<Option<Pid>>);

impl Group {
    /// Starts a child; its ends of the pipes are closed here in any case.
    pub(crate) async fn spawn(command: &Command, stdio: [OwnedFd; 3]) -> io::Result<(u32, Self)> {
        let program = command.program.display();
        let command = std_command(command, stdio);
        let (started, starting) = oneshot::channel();
        let (ending, ended) = watch::channel(None);
        let leader = Arc::new(Leader::default());
        let thread = std::thread::Builder::new()
            .name("child-wait".to_owned())
            .stack_size(256 * 1024);
        let group = Self {
            leader: Arc::clone(&leader),
            ended,
        };
        thread.spawn(move || live(command, &leader, started, &ending))?;
        let answer = starting
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the thread that starts it ended")));
        match answer {
            Ok(pid) => Ok((pid, group)),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("cannot run {program}: {error}"),
            )),
        }
    }

    pub(crate) async fn exited(&mut self) -> Exit {
        match self.ended.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Unknown),
            Err(_) => Exit::Unknown,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.ended.borrow().is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = *self.leader.lock() {
            let _ = killpg(pid, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

impl Leader {
    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn live(
    mut command: std::process::Command,
    leader: &Leader,
    started: oneshot::Sender<io::Result<u32>>,
    ending: &watch::Sender<Option<Exit>>,
) {
    let spawned = command.spawn();
    // Our copies of the child's ends: held, they would keep the host from ever seeing the end of
    // its output.
    drop(command);
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let pid = Pid::from_raw(child.id().cast_signed());
    *leader.lock() = Some(pid);
    if started.send(Ok(child.id())).is_err() {
        // Nobody waits for it any more.
        let _ = killpg(pid, Signal::SIGKILL);
    }
    wait_without_reaping(pid);
    let mut lock = leader.lock();
    let _ = killpg(pid, Signal::SIGKILL);
    let exit = child.wait().map_or(Exit::Unknown, exit_of);
    *lock = None;
    drop(lock);
    ending.send_replace(Some(exit));
}

fn std_command(wanted: &Command, [stdin, stdout, stderr]: [OwnedFd; 3]) -> std::process::Command {
    let mut command = std::process::Command::new(&wanted.program);
    command.arg0(&wanted.arg0).args(&wanted.args);
    let variables = wanted.env.iter();
    command
        .env_clear()
        .envs(variables.map(|(name, value)| (name, OsStr::from_bytes(&value.0))));
    if let Some(folder) = &wanted.folder {
        command.current_dir(folder);
    }
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    // SAFETY: system calls only, none of which takes a lock or allocates.
    unsafe { command.pre_exec(prepare) };
    command
}

/// Runs in the child before its program does.
fn prepare() -> io::Result<()> {
    nix::unistd::setsid()?;
    #[cfg(target_os = "linux")]
    {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        super::birth::default_signals();
        // What the embedder left inheritable. Best effort: kernels before 5.11 do not know it.
        // SAFETY: marks descriptors, closes none.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
    }
    Ok(())
}

fn wait_without_reaping(pid: Pid) {
    loop {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the pointer is to live memory of that type.
        let answer = unsafe {
            libc::waitid(
                libc::P_PID,
                pid.as_raw() as libc::id_t,
                info.as_mut_ptr(),
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        if answer == 0 || Errno::last() != Errno::EINTR {
            return;
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}
