//! Stores tokens in the system keyring if one responds, else in a file (0600) in the state folder;
//! chosen at first use.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{LOCK_TIMEOUT, Vault, VaultFault, VaultLock, keyring};
use crate::secret::Secret;
use crate::store::{FileStore, Store, StoreError, StoreTable};

/// Where to store tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VaultChoice {
    /// The keyring if one responds, else the file.
    #[default]
    Auto,
    /// The keyring only.
    Keyring,
    /// The file only.
    File,
}

/// Stores tokens between runs.
#[derive(Debug)]
pub struct SystemVault {
    file: FileStore,
    folder: PathBuf,
    choice: VaultChoice,
    /// Probed at first use, since a probe takes time: `Err` says why the keyring is not used.
    keyring: OnceLock<Result<(), VaultFault>>,
}

impl SystemVault {
    /// Opens the vault in this folder, without calling the keyring yet.
    pub fn open(folder: &Path, choice: VaultChoice) -> Result<Self, VaultFault> {
        let file = FileStore::open(folder).map_err(from_store)?;
        Ok(Self {
            file,
            folder: folder.to_owned(),
            choice,
            keyring: OnceLock::new(),
        })
    }

    /// Whether the keyring is used. With [`VaultChoice::Keyring`] a keyring that does not respond
    /// is an error.
    fn uses_keyring(&self) -> Result<bool, VaultFault> {
        let responds = || self.keyring.get_or_init(keyring::probe);
        match self.choice {
            VaultChoice::File => Ok(false),
            VaultChoice::Auto => Ok(responds().is_ok()),
            VaultChoice::Keyring => responds().clone().map(|()| true),
        }
    }
}

impl Vault for SystemVault {
    fn get(&self, key: &str) -> Result<Option<Secret>, VaultFault> {
        if self.uses_keyring()?
            && let Some(kept) = keyring::get(key)?
        {
            return Ok(Some(kept));
        }
        // The login may have been stored before there was a keyring.
        Ok(self
            .file
            .get(StoreTable::Logins, key)
            .map_err(from_store)?
            .map(Secret::new))
    }

    fn put(&self, key: &str, value: &Secret) -> Result<(), VaultFault> {
        if !self.uses_keyring()? {
            return self
                .file
                .put(StoreTable::Logins, key, value.expose())
                .map_err(from_store);
        }
        keyring::put(key, value)?;
        self.forget_in_file(key)
    }

    fn remove(&self, key: &str) -> Result<(), VaultFault> {
        if self.uses_keyring()? {
            keyring::remove(key)?;
        }
        self.forget_in_file(key)
    }

    fn lock(&self, key: &str) -> Result<VaultLock, VaultFault> {
        let name = format!("login-{}", &blake3::hash(key.as_bytes()).to_hex()[..16]);
        self.file
            .hold(&name, LOCK_TIMEOUT)
            .map(VaultLock::new)
            .map_err(from_store)
    }

    fn place(&self) -> String {
        let file = format!(
            "{} (readable by you alone)",
            self.folder.join("logins.json").display()
        );
        match (self.choice, self.uses_keyring()) {
            (_, Ok(true)) => "the system keyring".to_owned(),
            (VaultChoice::Auto, Ok(false)) => match self.keyring.get() {
                Some(Err(reason)) => format!("{file}; {reason}"),
                _ => file,
            },
            (_, Ok(false)) => file,
            (_, Err(reason)) => format!("not stored: {reason}"),
        }
    }
}

impl SystemVault {
    fn forget_in_file(&self, key: &str) -> Result<(), VaultFault> {
        match self.file.get(StoreTable::Logins, key).map_err(from_store)? {
            Some(_) => self
                .file
                .remove(StoreTable::Logins, key)
                .map_err(from_store),
            None => Ok(()),
        }
    }
}

fn from_store(error: StoreError) -> VaultFault {
    VaultFault(format!("logins cannot be stored: {error}"))
}
