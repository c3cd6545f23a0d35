//! Tests of limits: what a server sends too much of, or does not read, affects its own calls only,
//! and no memory beyond the configuration.

use std::time::{Duration, Instant};

use switchboard::config::{self, ConfigFile, Scope};
use switchboard::launch::Launcher;
use switchboard::{HostBuilder, Server};
use switchboard_testkit::script::{Cursor, IdPlace};
use switchboard_testkit::{Chaos, Scratch, Step, peak_rss_bytes, rss_bytes};
use tokio::task::JoinSet;

use crate::support::{self, TestHost, assert_on_time, chaos, person, until};

const MIB: u64 = 1024 * 1024;

/// Runs the work, and returns by how much the process's peak memory grew.
async fn growth<T>(work: impl Future<Output = T>) -> (T, u64) {
    let pid = std::process::id().cast_signed();
    let before = rss_bytes(pid).unwrap();
    let done = work.await;
    (done, peak_rss_bytes(pid).unwrap().saturating_sub(before))
}

#[tokio::test]
async fn f4_an_oversized_response_fails_its_own_call_and_the_server_stays() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("first", Step::huge(MIB, IdPlace::First))
        .tool("last", Step::huge(MIB, IdPlace::Last))
        .tool("none", Step::huge(MIB, IdPlace::None))
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server)
        .set("call_timeout", "20s")
        .set("max_message", "64KiB");
    let test = TestHost::open(scratch, &[entry]).await;

    for tool in ["chaos/first", "chaos/last"] {
        let too_large = r#"server "chaos": the answer is too large: more than 65536 bytes"#;
        assert_eq!(test.failure(tool).await.0, too_large, "{tool}");
        assert_eq!(test.text("chaos/ok").await, "hi");
    }
    assert_eq!(test.record("seen").starts(), 1);
    // Its request is unknown: the session fails, and says so.
    let reason = "it sent a message of more than 65536 bytes that answers no request";
    assert_eq!(
        test.failure("chaos/none").await.0,
        format!(r#"server "chaos": the connection ended: {reason}"#)
    );
    assert_eq!(
        test.error("chaos").await,
        format!(r#"lost the connection: {reason}"#)
    );
}

#[tokio::test]
async fn f4_p3_a_line_of_100_mib_uses_no_more_memory_than_its_limit() {
    if !support::is_alone("bounds::f4_p3_a_line_of_100_mib_uses_no_more_memory_than_its_limit") {
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
    let test = TestHost::open(scratch, &[entry]).await;

    let (sentences, grown) = growth(async {
        [
            test.failure("chaos/first").await.0,
            test.failure("chaos/last").await.0,
        ]
    })
    .await;
    assert_eq!(
        sentences,
        [r#"server "chaos": the answer is too large: more than 8388608 bytes"#; 2]
    );
    // The limit, a copy of it while the buffer grows, and the needs of a few calls.
    assert!(grown < 24 * MIB, "{grown} bytes");
    assert_eq!(test.text("chaos/ok").await, "hi");
    assert_eq!(test.record("seen").starts(), 1);
}

#[tokio::test]
async fn f12_a_server_that_reads_nothing_delays_only_its_own_calls() {
    // The neighbour's three calls take less, also on a busy machine.
    const LONGER: Duration = Duration::from_secs(6);
    let scratch = Scratch::new();
    let deaf = Chaos::new()
        .tool("deafen", [Step::StopReading, Step::Drop])
        .tool("ok", Step::text("hi"));
    let deaf = chaos(&scratch, &deaf).set("call_timeout", "6s");
    let well = Chaos::new().tool("ok", Step::text("well")).entry("well");
    let test = TestHost::open(scratch, &[deaf, well]).await;

    assert_on_time(
        test.failure("chaos/deafen").await.1,
        LONGER,
        "the call that was read",
    );
    // More than the pipe and the queue hold: the first fills them, the others wait for room.
    let arguments = format!(r#"{{"x":"{}"}}"#, "x".repeat(1_200_000));
    let mut calls = JoinSet::new();
    for number in 0..4 {
        let call = support::call_with("chaos/ok", &arguments, &(person("somebody").arc() as _));
        let host = test.host.clone();
        calls.spawn(async move {
            let began = Instant::now();
            let sentence = host.call_with(call).await.unwrap_err().to_string();
            assert_on_time(began.elapsed(), LONGER, &format!("call {number}"));
            sentence
        });
    }
    for _ in 0..3 {
        assert_eq!(test.text("well/ok").await, "well");
    }
    assert!(
        calls.try_join_next().is_none(),
        "the neighbour was answered while they waited"
    );
    assert_eq!(
        calls.join_all().await,
        [r#"server "chaos": no answer or progress within 6 s"#; 4]
    );
}

#[tokio::test]
async fn f12_a_server_without_stderr_keeps_working() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("mute", [Step::CloseStderr, Step::text("quiet")])
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let test = TestHost::open(scratch, &[entry]).await;
    assert_eq!(test.text("chaos/mute").await, "quiet");
    assert_eq!(test.text("chaos/ok").await, "hi");
    assert_eq!(test.record("seen").starts(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_p3_a_flood_of_notifications_neither_delays_a_neighbour_nor_uses_memory() {
    if !support::is_alone(
        "bounds::f13_p3_a_flood_of_notifications_neither_delays_a_neighbour_nor_uses_memory",
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
    let test = TestHost::open(scratch, &[entry, well]).await;
    // Events must not accumulate for a reader that never reads.
    let _events = test.host.events();

    let (answered, grown) = growth(calls_during_flood(&test)).await;
    assert!(grown < 16 * MIB, "{grown} bytes");
    // The flood is read at a limited rate, for at least six seconds; longer on a busy machine, and so
    // may each call. A call that waits for the flood would be the only one.
    assert!(answered >= 24, "{answered} calls of the neighbour");
}

/// How many calls of a neighbour are answered during the flood.
async fn calls_during_flood(test: &TestHost) -> usize {
    let host = test.host.clone();
    let flood = tokio::spawn(async move {
        host.call_with(support::call(
            "chaos/flood",
            &(person("somebody").arc() as _),
        ))
        .await
    });
    let mut answered = 0;
    while !flood.is_finished() {
        assert_eq!(test.text("well/ok").await, "well");
        answered += 1;
    }
    assert_eq!(support::text(&flood.await.unwrap().unwrap()), "done");
    answered
}

/// Responses must not accumulate either, for a server that asks endlessly and does not read.
#[tokio::test]
async fn f12_p3_a_server_that_asks_and_does_not_read_is_disconnected() {
    if !support::is_alone("bounds::f12_p3_a_server_that_asks_and_does_not_read_is_disconnected") {
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
    let test = TestHost::open(scratch, &[entry]).await;

    let ((sentence, _), grown) = growth(test.failure("chaos/ping")).await;
    let reason =
        "it sends requests without reading the responses: more than 1048576 bytes are queued";
    assert_eq!(
        sentence,
        format!(r#"server "chaos": the connection ended: {reason}"#)
    );
    assert!(grown < 12 * MIB, "{grown} bytes");
}

/// The size of a list is limited, on however many pages.
#[tokio::test]
async fn p3_t28_all_pages_of_a_list_together_have_the_limit_of_one_message() {
    let scratch = Scratch::new();
    let server = Chaos::new().cursor(Cursor::Endless).page_size(100);
    let entry = chaos(&scratch, &server).set("max_message", "64KiB");
    let test = TestHost::open(scratch, &[entry]).await;
    let fact = "the answer is not valid: a list of more than 65536 bytes";
    assert_eq!(
        test.error("chaos").await,
        format!(r#"connected, but tools/list failed: {fact}"#)
    );
    until("it is asked for no more pages", || {
        test.record("seen").count("tools/list") < 12
    })
    .await;
}

#[tokio::test]
async fn f1_any_time_limit_is_accepted_and_bounded() {
    let scratch = Scratch::new();
    let launch = Chaos::new().tool("ok", Step::text("hi")).launch();
    let server = Server::stdio("s", launch.command.display().to_string())
        .args(launch.args)
        .connect_timeout(Duration::MAX)
        .call_timeout(Duration::MAX);
    let config = config::load(&[ConfigFile::new(
        scratch.config_with("[permissions]\nmode = \"yolo\"\n", &[]),
        Scope::Given,
    )]);
    let launcher = Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap();
    let host = HostBuilder::new(config.unwrap())
        .launcher(launcher)
        .server(server)
        .start()
        .await
        .unwrap();
    assert!(host.wait_until_settled(support::TIMEOUT).await);
    let call = support::call("s/ok", &(person("ada").arc() as _));
    for call in [call.clone(), call.timeout(Duration::MAX)] {
        assert_eq!(support::text(&host.call_with(call).await.unwrap()), "hi");
    }
    host.stop().await;
}
