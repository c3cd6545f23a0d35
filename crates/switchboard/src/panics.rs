//! Catches panics, so that the owner of a task can report one and other tasks continue.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::untrusted::quoted;

/// A caught panic: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("internal error ({0}); please report it")]
pub(crate) struct CaughtPanic(String);

impl CaughtPanic {
    /// From the payload of a panic.
    pub(crate) fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(payload.downcast_ref::<&str>().copied());
        Self(quoted(text.unwrap_or("no message")))
    }
}

/// Runs a future and catches its panic. The caller must drop the state that the future changed, or
/// tolerate partial changes.
pub(crate) async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, CaughtPanic> {
    let mut work = pin!(work);
    std::future::poll_fn(|task| match catch(|| work.as_mut().poll(task)) {
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// Runs a function and catches its panic, with the same requirement.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, CaughtPanic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| CaughtPanic::new(&*payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_one_line() {
        assert_eq!(catch_panic(async { 1 }).await, Ok(1));
        let panicked = catch_panic(async {
            tokio::task::yield_now().await;
            std::panic::resume_unwind(Box::new("line\n2".to_owned()))
        });
        let line = panicked
            .await
            .map(|(): ()| ())
            .expect_err("it panics")
            .to_string();
        assert_eq!(line, "internal error (\"line\\u{a}2\"); please report it");
    }
}
