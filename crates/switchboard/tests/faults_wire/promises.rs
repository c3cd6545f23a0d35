//! Tests of promises over many servers at once: every call ends, and no server slows another.

use std::time::{Duration, Instant};

use switchboard_testkit::script::{IdForm, IdPlace, Steps};
use switchboard_testkit::{Chaos, Entry, Scratch, Step};
use tokio::task::JoinSet;

use crate::support::{self, ALLOWANCE, DEADLINE, TestHost, person};

/// Servers whose tool `t` fails in the way of their name, with the longest duration of a call.
fn misbehaving() -> Vec<(Entry, Duration)> {
    let at_call = |name: &str, steps: &[Step]| {
        (
            Chaos::new()
                .tool("t", Steps(steps.to_vec()))
                .entry(name)
                .set("call_timeout", "300ms"),
            DEADLINE,
        )
    };
    // They have no tools until they are connected, so a call waits for that first.
    let at_start = |name: &str, server: Chaos| {
        (
            server
                .tool("t", Step::Drop)
                .entry(name)
                .set("call_timeout", "300ms")
                .set("connect_timeout", "300ms"),
            2 * DEADLINE,
        )
    };
    let progress: Vec<Step> = (0..100)
        .flat_map(|done| [Step::Progress(f64::from(done)), Step::Sleep(100)])
        .collect();
    let (endless, _) = at_call("endless-progress", &progress);
    vec![
        at_call("silent", &[Step::Drop]),
        at_call("wrong-id", &[Step::AnswerAs(IdForm::Wrong)]),
        at_call("junk", &[Step::Junk(50), Step::Drop]),
        at_call("half-a-line", &[Step::HalfAnswer]),
        at_call(
            "huge-half-line",
            &[Step::Part("x".repeat(50_000)), Step::Drop],
        ),
        at_call("huge", &[Step::huge(4 * 1024 * 1024, IdPlace::Last)]),
        at_call("flood", &[Step::FloodNotifications(5_000), Step::Drop]),
        at_call("deaf", &[Step::StopReading, Step::Drop]),
        at_call("closed", &[Step::CloseStdout, Step::Drop]),
        at_call("dead", &[Step::Exit(1)]),
        at_call("killed", &[Step::Signal("SIGKILL".to_owned())]),
        at_call(
            "asks",
            &[Step::ask("who?"), Step::ask("really?"), Step::Drop],
        ),
        (endless.set("call_timeout_max", "600ms"), 2 * DEADLINE),
        at_start("no-handshake", Chaos::new().on("initialize", Step::Drop)),
        at_start("no-list", Chaos::new().on("tools/list", Step::Drop)),
        at_start("dead-on-arrival", Chaos::new().on_start(Step::Exit(1))),
        at_start(
            "talks-first",
            Chaos::new().on_start([Step::Junk(2_000), Step::Drop]),
        ),
    ]
}

#[tokio::test]
async fn p1_every_call_ends_by_its_deadline_whatever_the_server_does() {
    let (entries, deadlines): (Vec<Entry>, Vec<Duration>) = misbehaving().into_iter().unzip();
    let test = TestHost::open(Scratch::new(), &entries).await;
    let mut calls = JoinSet::new();
    for (server, deadline) in test.host.servers().iter().zip(deadlines) {
        let call = support::call(
            &format!("{}/t", server.config.name),
            &(person("somebody").arc() as _),
        );
        let host = test.host.clone();
        calls.spawn(async move {
            let began = Instant::now();
            let tool = call.tool.clone();
            let ended = tokio::time::timeout(Duration::from_secs(20), host.call_with(call)).await;
            (
                tool,
                ended.map(|answer| answer.map(drop).map_err(|error| error.to_string())),
                began.elapsed(),
                deadline,
            )
        });
    }
    for (tool, ended, took, deadline) in calls.join_all().await {
        assert!(
            ended.is_ok() && took <= deadline + ALLOWANCE,
            "{tool}: {ended:?} after {took:?}, with {deadline:?} to go"
        );
    }
}

/// A caller's own limit covers everything: also the time to connect.
#[tokio::test]
async fn p1_a_callers_own_limit_holds_while_the_server_is_connecting() {
    let slow = Chaos::new()
        .tool("t", Step::text("hi"))
        .on("initialize", Step::Drop);
    let lazy = slow
        .entry("lazy")
        .set("start", "lazy")
        .set("connect_timeout", "20s");
    let eager = slow.entry("eager").set("connect_timeout", "20s");
    let tables = "[permissions]\nmode = \"yolo\"\n";
    let test = TestHost::start(Scratch::new(), tables, &[lazy, eager]).await;
    for tool in ["lazy/t", "eager/t", "t"] {
        let mut call = support::call(tool, &(person("somebody").arc() as _));
        call.timeout = Some(DEADLINE);
        let began = Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(10), test.host.call_with(call)).await;
        assert!(
            ended.is_ok_and(|answer| answer.is_err()) && began.elapsed() <= DEADLINE + ALLOWANCE,
            "{tool}: {:?}",
            began.elapsed()
        );
    }
}

/// The slack is for two busy cores; a blocked neighbour would take its deadline, which is six times
/// that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_no_server_slows_another() {
    const SLACK: Duration = Duration::from_millis(50);
    if !support::is_alone("promises::p2_no_server_slows_another") {
        return;
    }
    // Servers that only use CPU time slow all others on a machine with two cores; they are left to
    // `f13`.
    let idle = |name: &&Entry| {
        !["flood", "huge", "talks-first"]
            .iter()
            .any(|busy| name.render().starts_with(&format!("[servers.\"{busy}\"]")))
    };
    let bad: Vec<Entry> = misbehaving().into_iter().map(|(entry, _)| entry).collect();
    let bad: Vec<Entry> = bad.iter().filter(idle).cloned().collect();
    let well = Chaos::new().tool("ok", Step::text("well")).entry("well");
    let test = TestHost::open(Scratch::new(), &[vec![well], bad].concat()).await;
    let p99 = async || {
        let mut times = Vec::new();
        for _ in 0..300 {
            let began = Instant::now();
            assert_eq!(test.text("well/ok").await, "well");
            times.push(began.elapsed());
        }
        times.sort();
        times[times.len() * 99 / 100]
    };

    let quiet = p99().await;
    let mut calls = JoinSet::new();
    for server in test.host.servers().iter().skip(1) {
        let (host, tool) = (test.host.clone(), format!("{}/t", server.config.name));
        calls.spawn(async move {
            loop {
                host.call_with(support::call(&tool, &(person("somebody").arc() as _)))
                    .await
                    .unwrap_err();
                tokio::task::yield_now().await;
            }
        });
    }
    let busy = p99().await;
    calls.shutdown().await;
    assert!(
        busy <= 2 * quiet + SLACK,
        "{quiet:?} alone, {busy:?} beside {} others",
        test.host.servers().len() - 1
    );
}
