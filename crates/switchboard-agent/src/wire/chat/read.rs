//! Answers of the Chat Completions API, streamed or whole.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::calls::{ChatCallDelta, ChatCalls};
use super::content::{add_detail, read_content};
use crate::conversation::{FinishReason, ModelTurn, TurnOrigin, TurnPart};
use crate::fault::read::read_stream_error;
use crate::fault::{FaultKind, ModelFault};
use crate::json::{JsonText, ObjectWriter, array, null_as_default};
use crate::usage::TokenUsage;
use crate::wire::TurnDelta;
use crate::wire::{TurnReader, has_calls, push_text};

/// Reads a streamed answer, and puts the assistant's message together as it is sent back.
#[derive(Debug, Clone)]
pub(super) struct ChatReader {
    origin: TurnOrigin,
    content: String,
    refusal: String,
    /// DeepSeek's and llama.cpp's thoughts, which they want back.
    reasoning_content: String,
    /// OpenRouter's thoughts, which it wants back with their details.
    reasoning: String,
    reasoning_details: Vec<IndexMap<String, Value>>,
    calls: ChatCalls,
    parts: Vec<TurnPart>,
    finish_word: Option<String>,
    usage: TokenUsage,
    is_done: bool,
}

#[derive(Deserialize)]
struct ChatChunk<'a> {
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    choices: Vec<ChatChoice<'a>>,
    usage: Option<ChatUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChatChoice<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    index: u64,
    #[serde(borrow)]
    delta: Option<ChatDelta<'a>>,
    #[serde(borrow)]
    message: Option<ChatDelta<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ChatDelta<'a> {
    /// Text; Mistral sends a list of parts where the model thinks.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    reasoning_details: Option<Vec<IndexMap<String, Value>>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ChatCallDelta<'a>>>,
}

#[derive(Deserialize)]
struct ChatUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<ChatTokenDetails>,
    completion_tokens_details: Option<ChatTokenDetails>,
    cost: Option<f64>,
}

#[derive(Deserialize)]
struct ChatTokenDetails {
    cached_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl ChatUsage {
    /// Cached and reasoning tokens are part of the totals here.
    fn read(&self) -> TokenUsage {
        let input = self.prompt_tokens_details.as_ref();
        let output = self.completion_tokens_details.as_ref();
        let cached = input.and_then(|details| details.cached_tokens);
        TokenUsage {
            output: self.completion_tokens,
            reasoning: output.and_then(|details| details.reasoning_tokens),
            charged_usd: self.cost,
            ..TokenUsage::with_cache_inside(self.prompt_tokens, cached)
        }
    }
}

impl ChatReader {
    pub(super) fn new(origin: TurnOrigin) -> Self {
        Self {
            origin,
            content: String::new(),
            refusal: String::new(),
            reasoning_content: String::new(),
            reasoning: String::new(),
            reasoning_details: Vec::new(),
            calls: ChatCalls::default(),
            parts: Vec::new(),
            finish_word: None,
            usage: TokenUsage::default(),
            is_done: false,
        }
    }

    fn read_chunk(&mut self, data: &str, deltas: &mut Vec<TurnDelta>) -> Result<(), ModelFault> {
        let chunk: ChatChunk<'_> = serde_json::from_str(data).map_err(ModelFault::unreadable)?;
        if chunk.error.is_some() {
            return Err(read_stream_error(data));
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage.read();
        }
        for choice in chunk.choices {
            if choice.index != 0 {
                continue;
            }
            let is_message = choice.message.is_some();
            if let Some(delta) = choice.delta.or(choice.message) {
                self.read_delta(delta, is_message, deltas)?;
            }
            self.finish_word = choice.finish_reason.or(self.finish_word.take());
        }
        Ok(())
    }

    fn read_delta(
        &mut self,
        delta: ChatDelta<'_>,
        is_message: bool,
        deltas: &mut Vec<TurnDelta>,
    ) -> Result<(), ModelFault> {
        let reasoning = delta.reasoning.map(RawValue::get);
        let reasoning = reasoning.and_then(|json| serde_json::from_str::<String>(json).ok());
        if let Some(thought) = &delta.reasoning_content {
            self.reasoning_content.push_str(thought);
            self.show(thought, true, deltas);
        } else if let Some(thought) = &reasoning {
            self.reasoning.push_str(thought);
            self.show(thought, true, deltas);
        }
        for detail in delta.reasoning_details.into_iter().flatten() {
            add_detail(&mut self.reasoning_details, detail);
        }
        for (text, is_thought) in read_content(delta.content)? {
            if !is_thought {
                self.content.push_str(&text);
            }
            self.show(&text, is_thought, deltas);
        }
        if let Some(refusal) = &delta.refusal {
            self.refusal.push_str(refusal);
            self.show(refusal, false, deltas);
        }
        for (position, mut piece) in delta.tool_calls.into_iter().flatten().enumerate() {
            if is_message {
                piece.index = Some(position as u64);
            }
            let name = self.calls.add(piece);
            deltas.extend(name.map(|name| TurnDelta::CallStarted { name }));
        }
        Ok(())
    }

    fn show(&mut self, text: &str, is_thought: bool, deltas: &mut Vec<TurnDelta>) {
        push_text(&mut self.parts, text, is_thought);
        if !text.is_empty() {
            let text = text.to_owned();
            deltas.push(match is_thought {
                true => TurnDelta::Thought(text),
                false => TurnDelta::Text(text),
            });
        }
    }

    /// The assistant's message with the fields that are sent back.
    fn message(&self) -> String {
        let mut message = ObjectWriter::new().text("role", "assistant");
        let calls = self.parts.iter().filter_map(|part| match part {
            TurnPart::Call(call) => Some(call),
            _ => None,
        });
        let calls: Vec<String> = calls
            .map(|call| {
                super::request::tool_call(&call.id, &call.name, call.arguments.object_or_empty())
            })
            .collect();
        message = match self.content.is_empty() && !calls.is_empty() {
            true => message.raw("content", "null"),
            false => message.text("content", &self.content),
        };
        if !self.refusal.is_empty() {
            message = message.text("refusal", &self.refusal);
        }
        if !self.reasoning_content.is_empty() {
            message = message.text("reasoning_content", &self.reasoning_content);
        }
        if !self.reasoning_details.is_empty() {
            message = message
                .text("reasoning", &self.reasoning)
                .value("reasoning_details", &self.reasoning_details);
        }
        if !calls.is_empty() {
            message = message.raw("tool_calls", &array(&calls));
        }
        message.end()
    }

    fn into_turn(mut self) -> Result<ModelTurn, ModelFault> {
        let is_empty = self.parts.is_empty() && self.calls.is_empty();
        let word = self.finish_word.clone();
        if word.is_none() && (!self.is_done || is_empty) {
            return Err(ModelFault::cut_off(
                "the connection ended before the model said why it stopped",
            ));
        }
        if word.as_deref() == Some("error") {
            let message = "the model's server reported an error without details";
            return Err(ModelFault::new(FaultKind::Overloaded, message));
        }
        // Any other reason may have ended the answer before the arguments began.
        let is_whole = matches!(
            word.as_deref(),
            Some("stop" | "tool_calls" | "function_call")
        );
        let calls = std::mem::take(&mut self.calls).end(!is_whole);
        let Some(calls) = calls else {
            return Err(ModelFault::new(
                FaultKind::MalformedCall,
                "a call has no name of a tool",
            ));
        };
        self.parts.extend(calls.into_iter().map(TurnPart::Call));
        let finish = match word.as_deref() {
            Some("length") => FinishReason::Length,
            Some("content_filter") => FinishReason::Refused,
            // Servers often send a wrong reason: the content decides.
            _ if has_calls(&self.parts) => FinishReason::Calls,
            _ if !self.refusal.is_empty() => FinishReason::Refused,
            Some("stop" | "tool_calls" | "function_call") => FinishReason::Done,
            _ => FinishReason::Other,
        };
        Ok(ModelTurn {
            items: vec![JsonText::from_written(self.message())],
            origin: self.origin,
            parts: self.parts,
            finish,
            finish_word: word,
            usage: self.usage,
        })
    }
}

impl TurnReader for ChatReader {
    fn event(&mut self, data: &str, deltas: &mut Vec<TurnDelta>) -> Result<(), ModelFault> {
        if self.is_done {
            return Ok(());
        }
        if data.trim() == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        self.read_chunk(data, deltas)
    }

    fn has_ended(&self) -> bool {
        self.is_done
    }

    fn has_stop_reason(&self) -> bool {
        self.finish_word.is_some()
    }

    fn finish(&self) -> Result<ModelTurn, ModelFault> {
        self.clone().into_turn()
    }
}

/// Reads an answer that came as one document.
pub(super) fn read_document(origin: TurnOrigin, body: &str) -> Result<ModelTurn, ModelFault> {
    let mut reader = ChatReader::new(origin);
    reader.read_chunk(body, &mut Vec::new())?;
    reader.finish()
}
