//! The bytes of a connection: counted as they are read, read again where another reader goes on, and
//! with a deadline for a peer that does not read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::outbound::OutboundMeter;

/// A stream whose writes fail after a time without progress.
pub(super) struct WriteDeadline<S> {
    stream: S,
    /// How many bytes were read.
    read_count: Arc<AtomicU64>,
    limit: Duration,
    /// Counts a peer that does not read.
    meter: Arc<OutboundMeter>,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl<S> WriteDeadline<S> {
    pub(super) fn new(
        stream: S,
        limit: Duration,
        read_count: Arc<AtomicU64>,
        meter: Arc<OutboundMeter>,
    ) -> Self {
        Self {
            stream,
            read_count,
            limit,
            meter,
            waiting: None,
            is_waiting: false,
        }
    }

    fn check<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        if !self.is_waiting {
            waiting.as_mut().reset(Instant::now() + limit);
            self.is_waiting = true;
        }
        waiting.as_mut().poll(context).map(|()| {
            self.meter.count_cut_off();
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client does not read",
            ))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let count = buffer.filled().len() - before;
        self.read_count.fetch_add(count as u64, Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.check(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check(context, closed)
    }
}

/// A stream with bytes that were read from it and are read once more.
pub(super) struct Rewound<S> {
    again: BytesMut,
    stream: S,
}

impl<S> Rewound<S> {
    pub(super) fn new(again: BytesMut, stream: S) -> Self {
        Self { again, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.again.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.again.len().min(buffer.remaining());
        buffer.put_slice(&self.again[..count]);
        self.again.advance(count);
        if self.again.is_empty() {
            self.again = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
