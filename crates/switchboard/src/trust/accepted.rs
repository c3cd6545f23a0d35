//! Lists and revokes accepted entries, also of files that no longer exist.

use std::path::PathBuf;

use super::StoredAcceptance;
use crate::store::{Store, StoreError, StoreTable};

/// An entry of a project's file that a person accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedEntry {
    /// The server's name.
    pub server: String,
    /// The entry's file; a path that is not Unicode has replacement characters.
    pub file: PathBuf,
    /// What was accepted, one fact per line, without secrets.
    pub lines: Vec<String>,
    /// The key in the store.
    key: String,
}

impl AcceptedEntry {
    /// Removes the acceptance.
    pub fn revoke(&self, store: &dyn Store) -> Result<(), StoreError> {
        store.remove(StoreTable::Trust, &self.key)
    }
}

/// Every entry that was accepted, by file and name.
pub fn accepted_entries(store: &dyn Store) -> Result<Vec<AcceptedEntry>, StoreError> {
    let read = |(key, value): (String, String)| {
        let StoredAcceptance {
            server,
            file,
            lines,
            ..
        } = serde_json::from_str(&value).ok()?;
        Some(AcceptedEntry {
            server,
            file,
            lines,
            key,
        })
    };
    let mut entries: Vec<_> = store
        .all(StoreTable::Trust)?
        .into_iter()
        .filter_map(read)
        .collect();
    entries.sort_by(|one, other| (&one.file, &one.server).cmp(&(&other.file, &other.server)));
    Ok(entries)
}
