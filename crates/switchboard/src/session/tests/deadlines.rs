//! Tests of the deadlines of a request.

use std::time::Duration;

use tokio::time::Instant;

use super::super::in_flight::{DeadlineCheck, Deadlines};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn p1_progress_extends_the_idle_deadline_up_to_the_maximum() {
    let start = Instant::now();
    let at = |seconds: u32| start + SECOND * seconds;
    let deadlines = Deadlines::start(
        Timeouts {
            connect: SECOND,
            call: SECOND * 10,
            call_max: SECOND * 25,
        },
        start,
        start,
    );
    assert_eq!(deadlines.first, at(10));
    deadlines.restart_idle(at(8));
    assert_eq!(deadlines.check(at(10)), DeadlineCheck::Wait(at(18)));
    deadlines.restart_idle(at(17));
    assert_eq!(deadlines.check(at(18)), DeadlineCheck::Wait(at(25)));
    assert_eq!(
        deadlines.check(at(25)),
        DeadlineCheck::Late(RequestFault::Timeout {
            after: SECOND * 25,
            total: true
        })
    );
}

/// C10: where a file sets one limit for a whole call, both are the same.
#[test]
fn c10_progress_extends_no_deadline_that_is_also_the_maximum() {
    let start = Instant::now();
    let at = |seconds: u32| start + SECOND * seconds;
    let deadlines = Deadlines::start(
        Timeouts {
            connect: SECOND,
            call: SECOND * 10,
            call_max: SECOND * 10,
        },
        start,
        start,
    );
    deadlines.restart_idle(at(8));
    assert_eq!(
        deadlines.check(at(10)),
        DeadlineCheck::Late(RequestFault::Timeout {
            after: SECOND * 10,
            total: true
        })
    );
}

#[test]
fn p1_time_spent_before_the_request_counts_against_the_total_only() {
    let start = Instant::now();
    let at = |seconds: u32| start + SECOND * seconds;
    let deadlines = Deadlines::start(
        Timeouts {
            connect: SECOND,
            call: SECOND * 10,
            call_max: SECOND * 12,
        },
        start,
        at(5),
    );
    assert_eq!(deadlines.first, at(12));
    assert_eq!(
        deadlines.check(at(12)),
        DeadlineCheck::Late(RequestFault::Timeout {
            after: SECOND * 12,
            total: true
        })
    );
}

#[test]
fn p1_the_time_a_person_takes_to_answer_is_not_counted() {
    let start = Instant::now();
    let at = |seconds: u32| start + SECOND * seconds;
    let deadlines = Deadlines::start(
        Timeouts {
            connect: SECOND,
            call: SECOND * 10,
            call_max: SECOND * 12,
        },
        start,
        start,
    );
    deadlines.pause(at(5));
    deadlines.pause(at(6));
    deadlines.resume(at(7));
    assert_eq!(
        deadlines.check(at(100)),
        DeadlineCheck::Wait(at(100) + Duration::from_millis(250))
    );
    deadlines.resume(at(105));
    assert_eq!(deadlines.check(at(106)), DeadlineCheck::Wait(at(112)));
    assert_eq!(
        deadlines.check(at(112)),
        DeadlineCheck::Late(RequestFault::Timeout {
            after: SECOND * 12,
            total: true
        })
    );
}

/// A server that asks again and again does not keep its call for ever.
#[test]
fn p1_at_most_an_hour_of_questions_is_not_counted() {
    let start = Instant::now();
    let at = |seconds: u32| start + SECOND * seconds;
    let timeouts = Timeouts {
        connect: SECOND,
        call: SECOND * 10,
        call_max: SECOND * 12,
    };
    let deadlines = Deadlines::start(timeouts, start, start);
    deadlines.pause(at(5));
    assert!(matches!(deadlines.check(at(3611)), DeadlineCheck::Wait(_)));
    assert_eq!(
        deadlines.check(at(3612)),
        DeadlineCheck::Late(RequestFault::Timeout {
            after: SECOND * 12,
            total: true
        })
    );
}

#[test]
fn f1_silence_is_late_at_the_idle_deadline() {
    let start = Instant::now();
    let deadlines = Deadlines::start(
        Timeouts {
            connect: SECOND,
            call: SECOND * 2,
            call_max: SECOND * 9,
        },
        start,
        start,
    );
    let late = DeadlineCheck::Late(RequestFault::Timeout {
        after: SECOND * 2,
        total: false,
    });
    assert_eq!(deadlines.check(start + SECOND * 2), late);
}
