//! Tests that a request ends by its deadline plus one second, whatever its server sends (P1).

use std::time::{Duration, Instant};

use crate::peer::{Kind, Where};
use crate::support::{Way, in_each_runtime, open, read, try_open};

const LIMIT: Duration = Duration::from_millis(300);
const ALLOWANCE: Duration = Duration::from_secs(1);

/// The timeout of these tests.
const TIMEOUT: Duration = Duration::from_secs(20);

fn check(way: Way) {
    for kind in Kind::ALL {
        in_each_runtime(|| async move {
            let (session, sent) = open(way, kind).await;
            let began = Instant::now();
            // In a task of its own, as calls are.
            let reading = tokio::spawn(async move { read(&session, LIMIT).await });
            let ended = tokio::time::timeout(TIMEOUT, reading).await;
            let took = began.elapsed();
            assert!(
                ended
                    .as_ref()
                    .is_ok_and(|ended| ended.as_ref().is_ok_and(Result::is_err)),
                "{way:?}, {kind:?}: {ended:?}"
            );
            assert!(
                took <= LIMIT + ALLOWANCE,
                "{way:?}, {kind:?}: took {took:?}"
            );
            assert!(
                sent.load(std::sync::atomic::Ordering::Relaxed) > 0,
                "{way:?}, {kind:?}: nothing was flooded"
            );
        });
    }
}

#[test]
fn p1_deadlines_hold_while_stdio_is_flooded() {
    check(Way::Stdio);
}

#[test]
fn p1_f26_deadlines_hold_while_the_response_is_flooded() {
    check(Way::Direct(Where::Response));
}

#[test]
fn p1_f26_deadlines_hold_while_the_response_is_flooded_over_the_shared_stack() {
    check(Way::Stack(Where::Response));
}

#[test]
fn p1_f26_a_handshake_that_is_answered_with_a_flood_ends_at_its_deadline() {
    for way in [Way::Direct(Where::Handshake), Way::Stack(Where::Handshake)] {
        in_each_runtime(|| async move {
            let began = Instant::now();
            let ended = tokio::time::timeout(TIMEOUT, try_open(way, Kind::Comments, LIMIT)).await;
            assert!(
                ended.is_ok_and(|(opened, _)| opened.is_err())
                    && began.elapsed() <= LIMIT + ALLOWANCE,
                "{way:?}: {:?}",
                began.elapsed()
            );
        });
    }
}

#[test]
fn p1_f26_deadlines_hold_while_the_get_stream_is_flooded() {
    check(Way::Direct(Where::Get));
}

#[test]
fn p1_f26_deadlines_hold_while_the_get_stream_is_flooded_over_the_shared_stack() {
    check(Way::Stack(Where::Get));
}

#[test]
fn p1_f26_deadlines_hold_while_http_sse_is_flooded() {
    check(Way::Sse);
}

#[test]
fn p1_f26_deadlines_hold_while_http_sse_is_flooded_over_the_shared_stack() {
    check(Way::SseOverStack);
}
