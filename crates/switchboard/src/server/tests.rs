//! Tests of a server's task against a scripted server, in paused time.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, advance, sleep, timeout};

use super::backoff::Retry;
use super::{ConnectStep, NotReadyReason, State};
use crate::auth::NeedsLogin;
use crate::config::{Asks, Dialect, Protocol, ServerConfig};
use crate::hint::Hint;
use crate::launch::Exit;
use crate::session::{Era, OpenFault, RequestFault};
use crate::store::{MemoryStore, Store};
use script::{NEVER, StartScript, SupervisedServer, connecting, offering, tool};

mod eras;
mod own;
mod per_caller;
mod real;
mod script;

const LONG: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(1);

fn is_backoff(state: &State) -> bool {
    matches!(state, State::Backoff { .. })
}

fn is_failed(state: &State) -> bool {
    matches!(state, State::Failed { .. })
}

fn error_of(state: &State) -> &str {
    match state {
        State::Backoff { error, .. } | State::Failed { error } => error,
        other => panic!("no failure: {other:?}"),
    }
}

fn dies(status: i32) -> StartScript {
    StartScript {
        dies: Some(Exit::Status(status)),
        handshake: NEVER,
        ..StartScript::default()
    }
}

/// A panic in a server's task is that server's failure, with a reason, and waiting calls return.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_servers_task_fails_that_server() {
    let supervised = SupervisedServer::eager([StartScript {
        panics: true,
        ..StartScript::default()
    }]);
    let failed = supervised.until(is_failed).await;
    assert_eq!(
        error_of(&failed),
        "internal error (\"for the test\"); please report it"
    );
    let refused = supervised.handle.ready(LONG).await.unwrap_err().to_string();
    assert!(refused.contains("internal error"), "{refused}");
    supervised.handle.stop().await;
}

/// P9, S2-69: every state change is published when it happens and recorded with its reason.
#[tokio::test(start_paused = true)]
async fn p9_every_state_change_is_published_and_recorded() {
    let mut supervised = SupervisedServer::eager([
        StartScript {
            stderr: vec!["bad token".to_owned()],
            ..dies(1)
        },
        StartScript::default(),
    ]);
    supervised.until_ready().await;
    supervised.changed.notified().await;

    let failure =
        "exited with status 1 before the handshake was complete (last stderr: \"bad token\")";
    assert_eq!(
        supervised.published_states(),
        [
            "connecting: handshake",
            &format!("backoff after failure 1: {failure}"),
            "connecting: spawn",
            "connecting: handshake",
            "connecting: list",
            "ready, modern 2026-07-28",
        ]
    );
    assert_eq!(
        supervised.history(),
        [
            "connecting",
            &format!("backoff after failure 1: {failure}"),
            "connecting: the backoff delay has passed",
            "ready, modern 2026-07-28"
        ]
    );
    let snapshot = supervised.handle.snapshot();
    let steps: Vec<_> = snapshot.steps.iter().map(|(step, _)| *step).collect();
    assert_eq!(
        (steps, snapshot.pid, snapshot.restarts),
        (
            vec![
                ConnectStep::Spawn,
                ConnectStep::Handshake,
                ConnectStep::List
            ],
            Some(42),
            1
        )
    );
    assert_eq!(
        snapshot.unset,
        [("TOKEN".to_owned(), "env.TOKEN".to_owned())]
    );
    assert_eq!(
        (snapshot.cached, snapshot.offerings.withheld.len()),
        (false, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn f17_a_call_waits_for_a_slow_start_and_reports_its_step() {
    let supervised = SupervisedServer::eager([StartScript {
        handshake: Duration::from_secs(25),
        ..StartScript::default()
    }]);
    let error = supervised
        .handle
        .usable(Duration::from_secs(10))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "server \"script\": still connecting after 10 s (step: handshake)"
    );
    supervised.handle.wait_until_settled().await;
    assert!(matches!(supervised.state(), State::Ready { .. }));
    assert_eq!(supervised.starts(), 1);
}

/// S0-31: connecting has one deadline, whichever step hangs.
#[tokio::test(start_paused = true)]
async fn s0_31_a_step_that_hangs_fails_by_the_deadline() {
    let cases = [
        (
            StartScript {
                handshake: NEVER,
                ..StartScript::default()
            },
            "no answer to the handshake within 30 s",
        ),
        (
            StartScript {
                listing: NEVER,
                ..StartScript::default()
            },
            "connected, but did not list its tools within 30 s",
        ),
    ];
    for (script, fact) in cases {
        let began = Instant::now();
        let supervised = SupervisedServer::eager([script]);
        supervised.handle.wait_until_settled().await;
        assert_eq!(began.elapsed().as_secs(), 30, "{fact}");
        assert_eq!(error_of(&supervised.state()), fact);
        supervised.handle.stop().await;
        assert_eq!(supervised.alive(), 0);
    }
}

/// A package runner that may have to install the server gets a longer deadline until the server has
/// been seen once.
#[tokio::test(start_paused = true)]
async fn f17_a_first_start_with_a_package_runner_has_a_longer_deadline() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let installs = |entry: &mut ServerConfig| entry.first_connect = Some(Duration::from_secs(300));
    let slow = StartScript {
        handshake: Duration::from_secs(200),
        ..StartScript::default()
    };
    let supervised = SupervisedServer::of(installs, connecting(), [slow.clone()], store.clone());
    supervised.until_ready().await;
    assert_eq!(
        (
            supervised.starts(),
            supervised.handle.snapshot().is_first_start
        ),
        (1, true)
    );
    supervised.handle.stop().await;

    let supervised = SupervisedServer::of(installs, connecting(), [slow], store);
    supervised.handle.wait_until_settled().await;
    assert_eq!(
        error_of(&supervised.state()),
        "no answer to the handshake within 30 s"
    );
}

#[tokio::test(start_paused = true)]
async fn f17_a_retry_of_a_server_that_was_connected_before_is_no_first_start() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let installs = |entry: &mut ServerConfig| entry.first_connect = Some(Duration::from_secs(300));
    let works = StartScript::default();
    let supervised = SupervisedServer::of(installs, connecting(), [works], store.clone());
    supervised.until_ready().await;
    supervised.handle.stop().await;

    let hangs = StartScript {
        handshake: NEVER,
        ..StartScript::default()
    };
    let supervised = SupervisedServer::of(installs, connecting(), [dies(1), hangs], store);
    let second = supervised
        .until(|state| matches!(state, State::Backoff { attempt: 2, .. }))
        .await;
    assert_eq!(error_of(&second), "no answer to the handshake within 30 s");
}

#[tokio::test(start_paused = true)]
async fn f18_a_crash_loop_ends_in_failed_and_a_call_after_the_cool_down_tries_once() {
    let supervised = SupervisedServer::eager([dies(3)]);
    let state = supervised.until(is_failed).await;
    assert_eq!(
        error_of(&state),
        "exited with status 3 before the handshake was complete"
    );
    assert_eq!(supervised.starts(), 5);

    // During the cool-down a call fails at once and starts nothing.
    let asked = Instant::now();
    let error = supervised.handle.usable(LONG).await.unwrap_err();
    assert_eq!(
        (
            error.reason.to_string().as_str(),
            asked.elapsed() < MOMENT,
            supervised.starts()
        ),
        (error_of(&state), true, 5)
    );

    // Nothing is retried without a call.
    sleep(Duration::from_secs(300)).await;
    assert_eq!(supervised.starts(), 5);
    supervised.handle.usable(LONG).await.unwrap_err();
    assert!(is_failed(&supervised.state()));
    assert_eq!(supervised.starts(), 6);

    // A restart by a person resets the count.
    supervised.handle.restart().await;
    assert!(is_backoff(
        &supervised
            .until(|state| !matches!(state, State::Connecting { .. }))
            .await
    ));
    assert_eq!((supervised.starts(), supervised.most_alive()), (7, 1));
}

/// F18: uptime does not reset the count.
#[tokio::test(start_paused = true)]
async fn f18_only_a_successful_response_resets_the_count() {
    let supervised = SupervisedServer::eager([StartScript::default()]);
    for round in 1..=8 {
        supervised.until_ready().await;
        supervised.handle.record_success();
        supervised.session().end_channel();
        let State::Backoff { attempt, .. } = supervised.until(is_backoff).await else {
            unreachable!()
        };
        assert_eq!(attempt, 1, "round {round}");
    }
    // From here on it connects, runs for an hour and dies without a response.
    for attempt in 2..=4 {
        supervised.until_ready().await;
        sleep(LONG).await;
        supervised.session().end_channel();
        assert!(
            matches!(supervised.until(is_backoff).await, State::Backoff { attempt: counted, .. } if counted == attempt)
        );
    }
    supervised.until_ready().await;
    supervised.session().end_channel();
    supervised.until(is_failed).await;
}

/// S3-08, S3-09: a lazy server starts when needed, and concurrent first calls start it once.
#[tokio::test(start_paused = true)]
async fn s3_09_concurrent_first_calls_start_a_lazy_server_once() {
    let supervised = SupervisedServer::lazy([StartScript {
        handshake: Duration::from_secs(2),
        ..StartScript::default()
    }]);
    supervised.handle.wait_until_settled().await;
    sleep(LONG).await;
    assert_eq!((supervised.state(), supervised.starts()), (State::Idle, 0));

    let calls: Vec<_> = (0..40)
        .map(|_| {
            tokio::spawn({
                let handle = supervised.handle.clone();
                async move { handle.usable(LONG).await.map(drop) }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(supervised.starts(), 1);
}

/// S3-08: a lazy server shows its cached catalog until it is connected.
#[tokio::test(start_paused = true)]
async fn s3_08_a_lazy_server_shows_its_cached_catalog() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let supervised = SupervisedServer::new(
        connecting(),
        [StartScript {
            offers: tool("add"),
            ..StartScript::default()
        }],
        store.clone(),
    );
    supervised.until_ready().await;
    supervised.handle.stop().await;

    let supervised = SupervisedServer::new(
        State::Idle,
        [StartScript {
            offers: tool("sum"),
            ..StartScript::default()
        }],
        store,
    );
    supervised.handle.wait_until_settled().await;
    let shown = |supervised: &SupervisedServer| {
        let snapshot = supervised.handle.snapshot();
        let names: Vec<_> = snapshot
            .offerings
            .tools
            .iter()
            .map(|tool| tool.name.as_wire().to_owned())
            .collect();
        (names, snapshot.cached, supervised.starts())
    };
    assert_eq!(shown(&supervised), (vec!["add".to_owned()], true, 0));
    supervised.handle.usable(LONG).await.unwrap();
    assert_eq!(shown(&supervised), (vec!["sum".to_owned()], false, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_outcome_of_one_attempt() {
    let supervised = SupervisedServer::lazy([dies(1), StartScript::default()]);
    let error = supervised.handle.usable(LONG).await.unwrap_err();
    assert!(is_backoff(&error.state), "{error}");
    // The next call waits for the next attempt.
    supervised.handle.usable(LONG).await.unwrap();
    assert_eq!(supervised.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn p7_stop_is_bounded_in_every_phase() {
    let stuck = StartScript {
        stopping: NEVER,
        ..StartScript::default()
    };
    let phases = [
        (
            "connecting",
            StartScript {
                handshake: NEVER,
                ..stuck.clone()
            },
        ),
        ("live", stuck.clone()),
        (
            "leaving",
            StartScript {
                stopping: NEVER,
                ..dies(1)
            },
        ),
    ];
    for (phase, script) in phases {
        let supervised = SupervisedServer::eager([script]);
        sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        let stopping = tokio::spawn({
            let handle = supervised.handle.clone();
            async move { handle.stop().await }
        });
        supervised.until(|state| *state == State::Stopped).await;
        // A call, or a second stop, during the stop.
        let error = supervised.handle.usable(LONG).await.unwrap_err();
        assert_eq!(
            (error.state, began.elapsed() < MOMENT),
            (State::Stopped, true),
            "{phase}"
        );
        supervised.handle.stop().await;
        assert_eq!(supervised.alive(), 0, "{phase}");
        stopping.await.unwrap();
        assert!(
            began.elapsed() <= Duration::from_millis(3600),
            "{phase}: {:?}",
            began.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_ends_the_process() {
    let supervised = SupervisedServer::eager([StartScript::default()]);
    supervised.until_ready().await;
    let (session, mut seen, script) = (
        supervised.session(),
        supervised.handle.snapshot.clone(),
        supervised.script.clone(),
    );
    let second = supervised.handle.clone();
    drop(supervised);
    sleep(LONG).await;
    assert!(!session.is_closed());
    drop(second);
    // The task publishes its end.
    while seen.changed().await.is_ok() {}
    assert!(session.is_closed());
    assert_eq!(Arc::strong_count(&script), 1);
}

#[tokio::test(start_paused = true)]
async fn f14_a_burst_of_changes_causes_few_listings() {
    let supervised = SupervisedServer::eager([StartScript::default()]);
    supervised.until_ready().await;
    let session = supervised.session();
    for _ in 0..1000 {
        session.change();
        sleep(MOMENT).await;
    }
    *session.offers.lock().unwrap() = Ok(offering("two"));
    let mut seen = supervised.handle.snapshot.clone();
    seen.wait_for(|now| now.offerings.withheld == offering("two").withheld)
        .await
        .unwrap();
    let listings = session.listings.load(Ordering::Relaxed) - 1;
    assert!((4..=6).contains(&listings), "{listings}");
}

/// F14: one listing at a time, and one more if a list changed during it.
#[tokio::test(start_paused = true)]
async fn f14_a_change_during_a_listing_causes_one_more() {
    let supervised = SupervisedServer::eager([StartScript {
        listing: Duration::from_secs(5),
        ..StartScript::default()
    }]);
    supervised.until_ready().await;
    let session = supervised.session();
    session.change();
    sleep(Duration::from_secs(1)).await;
    for _ in 0..3 {
        session.change();
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(session.listings.load(Ordering::Relaxed), 2);
    sleep(LONG).await;
    assert_eq!(session.listings.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_listing_keeps_the_previous_lists() {
    let mut supervised = SupervisedServer::eager([StartScript::default()]);
    supervised.until_ready().await;
    supervised.published_states();
    let fault = RequestFault::ErrorResponse {
        code: -32603,
        message: "boom".to_owned(),
        data: None,
    };
    *supervised.session().offers.lock().unwrap() = Err(fault);
    supervised.session().change();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        supervised.published_states(),
        [
            "notice: reported changed lists, but listing failed: the server answered with error -32603: boom; \
              the previous lists are kept"
        ]
    );
    assert_eq!(
        supervised.handle.snapshot().offerings.withheld,
        offering("one").withheld
    );
    assert!(matches!(supervised.state(), State::Ready { .. }));
}

/// A server that refuses `initialize` after a probe is restarted without one, and the next start
/// skips the probe.
#[tokio::test(start_paused = true)]
async fn the_approach_that_worked_is_remembered_for_the_next_start() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let offended = StartScript {
        fault: Some(OpenFault::RefusedAfterProbe),
        ..StartScript::default()
    };
    let legacy = StartScript {
        era: Era::Legacy,
        asks: true,
        ..StartScript::default()
    };
    let supervised = SupervisedServer::new(connecting(), [offended, legacy.clone()], store.clone());
    supervised.until_ready().await;
    supervised.handle.stop().await;
    assert_eq!(
        *supervised.script.approaches.lock().unwrap(),
        [
            (Protocol::Auto, None, Asks::Auto),
            (Protocol::Legacy, None, Asks::Auto)
        ]
    );
    assert_eq!((supervised.starts(), supervised.most_alive()), (2, 1));

    let supervised = SupervisedServer::new(connecting(), [legacy], store.clone());
    supervised.until_ready().await;
    supervised.handle.stop().await;
    assert_eq!(
        *supervised.script.approaches.lock().unwrap(),
        [(Protocol::Auto, Some(Era::Legacy), Asks::Yes)]
    );

    // A new version of the server no longer supports that era: the same attempt finds the era that
    // it supports.
    let refuses = StartScript {
        fault: Some(OpenFault::Refused("unknown method".to_owned())),
        ..StartScript::default()
    };
    let supervised = SupervisedServer::new(
        connecting(),
        [refuses, StartScript::default()],
        store.clone(),
    );
    supervised.until_ready().await;
    supervised.handle.stop().await;
    assert_eq!(
        *supervised.script.approaches.lock().unwrap(),
        [
            (Protocol::Auto, Some(Era::Legacy), Asks::Yes),
            (Protocol::Auto, None, Asks::Yes)
        ]
    );
    let supervised = SupervisedServer::new(connecting(), [StartScript::default()], store);
    supervised.until_ready().await;
    assert_eq!(
        *supervised.script.approaches.lock().unwrap(),
        [(Protocol::Auto, Some(Era::Modern), Asks::Yes)]
    );
}

/// A remembered era that fails is forgotten, so that the next attempt probes again.
#[tokio::test(start_paused = true)]
async fn a_remembered_era_that_fails_is_forgotten() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let supervised = SupervisedServer::new(connecting(), [StartScript::default()], store.clone());
    supervised.until_ready().await;
    supervised.handle.stop().await;

    let supervised = SupervisedServer::new(
        connecting(),
        [
            StartScript {
                handshake: NEVER,
                ..StartScript::default()
            },
            StartScript::default(),
        ],
        store,
    );
    supervised.until_ready().await;
    let eras: Vec<_> = supervised
        .script
        .approaches
        .lock()
        .unwrap()
        .iter()
        .map(|(_, era, _)| *era)
        .collect();
    assert_eq!(eras, [Some(Era::Modern), None]);
}

/// F3, F7, S2-63: a lost connection is a state with its reason, and calls report how the server
/// ended.
#[tokio::test(start_paused = true)]
async fn f7_a_lost_process_is_reported_with_exit_status_and_stderr() {
    let supervised = SupervisedServer::eager([StartScript {
        stderr: vec!["out of memory".to_owned()],
        ..StartScript::default()
    }]);
    supervised.until_ready().await;
    let session = supervised.session();
    let lost = Instant::now();
    session.end_channel();
    let (death, ()) = tokio::join!(supervised.handle.connection_end(), async {
        sleep(Duration::from_millis(30)).await;
        session.exit(Exit::Signal(9));
    });
    assert!(lost.elapsed() <= Duration::from_millis(150));
    assert_eq!(
        death.as_deref(),
        Some("was killed by SIGKILL; last stderr: \"out of memory\"")
    );
    assert_eq!(
        error_of(&supervised.state()),
        "lost the connection: its process was killed by SIGKILL (last stderr: \"out of memory\")"
    );
    // Its tools stay on offer: a call of one waits for the next connection.
    let snapshot = supervised.handle.snapshot();
    assert_eq!(
        (snapshot.cached, snapshot.offerings.withheld.len()),
        (true, 1)
    );
    supervised.handle.usable(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn f3_a_channel_that_ends_without_its_process_is_reported_within_the_bound() {
    let supervised = SupervisedServer::eager([StartScript::default()]);
    supervised.until_ready().await;
    supervised.session().end_channel();
    let death = timeout(
        Duration::from_millis(150),
        supervised.handle.connection_end(),
    )
    .await
    .unwrap();
    assert_eq!(death.as_deref(), Some("end of output"));
    supervised.until_ready().await;
    assert_eq!((supervised.starts(), supervised.most_alive()), (2, 1));
}

/// Another process may keep the pipes open after the server has ended.
#[tokio::test(start_paused = true)]
async fn f7_the_connection_ends_with_its_process() {
    let supervised = SupervisedServer::eager([StartScript::default()]);
    supervised.until_ready().await;
    let session = supervised.session();
    session.exit(Exit::Status(0));
    assert_eq!(
        supervised.handle.connection_end().await.as_deref(),
        Some("exited with status 0")
    );
    assert!(session.is_closed());
}

#[tokio::test(start_paused = true)]
async fn c13_a_server_that_offers_nothing_is_closed_until_its_next_use() {
    let supervised = SupervisedServer::eager([
        StartScript::default(),
        StartScript {
            offers: Default::default(),
            ..StartScript::default()
        },
    ]);
    supervised.until_ready().await;
    supervised.session().end_channel();
    let state = supervised.until(is_failed).await;
    assert!(supervised.handle.snapshot().offerings.withheld.is_empty());
    assert_eq!(
        error_of(&state),
        "closed: it offers no tools, prompts or resources"
    );
    sleep(LONG).await;
    assert!(supervised.session().is_closed());
    assert_eq!(
        (supervised.starts(), supervised.alive()),
        (2, 0),
        "nothing looks again by itself"
    );
    assert_eq!(
        (
            supervised.handle.usable(LONG).await.unwrap_err().state,
            supervised.starts()
        ),
        (state, 3)
    );
    supervised.handle.restart().await;
    supervised.handle.wait_until_settled().await;
    assert_eq!(supervised.starts(), 4);
}

/// However long it is idle.
#[tokio::test(start_paused = true)]
async fn s2_34_a_gemini_server_with_a_tool_stays_connected_while_nothing_uses_it() {
    let script = StartScript {
        offers: tool("t"),
        ..StartScript::default()
    };
    let store = Arc::new(MemoryStore::default());
    let gemini = |config: &mut ServerConfig| config.dialect = Dialect::Gemini;
    let supervised = SupervisedServer::of(gemini, connecting(), [script], store);
    supervised.until_ready().await;
    sleep(24 * LONG).await;
    assert!(!supervised.session().is_closed());
    assert_eq!((supervised.starts(), supervised.alive()), (1, 1));
}

/// S0-29, S2-65: a server that cannot be started fails at once and is tried again by each call,
/// since a person may have fixed it.
#[tokio::test(start_paused = true)]
async fn s2_65_a_missing_program_is_looked_for_on_each_call() {
    let missing = StartScript {
        unstartable: Some(("no program \"x\" in PATH", Retry::OnUse)),
        ..StartScript::default()
    };
    let supervised = SupervisedServer::eager([missing.clone(), missing, StartScript::default()]);
    let began = Instant::now();
    supervised.handle.wait_until_settled().await;
    assert!(began.elapsed() < MOMENT);
    let expected = "no program \"x\" in PATH".to_owned();
    assert_eq!(
        supervised.state(),
        State::Failed {
            error: expected.clone()
        }
    );
    let error = supervised.handle.usable(LONG).await.unwrap_err();
    assert_eq!(error.to_string(), format!("server \"script\": {expected}"));
    supervised.handle.usable(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_server_that_may_not_start_fail_at_once_with_a_hint() {
    let cases = [
        (
            State::Disabled,
            "disabled in switchboard.toml:3",
            Hint::Enable(Dialect::Native),
        ),
        (
            State::Blocked {
                rule: "`deny_servers`".to_owned(),
            },
            "blocked: `deny_servers`",
            Hint::ChangeServerList,
        ),
        (
            State::Untrusted {
                reason: "never accepted".to_owned(),
            },
            "not trusted: never accepted",
            Hint::Accept,
        ),
    ];
    for (state, fact, hint) in cases {
        let supervised = SupervisedServer::new(
            state.clone(),
            [StartScript::default()],
            Arc::new(MemoryStore::default()),
        );
        supervised.handle.wait_until_settled().await;
        let asked = Instant::now();
        let error = supervised.handle.usable(LONG).await.unwrap_err();
        assert_eq!(
            (error.reason.to_string().as_str(), error.hint, &error.state),
            (fact, Some(hint), &state)
        );
        supervised.handle.restart().await;
        assert_eq!((supervised.state(), supervised.starts()), (state, 0));
        assert!(asked.elapsed() < MOMENT);
    }
}

/// F19: a server that needs a login is tried once per call, and not retried otherwise.
#[tokio::test(start_paused = true)]
async fn f19_a_server_that_needs_a_login_is_tried_when_used_and_not_before() {
    let needed = OpenFault::NeedsLogin(NeedsLogin::new("the token has run out"));
    let closed = StartScript {
        fault: Some(needed),
        ..StartScript::default()
    };
    let supervised = SupervisedServer::eager([closed.clone(), closed, StartScript::default()]);
    supervised.handle.wait_until_settled().await;
    let state = State::NeedsLogin {
        url: "https://script.example/mcp".to_owned(),
        reason: "the token has run out".to_owned(),
        hint: Hint::LogIn,
    };
    assert_eq!(
        (supervised.state(), supervised.starts()),
        (state.clone(), 1)
    );
    assert_eq!(
        supervised.history().last().unwrap(),
        "needs a login at https://script.example/mcp: the token has run out"
    );
    sleep(LONG).await;
    assert_eq!(
        (supervised.state(), supervised.starts()),
        (state.clone(), 1)
    );

    let error = supervised.handle.usable(LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server \"script\": needs a login (the token has run out)"
    );
    assert_eq!((error.state, supervised.starts()), (state, 2));
    supervised.handle.usable(LONG).await.unwrap();
    assert_eq!((supervised.starts(), supervised.alive()), (3, 1));
}

/// A server is started only after its previous process has ended: both may need the same lock or
/// port.
#[tokio::test(start_paused = true)]
async fn a_restart_waits_for_the_previous_process_to_end() {
    let slow = StartScript {
        stopping: Duration::from_secs(3),
        ..StartScript::default()
    };
    let supervised = SupervisedServer::eager([
        slow.clone(),
        StartScript {
            handshake: NEVER,
            ..slow.clone()
        },
        slow,
    ]);
    supervised.until_ready().await;
    let session = supervised.session();
    let began = Instant::now();
    supervised.handle.restart().await;
    assert_eq!(began.elapsed().as_secs(), 3);
    assert!(session.is_closed());
    assert_eq!(
        supervised.handle.snapshot().last_exit.as_deref(),
        Some("restarted on request")
    );

    // During an attempt to connect.
    advance(Duration::from_secs(1)).await;
    supervised.handle.restart().await;
    supervised.until_ready().await;
    assert_eq!(
        (
            supervised.starts(),
            supervised.most_alive(),
            supervised.alive()
        ),
        (3, 1, 1)
    );
}

/// P1: a stopped server fails every request at once.
#[tokio::test(start_paused = true)]
async fn p1_a_stopped_server_fails_every_request_at_once() {
    let supervised = SupervisedServer::lazy([StartScript::default()]);
    supervised.handle.stop().await;
    let asked = Instant::now();
    supervised.handle.wait_until_settled().await;
    supervised.handle.restart().await;
    assert_eq!(
        supervised.handle.usable(LONG).await.unwrap_err().reason,
        NotReadyReason::Stopped
    );
    assert_eq!(supervised.handle.connection_end().await, None);
    assert!(asked.elapsed() < MOMENT);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_closed_while_it_connects_is_connected_by_nothing_but_a_restart() {
    let connecting = StartScript {
        handshake: NEVER,
        ..StartScript::default()
    };
    let supervised = SupervisedServer::eager([connecting, StartScript::default()]);
    let is_shaking_hands = |state: &State| {
        matches!(
            state,
            State::Connecting {
                step: ConnectStep::Handshake,
                ..
            }
        )
    };
    supervised.until(is_shaking_hands).await;
    supervised.handle.close("a circle".to_owned()).await;
    assert_eq!(error_of(&supervised.state()), "a circle");
    sleep(LONG).await;
    assert!(supervised.handle.ready(LONG).await.is_err());
    assert_eq!((supervised.starts(), supervised.alive()), (1, 0));
    supervised.handle.restart().await;
    supervised.until_ready().await;
    supervised.handle.stop().await;
}
