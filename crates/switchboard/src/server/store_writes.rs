//! Writes to the store, in order, without blocking the server's task.

use crate::future::BoxFuture;

/// The pending writes. Each starts when the previous one has ended, so the newest is written last.
#[derive(Default)]
pub(super) struct StoreWrites(Option<BoxFuture<'static, ()>>);

impl StoreWrites {
    pub(super) fn add(&mut self, write: impl Future<Output = ()> + Send + 'static) {
        let before = self.0.take();
        self.0 = Some(Box::pin(async move {
            if let Some(before) = before {
                before.await;
            }
            write.await;
        }));
    }

    /// Waits until all writes are done; forever if there are none. Cancel-safe.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(store_writes) => store_writes.await,
            None => std::future::pending().await,
        }
        self.0 = None;
    }

    /// Waits until all writes are done.
    pub(super) async fn finish(&mut self) {
        if self.0.is_some() {
            self.next().await;
        }
    }
}
