//! What is remembered between runs: grants, pins, trust, eras, transports, cached catalogs.
//!
//! [`Store`](crate::store::Store) is a small key-value interface.
//! [`FileStore`](crate::store::FileStore) uses files (0600 in a 0700 folder, locked, replaced
//! atomically); [`MemoryStore`](crate::store::MemoryStore) lasts for one run.

use std::fmt;

pub use file::FileStore;
pub(crate) use log::LogStream;
pub use log::{LogFile, timestamp};
pub use memory::MemoryStore;

mod file;
mod log;
mod memory;
/// Files that only their owner can read, for the other crates of this project.
#[doc(hidden)]
pub mod private;

/// Creates a folder that only its owner can enter, or checks that an existing one is such.
pub(crate) fn make_private_folder(folder: &std::path::Path) -> std::io::Result<()> {
    private::make_folder(folder)
}

/// The tables of a store. Each is stored separately, so that a damaged one does not affect the
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreTable {
    /// Grants: remembered approvals.
    Grants,
    /// Pins: definitions as they were when first seen.
    Pins,
    /// Accepted project entries.
    Trust,
    /// Folders in which user-scope servers may run, or may not.
    Folders,
    /// Accepted permissions of project files.
    Permissions,
    /// Era and behaviour of a server, by launch fingerprint.
    Eras,
    /// Transport and era of a URL, by origin and path.
    Wires,
    /// Cached catalogs, by launch fingerprint.
    Catalogs,
    /// Logins, if there is no keyring.
    Logins,
    /// Notices that were shown and are not repeated.
    Notices,
    /// Tools that a model's vendor refused, by vendor, model and definition.
    Refusals,
}

/// Small values by key. Values are JSON text.
pub trait Store: Send + Sync + fmt::Debug {
    /// The value, if there is one.
    fn get(&self, table: StoreTable, key: &str) -> Result<Option<String>, StoreError>;
    /// All keys and values of a table.
    fn all(&self, table: StoreTable) -> Result<Vec<(String, String)>, StoreError>;
    /// Sets a value.
    fn put(&self, table: StoreTable, key: &str, value: &str) -> Result<(), StoreError>;
    /// Sets several values of one table. After an error some may be set.
    fn put_all(&self, table: StoreTable, items: &[(String, String)]) -> Result<(), StoreError> {
        items
            .iter()
            .try_for_each(|(key, value)| self.put(table, key, value))
    }
    /// Removes a value.
    fn remove(&self, table: StoreTable, key: &str) -> Result<(), StoreError>;
}

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An error of the file system.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// The error.
        #[source]
        source: std::io::Error,
    },
    /// The file is corrupt. It was renamed, and is never overwritten.
    #[error("{path} is damaged and was kept as {kept_as}; approve and log in again")]
    Damaged {
        /// The file.
        path: std::path::PathBuf,
        /// The new name.
        kept_as: std::path::PathBuf,
    },
    /// No answer about this folder can be stored.
    #[error("an answer about {folder} cannot be stored: its path is not Unicode, or it does not exist", folder = .0.display())]
    Folder(std::path::PathBuf),
    /// The store panicked, or the runtime is shutting down: the change may not have been made.
    #[error("the store stopped while it was written; the change may be lost")]
    Failed,
}
