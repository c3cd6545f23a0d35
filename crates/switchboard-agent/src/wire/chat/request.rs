//! A conversation as a request of the Chat Completions API.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::conversation::{
    AnsweredTurn, ContentPart, HistoryEntry, ImageData, TurnOrigin, VendorItem,
};
use crate::json::{ObjectWriter, array, string};
use crate::settings::ModelSettings;
use crate::tools::ToolSpec;
use crate::wire::TurnContext;
use crate::wire::{NeutralTurn, call_ids, note_text, sendable_parts};

/// The body. The parts that change between requests come last, because vendors cache the beginning.
pub(super) fn body(settings: &ModelSettings, context: &TurnContext<'_>) -> String {
    let is_vendors_own = settings.is_vendors_own();
    let mut body = ObjectWriter::new()
        .text("model", &settings.name)
        .value("stream", &true);
    // Mistral sends the usage without being asked, and refuses fields that it does not know.
    if !settings.host().ends_with("mistral.ai") {
        body = body.raw("stream_options", r#"{"include_usage":true}"#);
    }
    let max_tokens = match is_vendors_own {
        true => "max_completion_tokens",
        false => "max_tokens",
    };
    body = body
        .optional(max_tokens, settings.max_output_tokens)
        .optional("reasoning_effort", settings.effort.as_ref());
    if is_vendors_own && !context.cache_key.is_empty() {
        body = body.text("prompt_cache_key", context.cache_key);
    }
    let tools: Vec<String> = context.tools.loaded().map(tool).collect();
    if !tools.is_empty() {
        body = body.raw("tools", &array(&tools));
    }
    body.raw("messages", &array(messages(settings, context)))
        .end()
}

fn tool(spec: &ToolSpec) -> String {
    let function = ObjectWriter::new()
        .text("name", &spec.name)
        .text("description", &spec.description)
        .raw("parameters", spec.schema.as_str())
        .end();
    ObjectWriter::new()
        .text("type", "function")
        .raw("function", &function)
        .end()
}

/// A call in an assistant's message.
pub(super) fn tool_call(id: &str, name: &str, arguments: &str) -> String {
    let function = ObjectWriter::new()
        .text("name", name)
        .text("arguments", arguments)
        .end();
    ObjectWriter::new()
        .text("id", id)
        .text("type", "function")
        .raw("function", &function)
        .end()
}

fn messages(settings: &ModelSettings, context: &TurnContext<'_>) -> Vec<String> {
    let target = settings.origin();
    let takes_images = settings.takes_images();
    let mut messages = Vec::new();
    if !context.system.trim().is_empty() {
        let system = ObjectWriter::new()
            .text("role", "system")
            .text("content", context.system);
        messages.push(system.end());
    }
    // The parts since the last answer, as one message: templates of local models refuse two messages
    // of the user in a row.
    let mut user: Vec<ContentPart> = Vec::new();
    for (index, entry) in context.conversation.entries().iter().enumerate() {
        match entry {
            HistoryEntry::User(message) => {
                user.extend(sendable_parts(&message.parts, takes_images));
            }
            HistoryEntry::Note(_) | HistoryEntry::Summary(_) => {
                user.extend(note_text(entry).map(ContentPart::Text));
            }
            HistoryEntry::ToolsLoaded(_) => {}
            HistoryEntry::Model(answered) => {
                let Some(message) = assistant_message(answered, index, &target) else {
                    continue;
                };
                messages.extend(user_message(std::mem::take(&mut user)));
                messages.push(message);
                let images = results(answered, index, &target, takes_images, &mut messages);
                user.extend(images);
            }
        }
    }
    messages.extend(user_message(user));
    messages
}

fn user_message(parts: Vec<ContentPart>) -> Option<String> {
    if parts.is_empty() {
        return None;
    }
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            ContentPart::Text(text) => Some(text.as_str()),
            ContentPart::Image(_) => None,
        })
        .collect();
    // Not every server takes a list of parts, so text alone is sent as text.
    let content = match texts {
        Some(texts) => string(&texts.join("\n\n")),
        None => array(parts.iter().map(content_part)),
    };
    let message = ObjectWriter::new()
        .text("role", "user")
        .raw("content", &content);
    Some(message.end())
}

fn content_part(part: &ContentPart) -> String {
    match part {
        ContentPart::Text(text) => ObjectWriter::new()
            .text("type", "text")
            .text("text", text)
            .end(),
        ContentPart::Image(image) => {
            let url = format!("data:{};base64,{}", image.media_type, image.base64);
            let url = ObjectWriter::new().text("url", &url).end();
            ObjectWriter::new()
                .text("type", "image_url")
                .raw("image_url", &url)
                .end()
        }
    }
}

fn assistant_message(answered: &AnsweredTurn, entry: usize, target: &TurnOrigin) -> Option<String> {
    let turn = answered.turn();
    if turn.origin.replays_at(target) {
        return turn.items.first().and_then(replayed_message);
    }
    let neutral = NeutralTurn::new(turn, entry);
    let has_text = !neutral.text.trim().is_empty();
    if !has_text && neutral.calls.is_empty() {
        return None;
    }
    let mut message = ObjectWriter::new().text("role", "assistant");
    message = match has_text {
        true => message.text("content", &neutral.text),
        false => message.raw("content", "null"),
    };
    if !neutral.calls.is_empty() {
        let calls = neutral.calls.iter();
        let calls =
            calls.map(|(id, call)| tool_call(id, &call.name, call.arguments.object_or_empty()));
        message = message.raw("tool_calls", &array(calls));
    }
    Some(message.end())
}

/// The message as it came. One with neither content nor calls is left out: it is refused.
fn replayed_message(item: &VendorItem) -> Option<String> {
    #[derive(Deserialize)]
    struct AssistantMessage<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        refusal: Option<&'a RawValue>,
        #[serde(borrow)]
        tool_calls: Option<&'a RawValue>,
    }
    let message: AssistantMessage<'_> = serde_json::from_str(item.as_str()).ok()?;
    let has_content = message
        .content
        .is_some_and(|content| content.get() != "\"\"");
    let is_empty = !has_content && message.refusal.is_none() && message.tool_calls.is_none();
    (!is_empty).then(|| item.as_str().to_owned())
}

/// Adds one message for each result. These contain only text, so images are returned for the message
/// of the user that follows.
fn results(
    answered: &AnsweredTurn,
    entry: usize,
    target: &TurnOrigin,
    takes_images: bool,
    messages: &mut Vec<String>,
) -> Vec<ContentPart> {
    let is_replayed = answered.turn().origin.replays_at(target);
    let ids = call_ids(answered, entry, is_replayed);
    let mut images = Vec::new();
    for (id, (call, outcome)) in ids.iter().zip(answered.calls()) {
        let mut texts = Vec::new();
        for part in sendable_parts(&outcome.parts_with_error_word(), takes_images) {
            match part {
                ContentPart::Text(text) => texts.push(text),
                ContentPart::Image(image) => {
                    texts.push("(an image, which follows the results)".to_owned());
                    images.extend(labelled_image(&call.name, image));
                }
            }
        }
        let message = ObjectWriter::new()
            .text("role", "tool")
            .text("tool_call_id", id)
            .text("content", &texts.join("\n"));
        messages.push(message.end());
    }
    images
}

fn labelled_image(tool: &str, image: ImageData) -> [ContentPart; 2] {
    let label = ContentPart::Text(format!("Image from the result of {tool}:"));
    [label, ContentPart::Image(image)]
}
