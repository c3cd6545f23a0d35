//! The timer of one connection.
//!
//! Each request begins several deadlines: for its head, its body, its first message. Nearly all of
//! them are met, and entering one into the runtime's timer and taking it out takes 600 instructions.
//! So one entry serves all deadlines of a connection: it stays where it was, and is moved to the
//! deadline that counts only when it fires too early. While it waits it is not polled again.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use switchboard::sync::lock;

/// Clones share the timer. All must be polled by the task of the connection.
#[derive(Clone)]
pub(super) struct ConnectionTimer(Arc<Mutex<TimerEntry>>);

struct TimerEntry {
    sleep: Pin<Box<tokio::time::Sleep>>,
    /// Whether it wakes the task of the connection when it fires.
    is_registered: bool,
}

impl TimerEntry {
    fn move_to(&mut self, deadline: tokio::time::Instant) {
        self.sleep.as_mut().reset(deadline);
        self.is_registered = false;
    }
}

impl ConnectionTimer {
    /// A timer that first fires at this deadline, or earlier if one is begun.
    pub(super) fn new(first: Duration) -> Self {
        Self(Arc::new(Mutex::new(TimerEntry {
            sleep: Box::pin(tokio::time::sleep(first)),
            is_registered: false,
        })))
    }

    /// The output of `work`; `None` if it takes longer than the limit.
    pub(super) async fn timeout<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        // What is ready at once needs no deadline.
        let mut deadline = None;
        let deadline = || *deadline.get_or_insert_with(|| self.now() + limit);
        self.until(deadline, work).await
    }

    /// The output of `work`; `None` if it takes until the deadline.
    pub(super) async fn timeout_at<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        self.until(|| deadline, work).await
    }

    async fn until<T>(
        &self,
        mut deadline: impl FnMut() -> Instant,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_deadline(deadline(), context).map(|()| None),
        })
        .await
    }

    fn poll_deadline(&self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let deadline = deadline.into();
        let mut entry = lock(&self.0);
        if entry.sleep.deadline() > deadline {
            entry.move_to(deadline);
        } else if entry.is_registered && !entry.sleep.is_elapsed() {
            return Poll::Pending;
        }
        loop {
            entry.is_registered = true;
            ready!(entry.sleep.as_mut().poll(context));
            if entry.sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            entry.move_to(deadline);
        }
    }
}

/// hyper uses this timer for its deadline on a request's head.
impl Timer for ConnectionTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Deadline {
            timer: self.clone(),
            deadline,
        })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

struct Deadline {
    timer: ConnectionTimer,
    deadline: Instant,
}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.timer.poll_deadline(self.deadline, context)
    }
}

impl Sleep for Deadline {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::sync::oneshot;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How long a wait of this limit takes, if nothing else ends it.
    async fn waited(timer: &ConnectionTimer, limit: Duration) -> Duration {
        let began = tokio::time::Instant::now();
        let output = timer.timeout(limit, std::future::pending::<()>()).await;
        assert_eq!(output, None);
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn each_deadline_is_met_whatever_the_last_one_was() {
        let timer = ConnectionTimer::new(5 * SECOND);
        for seconds in [15, 2, 30, 30, 1, 2] {
            assert_eq!(waited(&timer, seconds * SECOND).await, seconds * SECOND);
        }
        // One that was met in time leaves its entry behind; it fires during the next.
        let (done, is_done) = oneshot::channel();
        tokio::spawn(async move {
            tokio::time::sleep(SECOND).await;
            done.send("done").unwrap();
        });
        let output = timer.timeout(2 * SECOND, is_done).await;
        assert_eq!(output, Some(Ok("done")));
        assert_eq!(waited(&timer, 15 * SECOND).await, 15 * SECOND);
        let head = tokio::time::Instant::now();
        timer.sleep(3 * SECOND).await;
        assert_eq!(head.elapsed(), 3 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_deadlines_is_met_first() {
        let timer = ConnectionTimer::new(SECOND);
        let (early, late) = tokio::join!(waited(&timer, 2 * SECOND), waited(&timer, 7 * SECOND),);
        assert_eq!((early, late), (2 * SECOND, 7 * SECOND));
    }
}
