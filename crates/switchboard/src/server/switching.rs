//! Switches a server to the other era when a refusal shows that its handlers need it. For servers
//! that can have a connection of each era, decides which tools use which connection.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::era::{EraDecision, EraEvidence, EraVerdict, SwitchBackReason, decide};
use super::launch_store::LaunchProfile;
use super::other_era::CallRoute;
use super::task::{Phase, ServerTask, TaskCommand};
use super::{ServerHandle, messages};
use crate::caller::CallerCapabilities;
use crate::config::Protocol;
use crate::name::ToolName;
use crate::session::Era;

/// The most tools whose era is remembered.
const MAX_TOOL_ERAS: usize = 1024;

/// A refused request whose error shows which era it needs.
#[derive(Debug, Clone)]
pub(crate) struct EraRefusal {
    /// The era of the connection that the request was sent on.
    pub(crate) era: Era,
    pub(crate) evidence: EraEvidence,
    /// The called tool; `None` for a prompt or a resource.
    pub(crate) tool: Option<ToolName>,
    pub(crate) route: CallRoute,
}

/// What follows from an [`EraRefusal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EraOutcome {
    /// The server is being reopened with this era.
    Reopening {
        era: Era,
        /// Its process is restarted.
        restarted: bool,
        /// Some of its handlers need one era, some the other.
        both: bool,
    },
    /// The server will be reopened with this era when the calls in flight have ended.
    WhenIdle(Era),
    /// Further calls of this tool use a second connection, of this era.
    OtherConnection(Era),
    /// The server stays with this era. `both` as in `Reopening`.
    Stays { era: Era, both: bool },
}

impl EraOutcome {
    /// Whether a call that starts now uses the other era.
    pub(crate) fn is_switched(self) -> bool {
        matches!(self, Self::Reopening { .. } | Self::OtherConnection(_))
    }
}

impl ServerHandle {
    /// Handles the refusal of a request whose caller can answer questions of the kinds in `offers`.
    pub(crate) async fn era_refused(
        &self,
        mut refusal: EraRefusal,
        offers: CallerCapabilities,
    ) -> Option<EraOutcome> {
        // A question that the caller would decline is no reason to switch.
        let is_answerable = refusal.evidence
            != EraEvidence::NeedsLegacy {
                only_sampling: true,
            }
            || offers.sampling;
        if self.config.protocol != Protocol::Auto || !is_answerable {
            return None;
        }
        if self.other_era.is_none() {
            refusal.tool = None;
        }
        let (answer, decided) = oneshot::channel();
        self.commands
            .send(TaskCommand::EraRefused(refusal, answer))
            .await
            .ok()?;
        decided.await.ok()?
    }

    /// The notice for the caller. `repeated`: its call is made again.
    pub(crate) fn era_notice(&self, outcome: EraOutcome, repeated: bool) -> String {
        messages::era_notice(
            &self.config.name,
            outcome,
            repeated,
            self.other_era.is_some(),
        )
    }
}

impl ServerTask {
    pub(super) fn era_refused(&mut self, refusal: EraRefusal) -> Option<EraOutcome> {
        let era = refusal.era;
        if let (CallRoute::OtherEra, Some(tool)) = (refusal.route, &refusal.tool) {
            return self.neither_era_carries(tool, era.other());
        }
        if !matches!(&self.phase, Phase::Live(live) if live.era() == era) {
            return self.is_reopening(era);
        }
        self.confirm_era();
        let verdict = self.profile.verdict;
        if let Some(verdict) = verdict.filter(|verdict| verdict.era() != era) {
            return Some(EraOutcome::WhenIdle(verdict.era()));
        }
        match decide(era, verdict, refusal.evidence, SystemTime::now()) {
            EraDecision::Switch(verdict) => {
                self.remember_verdict(verdict, &refusal);
                Some(self.switch_to(verdict))
            }
            EraDecision::Stay(SwitchBackReason::Mixed) => Some(match &refusal.tool {
                Some(tool) => self.use_other_connection(tool, refusal.route, era),
                None => EraOutcome::Stays { era, both: true },
            }),
            EraDecision::Stay(SwitchBackReason::NeitherWorks) => {
                Some(EraOutcome::Stays { era, both: false })
            }
            EraDecision::Ignore => None,
        }
    }

    /// Remembers the verdict, and the era that the refused tool needs.
    fn remember_verdict(&mut self, verdict: EraVerdict, refusal: &EraRefusal) {
        let mut tool_eras = self.profile.tool_eras.clone();
        match &refusal.tool {
            _ if !verdict.is_carried() => tool_eras.clear(),
            Some(tool) if tool_eras.len() < MAX_TOOL_ERAS => {
                tool_eras.insert(tool.as_wire().to_owned(), refusal.evidence.needed());
            }
            Some(_) | None => {}
        }
        self.set_profile(LaunchProfile {
            verdict: Some(verdict),
            tool_eras,
            ..self.profile.clone()
        });
        self.is_profile_current = true;
    }

    /// Reopens the live connection with the verdict's era: now, or when its calls have ended if its
    /// process must be restarted.
    fn switch_to(&mut self, verdict: EraVerdict) -> EraOutcome {
        let mut has_process = false;
        if let Phase::Live(live) = &mut self.phase {
            has_process = live.has_process();
            if has_process && !live.is_idle() {
                live.report_when_idle();
                return EraOutcome::WhenIdle(verdict.era());
            }
        }
        self.reopen();
        EraOutcome::Reopening {
            era: verdict.era(),
            restarted: has_process,
            both: verdict.is_both(),
        }
    }

    /// Routes further calls of a tool over a second connection, if that may help. `era` is the
    /// shared connection's.
    fn use_other_connection(&mut self, tool: &ToolName, route: CallRoute, era: Era) -> EraOutcome {
        let known = self.profile.tool_eras.get(tool.as_wire()).copied();
        let is_full = self.profile.tool_eras.len() >= MAX_TOOL_ERAS;
        match known {
            // The other connection refused the call too.
            Some(known) if known == era => EraOutcome::Stays { era, both: false },
            _ if route == CallRoute::OtherEraUnavailable || known.is_none() && is_full => {
                EraOutcome::Stays { era, both: true }
            }
            _ => {
                self.keep_tool_era(tool, era.other());
                EraOutcome::OtherConnection(era.other())
            }
        }
    }

    /// A call over the second connection was refused as well. `era` is the shared connection's.
    fn neither_era_carries(&mut self, tool: &ToolName, era: Era) -> Option<EraOutcome> {
        self.keep_tool_era(tool, era);
        Some(EraOutcome::Stays { era, both: false })
    }

    fn keep_tool_era(&mut self, tool: &ToolName, era: Era) {
        let mut profile = self.profile.clone();
        profile.tool_eras.insert(tool.as_wire().to_owned(), era);
        self.set_profile(profile);
        self.is_profile_current = true;
        if let Phase::Live(live) = &self.phase {
            let tools = Arc::new(self.profile.other_era_tools(live.era()));
            self.status
                .update_quietly(|snapshot| snapshot.other_era_tools = tools);
        }
    }

    /// The outcome if another call has already caused the switch.
    fn is_reopening(&self, era: Era) -> Option<EraOutcome> {
        let verdict = self
            .profile
            .verdict
            .filter(|verdict| verdict.era() != era)?;
        Some(EraOutcome::Reopening {
            era: verdict.era(),
            restarted: false,
            both: verdict.is_both(),
        })
    }

    /// A question on a legacy connection confirms that switching to it was right.
    pub(super) fn confirm_era(&mut self) {
        let Phase::Live(live) = &self.phase else {
            return;
        };
        if live.era() == Era::Legacy && live.has_asked() {
            let verdict = self.profile.verdict.map(|verdict| verdict.confirmed());
            self.set_profile(LaunchProfile {
                verdict,
                ..self.profile.clone()
            });
        }
    }

    /// Closes the connection and opens one of the other era. A session without a process stays open
    /// for the calls in flight.
    pub(super) fn reopen(&mut self) {
        self.confirm_era();
        let Phase::Live(live) = std::mem::take(&mut self.phase) else {
            return;
        };
        self.record_connection(&live);
        self.phase = Phase::Stopping {
            stopping: live.detach(),
            then: Some(Instant::now()),
        };
        self.set_reconnecting("its handlers need the other era");
    }
}
