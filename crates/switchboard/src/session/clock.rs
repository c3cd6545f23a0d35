//! The deadlines of one ongoing request: idle time, total time, and the time a person takes, which
//! counts against neither.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::RequestFault;
use crate::config::Timeouts;

/// While a person is being asked, deadlines are looked at this often.
const WHILE_ASKING: Duration = Duration::from_millis(250);

/// Knows when a request is late.
#[derive(Debug)]
pub(super) struct Clock {
    timeouts: Timeouts,
    started: Instant,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// The last sign of life: the start, or progress.
    active: Instant,
    /// Questions that are open now.
    open_questions: u32,
    /// When the first of them was put.
    asking_since: Instant,
    /// Time spent asking, closed questions only.
    asked: Duration,
}

/// What to do when the timer fires.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Look again then.
    Wait(Instant),
    /// Late.
    Late(RequestFault),
}

impl Clock {
    /// The total is counted from `started`, which may lie before `now`.
    pub(super) fn start(timeouts: Timeouts, started: Instant, now: Instant) -> Self {
        let times = Times {
            active: now,
            open_questions: 0,
            asking_since: now,
            asked: Duration::ZERO,
        };
        Self {
            timeouts,
            started,
            times: Mutex::new(times),
        }
    }

    fn times(&self) -> std::sync::MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When to look first.
    pub(super) fn first_look(&self) -> Instant {
        (self.times().active + self.timeouts.call).min(self.started + self.timeouts.call_max)
    }

    /// How long the deadline is that comes first.
    pub(super) fn shortest(&self) -> Duration {
        self.timeouts.call.min(self.timeouts.call_max)
    }

    /// How long the whole may take, questions aside.
    pub(super) fn longest(&self) -> Duration {
        self.timeouts.call_max
    }

    /// Progress was reported.
    pub(super) fn touch(&self, now: Instant) {
        self.times().active = now;
    }

    /// A question goes to the caller.
    pub(super) fn ask(&self, now: Instant) {
        let mut times = self.times();
        if times.open_questions == 0 {
            times.asking_since = now;
        }
        times.open_questions += 1;
    }

    /// A question came back.
    pub(super) fn answered(&self, now: Instant) {
        let mut times = self.times();
        times.open_questions = times.open_questions.saturating_sub(1);
        if times.open_questions == 0 {
            let took = now - times.asking_since;
            times.asked += took;
            times.active = now;
        }
    }

    /// Judges at `now`.
    pub(super) fn judge(&self, now: Instant) -> Verdict {
        let times = self.times();
        if times.open_questions > 0 {
            return Verdict::Wait(now + WHILE_ASKING);
        }
        let idle_end = times.active + self.timeouts.call;
        let total_end = self.started + self.timeouts.call_max + times.asked;
        if now >= total_end {
            return Verdict::Late(RequestFault::Timeout {
                after: self.timeouts.call_max,
                total: true,
            });
        }
        if now >= idle_end {
            return Verdict::Late(RequestFault::Timeout {
                after: self.timeouts.call,
                total: false,
            });
        }
        Verdict::Wait(idle_end.min(total_end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn p1_progress_extends_the_idle_deadline_up_to_the_maximum() {
        let start = Instant::now();
        let at = |seconds: u32| start + SECOND * seconds;
        let clock = Clock::start(
            Timeouts {
                connect: SECOND,
                call: SECOND * 10,
                call_max: SECOND * 25,
            },
            start,
            start,
        );
        assert_eq!(clock.first_look(), at(10));
        clock.touch(at(8));
        assert_eq!(clock.judge(at(10)), Verdict::Wait(at(18)));
        clock.touch(at(17));
        assert_eq!(clock.judge(at(18)), Verdict::Wait(at(25)));
        assert_eq!(
            clock.judge(at(25)),
            Verdict::Late(RequestFault::Timeout {
                after: SECOND * 25,
                total: true
            })
        );
    }

    #[test]
    fn p1_time_spent_before_the_request_counts_against_the_total_only() {
        let start = Instant::now();
        let at = |seconds: u32| start + SECOND * seconds;
        let clock = Clock::start(
            Timeouts {
                connect: SECOND,
                call: SECOND * 10,
                call_max: SECOND * 12,
            },
            start,
            at(5),
        );
        assert_eq!(clock.first_look(), at(12));
        assert_eq!(
            clock.judge(at(12)),
            Verdict::Late(RequestFault::Timeout {
                after: SECOND * 12,
                total: true
            })
        );
    }

    #[test]
    fn p1_the_time_a_person_takes_is_not_counted() {
        let start = Instant::now();
        let at = |seconds: u32| start + SECOND * seconds;
        let clock = Clock::start(
            Timeouts {
                connect: SECOND,
                call: SECOND * 10,
                call_max: SECOND * 12,
            },
            start,
            start,
        );
        clock.ask(at(5));
        clock.ask(at(6));
        clock.answered(at(7));
        assert_eq!(clock.judge(at(100)), Verdict::Wait(at(100) + WHILE_ASKING));
        clock.answered(at(105));
        assert_eq!(clock.judge(at(106)), Verdict::Wait(at(112)));
        assert_eq!(
            clock.judge(at(112)),
            Verdict::Late(RequestFault::Timeout {
                after: SECOND * 12,
                total: true
            })
        );
    }

    #[test]
    fn f1_silence_is_late_at_the_idle_deadline() {
        let start = Instant::now();
        let clock = Clock::start(
            Timeouts {
                connect: SECOND,
                call: SECOND * 2,
                call_max: SECOND * 9,
            },
            start,
            start,
        );
        let late = Verdict::Late(RequestFault::Timeout {
            after: SECOND * 2,
            total: false,
        });
        assert_eq!(clock.judge(start + SECOND * 2), late);
    }
}
