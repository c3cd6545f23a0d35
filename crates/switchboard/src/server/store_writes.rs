//! Writes to the store, one after the other, without blocking the server's task.

use crate::future::BoxFuture;
use crate::store::StoreTable;

/// The running write, and for each table at most one that waits: a newer write of the same table
/// replaces it.
#[derive(Default)]
pub(super) struct StoreWrites {
    running: Option<BoxFuture<'static, ()>>,
    waiting: Vec<(StoreTable, BoxFuture<'static, ()>)>,
}

impl StoreWrites {
    pub(super) fn add(
        &mut self,
        table: StoreTable,
        write: impl Future<Output = ()> + Send + 'static,
    ) {
        let write: BoxFuture<'static, ()> = Box::pin(write);
        if self.running.is_none() {
            self.running = Some(write);
            return;
        }
        match self.waiting.iter_mut().find(|(other, _)| *other == table) {
            Some((_, waiting)) => *waiting = write,
            None => self.waiting.push((table, write)),
        }
    }

    /// Waits until all writes are done; forever if there are none. Cancel-safe.
    pub(super) async fn next(&mut self) {
        loop {
            match &mut self.running {
                Some(write) => write.await,
                None => std::future::pending().await,
            }
            self.running = None;
            if self.waiting.is_empty() {
                return;
            }
            self.running = Some(self.waiting.remove(0).1);
        }
    }

    /// Waits until all writes are done.
    pub(super) async fn finish(&mut self) {
        if self.running.is_some() {
            self.next().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::sync::lock;

    #[tokio::test]
    async fn p3_of_the_writes_of_a_table_that_wait_the_newest_is_done() {
        let done: Arc<Mutex<Vec<&str>>> = Arc::default();
        let mut writes = StoreWrites::default();
        let write = |name: &'static str| {
            let done = done.clone();
            async move {
                tokio::task::yield_now().await;
                lock(&done).push(name);
            }
        };
        writes.add(StoreTable::Catalogs, write("catalog 1"));
        for name in ["catalog 2", "catalog 3"] {
            writes.add(StoreTable::Catalogs, write(name));
        }
        for name in ["era 1", "era 2"] {
            writes.add(StoreTable::Eras, write(name));
        }
        writes.add(StoreTable::Catalogs, write("catalog 4"));
        writes.finish().await;
        assert_eq!(*lock(&done), ["catalog 1", "catalog 4", "era 2"]);
        writes.finish().await;
        writes.add(StoreTable::Eras, write("era 3"));
        writes.next().await;
        assert_eq!(lock(&done).last(), Some(&"era 3"));
    }
}
