//! Opens the persistent state: the store of answers and the vault of tokens.

use std::sync::Arc;

use switchboard::auth::{MemoryVault, SystemVault, Vault};
use switchboard::store::{FileStore, MemoryStore, Store, StoreTable};

use super::OutputScope;
use crate::failure::{Code, Failure};
use crate::output;
use crate::paths::{self, Paths};
use crate::view::server::escaped;

/// The store in the state folder; if that cannot be used, one in memory, with a notice.
pub(crate) fn open_store(paths: &Paths, scope: OutputScope) -> Arc<dyn Store> {
    match FileStore::open(&paths.state) {
        Ok(store) => {
            report_damaged_files(&store, scope);
            Arc::new(store)
        }
        Err(error) => {
            output::notice(&format!(
                "answers are remembered only for this run: {error}"
            ));
            Arc::new(MemoryStore::default())
        }
    }
}

/// The store in the state folder, for a command that does nothing but change it: an answer that is
/// remembered only for this run would be lost.
pub(crate) fn open_lasting_store(paths: &Paths) -> Result<Arc<dyn Store>, Failure> {
    let store = FileStore::open(&paths.state)?;
    report_damaged_files(&store, OutputScope::Result);
    Ok(Arc::new(store))
}

/// Reports damaged files: by the command that finds one, and by commands that show states until a
/// person deletes it.
fn report_damaged_files(store: &FileStore, scope: OutputScope) {
    let before = store.damaged();
    let tables = [
        StoreTable::Grants,
        StoreTable::Pins,
        StoreTable::Trust,
        StoreTable::Folders,
        StoreTable::Permissions,
        StoreTable::Eras,
        StoreTable::Wires,
        StoreTable::Logins,
        StoreTable::Notices,
        StoreTable::Refusals,
    ];
    for table in tables {
        // Reading renames a damaged file; other errors are reported where the content is needed.
        let _ = store.all(table);
    }
    let found = store
        .damaged()
        .into_iter()
        .filter(|file| scope != OutputScope::Result || !before.contains(file));
    for file in found {
        output::notice(&format!(
            "a damaged state file was renamed to {}; give its answers again; delete the file to stop this message",
            escaped(&file.display().to_string())
        ));
    }
}

/// The keyring or the token file; if neither can be used, a vault in memory, with a notice.
pub(crate) fn open_vault(paths: &Paths) -> Arc<dyn Vault> {
    open_lasting_vault(paths).unwrap_or_else(|failure| {
        output::notice(&failure.message);
        Arc::new(MemoryVault::default())
    })
}

/// The keyring or the token file, for a command that does nothing but change it: what is kept only
/// for this run would be lost.
pub(crate) fn open_lasting_vault(paths: &Paths) -> Result<Arc<dyn Vault>, Failure> {
    match SystemVault::open(&paths.state, paths::vault_choice()) {
        Ok(vault) => Ok(Arc::new(vault)),
        Err(error) => Err(Failure::new(Code::Usage, error.to_string())),
    }
}
