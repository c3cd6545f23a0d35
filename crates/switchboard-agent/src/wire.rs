//! The APIs (wires) of the vendors as pure functions: a conversation becomes a request, and the events
//! of an answer become deltas and, at the end, one complete turn or a fault.
//!
//! Nothing here does I/O: `driver` sends the requests and feeds the readers. A reader never
//! returns a part of a turn: a call that was cut off has [invalid
//! arguments](crate::conversation::CallArguments::Invalid), and an answer without its end is a
//! fault.

use std::collections::HashSet;

use crate::conversation::{
    AnsweredTurn, ContentPart, Conversation, HistoryEntry, ModelTurn, ToolCall, TurnOrigin,
    TurnPart,
};
use crate::fault::ModelFault;
use crate::json::{ObjectWriter, array};
use crate::settings::{ModelSettings, ModelVendor};
use crate::tools::ToolList;

pub mod anthropic;
pub mod chat;
pub mod gemini;
pub mod responses;

/// One vendor's wire.
pub trait ModelWire: Send + Sync {
    /// The request for the next turn.
    fn request(&self, settings: &ModelSettings, context: &TurnContext<'_>) -> WireRequest;

    /// A reader for one streamed answer.
    fn reader(&self, origin: TurnOrigin) -> Box<dyn TurnReader>;

    /// Reads an answer that came as one JSON document.
    fn read_document(&self, origin: TurnOrigin, body: &str) -> Result<ModelTurn, ModelFault>;
}

/// The input of a turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnContext<'a> {
    /// The conversation so far.
    pub conversation: &'a Conversation,
    /// The system prompt. Empty where there is none.
    pub system: &'a str,
    /// The tools that are offered.
    pub tools: &'a ToolList,
    /// Identifies the session, so that a vendor routes its requests to the same cache.
    pub cache_key: &'a str,
}

/// Reads one streamed answer, event by event.
pub trait TurnReader: Send {
    /// Reads one event and appends what can be shown of it.
    fn event(&mut self, data: &str, deltas: &mut Vec<TurnDelta>) -> Result<(), ModelFault>;

    /// Whether the answer is complete: nothing more needs to be read.
    fn has_ended(&self) -> bool;

    /// Whether the model said why it stopped. Only little may follow, such as the counts.
    fn has_stop_reason(&self) -> bool;

    /// The complete turn if the stream ends here, or why there is none.
    fn finish(&self) -> Result<ModelTurn, ModelFault>;
}

/// A piece of an answer, for display. Nothing acts on it: calls run when the turn is complete.
///
/// The texts are the model's, with whatever characters it wrote: they must be escaped before they
/// reach a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnDelta {
    /// More text.
    Text(String),
    /// More of a thought.
    Thought(String),
    /// The model began to write a call.
    CallStarted {
        /// The name of the tool.
        name: String,
    },
}

/// A request, ready to be sent. The key is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireRequest {
    /// The path and query below the base URL.
    pub path: String,
    /// Headers other than the key and the content type.
    pub headers: Vec<(&'static str, String)>,
    /// The header that carries the key, and the text before the key in it.
    pub key_header: (&'static str, &'static str),
    /// The JSON body.
    pub body: String,
}

/// The wire of a vendor. The demo has none.
pub fn wire_of(vendor: ModelVendor) -> Option<&'static dyn ModelWire> {
    match vendor {
        ModelVendor::Anthropic => Some(&anthropic::AnthropicWire),
        ModelVendor::OpenAi => Some(&responses::ResponsesWire),
        ModelVendor::OpenAiChat => Some(&chat::ChatWire),
        ModelVendor::Gemini => Some(&gemini::GeminiWire),
        ModelVendor::Demo => None,
    }
}

/// The wire that a session records requests in: that of the vendor, or Chat Completions for the
/// demo.
pub(crate) fn recorded_wire(vendor: ModelVendor) -> &'static dyn ModelWire {
    wire_of(vendor).unwrap_or(&chat::ChatWire)
}

/// A turn for another vendor than the one it came from. Thoughts are left out: no vendor accepts
/// another's.
struct NeutralTurn<'a> {
    text: String,
    /// Each call with an id that is unique in the conversation.
    calls: Vec<(String, &'a ToolCall)>,
}

impl<'a> NeutralTurn<'a> {
    fn new(turn: &'a ModelTurn, entry: usize) -> Self {
        let text = turn.text();
        let calls = turn.calls().enumerate();
        let calls = calls.map(|(index, call)| (neutral_call_id(entry, index), call));
        Self {
            text,
            calls: calls.collect(),
        }
    }
}

/// An id for a call that has none: nine letters and digits, because Mistral accepts no others.
fn neutral_call_id(entry: usize, index: usize) -> String {
    format!("c{:05}{:03}", entry % 100_000, index % 1000)
}

/// The id that pairs a call with its result in a request: the vendor's own where its items are
/// sent back.
fn call_ids(answered: &AnsweredTurn, entry: usize, is_replayed: bool) -> Vec<String> {
    let calls = answered.turn().calls().enumerate();
    let ids = calls.map(|(index, call)| match is_replayed && !call.id.is_empty() {
        true => call.id.clone(),
        false => neutral_call_id(entry, index),
    });
    ids.collect()
}

/// A note or summary as user text.
fn note_text(entry: &HistoryEntry) -> Option<String> {
    match entry {
        HistoryEntry::Note(note) => Some(note.clone()),
        HistoryEntry::Summary(summary) => Some(format!(
            "This is a summary of the conversation so far:\n\n{summary}"
        )),
        _ => None,
    }
}

/// Parts without what vendors refuse: empty texts, and images that they do not accept. Text replaces
/// an image that is not sent.
fn sendable_parts(parts: &[ContentPart], takes_images: bool) -> Vec<ContentPart> {
    let parts = parts.iter().filter_map(|part| match part {
        ContentPart::Text(text) if text.trim().is_empty() => None,
        ContentPart::Text(_) => Some(part.clone()),
        ContentPart::Image(image) if takes_images => Some(match image.checked() {
            Ok(image) => ContentPart::Image(image),
            Err(replacement) => ContentPart::Text(replacement),
        }),
        ContentPart::Image(image) => Some(ContentPart::Text(image.placeholder())),
    });
    parts.collect()
}

/// Names of tools that a search in this conversation loaded.
fn tools_loaded_by_calls(conversation: &Conversation) -> HashSet<&str> {
    let turns = conversation
        .entries()
        .iter()
        .filter_map(|entry| match entry {
            HistoryEntry::Model(answered) => Some(answered),
            _ => None,
        });
    let outcomes = turns.flat_map(|turn| turn.calls().map(|(_, outcome)| outcome));
    let names = outcomes.flat_map(|outcome| outcome.loaded_tools());
    names.map(String::as_str).collect()
}

/// `{"role":…,"content":[…]}`.
fn message(role: &str, content: &[String]) -> String {
    ObjectWriter::new()
        .text("role", role)
        .raw("content", &array(content))
        .end()
}

/// Appends to the last text or thought of the neutral view, or begins a new part.
fn push_text(parts: &mut Vec<TurnPart>, text: &str, is_thought: bool) {
    match (parts.last_mut(), is_thought) {
        _ if text.is_empty() => {}
        (Some(TurnPart::Text(last)), false) | (Some(TurnPart::Thought(last)), true) => {
            last.push_str(text);
        }
        (_, false) => parts.push(TurnPart::Text(text.to_owned())),
        (_, true) => parts.push(TurnPart::Thought(text.to_owned())),
    }
}

/// Whether the neutral view has a call.
fn has_calls(parts: &[TurnPart]) -> bool {
    parts.iter().any(|part| matches!(part, TurnPart::Call(_)))
}
