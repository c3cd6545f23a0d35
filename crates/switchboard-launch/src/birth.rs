//! The birth of a server (Linux): clone, a session of its own, exactly three descriptors, execve.

use std::convert::Infallible;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, clone};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, getppid, setsid};

use super::order::{Order, Step};

/// The signals that the launcher ignores, and a server must not: what is ignored stays so through
/// `execve`.
pub(crate) const IGNORED: [Signal; 5] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGPIPE,
];

/// Room for what the child does before its program runs.
const STACK_BYTES: usize = 64 * 1024;

/// Starts the server as a child of this process, which must be single-threaded; returns once its
/// program runs.
///
/// The child borrows our memory while we stand still (`CLONE_VM | CLONE_VFORK`): nothing is copied
/// for the moment before `execve`, which halves what a keeper costs. It runs on a stack of its own,
/// so it cannot disturb ours.
pub(crate) fn give(order: &Order<'_>, stdio: [OwnedFd; 3]) -> Result<Pid, (Step, Errno)> {
    let mut failure = None;
    let parent = Pid::this();
    let child = {
        let become_it = || {
            let Err(why) = become_server(order, &stdio, parent);
            failure = Some(why);
            127
        };
        let mut stack = vec![0; STACK_BYTES];
        // SAFETY: this process has one thread, which stands still until the child has run its
        // program or ended; so nobody else uses the memory that the child borrows, and
        // stack and closure outlive its use of them.
        unsafe {
            clone(
                Box::new(become_it),
                &mut stack,
                CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK,
                Some(libc::SIGCHLD),
            )
        }
    };
    // Held here, they would keep the host from ever seeing the end of the server's output.
    drop(stdio);
    let child = child.map_err(|errno| (Step::Fork, errno))?;
    match failure {
        None => Ok(child),
        Some(why) => {
            let _ = waitpid(child, None);
            Err(why)
        }
    }
}

/// Sets every signal to its default action. Past the C library, which keeps two of them to itself:
/// what is ignored there stays so, too.
pub(crate) fn default_signals() {
    const LAST_SIGNAL: i32 = 64;
    // The kernel's `struct sigaction`: default action, no flags, nothing masked.
    let default = [0u64; 4];
    for number in 1..=LAST_SIGNAL {
        // SAFETY: the structure is as large as the kernel reads, and the default action runs no
        // code of ours. KILL and STOP are refused.
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

fn become_server(
    order: &Order<'_>,
    [stdin, stdout, stderr]: &[OwnedFd; 3],
    parent: Pid,
) -> Result<Infallible, (Step, Errno)> {
    let prepared = || {
        setsid()?;
        // Should the keeper be killed; what the server itself started then goes to the launcher,
        // which kills it.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != parent {
            return Err(Errno::ESRCH);
        }
        // All other descriptors of a keeper are close-on-exec.
        dup2_stdin(stdin)?;
        dup2_stdout(stdout)?;
        dup2_stderr(stderr)?;
        for number in IGNORED {
            // SAFETY: the default action runs no code of ours.
            unsafe { signal(number, SigHandler::SigDfl) }?;
        }
        SigSet::empty().thread_set_mask()
    };
    prepared().map_err(|errno| (Step::Prepare, errno))?;
    if !order.cwd.is_empty() {
        chdir(order.cwd).map_err(|errno| (Step::Folder, errno))?;
    }
    execve(order.program, &order.args, &order.env).map_err(|errno| (Step::Program, errno))
}
