//! Answers of the Responses API, streamed or whole.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::conversation::{CallArguments, FinishReason, ModelTurn, ToolCall, TurnOrigin, TurnPart};
use crate::fault::ModelFault;
use crate::fault::read::read_stream_error;
use crate::json::{JsonText, null_as_default};
use crate::usage::TokenUsage;
use crate::wire::TurnDelta;
use crate::wire::{TurnReader, has_calls, push_text};

/// Reads a streamed answer. Items are taken whole when they are done; deltas are for display.
#[derive(Debug, Clone)]
pub(super) struct ResponsesReader {
    origin: TurnOrigin,
    /// Complete items by `output_index`: ids are not stable with every server.
    items: BTreeMap<u64, JsonText>,
    /// The response object of the event that ended the answer.
    end: Option<JsonText>,
}

#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    r#type: String,
    output_index: Option<u64>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResponseObject<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    status: String,
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    output: Vec<&'a RawValue>,
    incomplete_details: Option<IncompleteDetails>,
    usage: Option<ResponsesUsage>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ResponsesUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<TokenDetails>,
    output_tokens_details: Option<TokenDetails>,
    cost: Option<f64>,
}

#[derive(Deserialize, Default)]
struct TokenDetails {
    cached_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputItem<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    r#type: String,
    #[serde(default, deserialize_with = "null_as_default")]
    call_id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    arguments: String,
    status: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OutputPart {
    #[serde(default, deserialize_with = "null_as_default")]
    r#type: String,
    #[serde(default, deserialize_with = "null_as_default")]
    text: String,
    #[serde(default, deserialize_with = "null_as_default")]
    refusal: String,
}

impl ResponsesReader {
    pub(super) fn new(origin: TurnOrigin) -> Self {
        Self {
            origin,
            items: BTreeMap::new(),
            end: None,
        }
    }

    fn into_turn(self) -> Result<ModelTurn, ModelFault> {
        let Some(end) = self.end else {
            return Err(ModelFault::cut_off(
                "the connection ended before the response was completed",
            ));
        };
        let response: ResponseObject<'_> =
            serde_json::from_str(end.as_str()).map_err(ModelFault::unreadable)?;
        // A server that sends no event for some complete items, or the same index with each, has all
        // of them in the last event.
        let items = match self.items.len() < response.output.len() {
            true => response
                .output
                .iter()
                .map(|raw| JsonText::from_raw(raw))
                .collect(),
            false => self.items.into_values().collect(),
        };
        turn(self.origin, items, &response)
    }
}

impl TurnReader for ResponsesReader {
    fn event(&mut self, data: &str, deltas: &mut Vec<TurnDelta>) -> Result<(), ModelFault> {
        if self.end.is_some() || data.trim() == "[DONE]" {
            return Ok(());
        }
        let event: ResponsesEvent<'_> =
            serde_json::from_str(data).map_err(ModelFault::unreadable)?;
        let text = || {
            event
                .delta
                .and_then(|raw| serde_json::from_str(raw.get()).ok())
        };
        match event.r#type.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                deltas.extend(text().map(TurnDelta::Text));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                deltas.extend(text().map(TurnDelta::Thought));
            }
            "response.output_item.added" => {
                let item = event.item.map_or("{}", RawValue::get);
                let item: OutputItem<'_> =
                    serde_json::from_str(item).map_err(ModelFault::unreadable)?;
                if item.r#type == "function_call" {
                    deltas.push(TurnDelta::CallStarted { name: item.name });
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    let last = self.items.last_key_value();
                    let next = last.map_or(0, |(last, _)| last.saturating_add(1));
                    let index = event.output_index.unwrap_or(next);
                    self.items.insert(index, JsonText::from_raw(item));
                }
            }
            "response.completed" | "response.incomplete" => {
                let response = event.response.map(JsonText::from_raw);
                self.end = Some(response.unwrap_or_else(|| JsonText::from_value(&())));
            }
            "response.failed" | "error" => return Err(read_stream_error(data)),
            _ => {}
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    fn has_stop_reason(&self) -> bool {
        self.end.is_some()
    }

    fn finish(&self) -> Result<ModelTurn, ModelFault> {
        self.clone().into_turn()
    }
}

/// Reads an answer that came as one document.
pub(super) fn read_document(origin: TurnOrigin, body: &str) -> Result<ModelTurn, ModelFault> {
    let response: ResponseObject<'_> =
        serde_json::from_str(body).map_err(ModelFault::unreadable)?;
    match response.status.as_str() {
        "completed" | "incomplete" => {}
        "failed" => return Err(read_stream_error(body)),
        _ => return Err(ModelFault::unreadable("it has no final status")),
    }
    let items = response
        .output
        .iter()
        .map(|raw| JsonText::from_raw(raw))
        .collect();
    turn(origin, items, &response)
}

fn turn(
    origin: TurnOrigin,
    items: Vec<JsonText>,
    response: &ResponseObject<'_>,
) -> Result<ModelTurn, ModelFault> {
    let mut parts = Vec::new();
    let mut is_refused = false;
    for item in &items {
        let item: OutputItem<'_> =
            serde_json::from_str(item.as_str()).map_err(ModelFault::unreadable)?;
        is_refused |= add_item(item, &mut parts)?;
    }
    let reason = response.incomplete_details.as_ref();
    let reason = reason.and_then(|details| details.reason.clone());
    let finish = match (response.status.as_str(), reason.as_deref()) {
        (_, Some("max_output_tokens" | "max_tokens")) => FinishReason::Length,
        (_, Some("content_filter")) => FinishReason::Refused,
        ("incomplete", _) => FinishReason::Other,
        _ if has_calls(&parts) => FinishReason::Calls,
        _ if is_refused => FinishReason::Refused,
        _ => FinishReason::Done,
    };
    let usage = response.usage.as_ref();
    Ok(ModelTurn {
        origin,
        items,
        parts,
        finish,
        finish_word: reason.or_else(|| Some(response.status.clone())),
        usage: usage.map(ResponsesUsage::read).unwrap_or_default(),
    })
}

/// Adds an item to the neutral view. Returns whether it is a refusal to answer.
fn add_item(item: OutputItem<'_>, parts: &mut Vec<TurnPart>) -> Result<bool, ModelFault> {
    let mut is_refused = false;
    match item.r#type.as_str() {
        "message" => {
            for part in read_parts(item.content)? {
                is_refused |= part.r#type == "refusal";
                push_text(parts, &part.text, false);
                push_text(parts, &part.refusal, false);
            }
        }
        "reasoning" => {
            let summary = read_parts(item.summary)?;
            for part in summary.into_iter().chain(read_parts(item.content)?) {
                push_text(parts, &part.text, true);
            }
        }
        "function_call" => {
            let arguments = match item.status.as_deref() {
                Some("incomplete" | "in_progress") => CallArguments::cut_off(&item.arguments),
                _ => CallArguments::read(&item.arguments),
            };
            parts.push(TurnPart::Call(ToolCall {
                id: item.call_id,
                name: item.name,
                arguments,
            }));
        }
        _ => {}
    }
    Ok(is_refused)
}

/// The parts of a message or summary. Some servers send `null` or text in their place.
fn read_parts(raw: Option<&RawValue>) -> Result<Vec<OutputPart>, ModelFault> {
    match raw.map(RawValue::get) {
        Some(list) if list.starts_with('[') => {
            serde_json::from_str(list).map_err(ModelFault::unreadable)
        }
        Some(text) if text.starts_with('"') => {
            let text = serde_json::from_str(text).map_err(ModelFault::unreadable)?;
            let (r#type, refusal) = ("output_text".to_owned(), String::new());
            Ok(vec![OutputPart {
                r#type,
                text,
                refusal,
            }])
        }
        _ => Ok(Vec::new()),
    }
}

impl ResponsesUsage {
    /// Cached and reasoning tokens are part of the totals here.
    fn read(&self) -> TokenUsage {
        let cached = self.input_tokens_details.as_ref();
        let reasoning = self.output_tokens_details.as_ref();
        let cached = cached.and_then(|details| details.cached_tokens);
        TokenUsage {
            output: self.output_tokens,
            reasoning: reasoning.and_then(|details| details.reasoning_tokens),
            charged_usd: self.cost,
            ..TokenUsage::with_cache_inside(self.input_tokens, cached)
        }
    }
}
