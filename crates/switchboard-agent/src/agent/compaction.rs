//! Replaces old entries of the conversation by a summary: on demand, when the context is nearly full,
//! and when the vendor says that it is too long.

use super::{Agent, AgentEvent, EventSink, RunSummary};
use crate::compact;
use crate::conversation::{FinishReason, ModelTurn};
use crate::fault::{FaultKind, ModelFault};
use crate::model::TurnEvent;
use crate::session::SessionRecord;

/// A summary that replaced the oldest entries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compaction {
    /// How many entries it replaced.
    pub replaced: usize,
    /// About how many tokens filled the context before.
    pub tokens_before: u64,
    /// About how many tokens fill it now.
    pub tokens_after: u64,
    /// The summary.
    pub summary: String,
}

impl Agent {
    /// Replaces the conversation by a summary that the model writes. `None` where there is nothing
    /// to summarise.
    ///
    /// # Errors
    ///
    /// [`ModelFault`] if the model wrote no summary: then the conversation is unchanged.
    pub async fn compact(&mut self, sink: EventSink<'_>) -> Result<Option<Compaction>, ModelFault> {
        self.close_turn();
        if self.conversation.entries().is_empty() {
            return Ok(None);
        }
        self.begin_request();
        self.summarise(0, &mut RunSummary::default(), sink).await
    }

    /// Summarises the conversation if it fills the context. Without a summary it is sent as it is: the
    /// vendor may still accept it. A fault that may be gone later is returned.
    pub(super) async fn compact_if_due(
        &mut self,
        summary: &mut RunSummary,
        sink: EventSink<'_>,
    ) -> Result<(), ModelFault> {
        let reserved = u64::from(self.model.settings().reserved_tokens());
        let used = self.used_tokens();
        let limit = self.context_tokens();
        let Some(limit) = limit.filter(|limit| compact::is_due(used, reserved, *limit)) else {
            return Ok(());
        };
        if self.has_failed_summary {
            return Ok(());
        }
        match self.summarise(limit / 4, summary, sink).await {
            Ok(_) => Ok(()),
            Err(fault) if fault.may_work_later() => Err(fault),
            Err(fault) => {
                self.has_failed_summary = true;
                sink(AgentEvent::CompactionFailed(fault));
                Ok(())
            }
        }
    }

    /// Summarises it after the vendor said that it is too long. `false` if the fault is another one,
    /// or a summary would not help.
    pub(super) async fn compact_after(
        &mut self,
        fault: &ModelFault,
        summary: &mut RunSummary,
        sink: EventSink<'_>,
    ) -> Result<bool, ModelFault> {
        let FaultKind::ContextOverflow { limit } = fault.kind else {
            return Ok(false);
        };
        self.learned_limit = limit.or(self.learned_limit);
        let keep = self.context_tokens().map_or(0, |limit| limit / 4);
        let compacted = self.summarise(keep, summary, sink).await?;
        Ok(compacted.is_some())
    }

    /// How many tokens the model can read, where that is known.
    pub(super) fn context_tokens(&self) -> Option<u64> {
        let configured = self.model.settings().context_limit();
        match (configured, self.learned_limit) {
            (Some(configured), Some(learned)) => Some(configured.min(learned)),
            (configured, learned) => configured.or(learned),
        }
    }

    async fn summarise(
        &mut self,
        keep_tokens: u64,
        run: &mut RunSummary,
        sink: EventSink<'_>,
    ) -> Result<Option<Compaction>, ModelFault> {
        let chosen = compact::choose(&self.conversation, keep_tokens, &self.estimate);
        let Some(count) = chosen else {
            return Ok(None);
        };
        sink(AgentEvent::CompactionStarted);
        let tokens_before = self.used_tokens();
        let (replaced, turn) = self.ask_for_summary(count, sink).await?;
        let cost = self.model.settings().turn_cost(&turn.usage);
        self.count(turn.usage, cost);
        run.add_cost(turn.usage, cost);
        let text = turn.text();
        if let Some(reason) = why_unusable(&turn, &text) {
            return Err(ModelFault::new(FaultKind::NoSummary, reason));
        }
        self.conversation.replace_by_summary(replaced, text.clone());
        self.recorder.record(&SessionRecord::Summary {
            replaced,
            text: text.clone(),
            usage: turn.usage,
        });
        // Notes about late tools and changed definitions may be gone with the entries.
        self.tools.renew(self.model.settings());
        self.forget_prefix();
        self.begin_request();
        let compaction = Compaction {
            replaced,
            tokens_before,
            tokens_after: self.used_tokens(),
            summary: text,
        };
        sink(AgentEvent::Compacted(compaction.clone()));
        Ok(Some(compaction))
    }

    /// Asks for a summary of the first `count` entries, or of fewer if these are too long for one
    /// request. Returns their number.
    async fn ask_for_summary(
        &self,
        mut count: usize,
        sink: EventSink<'_>,
    ) -> Result<(usize, ModelTurn), ModelFault> {
        let context = self.context_tokens().unwrap_or(u64::MAX);
        let least = u64::from(compact::SUMMARY_TOKENS).min(context / 4);
        let model = self
            .model
            .with_room_for(least.try_into().unwrap_or(u32::MAX));
        let model = model.as_deref().unwrap_or(&*self.model);
        loop {
            let request = compact::summary_request(&self.conversation, count);
            // The text of a summary is not an answer to the person.
            let mut show = |event| match event {
                TurnEvent::Delta(_) | TurnEvent::RequestSent(_) => {}
                event => sink(AgentEvent::Model(event)),
            };
            let context = self.turn_context(&request);
            match model.turn(context, &mut show).await {
                Ok(turn) => return Ok((count, turn)),
                Err(ModelFault {
                    kind: FaultKind::ContextOverflow { .. },
                    ..
                }) if count > 1 => count /= 2,
                Err(fault) => return Err(fault),
            }
        }
    }
}

/// Why a turn is no summary.
fn why_unusable(turn: &ModelTurn, text: &str) -> Option<&'static str> {
    match turn.finish {
        FinishReason::Length => Some("it was cut off at the limit of tokens for an answer"),
        FinishReason::Refused => Some("the model or its vendor refused to write it"),
        FinishReason::Other => Some("the model stopped before its end"),
        FinishReason::Done | FinishReason::Calls => {
            let is_empty = text.trim().is_empty();
            is_empty.then_some("the model wrote nothing")
        }
    }
}
