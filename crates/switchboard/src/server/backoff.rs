//! When a failed server is tried again: a pure state machine that is given the time and a random
//! number.
//!
//! It counts failures since the last successful response, not uptime: a server that connects and
//! dies without ever answering a call is in a crash loop, however long each round takes.

use std::time::Duration;

use tokio::time::Instant;

/// The wait after the first failure; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait that a server can ask for (Retry-After).
const LONGEST_WANTED: Duration = Duration::from_secs(3600);
/// Random share of a wait, so that servers that failed together are not retried together.
const JITTER: f64 = 0.2;
/// After this many failures in a row only a use or a restart starts the server.
const GIVE_UP_AFTER: u32 = 5;
/// How long a use does not start a server that was given up.
const COOL_DOWN: Duration = Duration::from_secs(30);

/// When a failure may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// Soon, with backoff.
    Soon,
    /// Not before the time that the server asked for.
    After(Duration),
    /// Nothing was started: with the next use.
    OnUse,
    /// It was closed because it offers nothing: with the next use. Its offerings are withdrawn.
    OnUseWithdrawn,
    /// Only after a restart or a new configuration.
    OnRequest,
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackoffDecision {
    /// Retry after `wait`; it was failure number `attempt` in a row.
    Retry { attempt: u32, wait: Duration },
    /// Do not retry until [`Backoff::may_start`] allows it.
    Pause,
}

/// The failures of one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Backoff {
    /// Since the last successful response.
    failures: u32,
    block: RetryBlock,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum RetryBlock {
    #[default]
    None,
    Until(Instant),
    UntilReset,
}

impl Backoff {
    /// Counts a failure. `random` is in 0..1.
    pub(super) fn failed(&mut self, retry: Retry, now: Instant, random: f64) -> BackoffDecision {
        self.failures = self.failures.saturating_add(1);
        let wanted = match retry {
            Retry::After(wanted) => wanted.min(LONGEST_WANTED),
            _ => Duration::ZERO,
        };
        self.block = match retry {
            Retry::Soon | Retry::After(_) if self.failures < GIVE_UP_AFTER => {
                return BackoffDecision::Retry {
                    attempt: self.failures,
                    wait: wait_after(self.failures, random).max(wanted),
                };
            }
            Retry::Soon | Retry::After(_) => RetryBlock::Until(now + COOL_DOWN.max(wanted)),
            Retry::OnUse | Retry::OnUseWithdrawn => RetryBlock::None,
            Retry::OnRequest => RetryBlock::UntilReset,
        };
        BackoffDecision::Pause
    }

    /// After a successful response.
    pub(super) fn worked(&mut self) {
        *self = Self::default();
    }

    /// After a restart by a person.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Whether a use may start the server now.
    pub(super) fn may_start(&self, now: Instant) -> bool {
        match self.block {
            RetryBlock::None => true,
            RetryBlock::Until(until) => now >= until,
            RetryBlock::UntilReset => false,
        }
    }
}

/// The wait after failure number `failures` in a row (1 is the first).
fn wait_after(failures: u32, random: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let strayed = 1.0 + JITTER * (2.0 * random.clamp(0.0, 1.0) - 1.0);
    (FIRST_WAIT * 2_u32.pow(doublings))
        .mul_f64(strayed)
        .min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Fails(Retry),
        Works,
        Told,
        /// Time passes.
        Seconds(u64),
        /// Would a use start it?
        Wakes(bool),
    }

    fn check(steps: &[Step], expected: &[BackoffDecision]) {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        let mut verdicts = Vec::new();
        for step in steps {
            match *step {
                Step::Fails(retry) => verdicts.push(backoff.failed(retry, now, 0.5)),
                Step::Works => backoff.worked(),
                Step::Told => backoff.reset(),
                Step::Seconds(seconds) => now += Duration::from_secs(seconds),
                Step::Wakes(wakes) => {
                    assert_eq!(backoff.may_start(now), wakes, "{step:?} in {steps:?}")
                }
            }
        }
        assert_eq!(verdicts, expected, "{steps:?}");
    }

    fn again(attempt: u32, wait_ms: u64) -> BackoffDecision {
        BackoffDecision::Retry {
            attempt,
            wait: Duration::from_millis(wait_ms),
        }
    }

    #[test]
    fn f18_five_failures_without_a_good_answer_are_enough() {
        use BackoffDecision::Pause;
        use Step::{Fails, Seconds, Told, Wakes, Works};
        let soon = Fails(Retry::Soon);
        let first_four = [
            again(1, 500),
            again(2, 1000),
            again(3, 2000),
            again(4, 4000),
        ];

        check(&[soon; 4], &first_four);
        check(&[soon; 5], &[first_four.as_slice(), &[Pause]].concat());
        // Uptime does not count, only work does (supervisord #405).
        check(
            &[soon, Seconds(3600), soon],
            &[again(1, 500), again(2, 1000)],
        );
        check(
            &[soon, soon, Works, soon],
            &[again(1, 500), again(2, 1000), again(1, 500)],
        );
        // Given up: a use wakes it after the cool-down, and one more failure is enough.
        check(
            &[
                soon,
                soon,
                soon,
                soon,
                soon,
                Wakes(false),
                Seconds(29),
                Wakes(false),
                Seconds(1),
                Wakes(true),
                soon,
                Wakes(false),
            ],
            &[first_four.as_slice(), &[Pause, Pause]].concat(),
        );
        check(
            &[soon, soon, soon, soon, soon, Told, Wakes(true), soon],
            &[first_four.as_slice(), &[Pause, again(1, 500)]].concat(),
        );
        check(&[Fails(Retry::OnUse), Wakes(true)], &[Pause]);
        check(
            &[
                Fails(Retry::OnRequest),
                Seconds(86_400),
                Wakes(false),
                Told,
                Wakes(true),
            ],
            &[Pause],
        );
    }

    /// F22: a busy server is left alone for as long as it wants, within reason, and never for less
    /// than any other would be.
    #[test]
    fn f22_what_a_busy_server_wants_is_waited_for() {
        use Step::{Fails, Seconds, Wakes};
        let after = |seconds| Fails(Retry::After(Duration::from_secs(seconds)));
        check(
            &[after(90), after(0), after(3)],
            &[again(1, 90_000), again(2, 1000), again(3, 3000)],
        );
        check(&[after(u64::MAX)], &[again(1, 3_600_000)]);
        let soon = Fails(Retry::Soon);
        check(
            &[
                soon,
                soon,
                soon,
                soon,
                after(90),
                Seconds(89),
                Wakes(false),
                Seconds(1),
                Wakes(true),
            ],
            &[
                again(1, 500),
                again(2, 1000),
                again(3, 2000),
                again(4, 4000),
                BackoffDecision::Pause,
            ],
        );
    }

    proptest! {
        #[test]
        fn f18_waits_are_bounded(failures in 1_u32.., random in 0.0..1.0) {
            let wait = wait_after(failures, random);
            prop_assert!(wait >= FIRST_WAIT.mul_f64(1.0 - JITTER) && wait <= LONGEST_WAIT, "{wait:?}");
        }

        #[test]
        fn f18_waits_never_shrink_as_failures_grow(failures in 1_u32..1000, random in 0.0..1.0) {
            prop_assert!(wait_after(failures + 1, random) >= wait_after(failures, random));
        }

        #[test]
        fn f18_jitter_stays_within_a_fifth(failures in 1_u32..7, random in 0.0..1.0) {
            let middle = wait_after(failures, 0.5).as_secs_f64();
            let strayed = wait_after(failures, random).as_secs_f64();
            prop_assert!((strayed - middle).abs() <= middle * JITTER + 1e-6, "{strayed} of {middle}");
        }

        #[test]
        fn f18_no_order_of_events_exceeds_four_retries_without_work(works in proptest::collection::vec(any::<bool>(), 0..60)) {
            let (mut backoff, now, mut in_a_row) = (Backoff::default(), Instant::now(), 0);
            for worked in works {
                if worked {
                    backoff.worked();
                    in_a_row = 0;
                }
                in_a_row = match backoff.failed(Retry::Soon, now, 0.5) {
                    BackoffDecision::Retry { attempt, .. } => {
                        prop_assert_eq!(attempt, in_a_row + 1);
                        attempt
                    }
                    BackoffDecision::Pause => {
                        prop_assert!(in_a_row >= GIVE_UP_AFTER - 1);
                        in_a_row + 1
                    }
                };
            }
        }
    }
}
