//! The system keyring, with a timeout for each call: a locked keyring asks the user to unlock it,
//! and may wait forever.

use std::sync::mpsc;
use std::time::Duration;

use keyring::{Entry, Error};

use super::VaultFault;
use crate::secret::Secret;

/// The service name of our entries in the keyring.
const SERVICE: &str = "switchboard";

/// How long the first probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a call may take: the user may have to unlock the keyring.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks that a keyring responds; the error says why not.
pub(super) fn probe() -> Result<(), VaultFault> {
    bounded(PROBE_TIMEOUT, || {
        match Entry::new(SERVICE, "probe")?.get_password() {
            Ok(_) | Err(Error::NoEntry) => Ok(()),
            Err(error) => Err(error),
        }
    })
}

pub(super) fn get(key: &str) -> Result<Option<Secret>, VaultFault> {
    let key = key.to_owned();
    bounded(CALL_TIMEOUT, move || {
        match Entry::new(SERVICE, &key)?.get_password() {
            Ok(text) => Ok(Some(Secret::new(text))),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        }
    })
}

pub(super) fn put(key: &str, value: &Secret) -> Result<(), VaultFault> {
    let (key, value) = (key.to_owned(), value.clone());
    bounded(CALL_TIMEOUT, move || {
        Entry::new(SERVICE, &key)?.set_password(value.expose())
    })
}

pub(super) fn remove(key: &str) -> Result<(), VaultFault> {
    let key = key.to_owned();
    bounded(CALL_TIMEOUT, move || {
        match Entry::new(SERVICE, &key)?.delete_credential() {
            Ok(()) | Err(Error::NoEntry) => Ok(()),
            Err(error) => Err(error),
        }
    })
}

/// Calls the keyring on a thread of its own, which is abandoned if it hangs: such a call cannot be
/// cancelled.
fn bounded<T: Send + 'static>(
    wait: Duration,
    ask: impl FnOnce() -> keyring::Result<T> + Send + 'static,
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
        Ok(Err(error)) => Err(VaultFault(format!("the system keyring: {}", words(&error)))),
        Err(_) => Err(VaultFault(format!(
            "the system keyring did not respond within {} s",
            wait.as_secs()
        ))),
    }
}

/// Never shows the stored text, which some errors contain.
fn words(error: &Error) -> String {
    match error {
        Error::BadEncoding(_) => "the entry is not text".to_owned(),
        Error::NoDefaultStore => "no keyring service is running".to_owned(),
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => cause.to_string(),
        _ => "it cannot be used".to_owned(),
    }
}
