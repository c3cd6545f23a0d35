//! The keychain of macOS.

use keyring::{Entry, Error};

pub(super) fn get(service: &str, key: &str) -> Result<Option<String>, String> {
    match entry(service, key)?.get_password() {
        Ok(text) => Ok(Some(text)),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(words(&error)),
    }
}

pub(super) fn put(service: &str, key: &str, value: &str) -> Result<(), String> {
    let entry = entry(service, key)?;
    entry.set_password(value).map_err(|error| words(&error))
}

pub(super) fn remove(service: &str, key: &str) -> Result<(), String> {
    match entry(service, key)?.delete_credential() {
        Ok(()) | Err(Error::NoEntry) => Ok(()),
        Err(error) => Err(words(&error)),
    }
}

fn entry(service: &str, key: &str) -> Result<Entry, String> {
    Entry::new(service, key).map_err(|error| words(&error))
}

/// Never shows the stored text, which some errors contain.
fn words(error: &Error) -> String {
    match error {
        Error::BadEncoding(_) => "the entry is not text".to_owned(),
        Error::NoDefaultStore => "none is running".to_owned(),
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => cause.to_string(),
        _ => "it cannot be used".to_owned(),
    }
}
