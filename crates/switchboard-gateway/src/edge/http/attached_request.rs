//! A request that runs on the task of its connection.
//!
//! On a task of its own it would need two more wake-ups, often of another thread: one to begin, and
//! one of the connection when the response is there.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::Poll;

use bytes::Bytes;
use switchboard::sync::lock;
use tokio_util::sync::ReusableBoxFuture;

use crate::deferred::DeferredRequest;
use crate::outbound::OutboundQueue;

/// The room for the future of a connection's request, while there is no request. The future is so large
/// that the allocator would take longer for it than for all else that a request needs.
pub(super) type RequestRoom = Mutex<Option<ReusableBoxFuture<'static, ()>>>;

/// A request that its connection polls; `None` once the request has ended.
///
/// If this is dropped before, the request continues on a task of its own: its messages have become an
/// event stream, or the connection was lost. A modern request notices that and ends; a legacy one goes
/// on, because a lost connection does not cancel it.
pub(super) struct AttachedRequest<'c> {
    request: Option<ReusableBoxFuture<'static, ()>>,
    room: &'c RequestRoom,
}

impl<'c> AttachedRequest<'c> {
    /// A request that was answered at once is `None`.
    pub(super) fn new(room: &'c RequestRoom, request: Option<DeferredRequest>) -> Self {
        let request = request.map(|request| {
            let unused = lock(room).take();
            match unused {
                Some(mut future) => {
                    future.set(request.run());
                    future
                }
                None => ReusableBoxFuture::new(request.run()),
            }
        });
        Self { request, room }
    }

    /// The next message to the client. The request runs while it is waited for.
    pub(super) async fn next_message(&mut self, queue: &mut OutboundQueue) -> Option<Bytes> {
        poll_fn(|context| {
            // The queue is polled right after the request, so its messages need no wake-up.
            queue.stop_waking();
            if let Some(request) = &mut self.request
                && let Poll::Ready(()) = request.poll(context)
            {
                *lock(self.room) = self.request.take();
            }
            queue.poll_next(context)
        })
        .await
    }
}

impl Drop for AttachedRequest<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take()
            // A request that panicked cannot go on.
            && !std::thread::panicking()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(request);
        }
    }
}
