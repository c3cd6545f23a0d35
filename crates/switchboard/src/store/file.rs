//! A store in files: one JSON object per table, in the state folder.
//!
//! A change locks the table, reads the file, writes a new one and renames it into place, so that
//! processes do not overwrite each other's changes, and a crash leaves the old file or the new one.
//! Catalogs are large, so each has its own file.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::private;
use super::{Store, StoreError, StoreTable};

/// A store with one file per table.
#[derive(Debug)]
pub struct FileStore {
    folder: PathBuf,
}

/// How long to wait for another process's lock: it needs milliseconds, unless it hangs.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The same for tables that are written during a call.
const LOCK_TIMEOUT_IN_CALLS: Duration = Duration::from_secs(2);

/// The most cached catalogs: a launch that changes leaves its old one behind.
const MAX_CATALOGS: usize = 256;

/// The content of a table's file.
type TableContents = BTreeMap<String, Box<RawValue>>;

/// The content of a catalog's file.
#[derive(Serialize, Deserialize)]
struct CatalogFile {
    key: String,
    value: Box<RawValue>,
}

impl FileStore {
    /// Opens the folder, or creates it (0700).
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let folder = folder.into();
        private::make_folder(&folder).map_err(|source| StoreError::Io {
            path: folder.clone(),
            source,
        })?;
        Ok(Self { folder })
    }

    /// Corrupt files that were renamed, in this run or before. Reported until a person removes
    /// them.
    pub fn damaged(&self) -> Vec<PathBuf> {
        let folders = [self.folder.clone(), self.table_folder(StoreTable::Catalogs)];
        let files = folders
            .iter()
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flatten()
            .flatten();
        let mut found: Vec<PathBuf> = files
            .map(|file| file.path())
            .filter(|path| private::was_set_aside(path))
            .collect();
        found.sort();
        found
    }

    /// The folder of a table's files and lock.
    fn table_folder(&self, table: StoreTable) -> PathBuf {
        if table == StoreTable::Catalogs {
            self.folder.join("catalogs")
        } else {
            self.folder.clone()
        }
    }

    /// The file that contains a key.
    fn file(&self, table: StoreTable, key: &str) -> PathBuf {
        let name = if table == StoreTable::Catalogs {
            blake3::hash(key.as_bytes()).to_hex().to_string()
        } else {
            table_name(table).to_owned()
        };
        self.table_folder(table).join(format!("{name}.json"))
    }

    /// Locks a table for a change. Reading needs no lock, so it works in a read-only folder.
    fn lock(&self, table: StoreTable) -> Result<File, StoreError> {
        let folder = self.table_folder(table);
        let path = folder.join(format!("{}.lock", table_name(table)));
        private::make_folder(&folder).map_err(|source| StoreError::Io {
            path: folder,
            source,
        })?;
        let wait = if matches!(table, StoreTable::Grants | StoreTable::Pins) {
            LOCK_TIMEOUT_IN_CALLS
        } else {
            LOCK_TIMEOUT
        };
        lock(&path, wait).map_err(|source| StoreError::Io { path, source })
    }

    /// Takes a named lock, also against other processes.
    #[cfg(feature = "oauth")]
    pub(crate) fn hold(&self, name: &str, wait: Duration) -> Result<File, StoreError> {
        let path = self.folder.join(format!("{name}.lock"));
        lock(&path, wait).map_err(|source| StoreError::Io { path, source })
    }

    /// Reads and parses a file. A corrupt one is renamed, under the lock, and reported.
    fn read<T: for<'de> Deserialize<'de>>(
        &self,
        table: StoreTable,
        path: &Path,
        locked: bool,
    ) -> Result<Option<T>, StoreError> {
        let read = |path: &Path| {
            private::read(path).map_err(|source| StoreError::Io {
                path: path.to_owned(),
                source,
            })
        };
        let Some(bytes) = read(path)? else {
            return Ok(None);
        };
        if let Ok(parsed) = serde_json::from_slice(&bytes) {
            return Ok(Some(parsed));
        }
        let _lock = if locked {
            None
        } else {
            Some(self.lock(table)?)
        };
        // Another process may have renamed or replaced the file.
        let Some(bytes) = read(path)? else {
            return Ok(None);
        };
        if let Ok(parsed) = serde_json::from_slice(&bytes) {
            return Ok(Some(parsed));
        }
        let kept_as = private::set_aside(path).map_err(|source| StoreError::Io {
            path: path.to_owned(),
            source,
        })?;
        Err(StoreError::Damaged {
            path: path.to_owned(),
            kept_as,
        })
    }

    /// Changes a table under its lock.
    fn change(
        &self,
        table: StoreTable,
        change: impl FnOnce(&mut TableContents),
    ) -> Result<(), StoreError> {
        let path = self.file(table, "");
        let _lock = self.lock(table)?;
        let mut contents: TableContents = self.read(table, &path, true)?.unwrap_or_default();
        change(&mut contents);
        write(&path, &contents)
    }
}

impl Store for FileStore {
    fn get(&self, table: StoreTable, key: &str) -> Result<Option<String>, StoreError> {
        let path = self.file(table, key);
        if table == StoreTable::Catalogs {
            let entry: Option<CatalogFile> = self.read(table, &path, false)?;
            return Ok(entry
                .filter(|entry| entry.key == key)
                .map(|entry| entry.value.get().to_owned()));
        }
        let contents: TableContents = self.read(table, &path, false)?.unwrap_or_default();
        Ok(contents.get(key).map(|value| value.get().to_owned()))
    }

    fn all(&self, table: StoreTable) -> Result<Vec<(String, String)>, StoreError> {
        if table != StoreTable::Catalogs {
            let contents: TableContents = self
                .read(table, &self.file(table, ""), false)?
                .unwrap_or_default();
            return Ok(contents
                .into_iter()
                .map(|(key, value)| (key, String::from(Box::<str>::from(value))))
                .collect());
        }
        let folder = self.table_folder(table);
        let fault = |source| StoreError::Io {
            path: folder.clone(),
            source,
        };
        let mut found = Vec::new();
        let files = match std::fs::read_dir(&folder) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(found),
            files => files.map_err(fault)?,
        };
        for file in files {
            let path = file.map_err(fault)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
                && let Some(entry) = self.read::<CatalogFile>(table, &path, false)?
            {
                found.push((entry.key, entry.value.get().to_owned()));
            }
        }
        found.sort();
        Ok(found)
    }

    fn put(&self, table: StoreTable, key: &str, value: &str) -> Result<(), StoreError> {
        let path = self.file(table, key);
        let value = as_json(value, &path)?;
        if table == StoreTable::Catalogs {
            let _lock = self.lock(table)?;
            remove_oldest(&self.table_folder(table), &path);
            return write(
                &path,
                &CatalogFile {
                    key: key.to_owned(),
                    value,
                },
            );
        }
        self.change(table, |contents| {
            contents.insert(key.to_owned(), value);
        })
    }

    fn put_all(&self, table: StoreTable, items: &[(String, String)]) -> Result<(), StoreError> {
        if table == StoreTable::Catalogs {
            return items
                .iter()
                .try_for_each(|(key, value)| self.put(table, key, value));
        }
        let path = self.file(table, "");
        let items: Result<Vec<_>, _> = items
            .iter()
            .map(|(key, value)| Ok((key.clone(), as_json(value, &path)?)))
            .collect();
        let items = items?;
        self.change(table, |contents| contents.extend(items))
    }

    fn remove(&self, table: StoreTable, key: &str) -> Result<(), StoreError> {
        if table == StoreTable::Catalogs {
            let path = self.file(table, key);
            let _lock = self.lock(table)?;
            return match std::fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    Err(StoreError::Io { path, source })
                }
                _ => Ok(()),
            };
        }
        self.change(table, |contents| {
            contents.remove(key);
        })
    }
}

fn as_json(value: &str, path: &Path) -> Result<Box<RawValue>, StoreError> {
    let invalid = |fault| StoreError::Io {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, fault),
    };
    RawValue::from_string(value.to_owned()).map_err(invalid)
}

fn table_name(table: StoreTable) -> &'static str {
    match table {
        StoreTable::Grants => "grants",
        StoreTable::Pins => "pins",
        StoreTable::Trust => "trust",
        StoreTable::Notices => "notices",
        StoreTable::Refusals => "refusals",
        StoreTable::Folders => "folders",
        StoreTable::Permissions => "permissions",
        StoreTable::Eras => "eras",
        StoreTable::Wires => "wires",
        StoreTable::Catalogs => "catalogs",
        StoreTable::Logins => "logins",
    }
}

/// Removes the oldest catalogs to make room for `wanted`. Errors are ignored: catalogs are only a
/// cache.
fn remove_oldest(folder: &Path, wanted: &Path) {
    let Ok(files) = std::fs::read_dir(folder) else {
        return;
    };
    let mut known: Vec<(std::time::SystemTime, PathBuf)> = files
        .flatten()
        .filter(|file| {
            file.path()
                .extension()
                .is_some_and(|extension| extension == "json")
                && file.path() != wanted
        })
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    known.sort();
    for (_, path) in known
        .iter()
        .take((known.len() + 1).saturating_sub(MAX_CATALOGS))
    {
        let _ = std::fs::remove_file(path);
    }
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    serde_json::to_vec(value)
        .map_err(io::Error::from)
        .and_then(|bytes| private::replace(path, &bytes))
        .map_err(|source| StoreError::Io {
            path: path.to_owned(),
            source,
        })
}

/// Locks the file. The lock is released with the file, also when the process is killed.
fn lock(path: &Path, wait: Duration) -> io::Result<File> {
    let file = private::open_lock(path)?;
    let deadline = Instant::now() + wait;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(fault)) => return Err(fault),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                let fact = format!(
                    "another process has held this lock for {} s; end it and try again",
                    wait.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, fact));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests;
