//! Tests of a dual-era server whose handlers need the other era than the one it was opened with,
//! scripted, in paused time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::super::State;
use super::super::connect::ConnectAttempt;
use super::super::era::{EraEvidence, EraVerdict, SwitchBackReason, seconds};
use super::super::launch_store::{LaunchProfile, LaunchStore};
use super::super::other_era::CallRoute;
use super::super::status_publisher::StatusPublisher;
use super::super::switching::{EraOutcome, EraRefusal};
use super::script::{LAUNCH, StartScript, SupervisedServer, connecting, task_setup};
use crate::caller::CallerCapabilities;
use crate::config::{Asks, Protocol};
use crate::name::ToolName;
use crate::session::{Era, OpenFault};
use crate::store::{MemoryStore, Store};
use crate::transport::TransportFault;

const ELICITS: EraEvidence = EraEvidence::NeedsLegacy {
    only_sampling: false,
};

fn modern() -> StartScript {
    StartScript {
        era: Era::Modern,
        ..StartScript::default()
    }
}

fn legacy() -> StartScript {
    StartScript {
        era: Era::Legacy,
        ..StartScript::default()
    }
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

async fn remembered(store: &Arc<dyn Store>) -> LaunchProfile {
    LaunchStore::new(store.clone(), LAUNCH).profile().await
}

fn eras_tried(supervised: &SupervisedServer) -> Vec<Option<Era>> {
    supervised
        .script
        .approaches
        .lock()
        .unwrap()
        .iter()
        .map(|(_, era, _)| *era)
        .collect()
}

/// The notice for a caller that supports every kind of question.
async fn refused(supervised: &SupervisedServer, era: Era, evidence: EraEvidence) -> Option<String> {
    let outcome = supervised
        .handle
        .era_refused(refusal(era, evidence), everything())
        .await?;
    Some(supervised.handle.era_notice(outcome, false))
}

fn refusal(era: Era, evidence: EraEvidence) -> EraRefusal {
    EraRefusal {
        era,
        evidence,
        tool: Some(ToolName::new("ask")),
        route: CallRoute::Main,
    }
}

/// Support for every kind of question.
fn everything() -> CallerCapabilities {
    CallerCapabilities {
        elicit_form: true,
        sampling: true,
        ..CallerCapabilities::default()
    }
}

/// A server whose entry fixes the era.
fn with_protocol(
    protocol: Protocol,
    script: StartScript,
    store: Arc<dyn Store>,
) -> SupervisedServer {
    SupervisedServer::of(
        |config| config.protocol = protocol,
        connecting(),
        [script],
        store,
    )
}

#[tokio::test(start_paused = true)]
async fn a_refused_question_restarts_the_server_in_the_legacy_era_once_and_is_remembered() {
    let store = store();
    let supervised = SupervisedServer::new(connecting(), [modern(), legacy()], store.clone());
    supervised.until_ready().await;
    assert_eq!(
        refused(&supervised, Era::Modern, ELICITS).await.unwrap(),
        "server \"script\" sends its questions in the legacy form, which protocol 2026-07-28 does not support; reconnected with 2025-11-25; this is remembered \
         (its process was restarted, so what it kept in memory is lost). The tool may have begun; call it again."
    );
    // A call that arrives now waits for the new connection.
    assert!(matches!(supervised.state(), State::Connecting { .. }));
    supervised.until_ready().await;
    assert_eq!(
        (eras_tried(&supervised), supervised.most_alive()),
        (vec![None, Some(Era::Legacy)], 1)
    );
    let profile = remembered(&store).await;
    assert!(
        matches!(
            profile.verdict,
            Some(EraVerdict::Legacy {
                confirmed: false,
                ..
            })
        ),
        "{profile:?}"
    );

    // The next run starts with legacy.
    supervised.handle.stop().await;
    let next = SupervisedServer::new(connecting(), [legacy()], store);
    next.until_ready().await;
    assert_eq!(eras_tried(&next), [Some(Era::Legacy)]);
}

#[tokio::test(start_paused = true)]
async fn a_server_with_other_calls_in_flight_is_restarted_when_they_have_ended() {
    let supervised = SupervisedServer::eager([modern(), legacy()]);
    supervised.until_ready().await;
    let session = supervised.session();
    session.busy.send_replace(true);
    let notice = refused(&supervised, Era::Modern, ELICITS).await.unwrap();
    assert!(
        notice.contains("its process is restarted with 2025-11-25 when its other calls have ended"),
        "{notice}"
    );
    // A second refusal changes nothing.
    assert_eq!(
        refused(&supervised, Era::Modern, ELICITS).await.unwrap(),
        notice
    );
    sleep(Duration::from_secs(60)).await;
    assert!(
        matches!(
            supervised.state(),
            State::Ready {
                era: Era::Modern,
                ..
            }
        ) && !session.is_closed()
    );

    session.busy.send_replace(false);
    supervised
        .until(|state| {
            matches!(
                state,
                State::Ready {
                    era: Era::Legacy,
                    ..
                }
            )
        })
        .await;
    assert_eq!((supervised.starts(), supervised.most_alive()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_question_confirms_the_switch_permanently() {
    let store = store();
    let supervised = SupervisedServer::new(connecting(), [modern(), legacy()], store.clone());
    supervised.until_ready().await;
    refused(&supervised, Era::Modern, ELICITS).await.unwrap();
    supervised.until_ready().await;
    supervised
        .session()
        .questioned
        .store(true, Ordering::Relaxed);
    supervised.handle.stop().await;
    let profile = remembered(&store).await;
    assert!(
        matches!(
            profile.verdict,
            Some(EraVerdict::Legacy {
                confirmed: true,
                ..
            })
        ),
        "{profile:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_ask_in_either_era_is_switched_back_once() {
    let store = store();
    let supervised =
        SupervisedServer::new(connecting(), [modern(), legacy(), modern()], store.clone());
    supervised.until_ready().await;
    refused(&supervised, Era::Modern, ELICITS).await.unwrap();
    supervised.until_ready().await;
    let notice = refused(&supervised, Era::Legacy, ELICITS).await.unwrap();
    assert!(
        notice.starts_with("server \"script\" cannot send its questions with protocol 2025-11-25 either; reconnected with 2026-07-28"),
        "{notice}"
    );
    supervised.until_ready().await;
    assert_eq!(
        refused(&supervised, Era::Modern, ELICITS).await.unwrap(),
        "server \"script\" sends its questions in the legacy form, which it supports neither with protocol 2026-07-28 nor with 2025-11-25"
    );
    assert_eq!(
        (supervised.starts(), eras_tried(&supervised)[2]),
        (3, Some(Era::Modern))
    );
    let profile = remembered(&store).await;
    assert!(
        matches!(
            profile.verdict,
            Some(EraVerdict::Modern {
                why: SwitchBackReason::NeitherWorks,
                ..
            })
        ),
        "{profile:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_in_its_result_switches_back_to_modern() {
    let supervised = SupervisedServer::eager([modern(), legacy(), modern()]);
    supervised.until_ready().await;
    refused(&supervised, Era::Modern, ELICITS).await.unwrap();
    supervised.until_ready().await;
    let notice = refused(&supervised, Era::Legacy, EraEvidence::NeedsModern)
        .await
        .unwrap();
    assert!(
        notice.starts_with(
            "server \"script\" sends its questions in the modern form, which protocol 2025-11-25 does not support"
        ),
        "{notice}"
    );
    supervised.until_ready().await;
    assert_eq!(
        refused(&supervised, Era::Modern, ELICITS).await.unwrap(),
        "server \"script\" sends questions in the legacy and in the modern form, and no connection supports both; it stays with 2026-07-28. \
         For this tool, add an entry with `protocol = \"legacy\"`"
    );
    assert_eq!(supervised.starts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_server_stays_legacy_when_a_handler_asks_in_its_result() {
    let supervised = SupervisedServer::eager([modern(), legacy()]);
    supervised.until_ready().await;
    refused(&supervised, Era::Modern, ELICITS).await.unwrap();
    supervised.until_ready().await;
    supervised
        .session()
        .questioned
        .store(true, Ordering::Relaxed);
    let notice = refused(&supervised, Era::Legacy, EraEvidence::NeedsModern)
        .await
        .unwrap();
    assert!(
        notice.ends_with(
            "it stays with 2025-11-25. For this tool, add an entry with `protocol = \"modern\"`"
        ),
        "{notice}"
    );
    assert_eq!(supervised.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_opened_with_legacy_returns_to_modern() {
    let dies = StartScript {
        fault: Some(OpenFault::Channel("ended".to_owned())),
        ..legacy()
    };
    let supervised = SupervisedServer::eager([modern(), dies, modern()]);
    supervised.until_ready().await;
    refused(&supervised, Era::Modern, ELICITS).await.unwrap();
    supervised.until_ready().await;
    assert_eq!(
        eras_tried(&supervised),
        [None, Some(Era::Legacy), Some(Era::Modern)]
    );
    assert!(
        refused(&supervised, Era::Modern, ELICITS)
            .await
            .unwrap()
            .contains("neither")
    );
    assert_eq!(supervised.starts(), 3);
}

/// A store that remembers a switch to legacy, made now.
async fn store_with_switch(confirmed: bool) -> Arc<dyn Store> {
    let store = store();
    let profile = LaunchProfile {
        era: Some(Era::Legacy),
        verdict: Some(EraVerdict::Legacy {
            since: seconds(std::time::SystemTime::now()),
            confirmed,
        }),
        ..LaunchProfile::default()
    };
    LaunchStore::new(store.clone(), LAUNCH)
        .store_profile(profile)
        .await;
    store
}

fn failing(fault: OpenFault) -> StartScript {
    StartScript {
        fault: Some(fault),
        ..legacy()
    }
}

fn unreachable() -> OpenFault {
    OpenFault::Transport(TransportFault::NotSent("connection refused".to_owned()))
}

fn unavailable() -> OpenFault {
    OpenFault::Transport(TransportFault::Status {
        status: 503,
        detail: String::new(),
        retry_after: None,
        error: None,
    })
}

#[tokio::test(start_paused = true)]
async fn an_outage_does_not_undo_a_switch() {
    for fault in [unreachable(), unavailable()] {
        let store = store_with_switch(false).await;
        let scripts = [failing(fault), legacy()];
        let supervised = SupervisedServer::new(connecting(), scripts, store.clone());
        supervised.until_ready().await;
        assert_eq!(
            eras_tried(&supervised),
            [Some(Era::Legacy), Some(Era::Legacy)]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_failed_start_undoes_a_confirmed_switch() {
    let faults = [
        unreachable(),
        unavailable(),
        OpenFault::Channel("ended".to_owned()),
        OpenFault::Timeout(Duration::from_secs(30)),
    ];
    for fault in faults {
        let store = store_with_switch(true).await;
        let scripts = [failing(fault.clone()), legacy()];
        let supervised = SupervisedServer::new(connecting(), scripts, store.clone());
        supervised.until_ready().await;
        supervised.handle.stop().await;
        let profile = remembered(&store).await;
        assert!(
            matches!(
                profile.verdict,
                Some(EraVerdict::Legacy {
                    confirmed: true,
                    ..
                })
            ),
            "{fault}: {profile:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_attempt_does_not_forget_what_this_run_has_learned() {
    let supervised = SupervisedServer::lazy([legacy()]);
    let setup = task_setup(supervised.script.clone(), store());
    let events = setup.events.clone();
    let (status, _) = StatusPublisher::new(
        setup.config.get().name.clone(),
        connecting(),
        None,
        events,
        Arc::default(),
    );
    let profile = LaunchProfile {
        era: Some(Era::Legacy),
        ..LaunchProfile::default()
    };
    let attempt = ConnectAttempt::new(
        setup.config.get(),
        setup.endpoint.clone(),
        status,
        setup.launch_store.clone(),
        setup.open_options(),
        Some(profile.clone()),
    );
    let (cancel, cancelled) = oneshot::channel();
    cancel.send(()).unwrap();
    assert_eq!(attempt.run(cancelled).await.profile, profile);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_the_caller_cannot_answer_is_no_reason_to_switch() {
    let supervised = SupervisedServer::eager([modern()]);
    supervised.until_ready().await;
    let samples = EraEvidence::NeedsLegacy {
        only_sampling: true,
    };
    assert_eq!(
        supervised
            .handle
            .era_refused(refusal(Era::Modern, samples), CallerCapabilities::default())
            .await,
        None
    );
    assert!(matches!(
        supervised
            .handle
            .era_refused(refusal(Era::Modern, samples), everything())
            .await,
        Some(EraOutcome::Reopening { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_fixes_the_era_neither_switches_nor_affects_other_entries() {
    let store = store();
    let supervised = with_protocol(Protocol::Legacy, legacy(), store.clone());
    supervised.until_ready().await;
    assert_eq!(
        refused(&supervised, Era::Legacy, EraEvidence::NeedsModern).await,
        None
    );
    supervised.handle.stop().await;
    assert_eq!(remembered(&store).await.era, None);

    let free = SupervisedServer::new(connecting(), [modern()], store);
    free.until_ready().await;
    assert_eq!(eras_tried(&free), [None]);
}

/// A switch to legacy that no question confirmed is tried again after a week.
#[tokio::test(start_paused = true)]
async fn an_unconfirmed_switch_expires() {
    let now = seconds(std::time::SystemTime::now());
    for (age_days, first) in [(6, Era::Legacy), (8, Era::Modern)] {
        let store = store();
        let verdict = EraVerdict::Legacy {
            since: now - age_days * 24 * 3600,
            confirmed: false,
        };
        let profile = LaunchProfile {
            era: Some(Era::Legacy),
            verdict: Some(verdict),
            ..LaunchProfile::default()
        };
        LaunchStore::new(store.clone(), LAUNCH)
            .store_profile(profile)
            .await;
        let supervised = SupervisedServer::new(
            connecting(),
            [StartScript {
                era: first,
                ..StartScript::default()
            }],
            store,
        );
        supervised.until_ready().await;
        assert_eq!(
            *supervised.script.approaches.lock().unwrap(),
            [(Protocol::Auto, Some(first), Asks::Auto)],
            "{age_days} days"
        );
    }
}
