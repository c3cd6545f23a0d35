//! A dual-era server whose handlers need the other era than the one it was opened with, scripted,
//! in paused time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::super::State;
use super::super::era::{EraEvidence, EraVerdict, seconds};
use super::super::launch_store::{LaunchProfile, LaunchStore};
use super::super::other_era::CallRoute;
use super::super::switching::{EraOutcome, EraRefusal};
use super::script::{LAUNCH, Play, Rig, connecting};
use crate::caller::Offers;
use crate::config::{Asks, Protocol};
use crate::name::ToolName;
use crate::session::Era;
use crate::store::{MemoryStore, Store};

const ELICITS: EraEvidence = EraEvidence::NeedsLegacy {
    only_sampling: false,
};

fn modern() -> Play {
    Play {
        era: Era::Modern,
        ..Play::default()
    }
}

fn legacy() -> Play {
    Play {
        era: Era::Legacy,
        ..Play::default()
    }
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

async fn remembered(store: &Arc<dyn Store>) -> LaunchProfile {
    LaunchStore::new(store.clone(), LAUNCH).profile().await
}

fn eras_tried(rig: &Rig) -> Vec<Option<Era>> {
    rig.script
        .approaches
        .lock()
        .unwrap()
        .iter()
        .map(|(_, era, _)| *era)
        .collect()
}

/// What a caller that can be asked anything is told.
async fn refused(rig: &Rig, era: Era, evidence: EraEvidence) -> Option<String> {
    let outcome = rig
        .handle
        .era_refused(refusal(era, evidence), everything())
        .await?;
    Some(rig.handle.era_notice(outcome, false))
}

fn refusal(era: Era, evidence: EraEvidence) -> EraRefusal {
    EraRefusal {
        era,
        evidence,
        tool: Some(ToolName::new("ask")),
        route: CallRoute::Main,
    }
}

/// All that a question may want.
fn everything() -> Offers {
    Offers {
        elicit_form: true,
        sampling: true,
        ..Offers::default()
    }
}

/// A server whose entry says which era to speak.
fn dictated(protocol: Protocol, play: Play, store: Arc<dyn Store>) -> Rig {
    Rig::of(
        |config| config.protocol = protocol,
        connecting(),
        [play],
        store,
    )
}

#[tokio::test(start_paused = true)]
async fn a_refused_question_restarts_the_server_in_the_legacy_era_once_and_is_remembered() {
    let store = store();
    let rig = Rig::new(connecting(), [modern(), legacy()], store.clone());
    rig.until_ready().await;
    assert_eq!(
        refused(&rig, Era::Modern, ELICITS).await.unwrap(),
        "server \"play\" asks in the older way, which its 2026-07-28 connection cannot carry; reopened with 2025-11-25 and remembered \
         (its process was restarted, so what it kept in memory is lost). The tool may have begun; call it again."
    );
    // A call that comes now waits for the new connection.
    assert!(matches!(rig.state(), State::Connecting { .. }));
    rig.until_ready().await;
    assert_eq!(
        (eras_tried(&rig), rig.most_alive()),
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

    // The next run begins with legacy.
    rig.handle.stop().await;
    let next = Rig::new(connecting(), [legacy()], store);
    next.until_ready().await;
    assert_eq!(eras_tried(&next), [Some(Era::Legacy)]);
}

#[tokio::test(start_paused = true)]
async fn a_server_with_other_calls_under_way_is_restarted_when_they_have_ended() {
    let rig = Rig::eager([modern(), legacy()]);
    rig.until_ready().await;
    let stage = rig.stage();
    stage.busy.send_replace(true);
    let told = refused(&rig, Era::Modern, ELICITS).await.unwrap();
    assert!(
        told.contains("its process is restarted with 2025-11-25 when its other calls have ended"),
        "{told}"
    );
    // A second refusal changes nothing.
    assert_eq!(refused(&rig, Era::Modern, ELICITS).await.unwrap(), told);
    sleep(Duration::from_secs(60)).await;
    assert!(
        matches!(
            rig.state(),
            State::Ready {
                era: Era::Modern,
                ..
            }
        ) && !stage.is_closed()
    );

    stage.busy.send_replace(false);
    rig.until(|state| {
        matches!(
            state,
            State::Ready {
                era: Era::Legacy,
                ..
            }
        )
    })
    .await;
    assert_eq!((rig.starts(), rig.most_alive()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_question_confirms_the_switch_for_good() {
    let store = store();
    let rig = Rig::new(connecting(), [modern(), legacy()], store.clone());
    rig.until_ready().await;
    refused(&rig, Era::Modern, ELICITS).await.unwrap();
    rig.until_ready().await;
    rig.stage().questioned.store(true, Ordering::Relaxed);
    rig.handle.stop().await;
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
async fn a_server_that_cannot_ask_in_either_era_is_switched_back_and_left_alone() {
    let store = store();
    let rig = Rig::new(connecting(), [modern(), legacy(), modern()], store.clone());
    rig.until_ready().await;
    refused(&rig, Era::Modern, ELICITS).await.unwrap();
    rig.until_ready().await;
    let told = refused(&rig, Era::Legacy, ELICITS).await.unwrap();
    assert!(
        told.starts_with("server \"play\" cannot ask over its 2025-11-25 connection either; reopened with 2026-07-28"),
        "{told}"
    );
    rig.until_ready().await;
    assert_eq!(
        refused(&rig, Era::Modern, ELICITS).await.unwrap(),
        "server \"play\" asks in the older way, which neither its 2026-07-28 nor its 2025-11-25 connection can carry"
    );
    assert_eq!((rig.starts(), eras_tried(&rig)[2]), (3, Some(Era::Modern)));
    let profile = remembered(&store).await;
    assert!(
        matches!(
            profile.verdict,
            Some(EraVerdict::Modern { both: false, .. })
        ),
        "{profile:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_in_its_result_leads_back_and_both_kinds_are_named() {
    let rig = Rig::eager([modern(), legacy(), modern()]);
    rig.until_ready().await;
    refused(&rig, Era::Modern, ELICITS).await.unwrap();
    rig.until_ready().await;
    let told = refused(&rig, Era::Legacy, EraEvidence::NeedsModern)
        .await
        .unwrap();
    assert!(
        told.starts_with(
            "server \"play\" asks in the newer way, which its 2025-11-25 connection cannot carry"
        ),
        "{told}"
    );
    rig.until_ready().await;
    assert_eq!(
        refused(&rig, Era::Modern, ELICITS).await.unwrap(),
        "server \"play\" asks in the older and in the newer way, and no connection carries both; it stays with 2026-07-28. \
         For this tool, add an entry with `protocol = \"legacy\"`"
    );
    assert_eq!(rig.starts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_server_stays_legacy_and_says_so_when_a_handler_asks_in_its_result() {
    let rig = Rig::eager([modern(), legacy()]);
    rig.until_ready().await;
    refused(&rig, Era::Modern, ELICITS).await.unwrap();
    rig.until_ready().await;
    rig.stage().questioned.store(true, Ordering::Relaxed);
    let told = refused(&rig, Era::Legacy, EraEvidence::NeedsModern)
        .await
        .unwrap();
    assert!(
        told.ends_with(
            "it stays with 2025-11-25. For this tool, add an entry with `protocol = \"modern\"`"
        ),
        "{told}"
    );
    assert_eq!(rig.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_opened_with_legacy_returns_to_modern() {
    let dies = Play {
        fault: Some(crate::session::OpenFault::Channel("ended".to_owned())),
        ..legacy()
    };
    let rig = Rig::eager([modern(), dies, modern()]);
    rig.until_ready().await;
    refused(&rig, Era::Modern, ELICITS).await.unwrap();
    rig.until_ready().await;
    assert_eq!(
        eras_tried(&rig),
        [None, Some(Era::Legacy), Some(Era::Modern)]
    );
    assert!(
        refused(&rig, Era::Modern, ELICITS)
            .await
            .unwrap()
            .contains("neither")
    );
    assert_eq!(rig.starts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_the_caller_cannot_answer_is_no_reason_to_switch() {
    let rig = Rig::eager([modern()]);
    rig.until_ready().await;
    let samples = EraEvidence::NeedsLegacy {
        only_sampling: true,
    };
    assert_eq!(
        rig.handle
            .era_refused(refusal(Era::Modern, samples), Offers::default())
            .await,
        None
    );
    assert!(matches!(
        rig.handle
            .era_refused(refusal(Era::Modern, samples), everything())
            .await,
        Some(EraOutcome::Reopening { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_dictates_the_era_neither_switches_nor_tells_other_entries_what_to_begin_with()
 {
    let store = store();
    let rig = dictated(Protocol::Legacy, legacy(), store.clone());
    rig.until_ready().await;
    assert_eq!(
        refused(&rig, Era::Legacy, EraEvidence::NeedsModern).await,
        None
    );
    rig.handle.stop().await;
    assert_eq!(remembered(&store).await.era, None);

    let free = Rig::new(connecting(), [modern()], store);
    free.until_ready().await;
    assert_eq!(eras_tried(&free), [None]);
}

/// A legacy verdict that no question confirmed is tried anew after a week.
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
        let rig = Rig::new(
            connecting(),
            [Play {
                era: first,
                ..Play::default()
            }],
            store,
        );
        rig.until_ready().await;
        assert_eq!(
            *rig.script.approaches.lock().unwrap(),
            [(Protocol::Auto, Some(first), Asks::Auto)],
            "{age_days} days"
        );
    }
}
