//! Where clients connect: the standard streams, HTTP, a Unix socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

pub mod http;
pub mod lines;
pub mod socket;
pub mod stdio;

/// Waits until an edge closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // The sender ends with the edge.
    let _ = closing.wait_for(|closing| *closing).await;
}

/// Ends when the edge closes, as if the client had closed its end: the calls in flight are answered.
struct ReaderUntilClosing<'c, R> {
    reader: R,
    closing: Pin<Box<dyn Future<Output = ()> + Send + 'c>>,
    is_closing: bool,
}

impl<'c, R> ReaderUntilClosing<'c, R> {
    fn new(reader: R, closing: impl Future<Output = ()> + Send + 'c) -> Self {
        Self {
            reader,
            closing: Box::pin(closing),
            is_closing: false,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for ReaderUntilClosing<'_, R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_closing {
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.reader).poll_read(context, buffer);
        if read.is_pending() && self.closing.as_mut().poll(context).is_ready() {
            self.is_closing = true;
            return Poll::Ready(Ok(()));
        }
        read
    }
}
