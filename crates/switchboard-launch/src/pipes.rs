//! The three pipes of a child: its ends block, ours do not.

use std::io;
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe;

/// Our ends.
pub(crate) struct HostEnds {
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
}

/// Makes the pipes, close-on-exec at both ends: ours, and the child's stdin, stdout and stderr.
pub(crate) fn open() -> io::Result<(HostEnds, [OwnedFd; 3])> {
    let (stdin_read, stdin_write) = io::pipe()?;
    let (stdout_read, stdout_write) = io::pipe()?;
    let (stderr_read, stderr_write) = io::pipe()?;
    widen(&stdin_write);
    widen(&stdout_read);
    let host = HostEnds {
        stdin: pipe::Sender::from_owned_fd(stdin_write.into())?,
        stdout: pipe::Receiver::from_owned_fd(stdout_read.into())?,
        stderr: pipe::Receiver::from_owned_fd(stderr_read.into())?,
    };
    Ok((
        host,
        [stdin_read.into(), stdout_write.into(), stderr_write.into()],
    ))
}

/// More bytes per wake-up. Best effort: a user's pipes together have a limit (64 MiB by default),
/// past which the system refuses, and makes every new pipe of that user a small one; so no more
/// than is of use.
#[cfg(target_os = "linux")]
fn widen(end: &impl std::os::fd::AsFd) {
    const PIPE_BYTES: i32 = 256 * 1024;
    let _ = nix::fcntl::fcntl(end, nix::fcntl::FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
}

#[cfg(not(target_os = "linux"))]
fn widen(_end: &impl std::os::fd::AsFd) {}
