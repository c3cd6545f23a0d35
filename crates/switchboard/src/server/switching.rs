//! Opens a server with the other era, where a refusal showed that its handlers need that one.

use std::time::SystemTime;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::era::{EraDecision, EraEvidence, decide};
use super::memory::Habits;
use super::task::{Command, Phase, Task};
use super::{ServerHandle, sentence};
use crate::caller::Offers;
use crate::config::Protocol;
use crate::session::Era;

/// What evidence came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EraOutcome {
    /// It is being opened with this era.
    Reopening {
        era: Era,
        /// Its process is started again for that.
        restarted: bool,
        /// Some of its handlers need one era, some the other.
        both: bool,
    },
    /// It will be opened with this era, as soon as the calls that are under way have ended.
    WhenIdle(Era),
    /// It stays with this era. `both` as above.
    Stays { era: Era, both: bool },
}

impl EraOutcome {
    /// Whether a call that is made now is made with the other era.
    pub(crate) fn is_reopening(self) -> bool {
        matches!(self, Self::Reopening { .. })
    }
}

impl ServerHandle {
    /// A request on a connection of this era was refused in words that say which era it needs.
    pub(crate) async fn era_refused(
        &self,
        era: Era,
        evidence: EraEvidence,
        offers: Offers,
    ) -> Option<EraOutcome> {
        // A question that the caller would refuse is no reason to switch.
        let is_answerable = evidence
            != EraEvidence::NeedsLegacy {
                only_sampling: true,
            }
            || offers.sampling;
        if self.config.protocol != Protocol::Auto || !is_answerable {
            return None;
        }
        let (answer, decided) = oneshot::channel();
        self.commands
            .send(Command::EraRefused {
                era,
                evidence,
                answer,
            })
            .await
            .ok()?;
        decided.await.ok()?
    }

    /// What the caller is told of it. `repeated`: its call is made again.
    pub(crate) fn era_notice(&self, outcome: EraOutcome, repeated: bool) -> String {
        sentence::other_era(&self.config.name, outcome, repeated)
    }
}

impl Task {
    pub(super) fn era_refused(&mut self, era: Era, evidence: EraEvidence) -> Option<EraOutcome> {
        let Phase::Live(live) = &self.phase else {
            return self.is_reopening(era);
        };
        let (current, is_process, is_idle) = (live.era(), live.has_process(), live.is_idle());
        if current != era {
            return self.is_reopening(era);
        }
        self.confirm_era();
        if let Some(verdict) = self.habits.verdict.filter(|verdict| verdict.era() != era) {
            return Some(EraOutcome::WhenIdle(verdict.era()));
        }
        let verdict = match decide(era, self.habits.verdict, evidence, SystemTime::now()) {
            EraDecision::Switch(verdict) => verdict,
            EraDecision::Stay { both } => return Some(EraOutcome::Stays { era, both }),
            EraDecision::Ignore => return None,
        };
        self.keep_habits(Habits {
            verdict: Some(verdict),
            ..self.habits
        });
        self.are_habits_known = true;
        if is_process && !is_idle {
            if let Phase::Live(live) = &mut self.phase {
                live.tell_when_idle();
            }
            return Some(EraOutcome::WhenIdle(verdict.era()));
        }
        self.reopen();
        Some(EraOutcome::Reopening {
            era: verdict.era(),
            restarted: is_process,
            both: verdict.is_both(),
        })
    }

    /// Another call brought the evidence first.
    fn is_reopening(&self, era: Era) -> Option<EraOutcome> {
        let verdict = self.habits.verdict.filter(|verdict| verdict.era() != era)?;
        Some(EraOutcome::Reopening {
            era: verdict.era(),
            restarted: false,
            both: verdict.is_both(),
        })
    }

    /// A question that arrived on a legacy connection confirms that it was right to open one.
    pub(super) fn confirm_era(&mut self) {
        let Phase::Live(live) = &self.phase else {
            return;
        };
        if live.era() == Era::Legacy && live.was_questioned() {
            let verdict = self.habits.verdict.map(|verdict| verdict.confirmed());
            self.keep_habits(Habits {
                verdict,
                ..self.habits
            });
        }
    }

    /// Leaves the connection and opens one of the other era. A session without a process is left to
    /// the calls that are under way.
    pub(super) fn reopen(&mut self) {
        self.confirm_era();
        let Phase::Live(live) = std::mem::take(&mut self.phase) else {
            return;
        };
        self.learn_from(&live);
        self.phase = Phase::Leaving {
            ending: live.let_go(),
            then: Some(Instant::now()),
        };
        self.left_for("its handlers need the other era");
    }
}
