//! Tests of supervision: a failed server is retried with backoff, and every change is reported with
//! its reason.

use std::sync::Arc;

use serde_json::json;
use switchboard::call::Call;
use switchboard::caller::{Approval, ApprovalRequest, BoxFuture, Caller, CallerId, Progress};
use switchboard::server::State;
use switchboard_testkit::{Chaos, Step};

use crate::support::{
    TIMEOUT, TestHost, good, history, is_ready, settled, snapshot, text_of, until_state,
};

const READY: &str = "ready, legacy 2025-11-25";

#[tokio::test]
async fn f18_a_crash_loop_backs_off_and_is_given_up_after_five() {
    let test = TestHost::new();
    let crashing = good().on_start([Step::Stderr("no licence\n".to_owned()), Step::Exit(7)]);
    // Without a probe each attempt is one process.
    let crashing = test.entry("crashing", crashing).set("protocol", "legacy");
    let host = test
        .host(&[crashing, test.entry("neighbour", good())])
        .await;

    let error =
        "exited with status 7 before the handshake was complete (last stderr: \"no licence\")";
    let first = until_state(&host, "crashing", |state| {
        matches!(state, State::Backoff { .. })
    })
    .await;
    let State::Backoff {
        error: message,
        attempt: 1,
        ..
    } = &first.state
    else {
        panic!("{:?}", first.state)
    };
    assert_eq!(message, error);
    assert_eq!(text_of(&host, "neighbour/ok").await.unwrap(), "fine");

    let last = until_state(&host, "crashing", |state| {
        matches!(state, State::Failed { .. })
    })
    .await;
    let mut expected = vec!["connecting".to_owned()];
    for attempt in 1..=4 {
        expected.extend([
            format!("backoff after failure {attempt}: {error}"),
            "connecting: the backoff delay has passed".to_owned(),
        ]);
    }
    expected.push(format!("failed: {error}"));
    assert_eq!(history(&last), expected);
    let times: Vec<_> = last.history.iter().map(|(when, _)| *when).collect();
    let waits: Vec<f64> = (1..=4)
        .map(|n| {
            times[2 * n]
                .duration_since(times[2 * n - 1])
                .unwrap()
                .as_secs_f64()
        })
        .collect();
    for (wait, at_least) in waits.iter().zip([0.39, 0.79, 1.59, 3.19]) {
        assert!(
            *wait >= at_least,
            "half a second, doubled each time, less a fifth: {waits:?}"
        );
    }

    // A call during the cool-down is told why, and starts nothing.
    let refused = text_of(&host, "crashing/ok").await.unwrap_err().to_string();
    assert_eq!(refused, format!("server \"crashing\": {error}"));
    assert_eq!(test.record("crashing").starts(), 5);
    host.stop().await;
    assert_eq!(test.all(), []);
}

/// A library user's caller that panics.
struct Panicking;

impl Caller for Panicking {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("panicking");
        &ID
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::No { reason: None } })
    }

    fn progress(&self, _: &Progress) {
        // Prints no message and no backtrace, unlike `panic!`.
        std::panic::resume_unwind(Box::new("for the test"));
    }
}

/// A panic in the task that reads from a server ends the connection with a reason: no call waits
/// for its deadline, and the next one works.
#[tokio::test]
async fn a_panic_in_the_reader_of_a_server_ends_its_calls_with_a_reason() {
    let test = TestHost::new();
    let server = good().tool(
        "moves",
        [
            Step::Progress(1.0),
            Step::WaitFile(test.scratch.path("never")),
        ],
    );
    let host = test.host(&[test.entry("server", server)]).await;
    settled(&host).await;
    let call = Call::new("server/moves", json!({}))
        .caller(Arc::new(Panicking))
        .pre_approved();
    let error = tokio::time::timeout(TIMEOUT, host.call_with(call))
        .await
        .expect("long before its deadline")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the connection ended: internal error (\"for the test\"); please report it"),
        "{error}"
    );
    assert_eq!(text_of(&host, "server/ok").await.unwrap(), "fine");
    host.stop().await;
}

#[tokio::test]
async fn f7_a_crashed_server_is_restarted_and_works() {
    let test = TestHost::new();
    let marker = test.scratch.path("crashed");
    let crash = Step::once(marker, [Step::Stderr("boom\n".to_owned()), Step::Exit(7)]);
    let fragile = test.entry(
        "fragile",
        Chaos::new().tool("work", [crash, Step::text("done")]),
    );
    let host = test.host(&[fragile, test.entry("neighbour", good())]).await;
    settled(&host).await;
    let before = snapshot(&host, "fragile").pid;

    let error = text_of(&host, "fragile/work")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("server \"fragile\": the connection ended: "),
        "{error}"
    );
    assert!(
        error.ends_with("(exited with status 7; last stderr: \"boom\")"),
        "{error}"
    );

    // The failed call was not repeated; the next one waits for the new process.
    assert_eq!(text_of(&host, "fragile/work").await.unwrap(), "done");
    let now = snapshot(&host, "fragile");
    assert!(
        is_ready(&now.state) && now.pid.is_some() && now.pid != before,
        "{now:?}"
    );
    assert_eq!(
        (
            now.restarts,
            test.record("fragile").starts(),
            test.record("fragile").count("tools/call")
        ),
        (1, 2, 2)
    );
    assert_eq!(
        (
            snapshot(&host, "neighbour").restarts,
            test.record("neighbour").starts()
        ),
        (0, 1)
    );
    host.stop().await;
}

#[tokio::test]
async fn p9_every_state_change_is_recorded_with_its_reason() {
    let test = TestHost::new();
    let marker = test.scratch.path("crashed");
    let crash = Step::once(
        marker,
        [
            Step::Stderr("boom\n".to_owned()),
            Step::Signal("SIGKILL".to_owned()),
        ],
    );
    let server = test
        .entry("server", good().tool("crash", [crash, Step::Answer]))
        .set("start", "lazy");
    let host = test.host(&[server]).await;
    text_of(&host, "server/ok").await.unwrap();
    text_of(&host, "server/crash").await.unwrap_err();
    text_of(&host, "server/ok").await.unwrap();
    host.server("server").unwrap().restart().await;
    settled(&host).await;
    host.stop().await;
    let lost = "backoff after failure 1: lost the connection: its process was killed by SIGKILL (last stderr: \"boom\")";
    let expected = [
        "idle",
        "connecting: it is needed",
        READY,
        lost,
        "connecting: the backoff delay has passed",
        READY,
        "connecting: restarted on request",
        READY,
        "stopped",
    ];
    assert_eq!(history(&snapshot(&host, "server")), expected);
}

/// F2: its output is the reason of the failure, so it must be available.
#[tokio::test]
async fn f2_a_server_that_failed_because_of_junk_still_shows_it() {
    let test = TestHost::new();
    let early = test.entry("early", good().on_start(Step::Junk(1_000)));
    let late = test.entry("late", good().tool("chat", [Step::Junk(1_000), Step::Drop]));
    let host = test.host(&[early, late]).await;
    let failed = |state: &State| matches!(state, State::Backoff { .. });

    let early = until_state(&host, "early", failed).await;
    let message = "the connection ended before the handshake was complete: 1000 consecutive lines or events are not JSON-RPC messages";
    assert!(
        matches!(&early.state, State::Backoff { error, .. } if error.starts_with(message)),
        "{:?}",
        early.state
    );

    let error = text_of(&host, "late/chat").await.unwrap_err().to_string();
    assert!(
        error.contains("1000 consecutive lines or events are not JSON-RPC messages"),
        "{error}"
    );
    let late = until_state(&host, "late", failed).await;

    for snapshot in [early, late] {
        let odd = snapshot.deviations.deviations();
        let samples: Vec<_> = odd
            .junk_samples
            .iter()
            .map(|sample| sample.raw().to_owned())
            .collect();
        let expected: Vec<_> = (0..20)
            .map(|number| format!("npm warn line {number} is no message"))
            .collect();
        assert_eq!((odd.junk_lines, samples), (1_000, expected));
    }
    host.stop().await;
}

/// S2-69: the status is live: queried twice around a change, it shows the change.
#[tokio::test]
async fn s2_69_a_status_queried_twice_around_a_change_shows_it() {
    let test = TestHost::new();
    let host = test
        .host(&[test.entry("one", Chaos::new().tool("ok", Step::text("fine")))])
        .await;
    settled(&host).await;
    let message = |host: &switchboard::Host| {
        let record = host.server("one").unwrap().dialect_status();
        (
            record.status,
            record.error,
            record
                .tools
                .iter()
                .map(|tool| tool.as_wire().to_owned())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(message(&host), ("CONNECTED", None, vec!["ok".to_owned()]));
    host.server("one").unwrap().stop().await;
    assert_eq!(
        message(&host),
        ("STOPPED", Some("stopped".to_owned()), vec![])
    );
}
