//! The conversation: messages of the person, turns of the model, and one result for each call.
//!
//! A vendor refuses a history in which a call has no result, and such a history cannot be
//! continued. So the types exclude it: [`Conversation::reply`] consumes the conversation and
//! returns [`AwaitingResults`], and only that can be turned into a conversation again, with a
//! result for every call. A request is built from a `Conversation`.

use serde::{Deserialize, Serialize};

pub use image::ImageData;
pub(crate) use image::image_type;
pub(crate) use outcome::MAX_RESULT_BYTES;
pub use outcome::{CallOutcome, ToolOutput};
pub use turn::{
    CallArguments, FinishReason, ModelTurn, ToolCall, TurnOrigin, TurnPart, VendorItem,
};

mod image;
mod outcome;
mod turn;

#[cfg(test)]
mod tests;

/// A conversation in which every call has its result: it can be sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    entries: Vec<HistoryEntry>,
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum HistoryEntry {
    /// A message of the person.
    User(UserMessage),
    /// A turn of the model, with the results of its calls.
    Model(Box<AnsweredTurn>),
    /// Tools that were loaded after the conversation began, by name.
    ToolsLoaded(Vec<String>),
    /// A note of the program to the model, such as the names of tools that arrived.
    Note(String),
    /// A summary that replaces the entries before it.
    Summary(String),
}

/// A message of the person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Text and images, in order.
    pub parts: Vec<ContentPart>,
}

impl UserMessage {
    /// A message of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        let parts = vec![ContentPart::Text(text.into())];
        Self { parts }
    }
}

/// A part of a message or of a tool's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentPart {
    /// Text.
    Text(String),
    /// An image.
    Image(ImageData),
}

/// A turn of the model with one result for each of its calls, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct AnsweredTurn {
    turn: ModelTurn,
    /// As many as the turn has calls: only [`AwaitingResults`] creates them.
    outcomes: Vec<CallOutcome>,
}

impl AnsweredTurn {
    /// The turn.
    pub fn turn(&self) -> &ModelTurn {
        &self.turn
    }

    /// Each call with its result.
    pub fn calls(&self) -> impl Iterator<Item = (&ToolCall, &CallOutcome)> {
        self.turn.calls().zip(&self.outcomes)
    }
}

impl Conversation {
    /// A conversation without an entry.
    pub fn new() -> Self {
        Self::default()
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> &[HistoryEntry] {
        &self.entries
    }

    /// Adds a message of the person.
    pub fn add_user_message(&mut self, message: UserMessage) {
        self.entries.push(HistoryEntry::User(message));
    }

    /// Notes that tools were loaded at this point: a vendor that accepts definitions in the middle of
    /// a conversation gets them here.
    pub fn add_loaded_tools(&mut self, names: Vec<String>) {
        if !names.is_empty() {
            self.entries.push(HistoryEntry::ToolsLoaded(names));
        }
    }

    /// Adds a note of the program to the model.
    pub fn add_note(&mut self, note: String) {
        self.entries.push(HistoryEntry::Note(note));
    }

    /// A conversation of the first `count` entries alone.
    pub fn first_entries(&self, count: usize) -> Self {
        let count = count.min(self.entries.len());
        let entries = self.entries[..count].to_vec();
        Self { entries }
    }

    /// Replaces the first `count` entries by a summary.
    pub fn replace_by_summary(&mut self, count: usize, summary: String) {
        let count = count.min(self.entries.len());
        let summary = HistoryEntry::Summary(summary);
        self.entries.splice(..count, [summary]);
    }

    /// Adds the model's answer. Calls whose arguments are not a JSON object have their result at
    /// once: they never run.
    pub fn reply(self, turn: ModelTurn) -> AwaitingResults {
        let outcomes = turn.calls().map(|call| match &call.arguments {
            CallArguments::Object(_) => None,
            CallArguments::Invalid { reason, .. } => Some(CallOutcome::failed(format!(
                "the call did not run: {reason}; call the tool again with a complete JSON object"
            ))),
        });
        AwaitingResults {
            outcomes: outcomes.collect(),
            conversation: self,
            turn,
        }
    }
}

/// A conversation whose last turn has calls that need results.
#[derive(Debug)]
pub struct AwaitingResults {
    conversation: Conversation,
    turn: ModelTurn,
    outcomes: Vec<Option<CallOutcome>>,
}

/// A result that does not belong to an open call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The turn has fewer calls.
    #[error("the turn has no call with the index {0}")]
    NoSuchCall(usize),
    /// The call has its result.
    #[error("the call with the index {0} has a result already")]
    AlreadyAnswered(usize),
}

impl AwaitingResults {
    /// The turn that was added.
    pub fn turn(&self) -> &ModelTurn {
        &self.turn
    }

    /// The conversation before the turn.
    pub fn before(&self) -> &Conversation {
        &self.conversation
    }

    /// The calls that have no result yet, with their index in the turn.
    pub fn open_calls(&self) -> impl Iterator<Item = (usize, &ToolCall)> {
        let calls = self.turn.calls().enumerate();
        calls.filter(|(index, _)| self.outcomes[*index].is_none())
    }

    /// Each call with its result, where it has one.
    pub fn outcomes(&self) -> impl Iterator<Item = (&ToolCall, Option<&CallOutcome>)> {
        let outcomes = self.outcomes.iter().map(Option::as_ref);
        self.turn.calls().zip(outcomes)
    }

    /// Sets the result of a call.
    pub fn answer(&mut self, index: usize, outcome: CallOutcome) -> Result<(), ResultError> {
        match self.outcomes.get_mut(index) {
            None => Err(ResultError::NoSuchCall(index)),
            Some(Some(_)) => Err(ResultError::AlreadyAnswered(index)),
            Some(slot) => {
                *slot = Some(outcome);
                Ok(())
            }
        }
    }

    /// Ends the turn. Calls without a result are cancelled.
    pub fn close(self) -> Conversation {
        self.close_with(&CallOutcome::Cancelled)
    }

    /// Ends a turn that was found in a session file after a crash. Calls without a result are
    /// lost.
    pub fn close_after_crash(self) -> Conversation {
        self.close_with(&CallOutcome::Lost)
    }

    fn close_with(self, missing: &CallOutcome) -> Conversation {
        let outcomes = self.outcomes.into_iter();
        let outcomes = outcomes.map(|outcome| outcome.unwrap_or_else(|| missing.clone()));
        let answered = AnsweredTurn {
            turn: self.turn,
            outcomes: outcomes.collect(),
        };
        let mut conversation = self.conversation;
        conversation
            .entries
            .push(HistoryEntry::Model(Box::new(answered)));
        conversation
    }
}
