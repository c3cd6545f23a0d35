//! The stdio transport: lines in, lines out.
//!
//! Reads all available bytes, passes every complete line to the [`Peer`], and writes everything in the
//! [`OutgoingBuffer`] at once: many pipelined calls cost two system calls. Ends with its input.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::demo::Demo;
use crate::options::{Invocation, Options, USAGE};
use crate::outgoing::OutgoingBuffer;
use crate::peer::Peer;
use crate::rpc::Fault;

/// A longer line is refused and skipped.
const LINE_LIMIT_BYTES: usize = 64 << 20;

/// Bytes per read: enough for 64 pipelined calls, and for a 1 MiB message in a few reads.
const READ_BYTES: usize = 256 << 10;

/// Larger buffers are freed after use.
const KEPT_BYTES: usize = 4 << 20;

/// How long the last answers may take to be written after the end of input.
const LAST_WRITE_LIMIT: Duration = Duration::from_secs(1);

/// The whole program: reads the arguments, serves stdio until it ends, or HTTP, and returns the
/// exit code.
pub fn main_stdio(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    use io::Write;
    // Errors of writing are ignored: there is no other place to report them.
    match Options::parse(arguments, |name| std::env::var(name).ok()) {
        Ok(Invocation::Help) => {
            let _ = io::stdout().write_all(USAGE.as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Invocation::Version) => {
            let _ = writeln!(
                io::stdout(),
                "switchboard-demo {}",
                env!("CARGO_PKG_VERSION")
            );
            ExitCode::SUCCESS
        }
        Ok(Invocation::Serve(options)) => match serve_blocking(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "switchboard-demo: {error}");
                ExitCode::FAILURE
            }
        },
        Err(fault) => {
            let _ = writeln!(io::stderr(), "switchboard-demo: {fault}");
            ExitCode::from(2)
        }
    }
}

/// Serves stdin and stdout of this process until stdin ends. Needs a tokio runtime with I/O and
/// time.
pub async fn serve_stdio(options: Options) -> io::Result<()> {
    tokio::time::sleep(options.start_delay).await;
    let (input, output) = (open_input()?, open_output()?);
    serve(options, input, output).await
}

/// Serves one connection, whatever it is made of, until its input ends.
pub async fn serve(
    options: Options,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let tick = options.tick;
    let demo = Demo::new(options);
    let outlet = OutgoingBuffer::new();
    let peer = demo.connect(outlet.clone());
    let mut writing = pin!(write_waiting(&outlet, output));
    let ended = tokio::select! {
        biased;
        ended = read_lines(&peer, &outlet, input) => ended,
        // A peer that no longer reads has disconnected.
        _ = &mut writing => return Ok(()),
        () = count_by_itself(&demo, tick) => Ok(()),
    };
    peer.close();
    outlet.end();
    // A peer that closed our input and does not read must not keep this process alive.
    let _ = tokio::time::timeout(LAST_WRITE_LIMIT, writing).await;
    ended
}

fn serve_blocking(options: Options) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(async {
        match options.listen.clone() {
            Some(listen) => crate::http::serve_http(options, &listen).await,
            None => serve_stdio(options).await,
        }
    });
    // A call in flight must not keep the process alive.
    runtime.shutdown_background();
    served
}

async fn read_lines(
    peer: &Arc<Peer>,
    outlet: &OutgoingBuffer,
    mut input: impl AsyncRead + Unpin,
) -> io::Result<()> {
    let mut lines = Lines::default();
    loop {
        outlet.has_room().await;
        lines.buffer.reserve(READ_BYTES);
        let count = input.read_buf(&mut lines.buffer).await?;
        lines.hand_over(count == 0, |line| match line {
            Line::Whole(text) => peer.handle(text, outlet),
            Line::TooLong => {
                let fault =
                    Fault::invalid_request(format!("a line of more than {LINE_LIMIT_BYTES} bytes"));
                outlet.push(|out| fault.write(out, "null"));
            }
        });
        if count == 0 {
            return Ok(());
        }
    }
}

async fn write_waiting(
    outlet: &OutgoingBuffer,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut taken = Vec::new();
    while outlet.take(&mut taken).await {
        output.write_all(&taken).await?;
        output.flush().await?;
        taken.clear();
        taken.shrink_to(KEPT_BYTES);
    }
    Ok(())
}

pub(crate) async fn count_by_itself(demo: &Demo, tick: Option<Duration>) {
    let Some(tick) = tick else {
        return std::future::pending().await;
    };
    let mut interval = tokio::time::interval(tick);
    loop {
        interval.tick().await;
        demo.count_up();
    }
}

/// Splits the bytes read into lines.
#[derive(Debug, Default)]
struct Lines {
    buffer: Vec<u8>,
    /// How far the unfinished line at the end was searched for its newline.
    searched: usize,
    /// Whether the rest of a line that is too long is being dropped.
    skipping: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Whole(&'a [u8]),
    TooLong,
}

impl Lines {
    /// Passes every complete line to `take`, at the end of the input also an unfinished one.
    fn hand_over(&mut self, is_end: bool, mut take: impl FnMut(Line<'_>)) {
        let mut begin = 0;
        while let Some(offset) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            let end = self.searched + offset;
            if !std::mem::take(&mut self.skipping) {
                take(Line::Whole(&self.buffer[begin..end]));
            }
            begin = end + 1;
            self.searched = begin;
        }
        if is_end && !self.skipping {
            take(Line::Whole(&self.buffer[begin..]));
            begin = self.buffer.len();
        }
        self.buffer.drain(..begin);
        if self.skipping || self.buffer.len() > LINE_LIMIT_BYTES {
            if !std::mem::replace(&mut self.skipping, true) {
                take(Line::TooLong);
            }
            self.buffer.clear();
        }
        self.searched = self.buffer.len();
        if self.buffer.is_empty() {
            self.buffer.shrink_to(KEPT_BYTES);
        }
    }
}

/// Stdin; without a helper thread if it is a pipe or a socket.
fn open_input() -> io::Result<Box<dyn AsyncRead + Unpin>> {
    Ok(
        match Channel::of(io::stdin().as_fd().try_clone_to_owned()?)? {
            Channel::Pipe(descriptor) => Box::new(pipe::Receiver::from_owned_fd(descriptor)?),
            Channel::Socket(socket) => Box::new(socket),
            Channel::Other => Box::new(tokio::io::stdin()),
        },
    )
}

/// Stdout, likewise.
fn open_output() -> io::Result<Box<dyn AsyncWrite + Unpin>> {
    Ok(
        match Channel::of(io::stdout().as_fd().try_clone_to_owned()?)? {
            Channel::Pipe(descriptor) => Box::new(pipe::Sender::from_owned_fd(descriptor)?),
            Channel::Socket(socket) => Box::new(socket),
            Channel::Other => Box::new(tokio::io::stdout()),
        },
    )
}

enum Channel {
    Pipe(OwnedFd),
    Socket(UnixStream),
    /// A terminal or a file: neither can be polled safely.
    Other,
}

impl Channel {
    fn of(descriptor: OwnedFd) -> io::Result<Self> {
        let file = std::fs::File::from(descriptor);
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() {
            return Ok(Self::Pipe(file.into()));
        }
        if kind.is_socket() {
            let socket = std::os::unix::net::UnixStream::from(OwnedFd::from(file));
            socket.set_nonblocking(true)?;
            return UnixStream::from_std(socket).map(Self::Socket);
        }
        Ok(Self::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&str], expected: &[&str]) {
        let mut lines = Lines::default();
        let mut taken = Vec::new();
        for (index, chunk) in chunks.iter().enumerate() {
            lines.buffer.extend_from_slice(chunk.as_bytes());
            lines.hand_over(index + 1 == chunks.len(), |line| match line {
                Line::Whole(text) => taken.push(String::from_utf8_lossy(text).into_owned()),
                Line::TooLong => taken.push("too long".to_owned()),
            });
        }
        taken.retain(|line| !line.is_empty());
        assert_eq!(taken, expected, "{chunks:?}");
    }

    #[test]
    fn lines_are_joined_across_reads() {
        check(&["a\nb\n", ""], &["a", "b"]);
        check(&["a", "b", "c\nd", "\n", ""], &["abc", "d"]);
        check(&["a\nb", ""], &["a", "b"]);
        check(&["", ""], &[]);
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_once_and_the_next_is_read() {
        let half = "x".repeat(LINE_LIMIT_BYTES / 2 + 1);
        check(
            &[&half, &half, &half, "tail\nnext\n", ""],
            &["too long", "next"],
        );
    }
}
