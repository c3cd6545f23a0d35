//! Tests that servers start when they should, independently, and never when they should not.

use switchboard::Host;
use switchboard::server::State;
use switchboard_testkit::record::{Entry as Line, Event};
use switchboard_testkit::script::Era;
use switchboard_testkit::{Chaos, Record, Step};

use crate::support::{
    TIMEOUT, TestHost, good, is_ready, settled, snapshot, states, text_of, until_state,
};

fn offered(host: &Host) -> Vec<String> {
    host.catalog()
        .tools()
        .iter()
        .map(|tool| format!("{}/{}", tool.id.server, tool.id.tool.as_wire()))
        .collect()
}

#[tokio::test]
async fn f17_a_slow_server_delays_no_other_and_is_listed_once_connected() {
    let test = TestHost::new();
    let gate = test.scratch.path("gate");
    let slow = test.entry("slow", good().on_start(Step::wait_file(&gate)));
    let silent = Chaos::new()
        .tool("ok", Step::Answer)
        .on_start(Step::wait_file(test.scratch.path("never")));
    let silent = test.entry("silent", silent).set("connect_timeout", "300ms");
    let host = test
        .host(&[
            slow.set("connect_timeout", "10m"),
            silent,
            test.entry("fast", good()),
        ])
        .await;

    assert_eq!(text_of(&host, "fast/ok").await.unwrap(), "fine");
    // Each server has its own deadline.
    let late = until_state(&host, "silent", |state| {
        matches!(state, State::Backoff { .. })
    })
    .await;
    let State::Backoff {
        error, attempt: 1, ..
    } = &late.state
    else {
        panic!("{:?}", late.state)
    };
    assert_eq!(error, "no answer to the handshake within 300 ms");
    assert!(
        matches!(snapshot(&host, "slow").state, State::Connecting { .. }),
        "{:?}",
        states(&host)
    );
    assert_eq!(offered(&host), ["fast/ok"]);

    std::fs::write(&gate, "").unwrap();
    assert_eq!(text_of(&host, "slow/ok").await.unwrap(), "fine");
    assert_eq!(offered(&host), ["slow/ok", "fast/ok"]);
    host.stop().await;
    assert_eq!(test.all(), []);
}

/// The ratio to their time alone is measured by the benchmark.
#[tokio::test]
async fn p2_fifty_servers_are_ready_long_before_a_silent_ones_deadline() {
    let test = TestHost::new();
    let silent = Chaos::new()
        .tool("ok", Step::Answer)
        .on_start(Step::wait_file(test.scratch.path("never")));
    let mut entries = vec![test.entry("silent", silent).set("connect_timeout", "5m")];
    entries.extend((0..50).map(|number| test.entry(&format!("good{number}"), good())));
    let host = test.host(&entries).await;
    for number in 0..50 {
        until_state(&host, &format!("good{number}"), is_ready).await;
    }
    assert!(
        matches!(snapshot(&host, "silent").state, State::Connecting { .. }),
        "{:?}",
        states(&host)
    );
    for number in 0..50 {
        assert_eq!(
            text_of(&host, &format!("good{number}/ok")).await.unwrap(),
            "fine"
        );
    }
    host.stop().await;
    assert_eq!(test.all(), []);
}

/// S3-08, S3-09
#[tokio::test]
async fn s3_08_s3_09_a_lazy_server_starts_with_its_first_use_and_once() {
    let test = TestHost::new();
    let lazy = |name: &str| test.entry(name, good()).set("start", "lazy");
    let host = test.host(&[lazy("one"), lazy("other")]).await;
    settled(&host).await;
    assert_eq!(
        (offered(&host), test.all()),
        (vec![], vec![]),
        "nothing is started, nothing is known"
    );

    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let host = host.clone();
        calls.spawn(async move {
            text_of(&host, "one/ok")
                .await
                .map_err(|error| error.to_string())
        });
    }
    assert_eq!(calls.join_all().await, vec![Ok("fine".to_owned()); 20]);
    let record = test.record("one");
    assert_eq!(
        (
            record.starts(),
            record.count("initialize"),
            record.count("tools/call")
        ),
        (1, 1, 20)
    );
    assert_eq!(
        (
            test.record("other").starts(),
            &snapshot(&host, "other").state
        ),
        (0, &State::Idle)
    );
    host.stop().await;
}

#[tokio::test]
async fn s3_08_an_idle_server_shows_its_cached_catalog() {
    let test = TestHost::new();
    let entries = [test
        .entry("lazy", good().tool("more", Step::Answer))
        .set("start", "lazy")];
    let first = test.host(&entries).await;
    assert_eq!(text_of(&first, "lazy/ok").await.unwrap(), "fine");
    first.stop().await;

    let second = test.host(&entries).await;
    settled(&second).await;
    assert_eq!(offered(&second), ["lazy/ok", "lazy/more"]);
    let shown = snapshot(&second, "lazy");
    assert_eq!(
        (&shown.state, shown.cached, test.record("lazy").starts()),
        (&State::Idle, true, 1)
    );
    // A call of a shown tool starts the server.
    assert_eq!(text_of(&second, "lazy/ok").await.unwrap(), "fine");
    assert_eq!(
        (
            snapshot(&second, "lazy").cached,
            test.record("lazy").starts()
        ),
        (false, 2)
    );
    second.stop().await;
}

#[tokio::test]
async fn a_disabled_or_blocked_server_is_never_started() {
    let test = TestHost::new();
    let lists = "[security]\nallow_servers = [\"off\", \"good\", \"denied\"]\ndeny_servers = [\"denied\"]\n";
    let entries = [
        test.entry("off", good()).set_toml("enabled", "false"),
        test.entry("denied", good()),
        test.entry("unlisted", good()).set("start", "lazy"),
        test.entry("good", good()),
    ];
    let host = test.host_with(lists, &entries).await;
    settled(&host).await;
    assert_eq!(offered(&host), ["good/ok"]);
    let message = [
        ("off", "disabled", "disabled in "),
        (
            "denied",
            "blocked: the deny list under [security] names it",
            "blocked: the deny list under [security] names it",
        ),
        (
            "unlisted",
            "blocked: the allow list under [security] does not name it",
            "blocked: the allow list under [security] does not name it",
        ),
    ];
    for (name, state, why) in message {
        let server = host.server(name).unwrap();
        server.restart().await;
        let error = server.ready(TIMEOUT).await.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("server \"{name}\": {why}")),
            "{error}"
        );
        let error = text_of(&host, &format!("{name}/ok"))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(
            (
                server.snapshot().state.to_string().as_str(),
                test.record(name).starts()
            ),
            (state, 0)
        );
    }
    host.stop().await;
}

/// The methods that each process of the server received, one list for each start.
fn heard(record: &Record) -> Vec<Vec<String>> {
    let starts = record.0.iter().filter(|line| line.event == Event::Start);
    let of = |pid: u32| {
        let lines: Vec<Line> = record
            .0
            .iter()
            .filter(|line| line.pid == pid)
            .cloned()
            .collect();
        Record(lines).methods()
    };
    starts.map(|start| of(start.pid)).collect()
}

#[tokio::test]
async fn a_server_that_the_probe_breaks_is_restarted_and_not_probed_again() {
    let test = TestHost::new();
    let entries = [test.entry("burnt", good().era(Era::RefusesAfterProbe))];
    for _ in 0..2 {
        let host = test.host(&entries).await;
        settled(&host).await;
        assert_eq!(text_of(&host, "burnt/ok").await.unwrap(), "fine");
        host.stop().await;
    }
    let without_probe = [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ];
    assert_eq!(
        heard(&test.record("burnt")),
        [
            &["server/discover", "initialize"][..],
            &without_probe[..],
            &without_probe[..]
        ],
        "probed once, started again at once, remembered"
    );
}

/// Both eras are remembered: a legacy server is not probed again.
#[tokio::test]
async fn a_known_server_is_not_probed_again() {
    let test = TestHost::new();
    let entries = [test.entry("old", good())];
    for _ in 0..2 {
        let host = test.host(&entries).await;
        settled(&host).await;
        host.stop().await;
    }
    let handshake = ["initialize", "notifications/initialized", "tools/list"];
    let probed = [&["server/discover"], &handshake[..]].concat();
    assert_eq!(heard(&test.record("old")), [probed, handshake.to_vec()]);
}

/// Once settled, the catalog is complete, for calls and for lists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settled_servers_are_on_offer_by_every_name() {
    let test = TestHost::new();
    let broken = test
        .entry("broken", good().on_start(Step::Exit(1)))
        .set("start", "lazy");
    let entries = [broken, test.entry("one", good())];
    for _ in 0..5 {
        let host = test.host(&entries).await;
        settled(&host).await;
        // A call by exposed name uses the current catalog: it starts no server, and waits for none
        // that is settled.
        assert_eq!(text_of(&host, "mcp__one__ok").await.unwrap(), "fine");
        assert_eq!(offered(&host), ["one/ok"]);
        host.stop().await;
    }
}
