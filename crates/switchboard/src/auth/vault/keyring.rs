//! The system's keyring, each question bounded: a keyring that is locked asks a person, and may
//! wait for ever.

use std::sync::mpsc;
use std::time::Duration;

use keyring::{Entry, Error};

use super::VaultFault;
use crate::secret::Secret;

/// The name under which our entries stand in the keyring.
const SERVICE: &str = "switchboard";

/// How long a keyring may take to show that it is there.
const PROBE_WAIT: Duration = Duration::from_secs(2);

/// How long it may take to answer: a person may have to unlock it.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// Whether there is a keyring that answers; the sentence says why not.
pub(super) fn probe() -> Result<(), VaultFault> {
    bounded(PROBE_WAIT, || {
        match Entry::new(SERVICE, "probe")?.get_password() {
            Ok(_) | Err(Error::NoEntry) => Ok(()),
            Err(error) => Err(error),
        }
    })
}

pub(super) fn get(key: &str) -> Result<Option<Secret>, VaultFault> {
    let key = key.to_owned();
    bounded(ANSWER_WAIT, move || {
        match Entry::new(SERVICE, &key)?.get_password() {
            Ok(text) => Ok(Some(Secret::new(text))),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        }
    })
}

pub(super) fn put(key: &str, value: &Secret) -> Result<(), VaultFault> {
    let (key, value) = (key.to_owned(), value.clone());
    bounded(ANSWER_WAIT, move || {
        Entry::new(SERVICE, &key)?.set_password(value.expose())
    })
}

pub(super) fn remove(key: &str) -> Result<(), VaultFault> {
    let key = key.to_owned();
    bounded(ANSWER_WAIT, move || {
        match Entry::new(SERVICE, &key)?.delete_credential() {
            Ok(()) | Err(Error::NoEntry) => Ok(()),
            Err(error) => Err(error),
        }
    })
}

/// Asks on a thread of its own, which is left behind if it hangs: nothing ends a call into the
/// keyring from outside.
fn bounded<T: Send + 'static>(
    wait: Duration,
    ask: impl FnOnce() -> keyring::Result<T> + Send + 'static,
) -> Result<T, VaultFault> {
    let (answer, heard) = mpsc::sync_channel(1);
    let started = std::thread::Builder::new()
        .name("keyring".to_owned())
        .spawn(move || {
            // Nobody waits any more if this fails.
            let _ = answer.send(ask());
        });
    started.map_err(|error| VaultFault(format!("no thread for the system keyring: {error}")))?;
    match heard.recv_timeout(wait) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(VaultFault(format!("the system keyring: {}", words(&error)))),
        Err(_) => Err(VaultFault(format!(
            "the system keyring gave no answer within {} s",
            wait.as_secs()
        ))),
    }
}

/// Never what was kept: some errors carry it.
fn words(error: &Error) -> String {
    match error {
        Error::BadEncoding(_) => "the entry is no text".to_owned(),
        Error::NoDefaultStore => "none is running".to_owned(),
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => cause.to_string(),
        _ => "it cannot be used".to_owned(),
    }
}
