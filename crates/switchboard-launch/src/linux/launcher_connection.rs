//! The host's side of the launcher process: starts it, starts it again if it died, and sends it the
//! descriptors of each child.

use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::socket::{ControlMessage, MsgFlags, recv, send, sendmsg};
use nix::unistd::Pid;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::keeper::RESUME;
use super::keeper_connection::KeeperConnection;
use super::launcher_process::{MARKER, READY};
use super::protocol::{self, KeeperReport, SpawnStep};
use crate::Command;
use crate::command::WipedBytes;

/// How long launcher process and keeper may take to start a child.
const SPAWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The end of every message about a program that does not serve as a launcher.
const MAIN_MUST_CALL: &str =
    "its `main` must call `launcher_main()` of switchboard-launch before anything else";

/// A launcher process, which is started again if it died.
#[derive(Debug)]
pub(crate) struct LauncherConnection {
    program: PathBuf,
    /// The keeper connections have weak references to it.
    process: Arc<Mutex<RunningLauncher>>,
}

impl LauncherConnection {
    pub(crate) fn start(program: PathBuf) -> io::Result<Self> {
        if std::env::var_os(MARKER).is_some() {
            // Otherwise a program that does not call `launcher_main` would start itself endlessly.
            return Err(io::Error::other(format!(
                "this process was started as a launcher; {MAIN_MUST_CALL}"
            )));
        }
        let process = Arc::new(Mutex::new(RunningLauncher::start(&program)?));
        Ok(Self { program, process })
    }

    /// Starts a child. Our copies of its ends of the pipes are closed in any case.
    pub(crate) async fn spawn(
        &self,
        command: &Command,
        stdio: [OwnedFd; 3],
    ) -> io::Result<(u32, KeeperConnection)> {
        let deadline = Instant::now() + SPAWN_TIMEOUT;
        let request = WipedBytes(protocol::encode(command)?);
        match self.try_spawn(command, &request, &stdio, deadline).await {
            // It died during the request. Trying again starts nothing twice: a child that was not
            // reported was not started, or was ended by its keeper.
            Err(SpawnFault::LauncherEnded) if self.process().is_ready() => {
                self.process().restart(&self.program)?;
                self.try_spawn(command, &request, &stdio, deadline).await
            }
            outcome => outcome,
        }
        .map_err(|fault| match fault {
            SpawnFault::LauncherEnded => io::Error::other(format!(
                "the launcher {} ended before {} was started; {MAIN_MUST_CALL}",
                self.program.display(),
                command.program.display()
            )),
            SpawnFault::Io(error) => error,
        })
    }

    /// Sends one request and waits for the keeper's report.
    async fn try_spawn(
        &self,
        command: &Command,
        request: &WipedBytes,
        stdio: &[OwnedFd; 3],
        deadline: Instant,
    ) -> Result<(u32, KeeperConnection), SpawnFault> {
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        // Most requests fit into the socket's buffer. Then the keeper can read its request at once.
        let sent = send(
            ours.as_raw_fd(),
            &request.0,
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        )
        .unwrap_or(0);
        let launcher = Arc::downgrade(&self.process);
        let mut keeper = KeeperConnection::new(UnixStream::from_std(ours)?, launcher);
        self.process().resume();
        let [stdin, stdout, stderr] = stdio.each_ref().map(AsRawFd::as_raw_fd);
        self.send_descriptors([theirs.as_raw_fd(), stdin, stdout, stderr], deadline)
            .await?;
        drop(theirs);
        let started = async {
            keeper.write_all(&request.0[sent..]).await?;
            keeper.read_report().await
        };
        match timeout_at(deadline, started).await {
            Ok(Ok(KeeperReport::Started { pid })) => Ok((pid.unsigned_abs(), keeper)),
            Ok(Ok(KeeperReport::Failed { step, errno })) => {
                keeper.set_all_ended();
                Err(explain_failure(command, step, errno).into())
            }
            Ok(Ok(KeeperReport::Exited(_) | KeeperReport::AllEnded)) => {
                Err(io::Error::other("unexpected report from the keeper").into())
            }
            Ok(Err(_)) => Err(SpawnFault::LauncherEnded),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, self.explain_timeout()).into()),
        }
    }

    /// Sends one byte and four descriptors. Waits only for room in the socket's buffer.
    async fn send_descriptors(&self, descriptors: [RawFd; 4], deadline: Instant) -> io::Result<()> {
        let mut restarted = false;
        loop {
            let sent = self.process().send(&descriptors);
            match sent {
                Ok(()) => return Ok(()),
                Err(Errno::EAGAIN | Errno::ETOOMANYREFS | Errno::EINTR | Errno::ENOBUFS)
                    if Instant::now() < deadline =>
                {
                    sleep(Duration::from_millis(1)).await;
                }
                Err(Errno::EAGAIN) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        self.explain_timeout(),
                    ));
                }
                // The launcher process died, and its children were ended. The new child needs a new
                // one.
                Err(Errno::EPIPE | Errno::ECONNRESET) if !restarted => {
                    restarted = true;
                    self.process().restart(&self.program)?;
                }
                Err(errno) => {
                    return Err(io::Error::other(format!(
                        "the launcher cannot be reached: {}",
                        errno.desc()
                    )));
                }
            }
        }
    }

    fn explain_timeout(&self) -> String {
        let program = self.program.display();
        match self.process().is_ready() {
            true => format!(
                "the launcher did not answer within {} s; the machine may be overloaded",
                SPAWN_TIMEOUT.as_secs()
            ),
            false => format!("{program} does not serve as a launcher; {MAIN_MUST_CALL}"),
        }
    }

    fn process(&self) -> MutexGuard<'_, RunningLauncher> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a child was not started.
enum SpawnFault {
    /// The launcher process or the keeper ended before it reported anything.
    LauncherEnded,
    Io(io::Error),
}

impl From<io::Error> for SpawnFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// One run of the launcher process.
#[derive(Debug)]
pub(super) struct RunningLauncher {
    socket: Option<BlockingStream>,
    process: Option<std::process::Child>,
    /// The first byte (`READY`) has been received.
    ready: bool,
}

impl RunningLauncher {
    fn start(program: &Path) -> io::Result<Self> {
        let (ours, theirs) = BlockingStream::pair()?;
        let mut command = std::process::Command::new(program);
        // Not our own name: `killall NAME` must leave the keepers running, to end their children.
        command.arg0("mcp-launcher");
        // It needs no variables of ours, except the one that finds its libraries.
        command.env_clear().env(MARKER, "1");
        command.envs(std::env::vars_os().filter(|(name, _)| name == "LD_LIBRARY_PATH"));
        command
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot start the launcher {}: {error}", program.display()),
            )
        })?;
        Ok(Self {
            socket: Some(ours),
            process: Some(process),
            ready: false,
        })
    }

    /// Does nothing if another caller has restarted it meanwhile.
    fn restart(&mut self, program: &Path) -> io::Result<()> {
        if !self.is_open() {
            *self = Self::start(program)?;
        }
        Ok(())
    }

    fn is_open(&mut self) -> bool {
        // Reads the first byte, if it has not been read yet: after that only the end can come.
        self.is_ready();
        let Some(socket) = &self.socket else {
            return false;
        };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
        !matches!(
            recv(socket.as_raw_fd(), &mut [0], flags),
            Ok(0) | Err(Errno::ECONNRESET)
        )
    }

    /// Whether the process has shown that it is a launcher.
    fn is_ready(&mut self) -> bool {
        if let Some(socket) = &self.socket
            && !self.ready
        {
            let mut byte = [0];
            self.ready = recv(socket.as_raw_fd(), &mut byte, MsgFlags::MSG_DONTWAIT) == Ok(1)
                && byte == [READY];
        }
        self.ready
    }

    /// Continues the launcher process, in case a child has stopped it. Its pid cannot have been
    /// reused: only the drop waits for it.
    pub(super) fn resume(&self) {
        if let Some(process) = &self.process {
            let _ = kill(Pid::from_raw(process.id().cast_signed()), RESUME);
        }
    }

    fn send(&self, descriptors: &[i32; 4]) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::EPIPE)?;
        let rights = [ControlMessage::ScmRights(descriptors)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(&[0])],
            &rights,
            flags,
            None,
        )
        .map(drop)
    }
}

impl Drop for RunningLauncher {
    fn drop(&mut self) {
        let is_launcher = self.is_ready();
        self.socket = None;
        self.resume();
        let Some(mut process) = self.process.take() else {
            return;
        };
        if matches!(process.try_wait(), Ok(Some(_))) {
            return;
        }
        // It ends by itself once its last keeper has ended. A thread waits for it, so that no
        // zombie is left.
        let _ = std::thread::Builder::new()
            .name("launcher-end".to_owned())
            .stack_size(64 * 1024)
            .spawn(move || {
                if !is_launcher {
                    // Either another program, or a launcher that is still starting, which ends
                    // at once when it finds its socket closed.
                    std::thread::sleep(Duration::from_secs(2));
                    let _ = process.kill();
                }
                process.wait()
            });
    }
}

fn is_script(program: &Path) -> bool {
    let mut start = [0; 2];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"#!"
}

/// The sentence about a child that could not be started.
fn explain_failure(command: &Command, step: SpawnStep, errno: i32) -> io::Error {
    let error = io::Error::from_raw_os_error(errno);
    let program = command.program.display();
    let message = match step {
        SpawnStep::Exec if errno == Errno::ENOENT as i32 && command.program.exists() => {
            let missing = match is_script(&command.program) {
                true => "the interpreter that its first line names",
                false => "its interpreter or loader",
            };
            format!("cannot run {program}: {missing} does not exist")
        }
        SpawnStep::Exec if errno == Errno::ENOEXEC as i32 => {
            format!(
                "cannot run {program}: {error}; a script needs a first line such as `#!/bin/sh`"
            )
        }
        SpawnStep::Exec => format!("cannot run {program}: {error}"),
        SpawnStep::ChangeFolder => {
            let folder = command
                .folder
                .as_deref()
                .unwrap_or(Path::new("."))
                .display();
            format!("cannot run {program} in the folder {folder}: {error}")
        }
        SpawnStep::ForkKeeper | SpawnStep::ForkChild => {
            format!(
                "cannot fork a process for {program}: {error}; the limit of processes may be reached"
            )
        }
        SpawnStep::Prepare => format!("cannot prepare a process for {program}: {error}"),
    };
    io::Error::new(error.kind(), message)
}
