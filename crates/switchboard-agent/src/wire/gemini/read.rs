//! Answers of the Gemini API, streamed or whole.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::conversation::{
    CallArguments, FinishReason, ModelTurn, ToolCall, TurnOrigin, TurnPart, VendorItem,
};
use crate::fault::read::read_stream_error;
use crate::fault::{FaultKind, ModelFault};
use crate::json::{JsonText, null_as_default};
use crate::usage::TokenUsage;
use crate::wire::TurnDelta;
use crate::wire::{TurnReader, has_calls, push_text};

/// Reads an answer: each event is a response object with the next parts, complete ones.
#[derive(Debug, Clone)]
pub(super) struct GeminiReader {
    origin: TurnOrigin,
    items: Vec<VendorItem>,
    parts: Vec<TurnPart>,
    finish_word: Option<String>,
    finish_message: Option<String>,
    /// The prompt itself was refused.
    block_reason: Option<String>,
    usage: TokenUsage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GenerateContentResponse<'a> {
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    candidates: Vec<GeminiCandidate<'a>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<UsageMetadata>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCandidate<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    index: u64,
    #[serde(borrow)]
    content: Option<GeminiContent<'a>>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct GeminiContent<'a> {
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    parts: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiPart<'a> {
    text: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    thought: bool,
    #[serde(borrow)]
    function_call: Option<GeminiCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCall<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "null_as_default")]
    will_continue: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageMetadata {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
}

impl UsageMetadata {
    /// Thoughts are outside the candidates' count, cached tokens inside the prompt's.
    fn read(&self) -> TokenUsage {
        let prompt = self
            .prompt_token_count
            .map(|count| count.saturating_add(self.tool_use_prompt_token_count.unwrap_or(0)));
        let output = match (self.candidates_token_count, self.thoughts_token_count) {
            (None, None) => None,
            (answer, thoughts) => Some(answer.unwrap_or(0).saturating_add(thoughts.unwrap_or(0))),
        };
        TokenUsage {
            output,
            reasoning: self.thoughts_token_count,
            ..TokenUsage::with_cache_inside(prompt, self.cached_content_token_count)
        }
    }
}

impl GeminiReader {
    pub(super) fn new(origin: TurnOrigin) -> Self {
        Self {
            origin,
            items: Vec::new(),
            parts: Vec::new(),
            finish_word: None,
            finish_message: None,
            block_reason: None,
            usage: TokenUsage::default(),
        }
    }

    fn add_part(&mut self, raw: &RawValue, deltas: &mut Vec<TurnDelta>) -> Result<(), ModelFault> {
        let part: GeminiPart<'_> =
            serde_json::from_str(raw.get()).map_err(ModelFault::unreadable)?;
        self.items.push(JsonText::from_raw(raw));
        if let Some(text) = part.text {
            push_text(&mut self.parts, &text, part.thought);
            deltas.push(match part.thought {
                true => TurnDelta::Thought(text),
                false => TurnDelta::Text(text),
            });
        }
        if let Some(call) = part.function_call {
            let name = call.name.clone();
            deltas.push(TurnDelta::CallStarted { name });
            let arguments = call.args.map_or("", RawValue::get);
            self.parts.push(TurnPart::Call(ToolCall {
                id: call.id,
                name: call.name,
                arguments: match call.will_continue {
                    true => CallArguments::cut_off(arguments),
                    false => CallArguments::read(arguments),
                },
            }));
        }
        Ok(())
    }

    fn into_turn(self) -> Result<ModelTurn, ModelFault> {
        let Some(word) = self.finish_word.or(self.block_reason.clone()) else {
            return Err(ModelFault::cut_off(
                "the connection ended before the model said why it stopped",
            ));
        };
        let finish = match word.as_str() {
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
                let message = self.finish_message.unwrap_or(word);
                return Err(ModelFault::new(FaultKind::MalformedCall, message));
            }
            _ if self.block_reason.is_some() => FinishReason::Refused,
            "MAX_TOKENS" => FinishReason::Length,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
                FinishReason::Refused
            }
            _ if has_calls(&self.parts) => FinishReason::Calls,
            "STOP" => FinishReason::Done,
            _ => FinishReason::Other,
        };
        Ok(ModelTurn {
            origin: self.origin,
            items: self.items,
            parts: self.parts,
            finish,
            finish_word: Some(word),
            usage: self.usage,
        })
    }
}

impl TurnReader for GeminiReader {
    fn event(&mut self, data: &str, deltas: &mut Vec<TurnDelta>) -> Result<(), ModelFault> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let response: GenerateContentResponse<'_> =
            serde_json::from_str(data).map_err(ModelFault::unreadable)?;
        if response.error.is_some() {
            return Err(read_stream_error(data));
        }
        if let Some(usage) = response.usage_metadata {
            self.usage = usage.read();
        }
        if let Some(feedback) = response.prompt_feedback {
            self.block_reason = feedback.block_reason.or(self.block_reason.take());
        }
        let first = response.candidates.into_iter().find(|one| one.index == 0);
        let Some(candidate) = first else {
            return Ok(());
        };
        for raw in candidate.content.iter().flat_map(|content| &content.parts) {
            self.add_part(raw, deltas)?;
        }
        self.finish_word = candidate.finish_reason.or(self.finish_word.take());
        self.finish_message = candidate.finish_message.or(self.finish_message.take());
        Ok(())
    }

    /// Parts and counts may follow the reason: the end of the stream is the end.
    fn has_ended(&self) -> bool {
        false
    }

    fn has_stop_reason(&self) -> bool {
        self.finish_word.is_some() || self.block_reason.is_some()
    }

    fn finish(&self) -> Result<ModelTurn, ModelFault> {
        self.clone().into_turn()
    }
}
