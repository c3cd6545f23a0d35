//! In which folders the user's own servers without a `cwd` may run: a person's answer for each
//! canonical path.
//!
//! A folder's files influence such servers (`.npmrc`, modules, relative arguments), so each folder
//! is accepted separately.

use std::path::{Path, PathBuf};

use crate::store::{Store, StoreError, StoreTable};

/// What a person answered about a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderAnswer {
    /// The user's own servers may run in it.
    Accepted,
    /// They may not, and the person is not asked again.
    Declined,
}

impl FolderAnswer {
    fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Declined => "declined",
        }
    }
}

/// The answer for exactly this folder; `None` if there is none, or it cannot be read.
pub fn folder_answer(folder: &Path, store: &dyn Store) -> Option<FolderAnswer> {
    let remembered = store.get(StoreTable::Folders, &key(folder)?).ok()??;
    [FolderAnswer::Accepted, FolderAnswer::Declined]
        .into_iter()
        .find(|answer| as_json(*answer) == remembered)
}

/// Stores that the user's own servers may run in a folder.
pub fn accept_folder(folder: &Path, store: &dyn Store) -> Result<(), StoreError> {
    answer(folder, FolderAnswer::Accepted, store)
}

/// Stores that the user's own servers may not run in a folder.
pub fn decline_folder(folder: &Path, store: &dyn Store) -> Result<(), StoreError> {
    answer(folder, FolderAnswer::Declined, store)
}

/// Removes the answer for a folder, which need not exist any more.
pub fn forget_folder(folder: &Path, store: &dyn Store) -> Result<(), StoreError> {
    let path = folder.to_str().map(str::to_owned);
    key(folder)
        .or(path)
        .map_or(Ok(()), |key| store.remove(StoreTable::Folders, &key))
}

/// Every folder that was accepted.
pub fn accepted_folders(store: &dyn Store) -> Result<Vec<PathBuf>, StoreError> {
    let accepted = |(key, value): (String, String)| {
        (value == as_json(FolderAnswer::Accepted)).then(|| PathBuf::from(key))
    };
    Ok(store
        .all(StoreTable::Folders)?
        .into_iter()
        .filter_map(accepted)
        .collect())
}

fn answer(folder: &Path, answer: FolderAnswer, store: &dyn Store) -> Result<(), StoreError> {
    let key = key(folder).ok_or_else(|| StoreError::Folder(folder.to_owned()))?;
    store.put(StoreTable::Folders, &key, &as_json(answer))
}

/// `None` for a path that is not Unicode: a lossy key could be that of another folder.
fn key(folder: &Path) -> Option<String> {
    folder
        .canonicalize()
        .ok()?
        .into_os_string()
        .into_string()
        .ok()
}

fn as_json(answer: FolderAnswer) -> String {
    format!("{:?}", answer.word())
}
