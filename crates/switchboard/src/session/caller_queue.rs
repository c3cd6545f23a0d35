//! Serialises callers: where nothing shows which call a server's question belongs to, calls of
//! different callers do not overlap.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, oneshot};

use crate::caller::CallerId;
use crate::sync::lock;

/// Admits the calls of one caller together, and those of others after them, in the order of
/// arrival.
#[derive(Debug, Default)]
pub(super) struct CallerQueue {
    state: Mutex<CallerQueueState>,
    /// Notified when a call begins to wait.
    waiter_added: Notify,
}

#[derive(Debug, Default)]
struct CallerQueueState {
    /// The admitted caller and its number of calls in flight.
    admitted: Option<(CallerId, usize)>,
    waiting: VecDeque<(CallerId, oneshot::Sender<CallerTurn>)>,
}

/// An admitted call. Dropping the last one of a caller admits the next caller.
#[derive(Debug)]
pub(super) struct CallerTurn {
    /// `None` if its waiter gave up: then it was not counted.
    queue: Option<Arc<CallerQueue>>,
}

impl CallerQueue {
    fn state(&self) -> MutexGuard<'_, CallerQueueState> {
        lock(&self.state)
    }

    /// Waits until the caller is admitted.
    pub(super) async fn enter(self: &Arc<Self>, caller: &CallerId) -> CallerTurn {
        let waiting = {
            let mut guard = self.state();
            let state = &mut *guard;
            // A waiter that gave up is in nobody's way.
            state.waiting.retain(|(_, waiter)| !waiter.is_closed());
            let joins = match &mut state.admitted {
                None => {
                    state.admitted = Some((caller.clone(), 1));
                    true
                }
                Some((admitted, count)) if admitted == caller => {
                    // No call overtakes a waiting caller.
                    let may_join = state.waiting.is_empty();
                    *count += usize::from(may_join);
                    may_join
                }
                Some(_) => false,
            };
            if joins {
                return self.turn();
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back((caller.clone(), sender));
            receiver
        };
        self.waiter_added.notify_waiters();
        waiting
            .await
            .expect("a waiter leaves the queue only by being admitted")
    }

    /// Whether a call of another caller waits for the admitted ones.
    pub(super) fn has_waiters(&self) -> bool {
        let state = self.state();
        state.waiting.iter().any(|(_, waiter)| !waiter.is_closed())
    }

    /// Completes while a call of another caller waits for the admitted ones.
    pub(super) async fn until_others_wait(&self) {
        loop {
            let added = self.waiter_added.notified();
            tokio::pin!(added);
            // Enabled before the check, so that a waiter between check and wait is not missed.
            added.as_mut().enable();
            if self.has_waiters() {
                return;
            }
            added.await;
        }
    }

    fn turn(self: &Arc<Self>) -> CallerTurn {
        CallerTurn {
            queue: Some(self.clone()),
        }
    }

    fn leave(self: &Arc<Self>) {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some((_, count)) = &mut state.admitted {
            *count -= 1;
            if *count > 0 {
                return;
            }
        }
        state.admitted = None;
        // The next waiter, and those of the same caller right behind it.
        while let Some((caller, waiter)) = state.waiting.pop_front() {
            let admitted = state.admitted.as_ref();
            if admitted.is_some_and(|(admitted, _)| *admitted != caller) {
                state.waiting.push_front((caller, waiter));
                return;
            }
            match waiter.send(self.turn()) {
                Ok(()) => match &mut state.admitted {
                    Some((_, count)) => *count += 1,
                    None => state.admitted = Some((caller, 1)),
                },
                // The waiter gave up: its turn does not leave, since it never entered.
                Err(mut turn) => turn.queue = None,
            }
        }
    }
}

impl Drop for CallerTurn {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3-20: concurrent calls from different channels do not cross.
    #[tokio::test]
    async fn s3_20_callers_are_admitted_in_the_order_of_arrival() {
        let (turns, a, b) = (
            Arc::new(CallerQueue::default()),
            CallerId::new("a"),
            CallerId::new("b"),
        );
        let first = turns.enter(&a).await;
        let second = turns.enter(&a).await;
        let mut other = Box::pin(turns.enter(&b));
        let mut late = Box::pin(turns.enter(&a));
        assert!(futures_pending(&mut other).await, "b waits for a");
        assert!(futures_pending(&mut late).await, "a does not overtake b");
        assert!(turns.has_waiters());
        drop(first);
        assert!(
            futures_pending(&mut other).await,
            "one call of a is still in"
        );
        drop(second);
        let inside = other.await;
        assert!(futures_pending(&mut late).await, "a waits for b");
        drop(inside);
        drop(late.await);
        assert!(!turns.has_waiters());
    }

    #[tokio::test]
    async fn a_cancelled_waiter_does_not_block_the_queue() {
        let (turns, a, b, c) = (
            Arc::new(CallerQueue::default()),
            CallerId::new("a"),
            CallerId::new("b"),
            CallerId::new("c"),
        );
        let first = turns.enter(&a).await;
        let mut gone = Box::pin(turns.enter(&b));
        let mut stays = Box::pin(turns.enter(&c));
        assert!(futures_pending(&mut gone).await && futures_pending(&mut stays).await);
        drop(gone);
        drop(first);
        drop(stays.await);
    }

    #[tokio::test]
    async fn a_waiter_that_gave_up_delays_no_call_of_the_admitted_caller() {
        let (turns, a, b) = (
            Arc::new(CallerQueue::default()),
            CallerId::new("a"),
            CallerId::new("b"),
        );
        let _first = turns.enter(&a).await;
        let mut gone = Box::pin(turns.enter(&b));
        assert!(futures_pending(&mut gone).await);
        drop(gone);
        let mut second = Box::pin(turns.enter(&a));
        assert!(
            !futures_pending(&mut second).await,
            "nobody waits before it"
        );
    }

    #[tokio::test]
    async fn p3_any_number_of_waiters_may_give_up_at_once() {
        let (turns, a) = (Arc::new(CallerQueue::default()), CallerId::new("a"));
        let first = turns.enter(&a).await;
        let callers: Vec<_> = (0..10_000)
            .map(|number| CallerId::new(&number.to_string()))
            .collect();
        let mut waiting: Vec<_> = callers
            .iter()
            .map(|caller| Box::pin(turns.enter(caller)))
            .collect();
        for waiter in &mut waiting {
            assert!(futures_pending(waiter).await);
        }
        drop(waiting);
        drop(first);
        drop(turns.enter(&callers[0]).await);
    }

    async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())
        })
        .await
    }
}
