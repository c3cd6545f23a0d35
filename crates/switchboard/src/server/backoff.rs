//! When a failed server is retried: a pure state machine whose inputs include the time and a random
//! number.
//!
//! It counts failures since the last successful response and ignores uptime: a server that connects
//! and dies without answering a call is in a crash loop, however long each attempt takes.

use std::time::Duration;

use tokio::time::Instant;

/// The delay after the first failure; each further failure doubles it.
const INITIAL_DELAY: Duration = Duration::from_millis(500);
/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// The longest delay that a server can request with Retry-After.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// Random share of a delay, so that servers that failed together are not retried together.
const JITTER: f64 = 0.2;
/// After this many consecutive failures only a call or a restart starts the server.
const GIVE_UP_AFTER: u32 = 5;
/// After giving up, calls do not start the server for this long.
const COOL_DOWN: Duration = Duration::from_secs(30);

/// When a failure may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// With backoff.
    Soon,
    /// Not before the delay that the server requested.
    After(Duration),
    /// Nothing was started: on the next call.
    OnUse,
    /// The server was closed because it offers nothing: on the next call. Its offerings are
    /// withdrawn.
    OnUseWithdrawn,
    /// Only after a restart or a new configuration.
    OnRequest,
}

/// The decision after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackoffDecision {
    /// Retry after `wait`; this was consecutive failure number `attempt`.
    Retry { attempt: u32, wait: Duration },
    /// Do not retry until [`Backoff::may_start`] allows it.
    Pause,
}

/// The failures of one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Backoff {
    /// Consecutive failures since the last successful response.
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
            Retry::After(wanted) => wanted.min(MAX_RETRY_AFTER),
            _ => Duration::ZERO,
        };
        self.block = match retry {
            Retry::Soon | Retry::After(_) if self.failures < GIVE_UP_AFTER => {
                return BackoffDecision::Retry {
                    attempt: self.failures,
                    wait: delay_after(self.failures, random).max(wanted),
                };
            }
            Retry::Soon | Retry::After(_) => RetryBlock::Until(now + COOL_DOWN.max(wanted)),
            Retry::OnUse | Retry::OnUseWithdrawn => RetryBlock::None,
            Retry::OnRequest => RetryBlock::UntilReset,
        };
        BackoffDecision::Pause
    }

    /// Resets the count after a successful response.
    pub(super) fn worked(&mut self) {
        *self = Self::default();
    }

    /// Resets the count after a restart by a person.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Whether a call may start the server now.
    pub(super) fn may_start(&self, now: Instant) -> bool {
        match self.block {
            RetryBlock::None => true,
            RetryBlock::Until(until) => now >= until,
            RetryBlock::UntilReset => false,
        }
    }
}

/// The delay after consecutive failure number `failures`, counted from 1.
fn delay_after(failures: u32, random: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let strayed = 1.0 + JITTER * (2.0 * random.clamp(0.0, 1.0) - 1.0);
    (INITIAL_DELAY * 2_u32.pow(doublings))
        .mul_f64(strayed)
        .min(MAX_DELAY)
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
        /// Advances the clock.
        Seconds(u64),
        /// Asserts whether a call may start the server.
        MayStart(bool),
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
                Step::MayStart(wakes) => {
                    assert_eq!(backoff.may_start(now), wakes, "{step:?} in {steps:?}")
                }
            }
        }
        assert_eq!(verdicts, expected, "{steps:?}");
    }

    fn retry(attempt: u32, wait_ms: u64) -> BackoffDecision {
        BackoffDecision::Retry {
            attempt,
            wait: Duration::from_millis(wait_ms),
        }
    }

    #[test]
    fn f18_five_failures_without_a_response_give_up() {
        use BackoffDecision::Pause;
        use Step::{Fails, MayStart, Seconds, Told, Works};
        let soon = Fails(Retry::Soon);
        let first_four = [
            retry(1, 500),
            retry(2, 1000),
            retry(3, 2000),
            retry(4, 4000),
        ];

        check(&[soon; 4], &first_four);
        check(&[soon; 5], &[first_four.as_slice(), &[Pause]].concat());
        // Only a response resets the count, uptime does not (supervisord #405).
        check(
            &[soon, Seconds(3600), soon],
            &[retry(1, 500), retry(2, 1000)],
        );
        check(
            &[soon, soon, Works, soon],
            &[retry(1, 500), retry(2, 1000), retry(1, 500)],
        );
        // After giving up, a call may start the server once the cool-down is over; one more failure
        // gives up again.
        check(
            &[
                soon,
                soon,
                soon,
                soon,
                soon,
                MayStart(false),
                Seconds(29),
                MayStart(false),
                Seconds(1),
                MayStart(true),
                soon,
                MayStart(false),
            ],
            &[first_four.as_slice(), &[Pause, Pause]].concat(),
        );
        check(
            &[soon, soon, soon, soon, soon, Told, MayStart(true), soon],
            &[first_four.as_slice(), &[Pause, retry(1, 500)]].concat(),
        );
        check(&[Fails(Retry::OnUse), MayStart(true)], &[Pause]);
        check(
            &[
                Fails(Retry::OnRequest),
                Seconds(86_400),
                MayStart(false),
                Told,
                MayStart(true),
            ],
            &[Pause],
        );
    }

    /// F22: Retry-After is honoured up to the maximum, and never shortens the ordinary backoff.
    #[test]
    fn f22_retry_after_is_honoured_within_a_limit() {
        use Step::{Fails, MayStart, Seconds};
        let after = |seconds| Fails(Retry::After(Duration::from_secs(seconds)));
        check(
            &[after(90), after(0), after(3)],
            &[retry(1, 90_000), retry(2, 1000), retry(3, 3000)],
        );
        check(&[after(u64::MAX)], &[retry(1, 3_600_000)]);
        let soon = Fails(Retry::Soon);
        check(
            &[
                soon,
                soon,
                soon,
                soon,
                after(90),
                Seconds(89),
                MayStart(false),
                Seconds(1),
                MayStart(true),
            ],
            &[
                retry(1, 500),
                retry(2, 1000),
                retry(3, 2000),
                retry(4, 4000),
                BackoffDecision::Pause,
            ],
        );
    }

    proptest! {
        #[test]
        fn f18_waits_are_bounded(failures in 1_u32.., random in 0.0..1.0) {
            let wait = delay_after(failures, random);
            prop_assert!(wait >= INITIAL_DELAY.mul_f64(1.0 - JITTER) && wait <= MAX_DELAY, "{wait:?}");
        }

        #[test]
        fn f18_waits_never_shrink_as_failures_grow(failures in 1_u32..1000, random in 0.0..1.0) {
            prop_assert!(delay_after(failures + 1, random) >= delay_after(failures, random));
        }

        #[test]
        fn f18_jitter_stays_within_a_fifth(failures in 1_u32..7, random in 0.0..1.0) {
            let middle = delay_after(failures, 0.5).as_secs_f64();
            let strayed = delay_after(failures, random).as_secs_f64();
            prop_assert!((strayed - middle).abs() <= middle * JITTER + 1e-6, "{strayed} of {middle}");
        }

        #[test]
        fn f18_no_order_of_events_exceeds_four_retries_without_a_response(works in proptest::collection::vec(any::<bool>(), 0..60)) {
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
