//! Work on a thread that stops when its call is dropped or its time is up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Signals work on another thread to stop.
#[derive(Debug, Clone)]
pub(super) struct StopSignal {
    is_dropped: Arc<AtomicBool>,
    deadline: Instant,
}

impl StopSignal {
    /// Whether to stop: the call was dropped, or its deadline has passed.
    pub(super) fn is_set(&self) -> bool {
        self.is_dropped() || self.is_late()
    }

    /// Whether the call was dropped.
    pub(super) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }

    /// Whether the deadline has passed.
    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// Sets the signal when the waiting future is dropped.
struct StopOnDrop(StopSignal);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.is_dropped.store(true, Ordering::Relaxed);
    }
}

/// Runs work that reads files, and that must check its signal often.
pub(super) async fn run_blocking<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&StopSignal) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let signal = StopSignal {
        is_dropped: Arc::default(),
        deadline: Instant::now() + limit,
    };
    let _stop = StopOnDrop(signal.clone());
    let done = tokio::task::spawn_blocking(move || work(&signal)).await;
    done.unwrap_or_else(|_| Err("the tool failed: its thread panicked".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn dropping_the_call_stops_its_thread() {
        let (started, has_started) = mpsc::channel();
        let (ended, has_ended) = mpsc::channel();
        let work = run_blocking(Duration::from_secs(600), move |stop| {
            let _ = started.send(());
            while !stop.is_set() {
                std::thread::yield_now();
            }
            let _ = ended.send(stop.is_late());
            Ok(())
        });
        let running = tokio::spawn(work);
        let waited = tokio::task::spawn_blocking(move || has_started.recv()).await;
        assert!(waited.expect("joined").is_ok());
        running.abort();
        let ended = tokio::task::spawn_blocking(move || has_ended.recv()).await;
        assert_eq!(ended.expect("joined"), Ok(false));
    }

    #[tokio::test]
    async fn work_sees_that_its_time_is_up() {
        let late = run_blocking(Duration::ZERO, |stop| {
            Ok((stop.is_set(), stop.is_dropped()))
        });
        assert_eq!(late.await, Ok((true, false)));
    }
}
