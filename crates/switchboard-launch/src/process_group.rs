//! A child without a launcher process: it leads a process group, which is signalled as a whole.
//!
//! One thread per child starts it and waits for it, because PDEATHSIG (Linux) is sent when the
//! thread that forked ends. When the child has ended, the rest of its group is killed before the
//! child is reaped: until then the group's id cannot be reused.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::{oneshot, watch};

use crate::{Command, Exit};

/// A running child and its process group. Dropping it kills the group.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    leader: Arc<LeaderPid>,
    /// Sent by the child's thread.
    exit: watch::Receiver<Option<Exit>>,
}

/// The child's pid, `None` once it is reaped: then the pid may be reused.
#[derive(Debug, Default)]
struct LeaderPid(Mutex<Option<Pid>>);

impl ProcessGroup {
    /// Starts a child. Our copies of its ends of the pipes are closed in any case.
    pub(crate) async fn spawn(command: &Command, stdio: [OwnedFd; 3]) -> io::Result<(u32, Self)> {
        let program = command.program.display();
        let command = std_command(command, stdio);
        let (spawned, pid) = oneshot::channel();
        let (exit_sender, exit) = watch::channel(None);
        let leader = Arc::new(LeaderPid::default());
        let thread = std::thread::Builder::new()
            .name("child-wait".to_owned())
            .stack_size(256 * 1024);
        let group = Self {
            leader: Arc::clone(&leader),
            exit,
        };
        thread.spawn(move || spawn_and_wait(command, &leader, spawned, &exit_sender))?;
        let pid = pid
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")));
        match pid {
            Ok(pid) => Ok((pid, group)),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("cannot run {program}: {error}"),
            )),
        }
    }

    pub(crate) async fn exited(&mut self) -> Exit {
        match self.exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Unknown),
            Err(_) => Exit::Unknown,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.exit.borrow().is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = *self.leader.lock() {
            let _ = killpg(pid, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

impl LeaderPid {
    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread of one child.
fn spawn_and_wait(
    mut command: std::process::Command,
    leader: &LeaderPid,
    result: oneshot::Sender<io::Result<u32>>,
    exit_sender: &watch::Sender<Option<Exit>>,
) {
    let spawned = command.spawn();
    // Closes our copies of the child's ends: as long as they are open, the host does not see the
    // end of its output.
    drop(command);
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let _ = result.send(Err(error));
            return;
        }
    };
    let pid = Pid::from_raw(child.id().cast_signed());
    *leader.lock() = Some(pid);
    if result.send(Ok(child.id())).is_err() {
        // The caller was cancelled.
        let _ = killpg(pid, Signal::SIGKILL);
    }
    wait_without_reaping(pid);
    let mut lock = leader.lock();
    let _ = killpg(pid, Signal::SIGKILL);
    let exit = child.wait().map_or(Exit::Unknown, Exit::from);
    *lock = None;
    drop(lock);
    exit_sender.send_replace(Some(exit));
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
    // SAFETY: it makes system calls only, and neither locks nor allocates.
    unsafe { command.pre_exec(prepare) };
    command
}

/// Runs in the child before `execve`.
fn prepare() -> io::Result<()> {
    nix::unistd::setsid()?;
    #[cfg(target_os = "linux")]
    {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        crate::linux::default_signals();
        // For descriptors that this program left inheritable. Kernels before 5.11 do not support
        // it. SAFETY: it marks descriptors and closes none.
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

/// Waits until the child has ended, and leaves it a zombie, so that its pid is not reused.
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
