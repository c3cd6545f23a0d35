//! One connection: writes a request, reads the head of its answer, and whatever comes after it.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::head::Head;
use super::request::Request;
use super::stack::KEEPALIVE;

/// The room for one read: this much at first, and up to that much where the reads before were
/// filled.
const FIRST_READ_BYTES: usize = 8 * 1024;
const LARGEST_READ_BYTES: usize = 256 * 1024;

/// A connection that serves again keeps no more room than this for what it wrote and read.
const KEPT_BYTES: usize = 32 * 1024;

/// An open connection.
pub(super) struct Line {
    socket: TcpStream,
    /// The head of the request that was sent last. Kept for its room.
    head: Vec<u8>,
    /// What came and was not taken yet.
    pub(super) read: BytesMut,
    /// The room for the next read.
    read_bytes: usize,
    /// When it served last.
    pub(super) used: Instant,
}

/// Why a request brought no answer.
pub(super) enum Unanswered {
    /// Nothing of it has left.
    Unsent(io::Error),
    Lost(io::Error),
}

impl Line {
    pub(super) fn over(socket: TcpStream) -> Self {
        // Each message is one write, and waits for nothing.
        let _ = socket.set_nodelay(true);
        // A peer that is gone without a word is noticed, also by whoever only listens.
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE);
        let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
        let (head, read) = (Vec::new(), BytesMut::new());
        Self {
            socket,
            head,
            read,
            read_bytes: FIRST_READ_BYTES,
            used: Instant::now(),
        }
    }

    /// Sends a request and reads the head of its answer.
    pub(super) async fn ask(
        &mut self,
        request: &Request<'_>,
        authority: &str,
    ) -> Result<Head, Unanswered> {
        self.head.clear();
        request.write_head(authority, &mut self.head);
        let body = request.body.map_or(&[][..], |body| body);
        let mut written = 0;
        let answered = poll_fn(|task| self.poll_head(task, body, &mut written)).await;
        answered.map_err(|error| {
            if written == 0 {
                Unanswered::Unsent(error)
            } else {
                Unanswered::Lost(error)
            }
        })
    }

    /// Both ways at once: a server may answer before it has taken everything, and what it said
    /// before it closed can still be read.
    fn poll_head(
        &mut self,
        task: &mut Context<'_>,
        body: &[u8],
        written: &mut usize,
    ) -> Poll<io::Result<Head>> {
        let sending = self.poll_write(task, body, written);
        loop {
            let broken = match self.poll_more(task) {
                Poll::Ready(Ok(0)) => Some(closed()),
                Poll::Ready(Ok(_)) => match Head::take(&mut self.read).map_err(malformed)? {
                    Some(mut head) => {
                        head.keeps &= *written == self.head.len() + body.len();
                        return Poll::Ready(Ok(head));
                    }
                    None => continue,
                },
                Poll::Ready(Err(error)) => Some(error),
                Poll::Pending => None,
            };
            return match (sending, broken) {
                (Poll::Ready(Err(error)), _) | (_, Some(error)) => Poll::Ready(Err(error)),
                (_, None) => Poll::Pending,
            };
        }
    }

    /// Writes what is left of the request.
    fn poll_write(
        &mut self,
        task: &mut Context<'_>,
        body: &[u8],
        written: &mut usize,
    ) -> Poll<io::Result<()>> {
        while *written < self.head.len() + body.len() {
            let head = &self.head[(*written).min(self.head.len())..];
            let body = &body[written.saturating_sub(self.head.len())..];
            let parts = [IoSlice::new(head), IoSlice::new(body)];
            match ready!(Pin::new(&mut self.socket).poll_write_vectored(task, &parts))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *written += count,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for more of the answer and reads it. False once the other side has closed.
    pub(super) async fn more(&mut self) -> io::Result<bool> {
        poll_fn(|task| self.poll_more(task))
            .await
            .map(|count| count > 0)
    }

    fn poll_more(&mut self, task: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.read.reserve(self.read_bytes);
        let room = self.read.capacity() - self.read.len();
        let count = ready!(pin!(self.socket.read_buf(&mut self.read)).poll(task))?;
        if count == room {
            self.read_bytes = (2 * self.read_bytes).min(LARGEST_READ_BYTES);
        }
        Poll::Ready(Ok(count))
    }

    /// Makes it ready to wait for another request. False where it cannot take one: there is
    /// something in it that nobody asked for.
    pub(super) fn rest(&mut self) -> bool {
        if self.head.capacity() > KEPT_BYTES {
            self.head = Vec::new();
        }
        if !self.read.is_empty() {
            return false;
        }
        if self.read.capacity() > KEPT_BYTES {
            self.read = BytesMut::new();
        }
        self.read_bytes = FIRST_READ_BYTES;
        self.used = Instant::now();
        true
    }

    /// Whether it is open still, as far as the server has said: anything that came while it rested
    /// is the end of it.
    pub(super) fn is_quiet(&self) -> bool {
        matches!(self.socket.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

#[cfg(test)]
impl Line {
    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

/// The other side closed before it had answered.
pub(super) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it was closed")
}

/// What came is no HTTP.
pub(super) fn malformed(fact: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fact.into())
}
