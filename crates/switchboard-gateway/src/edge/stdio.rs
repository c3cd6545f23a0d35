//! The client that started this process and speaks over its standard streams.

use std::io;
use std::os::fd::AsFd;

use nix::sys::stat::{SFlag, fstat};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixStream, unix::pipe};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::lines;
use crate::gateway::Gateway;
use crate::principal::Principal;
use crate::settings::ServerSelection;

/// Serves the client at the standard streams until it closes them or `closing` completes; then the
/// requests in flight are answered.
pub async fn serve(
    gateway: &Gateway,
    selection: ServerSelection,
    closing: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let (reader, writer) = (standard_input()?, standard_output()?);
    let (close, closed) = oneshot::channel::<()>();
    let gateway = gateway.clone();
    // Spawned, because the caller may run on a thread outside of the runtime's workers, where each
    // message would wake another thread twice.
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let closed = async {
            let _ = closed.await;
        };
        let client = Principal::local();
        lines::serve_until(&gateway, client, selection, reader, writer, closed).await
    });
    let closing = async {
        closing.await;
        drop(close);
        std::future::pending::<()>().await;
    };
    let served = tokio::select! {
        served = serving.join_next() => served,
        () = closing => None,
    };
    match served {
        Some(served) => served.unwrap_or_else(|error| Err(io::Error::other(error))),
        None => Ok(()),
    }
}

type StandardInput = Box<dyn AsyncRead + Unpin + Send>;
type StandardOutput = Box<dyn AsyncWrite + Unpin + Send>;

/// Pipes and sockets are polled; other files need a helper thread.
fn standard_input() -> io::Result<StandardInput> {
    let fd = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(match kind(&fd)? {
        SFlag::S_IFIFO => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        SFlag::S_IFSOCK => Box::new(socket(fd)?),
        _ => Box::new(tokio::io::stdin()),
    })
}

fn standard_output() -> io::Result<StandardOutput> {
    let fd = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(match kind(&fd)? {
        SFlag::S_IFIFO => Box::new(pipe::Sender::from_owned_fd(fd)?),
        SFlag::S_IFSOCK => Box::new(socket(fd)?),
        _ => Box::new(tokio::io::stdout()),
    })
}

fn kind(fd: &impl AsFd) -> io::Result<SFlag> {
    let mode = fstat(fd)?.st_mode;
    Ok(SFlag::from_bits_truncate(mode) & SFlag::S_IFMT)
}

fn socket(fd: std::os::fd::OwnedFd) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
