//! What is remembered between runs: grants, pins, trust, eras, wires, cached catalogs.
//!
//! [`Store`](crate::store::Store) is the seam: one small key-value contract.
//! [`FileStore`](crate::store::FileStore) keeps it in files (0600 in a 0700 folder, locked,
//! replaced atomically); [`MemoryStore`](crate::store::MemoryStore) keeps it for one run.

use std::fmt;

pub use file::FileStore;
pub use log::{LineWriter, LogFile, LogStream};
pub use memory::MemoryStore;

mod file;
mod log;
mod memory;
mod private;

/// Makes a folder that nobody else can enter, or makes sure that an existing one is such.
pub(crate) fn make_private_folder(folder: &std::path::Path) -> std::io::Result<()> {
    private::make_folder(folder)
}

/// The kinds of things remembered. Each is a shelf of its own, so that a damaged one takes no other
/// with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreTable {
    /// Remembered answers.
    Grants,
    /// Definitions seen when a grant was given.
    Pins,
    /// Accepted project entries.
    Trust,
    /// Folders in which the user's own servers may run, or may not.
    Folders,
    /// What project files may let run without asking.
    Permissions,
    /// Which era a launch fingerprint spoke, and whether it asks.
    Eras,
    /// Which wire and era an endpoint spoke, by origin.
    Wires,
    /// The catalog of last time, by launch fingerprint.
    Catalogs,
    /// Logins, where no keyring keeps them.
    Logins,
    /// What a person was told once, and is not told again.
    Notices,
}

/// Small values by key. Values are JSON text.
pub trait Store: Send + Sync + fmt::Debug {
    /// The value, if there is one.
    fn get(&self, table: StoreTable, key: &str) -> Result<Option<String>, StoreError>;
    /// All keys and values of a shelf.
    fn all(&self, table: StoreTable) -> Result<Vec<(String, String)>, StoreError>;
    /// Sets a value.
    fn put(&self, table: StoreTable, key: &str, value: &str) -> Result<(), StoreError>;
    /// Sets several values of one shelf: all of them, or as far as it came.
    fn put_all(&self, table: StoreTable, items: &[(String, String)]) -> Result<(), StoreError> {
        items
            .iter()
            .try_for_each(|(key, value)| self.put(table, key, value))
    }
    /// Forgets a value.
    fn remove(&self, table: StoreTable, key: &str) -> Result<(), StoreError>;
}

/// Why the store could not serve.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system said no.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: std::path::PathBuf,
        /// What it said.
        #[source]
        source: std::io::Error,
    },
    /// The file is not what we wrote. It is kept aside under the name given, never overwritten.
    #[error("{path} is damaged and was kept as {kept_as}; what it remembered must be given again")]
    Damaged {
        /// Which file.
        path: std::path::PathBuf,
        /// Where its bytes are now.
        kept_as: std::path::PathBuf,
    },
}
