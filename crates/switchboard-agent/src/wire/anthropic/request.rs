//! A conversation as a request of the Messages API.

use std::collections::HashSet;

use serde::Deserialize;

use crate::conversation::{
    AnsweredTurn, CallOutcome, ContentPart, HistoryEntry, TurnOrigin, VendorItem,
};
use crate::json::{ObjectWriter, array};
use crate::settings::ModelSettings;
use crate::tools::ToolSpec;
use crate::tools::search_tool::SEARCH_TOOL;
use crate::wire::TurnContext;
use crate::wire::{
    NeutralTurn, call_ids, message, note_text, sendable_parts, tools_loaded_by_calls,
};

const CACHED: &str = r#"{"type":"ephemeral"}"#;

/// The tools of a request without any whose history has calls: the vendor refuses calls where no
/// tool is defined.
const NO_TOOLS: &str = r#"[{"name":"no_tool","description":"No tool is offered now. Do not call this.","input_schema":{"type":"object","properties":{}}}]"#;

/// The body. The parts that change between requests come last, because the vendor caches the
/// beginning.
pub(super) fn body(settings: &ModelSettings, context: &TurnContext<'_>) -> String {
    let is_vendors_own = settings.is_vendors_own();
    let mut body = ObjectWriter::new()
        .text("model", &settings.name)
        .value("max_tokens", &settings.reserved_tokens())
        .value("stream", &true);
    if is_vendors_own {
        // The vendor moves this breakpoint to the end of the conversation by itself.
        body = body.raw("cache_control", CACHED);
    }
    if !ends_in_calls_of_another_vendor(settings, context) {
        body = with_thinking(body, settings);
    }
    let deferred = deferred_tools(settings, context);
    if context.tools.loaded().next().is_some() {
        let tools = context.tools.loaded().map(|spec| {
            let name = spec.name.as_str();
            tool(spec, deferred.contains(name))
        });
        body = body.raw("tools", &array(tools));
    } else if has_calls(context) {
        body = body.raw("tools", NO_TOOLS);
    }
    if !context.system.trim().is_empty() {
        let block = ObjectWriter::new()
            .text("type", "text")
            .text("text", context.system)
            .raw("cache_control", CACHED)
            .end();
        body = body.raw("system", &array([block]));
    }
    body.raw("messages", &array(messages(settings, context, &deferred)))
        .end()
}

/// Late tools, whose definitions are not in the part that the vendor caches: results refer to them. A
/// tool without a reference can get one from `search_tools`, if the model has that.
fn deferred_tools<'a>(settings: &ModelSettings, context: &TurnContext<'a>) -> HashSet<&'a str> {
    if !settings.is_vendors_own() {
        return HashSet::new();
    }
    let has_search = context.tools.initial().any(|spec| spec.name == SEARCH_TOOL);
    let referenced = tools_loaded_by_calls(context.conversation);
    let names = context.tools.loaded().map(|spec| spec.name.as_str());
    let late = names.filter(|name| context.tools.is_late(name));
    late.filter(|name| has_search || referenced.contains(name))
        .collect()
}

fn has_calls(context: &TurnContext<'_>) -> bool {
    let mut entries = context.conversation.entries().iter();
    entries.any(|entry| match entry {
        HistoryEntry::Model(answered) => answered.calls().next().is_some(),
        _ => false,
    })
}

fn with_thinking(body: ObjectWriter, settings: &ModelSettings) -> ObjectWriter {
    if let Some(tokens) = settings.thinking_tokens {
        let thinking = ObjectWriter::new()
            .text("type", "enabled")
            .value("budget_tokens", &tokens);
        return body.raw("thinking", &thinking.end());
    }
    match &settings.effort {
        Some(effort) => body.raw("thinking", r#"{"type":"adaptive"}"#).raw(
            "output_config",
            &ObjectWriter::new().text("effort", effort).end(),
        ),
        None => body,
    }
}

/// With thinking on, a turn whose results are sent must begin with a thought of this vendor.
fn ends_in_calls_of_another_vendor(settings: &ModelSettings, context: &TurnContext<'_>) -> bool {
    let entries = context.conversation.entries().iter().rev();
    let last = entries.take_while(|entry| !matches!(entry, HistoryEntry::User(_)));
    last.into_iter().any(|entry| match entry {
        HistoryEntry::Model(answered) => {
            let has_calls = answered.calls().next().is_some();
            has_calls && !answered.turn().origin.replays_at(&settings.origin())
        }
        _ => false,
    })
}

fn tool(spec: &ToolSpec, is_deferred: bool) -> String {
    let tool = ObjectWriter::new()
        .text("name", &spec.name)
        .text("description", &spec.description)
        .raw("input_schema", spec.schema.as_str());
    match is_deferred {
        true => tool.value("defer_loading", &true).end(),
        false => tool.end(),
    }
}

fn messages(
    settings: &ModelSettings,
    context: &TurnContext<'_>,
    deferred: &HashSet<&str>,
) -> Vec<String> {
    let target = settings.origin();
    let takes_images = settings.takes_images();
    let mut messages = Vec::new();
    let mut add = |role: &str, content: Vec<String>| {
        // An empty message is refused.
        if !content.is_empty() {
            messages.push(message(role, &content));
        }
    };
    for (index, entry) in context.conversation.entries().iter().enumerate() {
        match entry {
            HistoryEntry::User(user) => add("user", blocks(&user.parts, takes_images)),
            HistoryEntry::Model(answered) => {
                add("assistant", assistant_content(answered, index, &target));
                let results = results(answered, index, &target, takes_images, |name| {
                    deferred.contains(name)
                });
                add("user", results);
            }
            HistoryEntry::ToolsLoaded(_) => {}
            HistoryEntry::Note(_) | HistoryEntry::Summary(_) => {
                let text = note_text(entry).map(ContentPart::Text);
                add("user", blocks(text.as_slice(), takes_images));
            }
        }
    }
    messages
}

fn assistant_content(answered: &AnsweredTurn, entry: usize, target: &TurnOrigin) -> Vec<String> {
    let turn = answered.turn();
    if turn.origin.replays_at(target) {
        return replayed_content(&turn.items);
    }
    let neutral = NeutralTurn::new(turn, entry);
    let mut content = Vec::new();
    if !neutral.text.trim().is_empty() {
        content.push(text_block(&neutral.text));
    }
    for (id, call) in &neutral.calls {
        let block = ObjectWriter::new()
            .text("type", "tool_use")
            .text("id", id)
            .text("name", &call.name)
            .raw("input", call.arguments.object_or_empty());
        content.push(block.end());
    }
    content
}

/// The blocks as they came, but for what the vendor refuses although its models write it: blank
/// texts, text after a call, and a thought at the end.
fn replayed_content(items: &[VendorItem]) -> Vec<String> {
    #[derive(Deserialize, Default)]
    struct ContentBlock {
        r#type: String,
        #[serde(default)]
        text: String,
    }
    let mut content = Vec::new();
    let mut calls = Vec::new();
    // How many blocks there are up to the last one that is no thought.
    let mut end = 0;
    for item in items {
        let item = item.as_str();
        let block: ContentBlock = serde_json::from_str(item).unwrap_or_default();
        match block.r#type.as_str() {
            "tool_use" => calls.push(item.to_owned()),
            "text" if block.text.trim().is_empty() => {}
            "thinking" | "redacted_thinking" => content.push(item.to_owned()),
            _ => {
                content.push(item.to_owned());
                end = content.len();
            }
        }
    }
    if calls.is_empty() {
        content.truncate(end);
    }
    content.append(&mut calls);
    content
}

fn results(
    answered: &AnsweredTurn,
    entry: usize,
    target: &TurnOrigin,
    takes_images: bool,
    is_referable: impl Fn(&str) -> bool,
) -> Vec<String> {
    let is_replayed = answered.turn().origin.replays_at(target);
    let ids = call_ids(answered, entry, is_replayed);
    let outcomes = answered.calls().map(|(_, outcome)| outcome);
    let results = ids.iter().zip(outcomes).map(|(id, outcome)| {
        let content = result_content(outcome, takes_images, &is_referable);
        let result = ObjectWriter::new()
            .text("type", "tool_result")
            .text("tool_use_id", id)
            .raw("content", &array(content));
        match outcome.is_error() {
            true => result.value("is_error", &true).end(),
            false => result.end(),
        }
    });
    results.collect()
}

fn result_content(
    outcome: &CallOutcome,
    takes_images: bool,
    is_referable: impl Fn(&str) -> bool,
) -> Vec<String> {
    let loaded = outcome.loaded_tools();
    if !loaded.is_empty() && loaded.iter().all(|name| is_referable(name)) {
        let references = loaded.iter().map(|name| {
            ObjectWriter::new()
                .text("type", "tool_reference")
                .text("tool_name", name)
                .end()
        });
        return references.collect();
    }
    blocks(&outcome.parts(), takes_images)
}

fn blocks(parts: &[ContentPart], takes_images: bool) -> Vec<String> {
    let parts = sendable_parts(parts, takes_images).into_iter();
    let blocks = parts.map(|part| match part {
        ContentPart::Text(text) => text_block(&text),
        ContentPart::Image(image) => {
            let source = ObjectWriter::new()
                .text("type", "base64")
                .text("media_type", &image.media_type)
                .text("data", &image.base64)
                .end();
            ObjectWriter::new()
                .text("type", "image")
                .raw("source", &source)
                .end()
        }
    });
    blocks.collect()
}

fn text_block(text: &str) -> String {
    ObjectWriter::new()
        .text("type", "text")
        .text("text", text)
        .end()
}
