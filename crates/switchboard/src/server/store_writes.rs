//! Writes to the store, one after the other, while the server's task goes on.

use crate::future::BoxFuture;

/// The pending writes. Each starts when the one before it has ended, so the newest is written last.
#[derive(Default)]
pub(super) struct StoreWrites(Option<BoxFuture<'static, ()>>);

impl StoreWrites {
    pub(super) fn add(&mut self, chore: impl Future<Output = ()> + Send + 'static) {
        let before = self.0.take();
        self.0 = Some(Box::pin(async move {
            if let Some(before) = before {
                before.await;
            }
            chore.await;
        }));
    }

    /// Waits until all are done; forever if there are none. Cancel-safe.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(store_writes) => store_writes.await,
            None => std::future::pending().await,
        }
        self.0 = None;
    }

    /// Waits until all are done.
    pub(super) async fn finish(&mut self) {
        if self.0.is_some() {
            self.next().await;
        }
    }
}
