//! What a server's task writes to the store beside its supervision, one thing after the other.

use crate::caller::BoxFuture;

/// Work that nobody waits for until the task ends. Each piece starts when the one before it is
/// done, so the newest is written last.
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

    /// Waits until all is done; for ever if there is nothing to do. Cancel-safe.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(store_writes) => store_writes.await,
            None => std::future::pending().await,
        }
        self.0 = None;
    }

    /// Waits until nothing is left to do.
    pub(super) async fn finish(&mut self) {
        if self.0.is_some() {
            self.next().await;
        }
    }
}
