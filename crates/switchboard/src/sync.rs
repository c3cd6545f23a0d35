//! Locks that a panic elsewhere does not break: every holder leaves the value whole before anything
//! that could panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whether or not a holder has panicked.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
