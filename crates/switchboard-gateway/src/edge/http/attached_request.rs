//! A request that runs on the task of its connection.
//!
//! On a task of its own it would need two more wake-ups, often of another thread: one to begin, and
//! one of the connection when the response is there.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use switchboard::BoxFuture;

use crate::deferred::DeferredRequest;
use crate::outbound::OutboundQueue;

/// A request that its connection polls; `None` once the request has ended.
///
/// If this is dropped before, the request continues on a task of its own: its messages have become an
/// event stream, or the connection was lost. A modern request notices that and ends; a legacy one goes
/// on, because a lost connection does not cancel it.
pub(super) struct AttachedRequest(Option<BoxFuture<'static, ()>>);

impl AttachedRequest {
    /// A request that was answered at once is `None`.
    pub(super) fn new(request: Option<DeferredRequest>) -> Self {
        Self(request.map(|request| Box::pin(request.run()) as BoxFuture<'static, ()>))
    }

    /// The next message to the client. The request runs while it is waited for.
    pub(super) async fn next_message(&mut self, queue: &mut OutboundQueue) -> Option<Bytes> {
        poll_fn(|context| {
            // The queue is polled right after the request, so its messages need no wake-up.
            queue.stop_waking();
            if let Some(request) = &mut self.0
                && let Poll::Ready(()) = request.as_mut().poll(context)
            {
                self.0 = None;
            }
            queue.poll_next(context)
        })
        .await
    }
}

impl Drop for AttachedRequest {
    fn drop(&mut self) {
        if let Some(request) = self.0.take()
            // A request that panicked cannot go on.
            && !std::thread::panicking()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(request);
        }
    }
}
