//! The birth of a server (Linux): fork, a session of its own, exactly three descriptors, execve.

use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, fork, getppid, pipe2, setsid};

use super::order::{Order, Step};

/// The signals that the launcher ignores, and a server must not: what is ignored stays so through `execve`.
pub(super) const IGNORED: [Signal; 5] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGPIPE];

/// Starts the server as a child of this process, which must be single-threaded; returns once its program runs.
pub(super) fn give(order: &Order<'_>, stdio: [OwnedFd; 3]) -> Result<Pid, (Step, Errno)> {
    // Closed by a successful execve; a failure is written to it first.
    let (outcome, failure) = pipe2(OFlag::O_CLOEXEC).map_err(|errno| (Step::Fork, errno))?;
    let parent = Pid::this();
    // SAFETY: this process has one thread, so the child may do whatever it could do itself.
    match unsafe { fork() }.map_err(|errno| (Step::Fork, errno))? {
        ForkResult::Child => {
            let Err((step, errno)) = become_server(order, &stdio, parent);
            let mut text = [step as u8; 5];
            text[1..].copy_from_slice(&(errno as i32).to_le_bytes());
            let _ = File::from(failure).write_all(&text);
            // SAFETY: ends the child at once, as it must not return into the keeper's code.
            unsafe { libc::_exit(127) }
        }
        ForkResult::Parent { child } => {
            drop(failure);
            // Held here, they would keep the host from ever seeing the end of the server's output.
            drop(stdio);
            let mut text = [0; 5];
            if File::from(outcome).read_exact(&mut text).is_err() {
                return Ok(child);
            }
            let _ = waitpid(child, None);
            let [step, errno @ ..] = text;
            Err((Step::from_byte(step).unwrap_or(Step::Prepare), Errno::from_raw(i32::from_le_bytes(errno))))
        }
    }
}

fn become_server(order: &Order<'_>, [stdin, stdout, stderr]: &[OwnedFd; 3], parent: Pid) -> Result<Infallible, (Step, Errno)> {
    let prepared = || {
        setsid()?;
        // Should the keeper be killed; what the server itself started then goes to the launcher, which kills it.
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
