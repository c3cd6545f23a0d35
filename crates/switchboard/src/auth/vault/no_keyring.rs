//! Replaces the system keyring in a build without the feature `keyring`: every call fails.

use super::VaultFault;
use crate::secret::Secret;

pub(super) fn probe() -> Result<(), VaultFault> {
    Err(VaultFault(
        "this build does not use the system keyring; enable the feature `keyring`".to_owned(),
    ))
}

pub(super) fn get(_key: &str) -> Result<Option<Secret>, VaultFault> {
    probe().map(|()| None)
}

pub(super) fn put(_key: &str, _value: &Secret) -> Result<(), VaultFault> {
    probe()
}

pub(super) fn remove(_key: &str) -> Result<(), VaultFault> {
    probe()
}
