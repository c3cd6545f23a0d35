//! Tests of an acceptance while the store is slow.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use switchboard::name::ServerName;
use switchboard::store::{MemoryStore, Store, StoreError, StoreTable};

use crate::support::{TIMEOUT, TestHost, good, settled};

/// A store that waits, as for a lock of another process, before it writes an acceptance.
#[derive(Debug)]
struct WaitingStore {
    store: MemoryStore,
    may_write: Mutex<Receiver<()>>,
}

impl WaitingStore {
    fn new() -> (Sender<()>, Arc<Self>) {
        let (permit, may_write) = channel();
        let store = Self {
            store: MemoryStore::default(),
            may_write: Mutex::new(may_write),
        };
        (permit, Arc::new(store))
    }
}

impl Store for WaitingStore {
    fn get(&self, table: StoreTable, key: &str) -> Result<Option<String>, StoreError> {
        self.store.get(table, key)
    }

    fn all(&self, table: StoreTable) -> Result<Vec<(String, String)>, StoreError> {
        self.store.all(table)
    }

    fn put(&self, table: StoreTable, key: &str, value: &str) -> Result<(), StoreError> {
        if table == StoreTable::Trust {
            let permit = self.may_write.lock().unwrap();
            permit
                .recv_timeout(TIMEOUT)
                .map_err(|_| StoreError::Failed)?;
        }
        self.store.put(table, key, value)
    }

    fn remove(&self, table: StoreTable, key: &str) -> Result<(), StoreError> {
        self.store.remove(table, key)
    }
}

/// The only thread of the runtime lets the store continue.
#[tokio::test]
async fn an_acceptance_that_waits_for_the_store_lets_other_tasks_run() {
    let (permit, store) = WaitingStore::new();
    let test = TestHost {
        store,
        ..TestHost::new()
    };
    let host = test.host(&[test.entry("s", good())]).await;
    settled(&host).await;
    let shown = host.disclose(&ServerName::new("s").unwrap()).unwrap();
    let (accepted, ()) = tokio::join!(host.accept(&shown), async {
        permit.send(()).unwrap();
    });
    accepted.unwrap();
    host.stop().await;
}
