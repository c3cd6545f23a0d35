//! A conversation as a request of the Responses API.
//!
//! The vendor stores nothing (`store: false`), so each request carries the whole conversation: the
//! output items as they came, with the reasoning in its encrypted form.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::conversation::{
    AnsweredTurn, CallArguments, ContentPart, HistoryEntry, TurnOrigin, VendorItem,
};
use crate::json::{ObjectWriter, array, string};
use crate::settings::ModelSettings;
use crate::tools::ToolSpec;
use crate::wire::TurnContext;
use crate::wire::{NeutralTurn, call_ids, note_text, sendable_parts};

/// The body. The parts that change between requests come last, because vendors cache the beginning.
pub(super) fn body(settings: &ModelSettings, context: &TurnContext<'_>) -> String {
    let mut body = ObjectWriter::new()
        .text("model", &settings.name)
        .value("store", &false)
        .value("stream", &true);
    if reasons(settings) {
        body = body.raw("include", r#"["reasoning.encrypted_content"]"#);
    }
    if let Some(effort) = &settings.effort {
        let reasoning = ObjectWriter::new()
            .text("effort", effort)
            .text("summary", "auto");
        body = body.raw("reasoning", &reasoning.end());
    }
    body = body.optional("max_output_tokens", settings.max_output_tokens);
    if !context.cache_key.is_empty() {
        body = body.text("prompt_cache_key", context.cache_key);
    }
    if !context.system.trim().is_empty() {
        body = body.text("instructions", context.system);
    }
    let in_input = tools_in_input(settings, context);
    let tools = context.tools.loaded();
    let tools = tools.filter(|spec| !in_input.contains(spec.name.as_str()));
    let tools: Vec<String> = tools.map(tool).collect();
    if !tools.is_empty() {
        body = body.raw("tools", &array(tools));
    }
    let input = input(settings, context, &in_input);
    body.raw("input", &array(input)).end()
}

/// Whether the model reasons: others refuse a request for encrypted reasoning.
fn reasons(settings: &ModelSettings) -> bool {
    let name = settings.name.rsplit('/').next().unwrap_or_default();
    let is_later_gpt = name
        .strip_prefix("gpt-")
        .and_then(|rest| rest.chars().next())
        .is_some_and(|digit| ('5'..='9').contains(&digit));
    let is_o = name.starts_with(['o'])
        && name[1..].starts_with(|character: char| character.is_ascii_digit());
    let is_chat = name.starts_with("gpt-5-chat");
    settings.effort.is_some() || (is_later_gpt && !is_chat) || is_o || name.contains("codex")
}

/// Late tools that are sent in the middle of the conversation, if the vendor accepts that: then the
/// beginning of the request stays the same.
fn tools_in_input<'a>(settings: &ModelSettings, context: &TurnContext<'a>) -> HashSet<&'a str> {
    if !settings.is_vendors_own() {
        return HashSet::new();
    }
    let entries = context.conversation.entries().iter();
    let names = entries.filter_map(|entry| match entry {
        HistoryEntry::ToolsLoaded(names) => Some(names),
        _ => None,
    });
    let names = names.flatten().map(String::as_str);
    names.filter(|name| context.tools.is_late(name)).collect()
}

fn tool(spec: &ToolSpec) -> String {
    ObjectWriter::new()
        .text("type", "function")
        .text("name", &spec.name)
        .text("description", &spec.description)
        .raw("parameters", spec.schema.as_str())
        .value("strict", &false)
        .end()
}

fn input(
    settings: &ModelSettings,
    context: &TurnContext<'_>,
    in_input: &HashSet<&str>,
) -> Vec<String> {
    let target = settings.origin();
    let takes_images = settings.takes_images();
    let mut input = Vec::new();
    // A tool is sent once, where it first appears.
    let mut sent: HashSet<&str> = HashSet::new();
    for (index, entry) in context.conversation.entries().iter().enumerate() {
        match entry {
            HistoryEntry::User(user) => input.extend(user_message(&user.parts, takes_images)),
            HistoryEntry::Model(answered) => {
                let turn = answered.turn();
                if turn.origin.replays_at(&target) {
                    // A model takes back what it wrote, and the reasoning of others only if it
                    // reasons itself.
                    let takes_reasoning = turn.origin == target || reasons(settings);
                    input.extend(replayed_items(&turn.items, takes_reasoning));
                } else {
                    input.extend(neutral_items(answered, index));
                }
                input.extend(outputs(answered, index, &target, takes_images));
            }
            HistoryEntry::ToolsLoaded(names) => {
                let names = names.iter().map(String::as_str);
                let names: Vec<&str> = names
                    .filter(|name| in_input.contains(name) && sent.insert(name))
                    .collect();
                input.extend(additional_tools(context, &names));
            }
            HistoryEntry::Note(_) | HistoryEntry::Summary(_) => {
                let text = note_text(entry).map(ContentPart::Text);
                input.extend(user_message(text.as_slice(), takes_images));
            }
        }
    }
    input
}

fn additional_tools(context: &TurnContext<'_>, names: &[&str]) -> Option<String> {
    let specs = names.iter().filter_map(|name| context.tools.get(name));
    let tools: Vec<String> = specs.map(|listed| tool(&listed.spec)).collect();
    let item = ObjectWriter::new()
        .text("type", "additional_tools")
        .text("role", "developer")
        .raw("tools", &array(&tools));
    (!tools.is_empty()).then(|| item.end())
}

fn user_message(parts: &[ContentPart], takes_images: bool) -> Option<String> {
    let content = input_parts(&sendable_parts(parts, takes_images));
    let message = ObjectWriter::new()
        .text("type", "message")
        .text("role", "user")
        .raw("content", &array(&content));
    (!content.is_empty()).then(|| message.end())
}

/// The items as they came. Reasoning that is not encrypted cannot be sent back, nor any to a model
/// that does not take it; then the ids of the other items go too, since they refer to it. Reasoning
/// that nothing follows is refused.
fn replayed_items(items: &[VendorItem], takes_reasoning: bool) -> Vec<String> {
    #[derive(Deserialize)]
    struct ReasoningItem<'a> {
        #[serde(default)]
        r#type: String,
        #[serde(borrow)]
        encrypted_content: Option<&'a RawValue>,
    }
    /// `None` for other items, else whether the reasoning is encrypted.
    fn reasoning(item: &VendorItem) -> Option<bool> {
        let read: ReasoningItem<'_> = serde_json::from_str(item.as_str()).ok()?;
        (read.r#type == "reasoning").then_some(read.encrypted_content.is_some())
    }
    let followed = items.iter().rposition(|item| reasoning(item).is_none());
    let items = &items[..followed.map_or(0, |last| last + 1)];
    let is_refused = |is_encrypted: bool| !is_encrypted || !takes_reasoning;
    let keeps_ids = !items
        .iter()
        .any(|item| reasoning(item).is_some_and(is_refused));
    let items = items
        .iter()
        .filter(|item| keeps_ids || reasoning(item).is_none());
    items.map(|item| replayed_item(item, keeps_ids)).collect()
}

/// The item as it came, unless its id must go or its arguments are not a JSON object: some servers
/// refuse a history with such arguments.
fn replayed_item(item: &VendorItem, keeps_id: bool) -> String {
    let has_valid_arguments = has_valid_arguments(item);
    if keeps_id && has_valid_arguments {
        return item.as_str().to_owned();
    }
    let members: IndexMap<String, Box<RawValue>> =
        serde_json::from_str(item.as_str()).unwrap_or_default();
    let members = members.iter().filter(|(key, _)| keeps_id || *key != "id");
    let object = members.fold(ObjectWriter::new(), |object, (key, value)| {
        match key.as_str() {
            "arguments" if !has_valid_arguments => object.text(key, "{}"),
            _ => object.raw(key, value.get()),
        }
    });
    object.end()
}

/// `true` also for items that are not calls.
fn has_valid_arguments(item: &VendorItem) -> bool {
    #[derive(Deserialize)]
    struct CallItem {
        r#type: String,
        arguments: String,
    }
    match serde_json::from_str::<CallItem>(item.as_str()) {
        Ok(call) if call.r#type == "function_call" => {
            CallArguments::read(&call.arguments).object().is_some()
        }
        _ => true,
    }
}

fn neutral_items(answered: &AnsweredTurn, entry: usize) -> Vec<String> {
    let neutral = NeutralTurn::new(answered.turn(), entry);
    let mut items = Vec::new();
    if !neutral.text.trim().is_empty() {
        let part = ObjectWriter::new()
            .text("type", "output_text")
            .text("text", &neutral.text)
            .end();
        let message = ObjectWriter::new()
            .text("type", "message")
            .text("role", "assistant")
            .raw("content", &array([part]));
        items.push(message.end());
    }
    for (id, call) in &neutral.calls {
        let item = ObjectWriter::new()
            .text("type", "function_call")
            .text("call_id", id)
            .text("name", &call.name)
            .text("arguments", call.arguments.object_or_empty());
        items.push(item.end());
    }
    items
}

fn outputs(
    answered: &AnsweredTurn,
    entry: usize,
    target: &TurnOrigin,
    takes_images: bool,
) -> Vec<String> {
    let is_replayed = answered.turn().origin.replays_at(target);
    let ids = call_ids(answered, entry, is_replayed);
    let outcomes = answered.calls().map(|(_, outcome)| outcome);
    let outputs = ids.iter().zip(outcomes).map(|(id, outcome)| {
        let parts = sendable_parts(&outcome.parts_with_error_word(), takes_images);
        // One text is sent as a string, which every server with this API takes.
        let output = match parts.as_slice() {
            [ContentPart::Text(text)] => string(text),
            parts => array(input_parts(parts)),
        };
        ObjectWriter::new()
            .text("type", "function_call_output")
            .text("call_id", id)
            .raw("output", &output)
            .end()
    });
    outputs.collect()
}

fn input_parts(parts: &[ContentPart]) -> Vec<String> {
    let parts = parts.iter().map(|part| match part {
        ContentPart::Text(text) => ObjectWriter::new()
            .text("type", "input_text")
            .text("text", text)
            .end(),
        ContentPart::Image(image) => {
            let url = format!("data:{};base64,{}", image.media_type, image.base64);
            ObjectWriter::new()
                .text("type", "input_image")
                .text("image_url", &url)
                .end()
        }
    });
    parts.collect()
}
