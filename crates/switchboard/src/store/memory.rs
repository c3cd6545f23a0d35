//! A store in memory, for one run.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{Store, StoreError, StoreTable};

use crate::sync::lock;

/// Stores values until it is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<BTreeMap<(u8, String), String>>);

impl MemoryStore {
    fn tables(&self) -> std::sync::MutexGuard<'_, BTreeMap<(u8, String), String>> {
        lock(&self.0)
    }
}

impl Store for MemoryStore {
    fn get(&self, table: StoreTable, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.tables().get(&(table as u8, key.to_owned())).cloned())
    }

    fn all(&self, table: StoreTable) -> Result<Vec<(String, String)>, StoreError> {
        let wanted = table as u8;
        Ok(self
            .tables()
            .iter()
            .filter(|((kind, _), _)| *kind == wanted)
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }

    fn put(&self, table: StoreTable, key: &str, value: &str) -> Result<(), StoreError> {
        self.tables()
            .insert((table as u8, key.to_owned()), value.to_owned());
        Ok(())
    }

    fn remove(&self, table: StoreTable, key: &str) -> Result<(), StoreError> {
        self.tables().remove(&(table as u8, key.to_owned()));
        Ok(())
    }
}
