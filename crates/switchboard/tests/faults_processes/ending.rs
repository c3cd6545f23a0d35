//! Tests that servers end on request, with all their descendants, in time; other servers are not
//! affected.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use switchboard::Host;
use switchboard_testkit::{Chaos, Entry, Process, Step};

use crate::support::{TIMEOUT, TestHost, good, settled, snapshot, stuck, text_of, until};

/// P7, F8: the upper bound on stopping, whatever servers do.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A server with `processes` processes is restarted, then stopped: each time all of them are gone.
/// Its neighbour keeps its process and answers throughout.
async fn check(chaos: Chaos, processes: usize) {
    let test = TestHost::new();
    let host = test
        .host(&[test.entry("odd", chaos), test.entry("neighbour", good())])
        .await;
    settled(&host).await;
    let neighbours = pids(&test.of("neighbour"));
    until("all run", TIMEOUT, || test.of("odd").len() == processes).await;
    let first = pids(&test.of("odd"));

    let odd = host.server("odd").unwrap();
    while_the_neighbour_answers(&host, odd.restart()).await;
    let left: BTreeSet<i32> = pids(&test.of("odd"))
        .intersection(&first)
        .copied()
        .collect();
    assert_eq!(
        left,
        BTreeSet::new(),
        "a new process starts when the old ones are gone"
    );
    settled(&host).await;
    assert_eq!(text_of(&host, "odd/ok").await.unwrap(), "fine");
    until("all run again", TIMEOUT, || {
        test.of("odd").len() == processes
    })
    .await;

    let began = Instant::now();
    while_the_neighbour_answers(&host, odd.stop()).await;
    assert!(began.elapsed() < STOP_LIMIT, "{:?}", began.elapsed());
    assert_eq!(test.of("odd"), []);
    assert_eq!(
        (
            pids(&test.of("neighbour")),
            snapshot(&host, "neighbour").restarts
        ),
        (neighbours, 0)
    );
    host.stop().await;
    assert_eq!(test.all(), []);
}

/// Does the work while calling the neighbour repeatedly.
async fn while_the_neighbour_answers(host: &Host, work: impl Future<Output = ()>) {
    tokio::pin!(work);
    loop {
        assert_eq!(text_of(host, "neighbour/ok").await.unwrap(), "fine");
        // A moderate rate of calls.
        let pause = tokio::time::sleep(Duration::from_millis(50));
        tokio::select! {
            () = &mut work => return,
            () = pause => {}
        }
    }
}

fn pids(processes: &[Process]) -> BTreeSet<i32> {
    processes.iter().map(|process| process.pid).collect()
}

#[tokio::test]
async fn f8_a_server_that_ignores_signals_ends_and_its_neighbour_is_unaffected() {
    check(stuck(), 1).await;
}

#[tokio::test]
async fn f9_grandchildren_end_with_their_server() {
    check(good().on_start([Step::Fork, Step::Fork]), 3).await;
    check(stuck().on_start(Step::Fork), 2).await;
}

#[tokio::test]
async fn f10_a_double_forked_daemon_ends_with_its_server() {
    check(good().on_start([Step::Daemon, Step::Daemon]), 3).await;
}

/// F11: 64 MiB are a thousand times the limit.
#[tokio::test]
async fn f11_a_flood_on_stderr_blocks_neither_its_server_nor_its_neighbour() {
    let test = TestHost::new();
    let flood = [
        Step::FloodStderr(64 << 20),
        Step::Stderr("\nlast words\n".to_owned()),
        Step::text("dry again"),
    ];
    let loud = test.entry("loud", Chaos::new().tool("flood", flood));
    let host = test.host(&[loud, test.entry("neighbour", good())]).await;
    settled(&host).await;

    while_the_neighbour_answers(&host, async {
        assert_eq!(text_of(&host, "loud/flood").await.unwrap(), "dry again");
    })
    .await;
    let stderr = &host.server("loud").unwrap().stderr;
    until("the last words come", TIMEOUT, || {
        stderr
            .last_lines(1)
            .first()
            .is_some_and(|line| line.raw() == "last words")
    })
    .await;
    let kept: usize = stderr
        .last_lines(usize::MAX)
        .iter()
        .map(|line| line.raw().len())
        .sum();
    assert!(kept <= switchboard::launch::TAIL_BYTES, "{kept}");
    host.stop().await;
    let logs = std::fs::read_dir(test.scratch.path("state/logs")).unwrap();
    let written: u64 = logs
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!((1..=3 << 20).contains(&written), "{written}");
}

#[tokio::test]
async fn p7_twenty_five_stuck_servers_stop_together_in_time() {
    let test = TestHost::new();
    let names: Vec<String> = (0..25).map(|number| format!("stuck{number}")).collect();
    let entries: Vec<Entry> = names
        .iter()
        .map(|name| test.entry(name, stuck().on_start(Step::Fork)))
        .collect();
    let host = test.host(&entries).await;
    settled(&host).await;
    assert_eq!(test.all().len(), 50);

    let began = Instant::now();
    host.stop().await;
    let took = began.elapsed();
    assert_eq!(test.all(), []);
    assert!(took < STOP_LIMIT, "{took:?}");
}
