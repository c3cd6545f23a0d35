//! The state of a session while its records are read: conversation, beginning of requests, tools.

use std::collections::HashMap;

use super::{RequestPrefix, SessionRecord, SessionRepair};
use crate::conversation::{AwaitingResults, Conversation, ResultError};
use crate::price::CostSum;
use crate::settings::ModelSettings;
use crate::tools::ToolTreatment;
use crate::tools::{ToolList, vendor_tool_limit};
use crate::usage::TokenUsage;
use crate::wire::TurnContext;
use crate::wire::{WireRequest, recorded_wire};

/// The state after the records so far.
#[derive(Debug, Default)]
pub(crate) struct SessionReading {
    conversation: Conversation,
    /// The last turn, whose results may follow. Its conversation is not in `conversation` then.
    waiting: Option<Box<AwaitingResults>>,
    pub(crate) model: Option<ModelSettings>,
    pub(crate) prefix: Option<RequestPrefix>,
    pub(crate) tools: ToolList,
    treatments: HashMap<String, ToolTreatment>,
    /// The body of the last request.
    pub(crate) body: String,
    pub(crate) usage: TokenUsage,
    pub(crate) cost: CostSum,
}

impl SessionReading {
    /// Reads the next record. The error is a sentence.
    pub(crate) fn read(
        &mut self,
        record: SessionRecord,
        repairs: &mut Vec<SessionRepair>,
    ) -> Result<(), &'static str> {
        if let SessionRecord::Result { call, outcome } = record {
            let waiting = self.waiting.as_mut().ok_or("a result without a call")?;
            return match waiting.answer(call, outcome) {
                // Calls that could not run have their result already.
                Ok(()) | Err(ResultError::AlreadyAnswered(_)) => Ok(()),
                Err(_) => Err("a result of a call that the turn does not have"),
            };
        }
        self.close(repairs);
        match record {
            SessionRecord::Session(_) => return Err("a second header"),
            SessionRecord::Model(model) => self.model = Some(*model),
            SessionRecord::Prefix(prefix) => {
                self.tools = ToolList::new(self.model.as_ref().and_then(vendor_tool_limit));
                self.treatments.clear();
                self.prefix = Some(prefix);
            }
            SessionRecord::Tools(record) => {
                self.tools.apply(record);
                self.tools.start();
            }
            SessionRecord::ToolRefused { name, treatment } => {
                self.treatments.insert(name, treatment);
            }
            SessionRecord::User(message) => self.conversation.add_user_message(message),
            SessionRecord::Request(request) => {
                let body = request.body(&self.body);
                self.body = body.ok_or("a request that does not fit to the one before")?;
            }
            SessionRecord::Turn(turn) => {
                self.add_usage(turn.usage);
                let before = std::mem::take(&mut self.conversation);
                self.waiting = Some(Box::new(before.reply(*turn)));
            }
            SessionRecord::ToolsLoaded { names } => {
                for name in &names {
                    // A tool that is no longer offered is not loaded.
                    let _ = self.tools.load(name);
                }
                self.conversation.add_loaded_tools(names);
            }
            SessionRecord::Note { text } => self.conversation.add_note(text),
            SessionRecord::Summary {
                replaced,
                text,
                usage,
            } => {
                self.add_usage(usage);
                self.conversation.replace_by_summary(replaced, text);
            }
            SessionRecord::Result { .. } => unreachable!("read above"),
        }
        Ok(())
    }

    /// The next request of the conversation. `None` before a model is known.
    pub(crate) fn request(&self) -> Option<WireRequest> {
        let (model, prefix) = (self.model.as_ref()?, self.prefix.as_ref()?);
        let treatment = |name: &str| self.treatments.get(name).cloned();
        let tools = self.tools.with_treatments(|spec| treatment(&spec.name));
        let context = TurnContext {
            conversation: &self.conversation,
            system: &prefix.system,
            tools: &tools,
            cache_key: &prefix.cache_key,
        };
        Some(recorded_wire(model.vendor).request(model, &context))
    }

    /// Calls of the last turn that have no result, by index.
    pub(crate) fn open_calls(&self) -> Vec<usize> {
        let waiting = self.waiting.iter();
        let open = waiting.flat_map(|waiting| waiting.open_calls());
        open.map(|(index, _)| index).collect()
    }

    /// Ends the last turn. Calls without a result are lost.
    pub(crate) fn close(&mut self, repairs: &mut Vec<SessionRepair>) {
        if let Some(waiting) = self.waiting.take() {
            let lost = waiting
                .open_calls()
                .map(|(_, call)| SessionRepair::LostCall {
                    tool: call.name.clone(),
                });
            repairs.extend(lost);
            self.conversation = waiting.close_after_crash();
        }
    }

    pub(crate) fn into_conversation(self) -> Conversation {
        self.conversation
    }

    fn add_usage(&mut self, usage: TokenUsage) {
        self.usage += usage;
        let model = self.model.as_ref();
        self.cost
            .add(model.and_then(|model| model.turn_cost(&usage)));
    }
}
