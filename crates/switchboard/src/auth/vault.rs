//! Where tokens are stored: the system keyring, else a private file; in memory for library users
//! without either.
//!
//! A vault may block, so it is called on blocking threads only. It stores one text for each server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::secret::Secret;
use crate::sync::lock;

#[cfg(feature = "oauth")]
pub use system::{SystemVault, VaultChoice};

#[cfg(feature = "keyring")]
mod keyring;
#[cfg(all(feature = "oauth", not(feature = "keyring")))]
mod no_keyring;
#[cfg(feature = "oauth")]
mod system;

#[cfg(all(feature = "oauth", not(feature = "keyring")))]
use no_keyring as keyring;

/// How long to wait for a lock: its holder may be refreshing a token over the network, within its
/// own deadlines.
const LOCK_TIMEOUT: Duration = Duration::from_secs(75);

/// Stores one secret text for each key.
pub trait Vault: Send + Sync + fmt::Debug {
    /// The stored text.
    fn get(&self, key: &str) -> Result<Option<Secret>, VaultFault>;

    /// Stores a text, replacing the old one.
    fn put(&self, key: &str, value: &Secret) -> Result<(), VaultFault>;

    /// Deletes the stored text.
    fn remove(&self, key: &str) -> Result<(), VaultFault>;

    /// Locks a key while its login is read, refreshed and written, so that two processes do not
    /// refresh it at the same time.
    fn lock(&self, key: &str) -> Result<VaultLock, VaultFault>;

    /// The location for display: "the system keyring", or a file.
    fn place(&self) -> String;
}

/// A lock that is released when this is dropped.
pub struct VaultLock(#[allow(dead_code, reason = "dropping it is its use")] Box<dyn Send>);

impl VaultLock {
    /// Wraps a guard that releases the lock when dropped.
    pub fn new(held: impl Send + 'static) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for VaultLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VaultLock")
    }
}

/// Why a vault failed: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VaultFault(pub String);

/// Stores texts in memory.
#[derive(Debug, Default, Clone)]
pub struct MemoryVault(Arc<MemoryVaultState>);

#[derive(Debug, Default)]
struct MemoryVaultState {
    texts: Mutex<BTreeMap<String, Secret>>,
    locked: Mutex<BTreeSet<String>>,
    unlocked: Condvar,
}

impl Vault for MemoryVault {
    fn get(&self, key: &str) -> Result<Option<Secret>, VaultFault> {
        Ok(lock(&self.0.texts).get(key).cloned())
    }

    fn put(&self, key: &str, value: &Secret) -> Result<(), VaultFault> {
        lock(&self.0.texts).insert(key.to_owned(), value.clone());
        Ok(())
    }

    fn remove(&self, key: &str) -> Result<(), VaultFault> {
        lock(&self.0.texts).remove(key);
        Ok(())
    }

    fn lock(&self, key: &str) -> Result<VaultLock, VaultFault> {
        let taken = lock(&self.0.locked);
        let waiting = self
            .0
            .unlocked
            .wait_timeout_while(taken, LOCK_TIMEOUT, |locked| locked.contains(key));
        let (mut locked, waited) = waiting.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(VaultFault(
                "timed out waiting for another refresh of this login".to_owned(),
            ));
        }
        locked.insert(key.to_owned());
        Ok(VaultLock::new(MemoryVaultLock(
            self.0.clone(),
            key.to_owned(),
        )))
    }

    fn place(&self) -> String {
        "memory (forgotten at the end)".to_owned()
    }
}

struct MemoryVaultLock(Arc<MemoryVaultState>, String);

impl Drop for MemoryVaultLock {
    fn drop(&mut self) {
        lock(&self.0.locked).remove(&self.1);
        self.0.unlocked.notify_all();
    }
}
