//! Tests that a third server is served while two flood, and that the flooding ones meet
//! backpressure (P2).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::peer::{Kind, Where};
use crate::support::{Way, in_each_runtime, open, read};

/// How long the third server is called.
const SPAN: Duration = Duration::from_secs(1);

/// The most that a flood may deliver in that time: the burst, the rate per second, and what is in
/// buffers.
const MOST_BYTES: u64 = 120 << 20;

fn check(way: Way, kind: Kind) {
    in_each_runtime(|| async move {
        let (healthy, _) = open(Way::Direct(Where::Nowhere), kind).await;
        let mut floods = Vec::new();
        for _ in 0..2 {
            let (session, sent) = open(way, kind).await;
            floods.push((
                tokio::spawn(async move { drop(read(&session, Duration::from_secs(60)).await) }),
                sent,
            ));
        }
        let (began, mut calls, mut slowest) = (Instant::now(), 0, Duration::ZERO);
        while began.elapsed() < SPAN {
            let sent = Instant::now();
            read(&healthy, Duration::from_secs(20)).await.unwrap();
            slowest = slowest.max(sent.elapsed());
            calls += 1;
        }
        assert!(
            calls > 10 && slowest < Duration::from_secs(1),
            "{way:?}, {kind:?}: {calls} calls, the slowest took {slowest:?}"
        );
        for (flood, sent) in floods {
            flood.abort();
            let sent = sent.load(Ordering::Relaxed);
            assert!(
                (1..MOST_BYTES).contains(&sent),
                "{way:?}, {kind:?}: {sent} bytes were taken from a server that floods"
            );
        }
    });
}

#[test]
fn p2_a_neighbour_is_served_while_two_servers_flood_stdio() {
    for kind in [Kind::Notifications, Kind::Comments, Kind::HugeComment] {
        check(Way::Stdio, kind);
    }
}

#[test]
fn p2_f26_a_neighbour_is_served_while_two_responses_are_flooded() {
    for kind in [Kind::Comments, Kind::Notifications, Kind::TinyChunks] {
        check(Way::Direct(Where::Response), kind);
    }
    check(Way::Stack(Where::Response), Kind::Comments);
}

#[test]
fn p2_f26_a_neighbour_is_served_while_two_get_streams_are_flooded() {
    for kind in [Kind::Comments, Kind::Logs] {
        check(Way::Direct(Where::Get), kind);
    }
    check(Way::Stack(Where::Get), Kind::Comments);
}

#[test]
fn p2_f26_a_neighbour_is_served_while_two_sse_streams_are_flooded() {
    for kind in [Kind::Comments, Kind::UnknownIds] {
        check(Way::Sse, kind);
    }
}
