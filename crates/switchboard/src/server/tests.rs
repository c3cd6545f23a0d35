//! The task of one server against a scripted one, in paused time.

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
use script::{NEVER, Play, Rig, connecting, offering, tool};

mod eras;
mod own;
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

fn dies(status: i32) -> Play {
    Play {
        dies: Some(Exit::Status(status)),
        handshake: NEVER,
        ..Play::default()
    }
}

/// A panic in a server's task is that server's failure, with a reason, and whoever waits for it is
/// answered.
#[tokio::test(start_paused = true)]
async fn a_panic_in_the_task_of_a_server_is_its_failure() {
    let rig = Rig::eager([Play {
        panics: true,
        ..Play::default()
    }]);
    let failed = rig.until(is_failed).await;
    assert_eq!(
        error_of(&failed),
        "internal error (\"for the test\"); please report it"
    );
    let refused = rig.handle.ready(LONG).await.unwrap_err().to_string();
    assert!(refused.contains("internal error"), "{refused}");
    rig.handle.stop().await;
}

/// P9, S2-69: every change is told as it happens and stays on record with its reason.
#[tokio::test(start_paused = true)]
async fn p9_every_change_of_state_is_told_and_recorded() {
    let mut rig = Rig::eager([
        Play {
            stderr: vec!["bad token".to_owned()],
            ..dies(1)
        },
        Play::default(),
    ]);
    rig.until_ready().await;
    rig.changed.notified().await;

    let failure = "exited with status 1 before the handshake (last stderr: \"bad token\")";
    assert_eq!(
        rig.told(),
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
        rig.history(),
        [
            "connecting",
            &format!("backoff after failure 1: {failure}"),
            "connecting: its wait is over",
            "ready, modern 2026-07-28"
        ]
    );
    let snapshot = rig.handle.snapshot();
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
async fn f17_a_slow_start_is_waited_for_and_says_what_it_does() {
    let rig = Rig::eager([Play {
        handshake: Duration::from_secs(25),
        ..Play::default()
    }]);
    let error = rig
        .handle
        .usable(Duration::from_secs(10))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "server \"play\": still connecting after 10 s (step: handshake)"
    );
    rig.handle.settled().await;
    assert!(matches!(rig.state(), State::Ready { .. }));
    assert_eq!(rig.starts(), 1);
}

/// S0-31: connecting has one deadline, whichever step hangs.
#[tokio::test(start_paused = true)]
async fn s0_31_a_step_that_hangs_fails_by_the_deadline() {
    let cases = [
        (
            Play {
                handshake: NEVER,
                ..Play::default()
            },
            "no answer to the handshake within 30 s",
        ),
        (
            Play {
                listing: NEVER,
                ..Play::default()
            },
            "connected, but gave no answer within 30 s when asked what it offers",
        ),
    ];
    for (play, fact) in cases {
        let began = Instant::now();
        let rig = Rig::eager([play]);
        rig.handle.settled().await;
        assert_eq!(began.elapsed().as_secs(), 30, "{fact}");
        assert_eq!(error_of(&rig.state()), fact);
        rig.handle.stop().await;
        assert_eq!(rig.alive(), 0);
    }
}

/// A package runner that may have to install the server has longer, until the server has been seen
/// once.
#[tokio::test(start_paused = true)]
async fn f17_a_first_start_through_a_package_runner_has_time_for_an_installation() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let installs = |entry: &mut ServerConfig| entry.first_connect = Some(Duration::from_secs(300));
    let slow = Play {
        handshake: Duration::from_secs(200),
        ..Play::default()
    };
    let rig = Rig::of(installs, connecting(), [slow.clone()], store.clone());
    rig.until_ready().await;
    assert_eq!(
        (rig.starts(), rig.handle.snapshot().is_first_start),
        (1, true)
    );
    rig.handle.stop().await;

    let rig = Rig::of(installs, connecting(), [slow], store);
    rig.handle.settled().await;
    assert_eq!(
        error_of(&rig.state()),
        "no answer to the handshake within 30 s"
    );
}

#[tokio::test(start_paused = true)]
async fn f18_a_crash_loop_ends_in_failed_and_a_use_after_the_cool_down_tries_once() {
    let rig = Rig::eager([dies(3)]);
    let state = rig.until(is_failed).await;
    assert_eq!(
        error_of(&state),
        "exited with status 3 before the handshake"
    );
    assert_eq!(rig.starts(), 5);

    // Within the cool-down a use is answered at once, and starts nothing.
    let asked = Instant::now();
    let error = rig.handle.usable(LONG).await.unwrap_err();
    assert_eq!(
        (
            error.reason.to_string().as_str(),
            asked.elapsed() < MOMENT,
            rig.starts()
        ),
        (error_of(&state), true, 5)
    );

    // Nothing happens by itself.
    sleep(Duration::from_secs(300)).await;
    assert_eq!(rig.starts(), 5);
    rig.handle.usable(LONG).await.unwrap_err();
    assert!(is_failed(&rig.state()));
    assert_eq!(rig.starts(), 6);

    // A person starts the count anew.
    rig.handle.restart().await;
    assert!(is_backoff(
        &rig.until(|state| !matches!(state, State::Connecting { .. }))
            .await
    ));
    assert_eq!((rig.starts(), rig.most_alive()), (7, 1));
}

/// F18: what counts is work, not uptime.
#[tokio::test(start_paused = true)]
async fn f18_only_a_good_answer_starts_the_count_anew() {
    let rig = Rig::eager([Play::default()]);
    for round in 1..=8 {
        rig.until_ready().await;
        rig.handle.record_success();
        rig.stage().hang_up();
        let State::Backoff { attempt, .. } = rig.until(is_backoff).await else {
            unreachable!()
        };
        assert_eq!(attempt, 1, "round {round}");
    }
    // From here on it connects, stays for an hour and dies without having answered anything.
    for attempt in 2..=4 {
        rig.until_ready().await;
        sleep(LONG).await;
        rig.stage().hang_up();
        assert!(
            matches!(rig.until(is_backoff).await, State::Backoff { attempt: counted, .. } if counted == attempt)
        );
    }
    rig.until_ready().await;
    rig.stage().hang_up();
    rig.until(is_failed).await;
}

/// S3-08, S3-09: nothing starts before it is needed, and many first calls start it once.
#[tokio::test(start_paused = true)]
async fn s3_09_concurrent_first_calls_start_a_lazy_server_once() {
    let rig = Rig::lazy([Play {
        handshake: Duration::from_secs(2),
        ..Play::default()
    }]);
    rig.handle.settled().await;
    sleep(LONG).await;
    assert_eq!((rig.state(), rig.starts()), (State::Idle, 0));

    let calls: Vec<_> = (0..40)
        .map(|_| {
            tokio::spawn({
                let handle = rig.handle.clone();
                async move { handle.usable(LONG).await.map(drop) }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(rig.starts(), 1);
}

/// S3-08: a lazy server shows what it offered last time, until it is asked itself.
#[tokio::test(start_paused = true)]
async fn s3_08_a_lazy_server_shows_the_catalog_of_last_time() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let rig = Rig::new(
        connecting(),
        [Play {
            offers: tool("add"),
            ..Play::default()
        }],
        store.clone(),
    );
    rig.until_ready().await;
    rig.handle.stop().await;

    let rig = Rig::new(
        State::Idle,
        [Play {
            offers: tool("sum"),
            ..Play::default()
        }],
        store,
    );
    rig.handle.settled().await;
    let shown = |rig: &Rig| {
        let snapshot = rig.handle.snapshot();
        let names: Vec<_> = snapshot
            .offerings
            .tools
            .iter()
            .map(|tool| tool.name.as_wire().to_owned())
            .collect();
        (names, snapshot.cached, rig.starts())
    };
    assert_eq!(shown(&rig), (vec!["add".to_owned()], true, 0));
    rig.handle.usable(LONG).await.unwrap();
    assert_eq!(shown(&rig), (vec!["sum".to_owned()], false, 1));
}

#[tokio::test(start_paused = true)]
async fn a_use_learns_the_outcome_of_one_attempt() {
    let rig = Rig::lazy([dies(1), Play::default()]);
    let error = rig.handle.usable(LONG).await.unwrap_err();
    assert!(is_backoff(&error.state), "{error}");
    // The next use waits for the next attempt.
    rig.handle.usable(LONG).await.unwrap();
    assert_eq!(rig.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn p7_stop_is_bounded_in_every_phase() {
    let stuck = Play {
        stopping: NEVER,
        ..Play::default()
    };
    let phases = [
        (
            "connecting",
            Play {
                handshake: NEVER,
                ..stuck.clone()
            },
        ),
        ("live", stuck.clone()),
        (
            "leaving",
            Play {
                stopping: NEVER,
                ..dies(1)
            },
        ),
    ];
    for (phase, play) in phases {
        let rig = Rig::eager([play]);
        sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        let stopping = tokio::spawn({
            let handle = rig.handle.clone();
            async move { handle.stop().await }
        });
        rig.until(|state| *state == State::Stopped).await;
        // A use, or a second stop, meanwhile.
        let error = rig.handle.usable(LONG).await.unwrap_err();
        assert_eq!(
            (error.state, began.elapsed() < MOMENT),
            (State::Stopped, true),
            "{phase}"
        );
        rig.handle.stop().await;
        assert_eq!(rig.alive(), 0, "{phase}");
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
    let rig = Rig::eager([Play::default()]);
    rig.until_ready().await;
    let (stage, mut seen, script) = (rig.stage(), rig.handle.snapshot.clone(), rig.script.clone());
    let second = rig.handle.clone();
    drop(rig);
    sleep(LONG).await;
    assert!(!stage.is_closed());
    drop(second);
    // The task says so, and is gone.
    while seen.changed().await.is_ok() {}
    assert!(stage.is_closed());
    assert_eq!(Arc::strong_count(&script), 1);
}

#[tokio::test(start_paused = true)]
async fn f14_a_storm_of_changes_becomes_a_few_listings() {
    let rig = Rig::eager([Play::default()]);
    rig.until_ready().await;
    let stage = rig.stage();
    for _ in 0..1000 {
        stage.change();
        sleep(MOMENT).await;
    }
    *stage.offers.lock().unwrap() = Ok(offering("two"));
    let mut seen = rig.handle.snapshot.clone();
    seen.wait_for(|now| now.offerings.withheld == offering("two").withheld)
        .await
        .unwrap();
    let listings = stage.listings.load(Ordering::Relaxed) - 1;
    assert!((4..=6).contains(&listings), "{listings}");
}

/// F14: one listing at a time, and one more if something changed meanwhile.
#[tokio::test(start_paused = true)]
async fn f14_a_change_during_a_listing_leads_to_one_more() {
    let rig = Rig::eager([Play {
        listing: Duration::from_secs(5),
        ..Play::default()
    }]);
    rig.until_ready().await;
    let stage = rig.stage();
    stage.change();
    sleep(Duration::from_secs(1)).await;
    for _ in 0..3 {
        stage.change();
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(stage.listings.load(Ordering::Relaxed), 2);
    sleep(LONG).await;
    assert_eq!(stage.listings.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_fails_keeps_what_was_known() {
    let mut rig = Rig::eager([Play::default()]);
    rig.until_ready().await;
    rig.told();
    let fault = RequestFault::Answered {
        code: -32603,
        message: "boom".to_owned(),
        data: None,
    };
    *rig.stage().offers.lock().unwrap() = Err(fault);
    rig.stage().change();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        rig.told(),
        [
            "notice: said that its lists changed, but listing them failed: the server answered with error -32603: boom; \
              the lists from before are kept"
        ]
    );
    assert_eq!(
        rig.handle.snapshot().offerings.withheld,
        offering("one").withheld
    );
    assert!(matches!(rig.state(), State::Ready { .. }));
}

/// A server that refuses `initialize` after a probe is started again without one, and the probe is
/// not paid again.
#[tokio::test(start_paused = true)]
async fn what_worked_is_remembered_for_the_next_start() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let offended = Play {
        fault: Some(OpenFault::RefusedAfterProbe),
        ..Play::default()
    };
    let legacy = Play {
        era: Era::Legacy,
        asks: true,
        ..Play::default()
    };
    let rig = Rig::new(connecting(), [offended, legacy.clone()], store.clone());
    rig.until_ready().await;
    rig.handle.stop().await;
    assert_eq!(
        *rig.script.approaches.lock().unwrap(),
        [
            (Protocol::Auto, None, Asks::Auto),
            (Protocol::Legacy, None, Asks::Auto)
        ]
    );
    assert_eq!((rig.starts(), rig.most_alive()), (2, 1));

    let rig = Rig::new(connecting(), [legacy], store.clone());
    rig.until_ready().await;
    rig.handle.stop().await;
    assert_eq!(
        *rig.script.approaches.lock().unwrap(),
        [(Protocol::Auto, Some(Era::Legacy), Asks::Yes)]
    );

    // Another version of the server no longer speaks that era: it is found out again, in the same
    // attempt.
    let refuses = Play {
        fault: Some(OpenFault::Refused("unknown method".to_owned())),
        ..Play::default()
    };
    let rig = Rig::new(connecting(), [refuses, Play::default()], store.clone());
    rig.until_ready().await;
    rig.handle.stop().await;
    assert_eq!(
        *rig.script.approaches.lock().unwrap(),
        [
            (Protocol::Auto, Some(Era::Legacy), Asks::Yes),
            (Protocol::Auto, None, Asks::Yes)
        ]
    );
    let rig = Rig::new(connecting(), [Play::default()], store);
    rig.until_ready().await;
    assert_eq!(
        *rig.script.approaches.lock().unwrap(),
        [(Protocol::Auto, Some(Era::Modern), Asks::Yes)]
    );
}

/// An era that is remembered and no longer leads anywhere is forgotten, so the next attempt finds
/// out.
#[tokio::test(start_paused = true)]
async fn an_era_that_fails_is_forgotten() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let rig = Rig::new(connecting(), [Play::default()], store.clone());
    rig.until_ready().await;
    rig.handle.stop().await;

    let rig = Rig::new(
        connecting(),
        [
            Play {
                handshake: NEVER,
                ..Play::default()
            },
            Play::default(),
        ],
        store,
    );
    rig.until_ready().await;
    let eras: Vec<_> = rig
        .script
        .approaches
        .lock()
        .unwrap()
        .iter()
        .map(|(_, era, _)| *era)
        .collect();
    assert_eq!(eras, [Some(Era::Modern), None]);
}

/// F3, F7, S2-63: a lost connection is a state with its reason, and calls can tell how the server
/// died.
#[tokio::test(start_paused = true)]
async fn f7_a_death_is_told_with_exit_status_and_stderr() {
    let rig = Rig::eager([Play {
        stderr: vec!["out of memory".to_owned()],
        ..Play::default()
    }]);
    rig.until_ready().await;
    let stage = rig.stage();
    let lost = Instant::now();
    stage.hang_up();
    let (death, ()) = tokio::join!(rig.handle.connection_end(), async {
        sleep(Duration::from_millis(30)).await;
        stage.exit(Exit::Signal(9));
    });
    assert!(lost.elapsed() <= Duration::from_millis(150));
    assert_eq!(
        death.as_deref(),
        Some("was killed by SIGKILL; last stderr: \"out of memory\"")
    );
    assert_eq!(
        error_of(&rig.state()),
        "lost the connection: its process was killed by SIGKILL (last stderr: \"out of memory\")"
    );
    // Its tools stay on offer: a call of one waits for the next connection.
    let snapshot = rig.handle.snapshot();
    assert_eq!(
        (snapshot.cached, snapshot.offerings.withheld.len()),
        (true, 1)
    );
    rig.handle.usable(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn f3_a_channel_that_ends_without_its_process_is_told_within_the_bound() {
    let rig = Rig::eager([Play::default()]);
    rig.until_ready().await;
    rig.stage().hang_up();
    let death = timeout(Duration::from_millis(150), rig.handle.connection_end())
        .await
        .unwrap();
    assert_eq!(death.as_deref(), Some("end of output"));
    rig.until_ready().await;
    assert_eq!((rig.starts(), rig.most_alive()), (2, 1));
}

/// Another process may hold the pipes open; the server is gone all the same.
#[tokio::test(start_paused = true)]
async fn f7_a_process_that_ends_ends_the_connection() {
    let rig = Rig::eager([Play::default()]);
    rig.until_ready().await;
    let stage = rig.stage();
    stage.exit(Exit::Status(0));
    assert_eq!(
        rig.handle.connection_end().await.as_deref(),
        Some("exited with status 0")
    );
    assert!(stage.is_closed());
}

#[tokio::test(start_paused = true)]
async fn c13_a_server_that_offers_nothing_is_closed_until_somebody_wants_it() {
    let rig = Rig::eager([
        Play::default(),
        Play {
            offers: Default::default(),
            ..Play::default()
        },
    ]);
    rig.until_ready().await;
    rig.stage().hang_up();
    let state = rig.until(is_failed).await;
    assert!(rig.handle.snapshot().offerings.withheld.is_empty());
    assert_eq!(
        error_of(&state),
        "offers no tools, prompts or resources, and so was closed"
    );
    sleep(LONG).await;
    assert!(rig.stage().is_closed());
    assert_eq!(
        (rig.starts(), rig.alive()),
        (2, 0),
        "nothing looks again by itself"
    );
    assert_eq!(
        (
            rig.handle.usable(LONG).await.unwrap_err().state,
            rig.starts()
        ),
        (state, 3)
    );
    rig.handle.restart().await;
    rig.handle.settled().await;
    assert_eq!(rig.starts(), 4);
}

/// S0-29, S2-65: what cannot be started is told at once and tried again by each use, since a person
/// may have mended it.
#[tokio::test(start_paused = true)]
async fn s2_65_a_program_that_is_missing_is_looked_for_on_each_use() {
    let missing = Play {
        unstartable: Some(("no program \"x\" in PATH", Retry::OnUse)),
        ..Play::default()
    };
    let rig = Rig::eager([missing.clone(), missing, Play::default()]);
    let began = Instant::now();
    rig.handle.settled().await;
    assert!(began.elapsed() < MOMENT);
    let expected = "no program \"x\" in PATH".to_owned();
    assert_eq!(
        rig.state(),
        State::Failed {
            error: expected.clone()
        }
    );
    let error = rig.handle.usable(LONG).await.unwrap_err();
    assert_eq!(error.to_string(), format!("server \"play\": {expected}"));
    rig.handle.usable(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_may_not_start_is_answered_at_once_with_what_to_do() {
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
        let rig = Rig::new(
            state.clone(),
            [Play::default()],
            Arc::new(MemoryStore::default()),
        );
        rig.handle.settled().await;
        let asked = Instant::now();
        let error = rig.handle.usable(LONG).await.unwrap_err();
        assert_eq!(
            (error.reason.to_string().as_str(), error.hint, &error.state),
            (fact, Some(hint), &state)
        );
        rig.handle.restart().await;
        assert_eq!((rig.state(), rig.starts()), (state, 0));
        assert!(asked.elapsed() < MOMENT);
    }
}

/// F19: no loop: nothing is tried until somebody uses the server, and each use tries once.
#[tokio::test(start_paused = true)]
async fn f19_a_server_that_needs_a_login_is_tried_when_used_and_not_before() {
    let needed = OpenFault::NeedsLogin(NeedsLogin::new("the token has run out"));
    let closed = Play {
        fault: Some(needed),
        ..Play::default()
    };
    let rig = Rig::eager([closed.clone(), closed, Play::default()]);
    rig.handle.settled().await;
    let state = State::NeedsLogin {
        url: "https://play.example/mcp".to_owned(),
        reason: "the token has run out".to_owned(),
        hint: Hint::LogIn,
    };
    assert_eq!((rig.state(), rig.starts()), (state.clone(), 1));
    assert_eq!(
        rig.history().last().unwrap(),
        "needs a login at https://play.example/mcp: the token has run out"
    );
    sleep(LONG).await;
    assert_eq!((rig.state(), rig.starts()), (state.clone(), 1));

    let error = rig.handle.usable(LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server \"play\": needs a login (the token has run out)"
    );
    assert_eq!((error.state, rig.starts()), (state, 2));
    rig.handle.usable(LONG).await.unwrap();
    assert_eq!((rig.starts(), rig.alive()), (3, 1));
}

/// A server is started again only when the process before it is gone: both may want the same lock
/// or port.
#[tokio::test(start_paused = true)]
async fn a_restart_waits_for_the_old_process() {
    let slow = Play {
        stopping: Duration::from_secs(3),
        ..Play::default()
    };
    let rig = Rig::eager([
        slow.clone(),
        Play {
            handshake: NEVER,
            ..slow.clone()
        },
        slow,
    ]);
    rig.until_ready().await;
    let stage = rig.stage();
    let began = Instant::now();
    rig.handle.restart().await;
    assert_eq!(began.elapsed().as_secs(), 3);
    assert!(stage.is_closed());
    assert_eq!(
        rig.handle.snapshot().last_exit.as_deref(),
        Some("restarted on request")
    );

    // Now in the middle of an attempt.
    advance(Duration::from_secs(1)).await;
    rig.handle.restart().await;
    rig.until_ready().await;
    assert_eq!((rig.starts(), rig.most_alive(), rig.alive()), (3, 1, 1));
}

/// P1: with a task that is gone nothing waits.
#[tokio::test(start_paused = true)]
async fn p1_a_stopped_server_answers_everything_at_once() {
    let rig = Rig::lazy([Play::default()]);
    rig.handle.stop().await;
    let asked = Instant::now();
    rig.handle.settled().await;
    rig.handle.restart().await;
    assert_eq!(
        rig.handle.usable(LONG).await.unwrap_err().reason,
        NotReadyReason::Stopped
    );
    assert_eq!(rig.handle.connection_end().await, None);
    assert!(asked.elapsed() < MOMENT);
}
