//! The host's connection to the keeper of one child.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError, Weak};

use nix::sys::socket::{MsgFlags, send};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::launcher_connection::RunningLauncher;
use super::protocol::{self, KeeperReport, REPORT_BYTES};
use crate::Exit;

/// The host's end of a keeper's socket. Dropping it kills the child and all its descendants.
#[derive(Debug)]
pub(crate) struct KeeperConnection {
    stream: UnixStream,
    /// A report of which only the first bytes have arrived. A field, so that every wait is
    /// cancel-safe.
    partial: [u8; REPORT_BYTES],
    filled: usize,
    exit: Option<Exit>,
    all_ended: bool,
    launcher: Weak<Mutex<RunningLauncher>>,
}

impl KeeperConnection {
    pub(super) fn new(stream: UnixStream, launcher: Weak<Mutex<RunningLauncher>>) -> Self {
        Self {
            stream,
            launcher,
            partial: [0; REPORT_BYTES],
            filled: 0,
            exit: None,
            all_ended: false,
        }
    }

    /// Waits until the child itself has ended.
    pub(crate) async fn exited(&mut self) -> Exit {
        while self.exit.is_none() && !self.all_ended {
            self.handle_report().await;
        }
        self.exit.unwrap_or(Exit::Unknown)
    }

    /// Waits until no descendant is left, or the keeper has died, in which case the launcher
    /// process kills the descendants.
    pub(crate) async fn wait_all_ended(&mut self) {
        while !self.all_ended {
            self.handle_report().await;
        }
    }

    pub(crate) fn all_ended(&self) -> bool {
        self.all_ended
    }

    /// SIGTERM to all descendants.
    pub(crate) fn terminate(&self) {
        self.send(protocol::TERMINATE);
    }

    /// SIGKILL to all descendants.
    pub(crate) fn kill(&self) {
        self.send(protocol::KILL);
    }

    /// For a child that could not be started.
    pub(super) fn set_all_ended(&mut self) {
        self.all_ended = true;
    }

    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    async fn handle_report(&mut self) {
        match self.read_report().await {
            Ok(KeeperReport::Exited(exit)) => self.exit = Some(exit),
            Ok(KeeperReport::AllEnded) | Err(_) => self.all_ended = true,
            Ok(KeeperReport::Started { .. } | KeeperReport::Failed { .. }) => {}
        }
    }

    pub(super) async fn read_report(&mut self) -> io::Result<KeeperReport> {
        while self.filled < REPORT_BYTES {
            self.stream.readable().await?;
            match self.stream.try_read(&mut self.partial[self.filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        self.filled = 0;
        KeeperReport::decode(self.partial).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// By system call, because it must also work in a drop and outside of a runtime. An error means
    /// that the keeper has ended.
    fn send(&self, byte: u8) {
        let _ = send(
            self.stream.as_raw_fd(),
            &[byte],
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        );
        // A keeper that was stopped is continued by the launcher process, unless that was stopped
        // too.
        if let Some(launcher) = self.launcher.upgrade() {
            launcher
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .resume();
        }
    }
}

impl Drop for KeeperConnection {
    fn drop(&mut self) {
        if !self.all_ended {
            self.kill();
        }
    }
}
