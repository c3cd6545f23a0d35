//! A store in files: one JSON object per shelf, in the state folder.

use std::path::PathBuf;

use super::{Shelf, Store, StoreError};

/// Keeps each shelf in a file of its own.
#[derive(Debug)]
pub struct FileStore {
    folder: PathBuf,
}

impl FileStore {
    /// Opens the folder, making it (0700) where it is missing.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Ok(Self { folder: folder.into() })
    }
}

impl Store for FileStore {
    fn get(&self, shelf: Shelf, key: &str) -> Result<Option<String>, StoreError> {
        let _ = (&self.folder, shelf, key);
        todo!()
    }

    fn all(&self, shelf: Shelf) -> Result<Vec<(String, String)>, StoreError> {
        let _ = shelf;
        todo!()
    }

    fn put(&self, shelf: Shelf, key: &str, value: &str) -> Result<(), StoreError> {
        let _ = (shelf, key, value);
        todo!()
    }

    fn remove(&self, shelf: Shelf, key: &str) -> Result<(), StoreError> {
        let _ = (shelf, key);
        todo!()
    }
}
