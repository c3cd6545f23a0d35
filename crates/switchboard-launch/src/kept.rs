//! The host's side of the launcher (Linux): starts it, hands it descriptors, talks with the keeper
//! of each server.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::socket::{ControlMessage, MsgFlags, recv, send, sendmsg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::Command;
use super::command::WipedBytes;
use super::keeper::RESUME;
use super::order::{self, REPORT_BYTES, Report, Step};
use super::{Exit, zygote};

/// How long a launcher and keeper may take to start a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The launcher process, started again should it have died.
#[derive(Debug)]
pub(crate) struct LauncherProcess {
    program: PathBuf,
    /// Each server's control holds it weakly.
    link: Arc<Mutex<Link>>,
}

impl LauncherProcess {
    pub(crate) fn start(program: PathBuf) -> io::Result<Self> {
        if std::env::var_os(zygote::MARKER).is_some() {
            // Otherwise a program that forgot to call it would start itself for ever.
            return Err(io::Error::other(
                "this process was started as a launcher; its main must call switchboard::launcher_main() before anything else",
            ));
        }
        let link = Arc::new(Mutex::new(Link::start(&program)?));
        Ok(Self { program, link })
    }

    /// Starts a server; the child's ends of its pipes are closed here in any case.
    pub(crate) async fn spawn(
        &self,
        command: &Command,
        stdio: [OwnedFd; 3],
    ) -> io::Result<(u32, Control)> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let text = WipedBytes(order::encode(command)?);
        match self.order(command, &text, &stdio, deadline).await {
            // It died with the order in its hands: a server that nobody reported as started was not, or ended with its keeper.
            Err(Unstarted::LauncherEnded) if self.link().has_answered() => {
                self.link().restart(&self.program)?;
                self.order(command, &text, &stdio, deadline).await
            }
            outcome => outcome,
        }
        .map_err(|unstarted| match unstarted {
            Unstarted::LauncherEnded => io::Error::other(format!(
                "the launcher {} ended before {} was started; its main must call switchboard::launcher_main() before anything else",
                self.program.display(),
                command.program.display()
            )),
            Unstarted::Told(error) => error,
        })
    }

    /// Gives one order, and waits for what becomes of it.
    async fn order(
        &self,
        command: &Command,
        text: &WipedBytes,
        stdio: &[OwnedFd; 3],
        deadline: Instant,
    ) -> Result<(u32, Control), Unstarted> {
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        // Most orders fit the socket's buffer: then the keeper finds its own when it wakes.
        let sent = send(
            ours.as_raw_fd(),
            &text.0,
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        )
        .unwrap_or(0);
        let mut control = Control::new(UnixStream::from_std(ours)?, Arc::downgrade(&self.link));
        self.link().resume();
        let [stdin, stdout, stderr] = stdio.each_ref().map(AsRawFd::as_raw_fd);
        self.hand_over([theirs.as_raw_fd(), stdin, stdout, stderr], deadline)
            .await?;
        drop(theirs);
        let started = async {
            control.stream.write_all(&text.0[sent..]).await?;
            control.report().await
        };
        match timeout_at(deadline, started).await {
            Ok(Ok(Report::Started { pid })) => Ok((pid.unsigned_abs(), control)),
            Ok(Ok(Report::Failed { step, errno })) => {
                control.gone = true;
                Err(failure(command, step, errno).into())
            }
            Ok(Ok(Report::Exited(_) | Report::Gone)) => {
                Err(io::Error::other("the keeper answered out of turn").into())
            }
            Ok(Err(_)) => Err(Unstarted::LauncherEnded),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, self.silence()).into()),
        }
    }

    /// One byte and four descriptors. Nothing here waits but for room in the socket's buffer.
    async fn hand_over(&self, descriptors: [RawFd; 4], deadline: Instant) -> io::Result<()> {
        let mut restarted = false;
        loop {
            let sent = self.link().send(&descriptors);
            match sent {
                Ok(()) => return Ok(()),
                Err(Errno::EAGAIN | Errno::ETOOMANYREFS | Errno::EINTR | Errno::ENOBUFS)
                    if Instant::now() < deadline =>
                {
                    sleep(Duration::from_millis(1)).await;
                }
                Err(Errno::EAGAIN) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, self.silence()));
                }
                // It died since: whoever it kept was ended with it, and what is started now needs a
                // new one.
                Err(Errno::EPIPE | Errno::ECONNRESET) if !restarted => {
                    restarted = true;
                    self.link().restart(&self.program)?;
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

    fn silence(&self) -> String {
        let program = self.program.display();
        match self.link().has_answered() {
            true => format!(
                "the launcher did not answer within {} s; the machine may be overloaded",
                ANSWER_TIMEOUT.as_secs()
            ),
            false => format!(
                "{program} is no launcher; its main must call switchboard::launcher_main() before anything else"
            ),
        }
    }

    fn link(&self) -> std::sync::MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an order came to nothing.
enum Unstarted {
    /// The launcher went away before anything was said.
    LauncherEnded,
    /// As told.
    Told(io::Error),
}

impl From<io::Error> for Unstarted {
    fn from(error: io::Error) -> Self {
        Self::Told(error)
    }
}

#[derive(Debug)]
struct Link {
    socket: Option<BlockingStream>,
    process: Option<std::process::Child>,
    /// The byte that a launcher sends first has been seen.
    answered: bool,
}

impl Link {
    fn start(program: &Path) -> io::Result<Self> {
        let (ours, theirs) = BlockingStream::pair()?;
        let mut command = std::process::Command::new(program);
        // Not our own name, so that whoever kills all processes of that name leaves the keepers to
        // do their work.
        command.arg0("mcp-launcher");
        // Our variables are none of its business, but for those that its libraries are found with.
        command.env_clear().env(zygote::MARKER, "1");
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
            answered: false,
        })
    }

    /// Unless another caller has done so meanwhile.
    fn restart(&mut self, program: &Path) -> io::Result<()> {
        if !self.is_open() {
            *self = Self::start(program)?;
        }
        Ok(())
    }

    fn is_open(&mut self) -> bool {
        // Takes its first byte off the socket, so that what follows can only be the end.
        self.has_answered();
        let Some(socket) = &self.socket else {
            return false;
        };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
        !matches!(
            recv(socket.as_raw_fd(), &mut [0], flags),
            Ok(0) | Err(Errno::ECONNRESET)
        )
    }

    fn has_answered(&mut self) -> bool {
        if let Some(socket) = &self.socket
            && !self.answered
        {
            let mut byte = [0];
            self.answered = recv(socket.as_raw_fd(), &mut byte, MsgFlags::MSG_DONTWAIT) == Ok(1)
                && byte == [zygote::READY];
        }
        self.answered
    }

    /// Continues the launcher, should a server have stopped it. Its pid is its own until it is
    /// waited for, which only the drop does.
    fn resume(&self) {
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

impl Drop for Link {
    fn drop(&mut self) {
        let is_launcher = self.has_answered();
        self.socket = None;
        self.resume();
        let Some(mut process) = self.process.take() else {
            return;
        };
        if matches!(process.try_wait(), Ok(Some(_))) {
            return;
        }
        // It ends by itself, once its last keeper has. Waited for elsewhere, so that it does not
        // stay behind as a zombie.
        let _ = std::thread::Builder::new()
            .name("launcher-end".to_owned())
            .stack_size(64 * 1024)
            .spawn(move || {
                if !is_launcher {
                    // Either a stranger, or one that has not come up yet and sees its socket
                    // closed: then it needs no more time than this.
                    std::thread::sleep(Duration::from_secs(2));
                    let _ = process.kill();
                }
                process.wait()
            });
    }
}

/// The host's end of a keeper's socket. Dropping it kills what is left of the server.
#[derive(Debug)]
pub(crate) struct Control {
    stream: UnixStream,
    /// A report that has come in part, kept here so that a wait may be given up at any point.
    partial: [u8; REPORT_BYTES],
    filled: usize,
    exit: Option<Exit>,
    gone: bool,
    launcher: Weak<Mutex<Link>>,
}

impl Control {
    fn new(stream: UnixStream, launcher: Weak<Mutex<Link>>) -> Self {
        Self {
            stream,
            launcher,
            partial: [0; REPORT_BYTES],
            filled: 0,
            exit: None,
            gone: false,
        }
    }

    /// The server itself has ended.
    pub(crate) async fn exited(&mut self) -> Exit {
        while self.exit.is_none() && !self.gone {
            self.take_in().await;
        }
        self.exit.unwrap_or(Exit::Unknown)
    }

    /// No descendant is left, or the keeper is not, and then the launcher kills what it finds.
    pub(crate) async fn gone(&mut self) {
        while !self.gone {
            self.take_in().await;
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    pub(crate) fn term(&self) {
        self.tell(order::TERM);
    }

    pub(crate) fn kill(&self) {
        self.tell(order::KILL);
    }

    async fn take_in(&mut self) {
        match self.report().await {
            Ok(Report::Exited(exit)) => self.exit = Some(exit),
            Ok(Report::Gone) | Err(_) => self.gone = true,
            Ok(Report::Started { .. } | Report::Failed { .. }) => {}
        }
    }

    async fn report(&mut self) -> io::Result<Report> {
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
        Report::decode(self.partial).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Past tokio: this must work while dropping, and outside of a runtime. A keeper that is gone
    /// needs no telling.
    fn tell(&self, word: u8) {
        let _ = send(
            self.stream.as_raw_fd(),
            &[word],
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        );
        // A keeper that was stopped is continued by the launcher, as long as that runs itself.
        if let Some(link) = self.launcher.upgrade() {
            link.lock().unwrap_or_else(PoisonError::into_inner).resume();
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if !self.gone {
            self.kill();
        }
    }
}

fn failure(command: &Command, step: Step, errno: i32) -> io::Error {
    let error = io::Error::from_raw_os_error(errno);
    let program = command.program.display();
    let message = match step {
        Step::Program if errno == Errno::ENOENT as i32 && command.program.exists() => {
            format!(
                "cannot run {program}: the interpreter that its first line names does not exist"
            )
        }
        Step::Program if errno == Errno::ENOEXEC as i32 => {
            format!(
                "cannot run {program}: {error}; a script needs a first line such as `#!/bin/sh`"
            )
        }
        Step::Program => format!("cannot run {program}: {error}"),
        Step::Folder => {
            let folder = command
                .folder
                .as_deref()
                .unwrap_or(Path::new("."))
                .display();
            format!("cannot run {program} in the folder {folder}: {error}")
        }
        Step::Keeper | Step::Fork => {
            format!("no process for {program}: {error}; the limit of processes may be reached")
        }
        Step::Prepare => format!("cannot prepare a process for {program}: {error}"),
    };
    io::Error::new(error.kind(), message)
}
