//! Shared by tasks: locks that ignore poisoning (every holder leaves the value consistent before
//! anything that could panic), and yielding to other tasks.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::Poll;

/// Locks, whether or not a holder has panicked.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks to read, likewise.
pub(crate) fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks to write, likewise.
pub(crate) fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the tasks run that are ready now. `tokio::task::yield_now` would also look for input, which
/// is a system call.
pub async fn yield_to_ready_tasks() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        // A task that wakes itself while it runs goes to the end of its thread's queue.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
