//! Starts the child of a keeper: clone, a session of its own, exactly three descriptors, execve.

use std::convert::Infallible;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, clone};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, getppid, setsid};

use super::protocol::{SpawnRequest, SpawnStep};

/// The signals that the launcher process ignores. A child must not: `execve` would keep them
/// ignored.
pub(crate) const IGNORED: [Signal; 5] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGPIPE,
];

/// The stack of the child until `execve`.
const STACK_BYTES: usize = 64 * 1024;

/// Starts the child of this process, which must be single-threaded; returns once its program runs.
///
/// Until `execve` the child shares our memory and we are suspended (`CLONE_VM | CLONE_VFORK`). No
/// page tables are copied, which halves what a keeper costs. The child has a stack of its own, so
/// ours stays intact.
pub(crate) fn start_child(
    request: &SpawnRequest<'_>,
    stdio: [OwnedFd; 3],
) -> Result<Pid, (SpawnStep, Errno)> {
    let mut failure = None;
    let parent = Pid::this();
    let child = {
        let run_child = || {
            let Err(why) = exec(request, &stdio, parent);
            failure = Some(why);
            127
        };
        let mut stack = vec![0; STACK_BYTES];
        // SAFETY: this process has one thread, which is suspended until the child has called
        // execve or ended. So nobody else uses the shared memory meanwhile, and stack and closure
        // outlive the child's use of them.
        unsafe {
            clone(
                Box::new(run_child),
                &mut stack,
                CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK,
                Some(libc::SIGCHLD),
            )
        }
    };
    // As long as we hold them, the host does not see the end of the child's output.
    drop(stdio);
    let child = child.map_err(|errno| (SpawnStep::ForkChild, errno))?;
    match failure {
        None => Ok(child),
        Some(why) => {
            let _ = waitpid(child, None);
            Err(why)
        }
    }
}

/// Sets every signal to its default action. By system call: the C library refuses two signals that
/// it uses itself, and those may have been inherited as ignored.
pub(crate) fn default_signals() {
    const LAST_SIGNAL: i32 = 64;
    // The kernel's `struct sigaction`: default action, no flags, nothing masked.
    let default = [0u64; 4];
    for number in 1..=LAST_SIGNAL {
        // SAFETY: the structure is as large as the kernel reads, and the default action runs no
        // code of ours. SIGKILL and SIGSTOP are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8,
            )
        };
    }
}

/// Runs in the child.
fn exec(
    request: &SpawnRequest<'_>,
    [stdin, stdout, stderr]: &[OwnedFd; 3],
    parent: Pid,
) -> Result<Infallible, (SpawnStep, Errno)> {
    let prepared = || {
        setsid()?;
        // In case the keeper is killed. The child's own children are then reparented to the
        // launcher process, which kills them.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != parent {
            return Err(Errno::ESRCH);
        }
        // All other descriptors that a keeper holds are close-on-exec.
        dup2_stdin(stdin)?;
        dup2_stdout(stdout)?;
        dup2_stderr(stderr)?;
        for number in IGNORED {
            // SAFETY: the default action runs no code of ours.
            unsafe { signal(number, SigHandler::SigDfl) }?;
        }
        SigSet::empty().thread_set_mask()
    };
    prepared().map_err(|errno| (SpawnStep::Prepare, errno))?;
    if !request.folder.is_empty() {
        chdir(request.folder).map_err(|errno| (SpawnStep::ChangeFolder, errno))?;
    }
    execve(request.program, &request.args, &request.env).map_err(|errno| (SpawnStep::Exec, errno))
}
