//! The system keyring, with a timeout for each call: a locked keyring asks the user to unlock it,
//! and may wait forever.
//!
//! `secret_service` is the keyring of desktops other than macOS, reached over `dbus`; `keychain` is
//! that of macOS.

use std::sync::mpsc;
use std::time::Duration;

use super::VaultFault;
use crate::secret::Secret;

#[cfg(not(target_os = "macos"))]
mod dbus;
#[cfg(target_os = "macos")]
mod keychain;
#[cfg(not(target_os = "macos"))]
mod secret_service;

#[cfg(target_os = "macos")]
use keychain as store;
#[cfg(not(target_os = "macos"))]
use secret_service as store;

/// The service name of our entries in the keyring.
const SERVICE: &str = "switchboard";

/// How long the first probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a call may take: the user may have to unlock the keyring.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks that a keyring responds; the error says why not.
pub(super) fn probe() -> Result<(), VaultFault> {
    bounded(PROBE_TIMEOUT, || store::get(SERVICE, "probe")).map(drop)
}

pub(super) fn get(key: &str) -> Result<Option<Secret>, VaultFault> {
    let key = key.to_owned();
    let found = bounded(CALL_TIMEOUT, move || store::get(SERVICE, &key))?;
    Ok(found.map(Secret::new))
}

pub(super) fn put(key: &str, value: &Secret) -> Result<(), VaultFault> {
    let (key, value) = (key.to_owned(), value.clone());
    bounded(CALL_TIMEOUT, move || {
        store::put(SERVICE, &key, value.expose())
    })
}

pub(super) fn remove(key: &str) -> Result<(), VaultFault> {
    let key = key.to_owned();
    bounded(CALL_TIMEOUT, move || store::remove(SERVICE, &key))
}

/// Calls the keyring on a thread of its own, which is abandoned if it hangs: such a call cannot be
/// cancelled. The error of the call is one line, safe to show.
fn bounded<T: Send + 'static>(
    wait: Duration,
    ask: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, VaultFault> {
    let (answer, heard) = mpsc::sync_channel(1);
    let started = std::thread::Builder::new()
        .name("keyring".to_owned())
        .spawn(move || {
            // Fails only if the wait has timed out.
            let _ = answer.send(ask());
        });
    started.map_err(|error| VaultFault(format!("no thread for the system keyring: {error}")))?;
    match heard.recv_timeout(wait) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(VaultFault(format!("the system keyring: {error}"))),
        Err(_) => Err(VaultFault(format!(
            "the system keyring did not respond within {} s",
            wait.as_secs()
        ))),
    }
}
