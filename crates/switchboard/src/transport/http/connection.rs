//! One HTTP/1.1 connection: writes a request, reads the response head, and then more of the body.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::head::ResponseHead;
use super::request::HttpRequest;
use super::stack::KEEPALIVE;

/// The initial read size, and the limit that it doubles up to while reads fill it.
const FIRST_READ_BYTES: usize = 8 * 1024;
const LARGEST_READ_BYTES: usize = 256 * 1024;

/// The largest buffers that an idle connection keeps.
const MAX_KEPT_BYTES: usize = 32 * 1024;

/// An open connection.
pub(super) struct HttpConnection {
    socket: TcpStream,
    /// The head of the last request. Kept to reuse its buffer.
    head: Vec<u8>,
    /// The rest of a request whose response began before it was sent.
    unsent: Bytes,
    /// Data that was read and not consumed yet.
    pub(super) read: BytesMut,
    /// The size of the next read.
    read_bytes: usize,
    /// When the last response ended.
    pub(super) last_used: Instant,
}

/// Why a request got no response.
pub(super) enum RequestError {
    /// No byte of it was sent.
    NotSent(io::Error),
    Lost(io::Error),
}

impl HttpConnection {
    pub(super) fn new(socket: TcpStream) -> Self {
        // Each message is one write, so Nagle's algorithm would only delay it.
        let _ = socket.set_nodelay(true);
        // Detects a peer that vanished, also while only reading.
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE);
        let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
        let (head, read) = (Vec::new(), BytesMut::new());
        Self {
            socket,
            head,
            unsent: Bytes::new(),
            read,
            read_bytes: FIRST_READ_BYTES,
            last_used: Instant::now(),
        }
    }

    /// Sends a request and reads the response head.
    pub(super) async fn send_request(
        &mut self,
        request: &HttpRequest<'_>,
        authority: &str,
    ) -> Result<ResponseHead, RequestError> {
        self.head.clear();
        request.write_head(authority, &mut self.head);
        let body = request.body.map_or(&[][..], |body| body);
        let (mut written, mut interim) = (0, 0);
        let answered = poll_fn(|task| self.poll_head(task, body, &mut written, &mut interim));
        match answered.await {
            Ok(head) => {
                if written < self.head.len() + body.len() && head.status.is_success() {
                    self.keep_unsent(body, written);
                }
                Ok(head)
            }
            Err(error) if written == 0 => Err(RequestError::NotSent(error)),
            Err(error) => Err(RequestError::Lost(error)),
        }
    }

    /// Keeps the rest of a request, which is sent while the response is read: only a refusal means
    /// that the server does not want it.
    #[cold]
    fn keep_unsent(&mut self, body: &[u8], written: usize) {
        let head = &self.head[written.min(self.head.len())..];
        let body = &body[written.saturating_sub(self.head.len())..];
        self.unsent = [head, body].concat().into();
    }

    /// Writes and reads concurrently: a server may respond before it has read everything, and a
    /// response sent before the server closed can still be read.
    fn poll_head(
        &mut self,
        task: &mut Context<'_>,
        body: &[u8],
        written: &mut usize,
        interim: &mut usize,
    ) -> Poll<io::Result<ResponseHead>> {
        let sending = self.poll_write(task, body, written);
        loop {
            let broken = match self.poll_read_more(task) {
                Poll::Ready(Ok(0)) => Some(closed_error()),
                Poll::Ready(Ok(_)) => {
                    match ResponseHead::take(&mut self.read, interim).map_err(malformed_error)? {
                        Some(mut head) => {
                            head.keep_alive &= *written == self.head.len() + body.len();
                            return Poll::Ready(Ok(head));
                        }
                        None => continue,
                    }
                }
                Poll::Ready(Err(error)) => Some(error),
                Poll::Pending => None,
            };
            return match (sending, broken) {
                (Poll::Ready(Err(error)), _) | (_, Some(error)) => Poll::Ready(Err(error)),
                (_, None) => Poll::Pending,
            };
        }
    }

    /// Writes the rest of the request.
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

    /// Waits for more of the response and reads it. False once the server has closed the
    /// connection.
    pub(super) async fn read_more(&mut self) -> io::Result<bool> {
        let more = poll_fn(|task| {
            if !self.unsent.is_empty() {
                self.poll_unsent(task);
            }
            self.poll_read_more(task)
        });
        more.await.map(|count| count > 0)
    }

    /// Writes the rest of the request. A failure is left to the reader: the response may still come.
    #[cold]
    fn poll_unsent(&mut self, task: &mut Context<'_>) {
        while !self.unsent.is_empty() {
            match Pin::new(&mut self.socket).poll_write(task, &self.unsent) {
                Poll::Ready(Ok(count @ 1..)) => self.unsent.advance(count),
                Poll::Ready(_) => self.unsent.clear(),
                Poll::Pending => return,
            }
        }
    }

    fn poll_read_more(&mut self, task: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.read.reserve(self.read_bytes);
        let room = self.read.capacity() - self.read.len();
        let count = ready!(pin!(self.socket.read_buf(&mut self.read)).poll(task))?;
        if count == room {
            self.read_bytes = (2 * self.read_bytes).min(LARGEST_READ_BYTES);
        }
        Poll::Ready(Ok(count))
    }

    /// Prepares the connection for another request. False if it cannot be reused: the server sent
    /// more than the response.
    pub(super) fn prepare_reuse(&mut self) -> bool {
        if self.head.capacity() > MAX_KEPT_BYTES {
            self.head = Vec::new();
        }
        if !self.read.is_empty() {
            return false;
        }
        if self.read.capacity() > MAX_KEPT_BYTES {
            self.read = BytesMut::new();
        }
        self.read_bytes = FIRST_READ_BYTES;
        self.last_used = Instant::now();
        true
    }

    /// Whether the connection can be reused: anything received while it was idle, even an end of
    /// file, rules that out.
    pub(super) fn is_reusable(&self) -> bool {
        matches!(self.socket.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

#[cfg(test)]
impl HttpConnection {
    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

/// The server closed the connection before its response was complete.
pub(super) fn closed_error() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the server")
}

/// The data is not a valid HTTP response.
pub(super) fn malformed_error(fact: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fact.into())
}
