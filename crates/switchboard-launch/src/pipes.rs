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

/// Creates the pipes, close-on-exec: our ends, and the child's stdin, stdout and stderr.
pub(crate) fn open() -> io::Result<(HostEnds, [OwnedFd; 3])> {
    let (stdin_read, stdin_write) = io::pipe()?;
    let (stdout_read, stdout_write) = io::pipe()?;
    let (stderr_read, stderr_write) = io::pipe()?;
    enlarge(&stdin_write);
    enlarge(&stdout_read);
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

/// Enlarges a pipe, for more bytes per wake-up. An error is ignored: all pipes of a user together
/// have a limit (64 MiB by default). Not larger than useful, because once that limit is reached,
/// every new pipe of the user is small.
#[cfg(target_os = "linux")]
fn enlarge(end: &impl std::os::fd::AsFd) {
    const PIPE_BYTES: i32 = 256 * 1024;
    let _ = nix::fcntl::fcntl(end, nix::fcntl::FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
}

#[cfg(not(target_os = "linux"))]
fn enlarge(_end: &impl std::os::fd::AsFd) {}
