//! Turns: on a wire that does not say whose question a question is, calls of different callers do
//! not overlap.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::caller::CallerId;

/// Lets calls of one caller in together, and those of others after them, in the order they came.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Line>);

#[derive(Debug, Default)]
struct Line {
    /// Whose turn it is, with the number of calls that are in.
    inside: Option<(CallerId, usize)>,
    waiting: VecDeque<(CallerId, oneshot::Sender<Turn>)>,
}

/// Being in. Dropping it lets the next in.
#[derive(Debug)]
pub(super) struct Turn(Arc<Turns>);

impl Turns {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the caller's turn.
    pub(super) async fn enter(self: &Arc<Self>, caller: &CallerId) -> Turn {
        let waiting = {
            let mut guard = self.line();
            let line = &mut *guard;
            let joins = match &mut line.inside {
                None => {
                    line.inside = Some((caller.clone(), 1));
                    true
                }
                Some((inside, count)) if inside == caller => {
                    // Once somebody else waits, nobody overtakes.
                    let may_join = line.waiting.is_empty();
                    *count += usize::from(may_join);
                    may_join
                }
                Some(_) => false,
            };
            if joins {
                return Turn(self.clone());
            }
            let (sender, receiver) = oneshot::channel();
            line.waiting.push_back((caller.clone(), sender));
            receiver
        };
        waiting
            .await
            .expect("a waiter is removed from the line only by being let in")
    }

    fn leave(self: &Arc<Self>) {
        let mut refused = Vec::new();
        let mut line = self.line();
        if let Some((_, count)) = &mut line.inside {
            *count -= 1;
            if *count > 0 {
                return;
            }
        }
        line.inside = None;
        while let Some((caller, _)) = line.waiting.front() {
            if line
                .inside
                .as_ref()
                .is_some_and(|(inside, _)| inside != caller)
            {
                break;
            }
            let Some((caller, sender)) = line.waiting.pop_front() else {
                break;
            };
            match &mut line.inside {
                Some((_, count)) => *count += 1,
                None => line.inside = Some((caller, 1)),
            }
            if let Err(turn) = sender.send(Turn(self.clone())) {
                // The waiter has gone. Its turn leaves after the lock is released.
                refused.push(turn);
            }
        }
        drop(line);
        drop(refused);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3-20: concurrent calls from different channels do not cross.
    #[tokio::test]
    async fn s3_20_callers_take_turns_in_the_order_they_came() {
        let (turns, a, b) = (
            Arc::new(Turns::default()),
            CallerId::new("a"),
            CallerId::new("b"),
        );
        let first = turns.enter(&a).await;
        let second = turns.enter(&a).await;
        let mut other = Box::pin(turns.enter(&b));
        let mut late = Box::pin(turns.enter(&a));
        assert!(futures_pending(&mut other).await, "b waits for a");
        assert!(futures_pending(&mut late).await, "a does not overtake b");
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
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_does_not_block_the_line() {
        let (turns, a, b, c) = (
            Arc::new(Turns::default()),
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

    async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())
        })
        .await
    }
}
