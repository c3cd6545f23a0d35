//! Where tokens are kept: the system keyring, else a file for our eyes only; a memory for library
//! users without either.
//!
//! A vault may block, so it is reached from blocking threads only. What it keeps is one text for
//! each server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::secret::Secret;

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

/// How long a holder of a lock may need: it renews a login over the network, within deadlines of
/// its own.
const LOCK_WAIT: Duration = Duration::from_secs(75);

/// Keeps one text for each key.
pub trait Vault: Send + Sync + fmt::Debug {
    /// What is kept.
    fn get(&self, key: &str) -> Result<Option<Secret>, VaultFault>;

    /// Keeps a text in place of the one before.
    fn put(&self, key: &str, value: &Secret) -> Result<(), VaultFault>;

    /// Forgets it.
    fn remove(&self, key: &str) -> Result<(), VaultFault>;

    /// Taken by whoever reads, renews and writes, so that two processes do not renew one login at
    /// the same time.
    fn lock(&self, key: &str) -> Result<VaultLock, VaultFault>;

    /// What it is, for people: "the system keyring", or a file.
    fn place(&self) -> String;
}

/// Held until it is dropped.
pub struct VaultLock(#[allow(dead_code, reason = "dropping it is its use")] Box<dyn Send>);

impl VaultLock {
    /// Wraps whatever gives the lock back when it is dropped.
    pub fn new(held: impl Send + 'static) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for VaultLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VaultLock")
    }
}

/// Why a vault cannot serve: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VaultFault(pub String);

/// Keeps until it is dropped.
#[derive(Debug, Default, Clone)]
pub struct MemoryVault(Arc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    texts: Mutex<BTreeMap<String, Secret>>,
    locked: Mutex<BTreeSet<String>>,
    unlocked: Condvar,
}

impl Vault for MemoryVault {
    fn get(&self, key: &str) -> Result<Option<Secret>, VaultFault> {
        Ok(held(&self.0.texts).get(key).cloned())
    }

    fn put(&self, key: &str, value: &Secret) -> Result<(), VaultFault> {
        held(&self.0.texts).insert(key.to_owned(), value.clone());
        Ok(())
    }

    fn remove(&self, key: &str) -> Result<(), VaultFault> {
        held(&self.0.texts).remove(key);
        Ok(())
    }

    fn lock(&self, key: &str) -> Result<VaultLock, VaultFault> {
        let taken = held(&self.0.locked);
        let waiting = self
            .0
            .unlocked
            .wait_timeout_while(taken, LOCK_WAIT, |locked| locked.contains(key));
        let (mut locked, waited) = waiting.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(VaultFault(
                "another renewal of this login has not ended".to_owned(),
            ));
        }
        locked.insert(key.to_owned());
        Ok(VaultLock::new(Unlock(self.0.clone(), key.to_owned())))
    }

    fn place(&self) -> String {
        "memory (forgotten at the end)".to_owned()
    }
}

struct Unlock(Arc<Kept>, String);

impl Drop for Unlock {
    fn drop(&mut self) {
        held(&self.0.locked).remove(&self.1);
        self.0.unlocked.notify_all();
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
