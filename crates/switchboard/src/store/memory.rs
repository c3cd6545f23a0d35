//! A store for one run.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{Shelf, Store, StoreError};

/// Remembers until it is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<BTreeMap<(u8, String), String>>);

impl MemoryStore {
    fn shelves(&self) -> std::sync::MutexGuard<'_, BTreeMap<(u8, String), String>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn get(&self, shelf: Shelf, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.shelves().get(&(shelf as u8, key.to_owned())).cloned())
    }

    fn all(&self, shelf: Shelf) -> Result<Vec<(String, String)>, StoreError> {
        let wanted = shelf as u8;
        Ok(self
            .shelves()
            .iter()
            .filter(|((kind, _), _)| *kind == wanted)
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }

    fn put(&self, shelf: Shelf, key: &str, value: &str) -> Result<(), StoreError> {
        self.shelves()
            .insert((shelf as u8, key.to_owned()), value.to_owned());
        Ok(())
    }

    fn remove(&self, shelf: Shelf, key: &str) -> Result<(), StoreError> {
        self.shelves().remove(&(shelf as u8, key.to_owned()));
        Ok(())
    }
}
