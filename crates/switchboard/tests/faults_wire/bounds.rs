//! Bounds: what a server sends too much of, or does not take, costs its own calls and no memory
//! beyond the configuration.

use std::time::{Duration, Instant};

use switchboard_testkit::script::{Cursor, IdPlace};
use switchboard_testkit::{Chaos, Scratch, Step, peak_rss_bytes, rss_bytes};
use tokio::task::JoinSet;

use crate::support::{self, Stage, assert_on_time, chaos, person, until};

const MIB: u64 = 1024 * 1024;

/// Runs what may cost memory, and returns how much more than before the process ever held.
async fn growth<T>(work: impl Future<Output = T>) -> (T, u64) {
    let pid = std::process::id().cast_signed();
    let before = rss_bytes(pid).unwrap();
    let done = work.await;
    (done, peak_rss_bytes(pid).unwrap().saturating_sub(before))
}

#[tokio::test]
async fn f4_an_answer_past_the_bound_fails_its_own_call_and_the_server_stays() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("first", Step::huge(MIB, IdPlace::First))
        .tool("last", Step::huge(MIB, IdPlace::Last))
        .tool("none", Step::huge(MIB, IdPlace::None))
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server)
        .set("call_timeout", "20s")
        .set("max_message", "64KiB");
    let stage = Stage::open(scratch, &[entry]).await;

    for tool in ["chaos/first", "chaos/last"] {
        let too_large = r#"server "chaos": the answer is too large: more than 65536 bytes"#;
        assert_eq!(stage.failure(tool).await.0, too_large, "{tool}");
        assert_eq!(stage.text("chaos/ok").await, "hi");
    }
    assert_eq!(stage.record("seen").starts(), 1);
    // Nobody can tell which call it was for: the session fails, and says so.
    let reason = "it sent a message of more than 65536 bytes that answers no request";
    assert_eq!(
        stage.failure("chaos/none").await.0,
        format!(r#"server "chaos": the connection ended: {reason}"#)
    );
    assert_eq!(
        stage.error("chaos").await,
        format!(r#"lost the connection: {reason}"#)
    );
}

#[tokio::test]
async fn f4_p3_a_line_of_100_mib_costs_no_more_memory_than_its_bound() {
    if !support::is_alone("bounds::f4_p3_a_line_of_100_mib_costs_no_more_memory_than_its_bound") {
        return;
    }
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("first", Step::huge(100 * MIB, IdPlace::First))
        .tool("last", Step::huge(100 * MIB, IdPlace::Last))
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server)
        .set("call_timeout", "60s")
        .set("max_message", "8MiB");
    let stage = Stage::open(scratch, &[entry]).await;

    let (sentences, grown) = growth(async {
        [
            stage.failure("chaos/first").await.0,
            stage.failure("chaos/last").await.0,
        ]
    })
    .await;
    assert_eq!(
        sentences,
        [r#"server "chaos": the answer is too large: more than 8388608 bytes"#; 2]
    );
    // The bound, a copy of it while the buffer grows, and what a few calls need.
    assert!(grown < 24 * MIB, "{grown} bytes");
    assert_eq!(stage.text("chaos/ok").await, "hi");
    assert_eq!(stage.record("seen").starts(), 1);
}

#[tokio::test]
async fn f12_a_server_that_reads_nothing_delays_only_its_own_calls() {
    const LONGER: Duration = Duration::from_secs(2);
    let scratch = Scratch::new();
    let deaf = Chaos::new()
        .tool("deafen", [Step::StopReading, Step::Drop])
        .tool("ok", Step::text("hi"));
    let deaf = chaos(&scratch, &deaf).set("call_timeout", "2s");
    let well = Chaos::new().tool("ok", Step::text("well")).entry("well");
    let stage = Stage::open(scratch, &[deaf, well]).await;

    assert_on_time(
        stage.failure("chaos/deafen").await.1,
        LONGER,
        "the call that was read",
    );
    // More than the pipe and the queue hold: the first fills them, the others wait for room.
    let arguments = format!(r#"{{"x":"{}"}}"#, "x".repeat(1_200_000));
    let mut calls = JoinSet::new();
    for number in 0..4 {
        let call = support::call_with("chaos/ok", &arguments, &(person("somebody").arc() as _));
        let host = stage.host.clone();
        calls.spawn(async move {
            let began = Instant::now();
            let sentence = host.call_with(call).await.unwrap_err().to_string();
            assert_on_time(began.elapsed(), LONGER, &format!("call {number}"));
            sentence
        });
    }
    for _ in 0..3 {
        assert_eq!(stage.text("well/ok").await, "well");
    }
    assert!(
        calls.try_join_next().is_none(),
        "the neighbour was answered while they waited"
    );
    assert_eq!(
        calls.join_all().await,
        [r#"server "chaos": no answer within 2s"#; 4]
    );
}

#[tokio::test]
async fn f12_a_server_without_stderr_works_on() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("mute", [Step::CloseStderr, Step::text("quiet")])
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let stage = Stage::open(scratch, &[entry]).await;
    assert_eq!(stage.text("chaos/mute").await, "quiet");
    assert_eq!(stage.text("chaos/ok").await, "hi");
    assert_eq!(stage.record("seen").starts(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_p3_a_flood_of_notifications_neither_delays_a_neighbour_nor_grows() {
    if !support::is_alone(
        "bounds::f13_p3_a_flood_of_notifications_neither_delays_a_neighbour_nor_grows",
    ) {
        return;
    }
    let scratch = Scratch::new();
    let flood = Chaos::new().tool(
        "flood",
        [Step::FloodNotifications(100_000), Step::text("done")],
    );
    let entry = chaos(&scratch, &flood).set("call_timeout", "300s");
    let well = Chaos::new().tool("ok", Step::text("well")).entry("well");
    let stage = Stage::open(scratch, &[entry, well]).await;
    // A reader that never reads must not make them pile up.
    let _events = stage.host.events();

    // A neighbour that waits for the flood does so each time; what the machine does meanwhile is
    // chance.
    let mut delayed = Vec::new();
    for _ in 0..4 {
        let ((longest, flooded), grown) = growth(longest_call_during_flood(&stage)).await;
        assert!(grown < 16 * MIB, "{grown} bytes");
        // The flood is read at a limited rate, for at least six seconds; it takes longer where the
        // machine is busy, and so may the neighbour.
        if longest < Duration::from_millis(500).max(flooded / 12) {
            return;
        }
        delayed.push((longest, flooded));
    }
    panic!("the longest call, and how long the flood took: {delayed:?}");
}

/// How long a neighbour's call takes at most while the server floods, and how long the flood takes.
async fn longest_call_during_flood(stage: &Stage) -> (Duration, Duration) {
    let host = stage.host.clone();
    let flood_began = Instant::now();
    let flood = tokio::spawn(async move {
        host.call_with(support::call(
            "chaos/flood",
            &(person("somebody").arc() as _),
        ))
        .await
    });
    let mut longest = Duration::ZERO;
    while !flood.is_finished() {
        let began = Instant::now();
        assert_eq!(stage.text("well/ok").await, "well");
        longest = longest.max(began.elapsed());
    }
    assert_eq!(support::text(&flood.await.unwrap().unwrap()), "done");
    (longest, flood_began.elapsed())
}

/// What the server is owed may not pile up either, when it asks without end and takes no answer.
#[tokio::test]
async fn f12_p3_a_server_that_asks_and_does_not_read_is_given_up() {
    if !support::is_alone("bounds::f12_p3_a_server_that_asks_and_does_not_read_is_given_up") {
        return;
    }
    let scratch = Scratch::new();
    let ping = Chaos::new().tool(
        "ping",
        [
            Step::StopReading,
            Step::FloodPings(400_000),
            Step::text("done"),
        ],
    );
    let entry = chaos(&scratch, &ping).set("call_timeout", "30s");
    let stage = Stage::open(scratch, &[entry]).await;

    let ((sentence, _), grown) = growth(stage.failure("chaos/ping")).await;
    let reason = "it asks without reading the answers: more than 1048576 bytes wait for it";
    assert_eq!(
        sentence,
        format!(r#"server "chaos": the connection ended: {reason}"#)
    );
    assert!(grown < 12 * MIB, "{grown} bytes");
}

/// A list is one thing that a server sends, on however many pages.
#[tokio::test]
async fn p3_t28_the_pages_of_a_list_may_together_be_no_larger_than_a_message() {
    let scratch = Scratch::new();
    let server = Chaos::new().cursor(Cursor::Endless).page_size(100);
    let entry = chaos(&scratch, &server).set("max_message", "64KiB");
    let stage = Stage::open(scratch, &[entry]).await;
    let fact = "the answer is not valid: a list of more than 65536 bytes";
    assert_eq!(
        stage.error("chaos").await,
        format!(r#"connected, but tools/list failed: {fact}"#)
    );
    until("it is asked for no more pages", || {
        stage.record("seen").count("tools/list") < 12
    })
    .await;
}
