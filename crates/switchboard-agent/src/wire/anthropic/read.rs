//! Answers of the Messages API, streamed or whole.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard::wire::string_text;

use super::block::AnthropicBlockBuilder;
use crate::conversation::{
    CallArguments, FinishReason, ModelTurn, ToolCall, TurnOrigin, TurnPart, VendorItem,
};
use crate::fault::ModelFault;
use crate::fault::read::read_stream_error;
use crate::json::{JsonText, null_as_default, text_or_empty};
use crate::usage::TokenUsage;
use crate::wire::TurnDelta;
use crate::wire::{TurnReader, has_calls, push_text};

/// Reads a streamed answer.
#[derive(Debug, Clone)]
pub(super) struct AnthropicReader {
    origin: TurnOrigin,
    blocks: Vec<AnthropicBlockBuilder>,
    usage: TokenUsage,
    stop_reason: Option<String>,
    has_ended: bool,
}

#[derive(Deserialize)]
struct AnthropicEvent<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(default, deserialize_with = "null_as_default")]
    index: u64,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize, Default)]
struct AnthropicDelta<'a> {
    #[serde(default, borrow, deserialize_with = "text_or_empty")]
    r#type: Cow<'a, str>,
    #[serde(default, borrow, deserialize_with = "text_or_empty")]
    text: Cow<'a, str>,
    #[serde(default, borrow, deserialize_with = "text_or_empty")]
    thinking: Cow<'a, str>,
    #[serde(default, borrow, deserialize_with = "text_or_empty")]
    signature: Cow<'a, str>,
    #[serde(default, borrow, deserialize_with = "text_or_empty")]
    partial_json: Cow<'a, str>,
    #[serde(borrow)]
    citation: Option<&'a RawValue>,
    stop_reason: Option<String>,
}

/// A content block, whole or as it is announced.
#[derive(Deserialize)]
struct AnthropicBlock<'a> {
    r#type: String,
    #[serde(default, deserialize_with = "null_as_default")]
    id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    text: String,
    #[serde(default, deserialize_with = "null_as_default")]
    thinking: String,
    #[serde(default, deserialize_with = "null_as_default")]
    signature: String,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct AnthropicMessage<'a> {
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    content: Vec<&'a RawValue>,
    stop_reason: Option<String>,
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
struct AnthropicUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl AnthropicUsage {
    /// The counts are totals so far, not increments: later ones replace earlier ones.
    fn update(&self, usage: &mut TokenUsage) {
        usage.input = self.input_tokens.or(usage.input);
        usage.output = self.output_tokens.or(usage.output);
        usage.cache_read = self.cache_read_input_tokens.or(usage.cache_read);
        usage.cache_write = self.cache_creation_input_tokens.or(usage.cache_write);
    }
}

impl AnthropicReader {
    pub(super) fn new(origin: TurnOrigin) -> Self {
        Self {
            origin,
            blocks: Vec::new(),
            usage: TokenUsage::default(),
            stop_reason: None,
            has_ended: false,
        }
    }

    fn start_block(
        &mut self,
        index: u64,
        raw: &RawValue,
        deltas: &mut Vec<TurnDelta>,
    ) -> Result<(), ModelFault> {
        let block: AnthropicBlock<'_> =
            serde_json::from_str(raw.get()).map_err(ModelFault::unreadable)?;
        if block.r#type == "tool_use" {
            let name = block.name.clone();
            deltas.push(TurnDelta::CallStarted { name });
        }
        let is_thinking = block.r#type == "thinking";
        // `input` is announced as `{}`; a server that announces it whole sends no pieces.
        let input = block.input.map(RawValue::get).unwrap_or_default();
        let input = if matches!(input, "{}" | "null") {
            ""
        } else {
            input
        };
        self.blocks.push(AnthropicBlockBuilder {
            index,
            start: JsonText::from_raw(raw),
            id: block.id,
            name: block.name,
            text: if is_thinking {
                block.thinking
            } else {
                block.text
            },
            signature: block.signature,
            input: input.to_owned(),
            kind: block.r#type,
            citations: Vec::new(),
            is_complete: false,
        });
        Ok(())
    }

    fn change_block(&mut self, index: u64, delta: AnthropicDelta<'_>, deltas: &mut Vec<TurnDelta>) {
        let mut blocks = self.blocks.iter_mut().rev();
        let Some(block) = blocks.find(|block| block.index == index) else {
            return;
        };
        match &*delta.r#type {
            "text_delta" => {
                block.text.push_str(&delta.text);
                deltas.push(TurnDelta::Text(delta.text.into_owned()));
            }
            "thinking_delta" => {
                block.text.push_str(&delta.thinking);
                deltas.push(TurnDelta::Thought(delta.thinking.into_owned()));
            }
            "signature_delta" => block.signature.push_str(&delta.signature),
            "input_json_delta" => block.input.push_str(&delta.partial_json),
            "citations_delta" => {
                let citation = delta.citation.map(|raw| raw.get().to_owned());
                block.citations.extend(citation);
            }
            _ => {}
        }
    }

    fn into_turn(self) -> Result<ModelTurn, ModelFault> {
        let Some(stop_reason) = self.stop_reason else {
            return Err(ModelFault::cut_off(
                "the connection ended before the model said why it stopped",
            ));
        };
        let mut items = Vec::new();
        let mut parts = Vec::new();
        for block in self.blocks {
            block.end(&mut items, &mut parts);
        }
        Ok(turn(self.origin, items, parts, stop_reason, self.usage))
    }
}

impl TurnReader for AnthropicReader {
    fn event(&mut self, data: &str, deltas: &mut Vec<TurnDelta>) -> Result<(), ModelFault> {
        // Some servers that imitate this API end as Chat Completions does.
        if self.has_ended || data.trim() == "[DONE]" {
            return Ok(());
        }
        if let Some((index, delta)) = read_block_delta(data) {
            self.change_block(index, delta, deltas);
            return Ok(());
        }
        let event: AnthropicEvent<'_> =
            serde_json::from_str(data).map_err(ModelFault::unreadable)?;
        if let Some(usage) = &event.usage {
            usage.update(&mut self.usage);
        }
        match (&*event.r#type, event.delta) {
            ("message_start", _) => {
                let message = event.message.map(RawValue::get).unwrap_or("{}");
                let message: AnthropicMessage<'_> =
                    serde_json::from_str(message).map_err(ModelFault::unreadable)?;
                if let Some(usage) = message.usage {
                    usage.update(&mut self.usage);
                }
            }
            ("content_block_start", _) => {
                if let Some(raw) = event.content_block {
                    self.start_block(event.index, raw, deltas)?;
                }
            }
            ("content_block_delta", Some(raw)) => {
                let delta = serde_json::from_str(raw.get()).map_err(ModelFault::unreadable)?;
                self.change_block(event.index, delta, deltas);
            }
            ("content_block_stop", _) => {
                let mut blocks = self.blocks.iter_mut().rev();
                if let Some(block) = blocks.find(|block| block.index == event.index) {
                    block.is_complete = true;
                }
            }
            ("message_delta", Some(raw)) => {
                let delta: AnthropicDelta<'_> =
                    serde_json::from_str(raw.get()).map_err(ModelFault::unreadable)?;
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
            }
            ("message_stop", _) => self.has_ended = true,
            ("error", _) => return Err(read_stream_error(data)),
            _ => {}
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn has_stop_reason(&self) -> bool {
        self.stop_reason.is_some()
    }

    fn finish(&self) -> Result<ModelTurn, ModelFault> {
        self.clone().into_turn()
    }
}

/// The block and the piece of it in a `content_block_delta` that is laid out as the vendor writes
/// it. `None` for everything else, which [`AnthropicEvent`] reads.
///
/// Nearly all events are of this kind, and serde takes 3,400 instructions for each.
fn read_block_delta(data: &str) -> Option<(u64, AnthropicDelta<'_>)> {
    let rest = data.strip_prefix(r#"{"type":"content_block_delta","index":"#)?;
    // A search for one character is cheap; one for a longer text takes 500 instructions to set up.
    let (index, rest) = rest.split_once(',')?;
    let (kind, rest) = rest.strip_prefix(r#""delta":{"type":""#)?.split_once('"')?;
    let (member, rest) = rest.strip_prefix(r#",""#)?.split_once('"')?;
    let rest = rest.strip_prefix(':')?;
    // The vendor pads events with spaces.
    let text = rest.trim_end().strip_suffix('}')?.trim_end();
    let text = string_text(text.strip_suffix('}')?)?;
    let mut delta = AnthropicDelta {
        r#type: Cow::Borrowed(kind),
        ..AnthropicDelta::default()
    };
    match (kind, member) {
        ("text_delta", "text") => delta.text = text,
        ("thinking_delta", "thinking") => delta.thinking = text,
        ("input_json_delta", "partial_json") => delta.partial_json = text,
        _ => return None,
    }
    Some((index.parse().ok()?, delta))
}

/// Reads an answer that came as one document.
pub(super) fn read_document(origin: TurnOrigin, body: &str) -> Result<ModelTurn, ModelFault> {
    let message: AnthropicMessage<'_> =
        serde_json::from_str(body).map_err(ModelFault::unreadable)?;
    let Some(stop_reason) = message.stop_reason else {
        return Err(ModelFault::unreadable("it has no stop_reason"));
    };
    let mut usage = TokenUsage::default();
    if let Some(counts) = message.usage {
        counts.update(&mut usage);
    }
    let mut parts = Vec::new();
    let mut items = Vec::new();
    for raw in message.content {
        let block: AnthropicBlock<'_> =
            serde_json::from_str(raw.get()).map_err(ModelFault::unreadable)?;
        match block.r#type.as_str() {
            "text" => push_text(&mut parts, &block.text, false),
            "thinking" => push_text(&mut parts, &block.thinking, true),
            "tool_use" => parts.push(TurnPart::Call(ToolCall {
                id: block.id,
                name: block.name,
                arguments: CallArguments::read(block.input.map_or("", RawValue::get)),
            })),
            _ => {}
        }
        items.push(JsonText::from_raw(raw));
    }
    Ok(turn(origin, items, parts, stop_reason, usage))
}

fn turn(
    origin: TurnOrigin,
    items: Vec<VendorItem>,
    parts: Vec<TurnPart>,
    stop_reason: String,
    usage: TokenUsage,
) -> ModelTurn {
    let finish = match stop_reason.as_str() {
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::Refused,
        _ if has_calls(&parts) => FinishReason::Calls,
        "end_turn" | "stop_sequence" => FinishReason::Done,
        _ => FinishReason::Other,
    };
    ModelTurn {
        origin,
        items,
        parts,
        finish,
        finish_word: Some(stop_reason),
        usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelSettings, ModelVendor};

    fn read(events: &[String]) -> (ModelTurn, Vec<TurnDelta>) {
        let settings = ModelSettings::new(ModelVendor::Anthropic, "m");
        let mut reader = AnthropicReader::new(settings.origin());
        let mut deltas = Vec::new();
        for event in events {
            reader.event(event, &mut deltas).expect("an event");
        }
        (reader.finish().expect("a turn"), deltas)
    }

    #[test]
    fn a_piece_is_the_same_in_the_vendors_layout_and_in_another() {
        let texts = [
            "",
            " ",
            "a",
            "é\n\"q\" \\\\ }",
            "\",\"x\":\"",
            "\u{1f600}}}",
            "12345678",
        ];
        for text in texts {
            let json = serde_json::to_string(text).expect("serialises");
            let start =
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text"}}"#;
            let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
            let whole = |piece: String| [start.to_owned(), piece, end.to_owned()];
            let usual = format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{json}}}  }}"#
            );
            let other = format!(
                r#"{{"delta":{{"text":{json},"type":"text_delta"}},"index":0,"type":"content_block_delta"}}"#
            );
            assert!(read_block_delta(&usual).is_some() && read_block_delta(&other).is_none());
            assert_eq!(read(&whole(usual)), read(&whole(other)), "{text:?}");
        }
    }

    #[test]
    fn a_piece_with_more_members_or_without_its_end_is_left_to_serde() {
        let event = |rest: &str| {
            format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta",{rest}"#
            )
        };
        for rest in [
            r#""text":"a","more":"b"}}"#,
            r#""text":"a"},"usage":{}}"#,
            r#""text":"a"}"#,
            r#""text":"a}}"#,
            r#""text":null}}"#,
            r#""thinking":"a"}}"#,
            "\"text\":\"a\nb\"}}",
        ] {
            assert!(read_block_delta(&event(rest)).is_none(), "{rest}");
        }
    }
}
