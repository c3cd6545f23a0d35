//! A conversation as a request of the Gemini API.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::conversation::{
    AnsweredTurn, ContentPart, HistoryEntry, ImageData, TurnOrigin, VendorItem,
};
use crate::json::{ObjectWriter, array, string};
use crate::settings::ModelSettings;
use crate::tools::ToolSpec;
use crate::wire::TurnContext;
use crate::wire::{NeutralTurn, note_text, sendable_parts};

/// The vendor documents this value for calls that have no signature because another model made
/// them.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The body. The parts that change between requests come last, because vendors cache the beginning.
pub(super) fn body(settings: &ModelSettings, context: &TurnContext<'_>) -> String {
    let mut body = ObjectWriter::new();
    if let Some(config) = generation_config(settings) {
        body = body.raw("generationConfig", &config);
    }
    let tools: Vec<String> = context.tools.loaded().map(declaration).collect();
    // An empty list of declarations is refused.
    if !tools.is_empty() {
        let tools = ObjectWriter::new().raw("functionDeclarations", &array(&tools));
        body = body.raw("tools", &array([tools.end()]));
    }
    if !context.system.trim().is_empty() {
        let part = ObjectWriter::new().text("text", context.system).end();
        let system = ObjectWriter::new().raw("parts", &array([part]));
        body = body.raw("systemInstruction", &system.end());
    }
    body.raw("contents", &array(contents(settings, context)))
        .end()
}

fn generation_config(settings: &ModelSettings) -> Option<String> {
    let thinking = match (settings.thinking_tokens, &settings.effort) {
        (Some(tokens), _) => Some(ObjectWriter::new().value("thinkingBudget", &tokens)),
        (None, Some(effort)) => Some(ObjectWriter::new().text("thinkingLevel", effort)),
        (None, None) => None,
    };
    if thinking.is_none() && settings.max_output_tokens.is_none() {
        return None;
    }
    let config = ObjectWriter::new().optional("maxOutputTokens", settings.max_output_tokens);
    let config = match thinking {
        Some(thinking) => config.raw(
            "thinkingConfig",
            &thinking.value("includeThoughts", &true).end(),
        ),
        None => config,
    };
    Some(config.end())
}

fn declaration(spec: &ToolSpec) -> String {
    ObjectWriter::new()
        .text("name", &spec.name)
        .text("description", &spec.description)
        .raw("parametersJsonSchema", spec.schema.as_str())
        .end()
}

fn contents(settings: &ModelSettings, context: &TurnContext<'_>) -> Vec<String> {
    let target = settings.origin();
    let takes_images = settings.takes_images();
    let mut contents = Vec::new();
    let mut add = |role: &str, parts: Vec<String>| {
        if !parts.is_empty() {
            let content = ObjectWriter::new()
                .text("role", role)
                .raw("parts", &array(parts));
            contents.push(content.end());
        }
    };
    for (index, entry) in context.conversation.entries().iter().enumerate() {
        match entry {
            HistoryEntry::User(user) => add("user", parts(&user.parts, takes_images)),
            HistoryEntry::Model(answered) => {
                add("model", model_parts(answered, index, &target));
                add("user", response_parts(answered, &target, takes_images));
            }
            HistoryEntry::ToolsLoaded(_) => {}
            HistoryEntry::Note(_) | HistoryEntry::Summary(_) => {
                let text = note_text(entry).map(ContentPart::Text);
                add("user", parts(text.as_slice(), takes_images));
            }
        }
    }
    contents
}

fn parts(parts: &[ContentPart], takes_images: bool) -> Vec<String> {
    let parts = sendable_parts(parts, takes_images).into_iter();
    let parts = parts.map(|part| match part {
        ContentPart::Text(text) => ObjectWriter::new().text("text", &text).end(),
        ContentPart::Image(image) => inline_data(&image),
    });
    parts.collect()
}

fn inline_data(image: &ImageData) -> String {
    let data = ObjectWriter::new()
        .text("mimeType", &image.media_type)
        .text("data", &image.base64)
        .end();
    ObjectWriter::new().raw("inlineData", &data).end()
}

fn model_parts(answered: &AnsweredTurn, entry: usize, target: &TurnOrigin) -> Vec<String> {
    let turn = answered.turn();
    if turn.origin.replays_at(target) {
        return replayed_parts(&turn.items, checks_signatures(&target.model));
    }
    let neutral = NeutralTurn::new(turn, entry);
    let mut parts = Vec::new();
    if !neutral.text.trim().is_empty() {
        parts.push(ObjectWriter::new().text("text", &neutral.text).end());
    }
    for (index, (_, call)) in neutral.calls.iter().enumerate() {
        let call = ObjectWriter::new()
            .text("name", &call.name)
            .raw("args", call.arguments.object_or_empty())
            .end();
        let part = ObjectWriter::new().raw("functionCall", &call);
        parts.push(match index {
            // Of parallel calls only the first has a signature.
            0 => part.text("thoughtSignature", NO_SIGNATURE).end(),
            _ => part.end(),
        });
    }
    parts
}

/// Older models send calls without a signature and do not ask for it.
fn checks_signatures(model: &str) -> bool {
    let model = model.trim_start_matches("models/");
    !model.starts_with("gemini-1") && !model.starts_with("gemini-2")
}

/// The parts as they came. The first call gets a signature where an older model made it and the
/// model that is asked now checks it.
fn replayed_parts(items: &[VendorItem], checks_signatures: bool) -> Vec<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CallPart<'a> {
        #[serde(borrow)]
        function_call: Option<&'a RawValue>,
        #[serde(borrow)]
        thought_signature: Option<&'a RawValue>,
    }
    let mut is_first_call = true;
    let parts = items.iter().map(|item| {
        let part = serde_json::from_str::<CallPart<'_>>(item.as_str()).ok();
        let part = part.filter(|part| part.function_call.is_some());
        let Some(part) = part else {
            return item.as_str().to_owned();
        };
        let is_first = std::mem::replace(&mut is_first_call, false);
        match is_first && checks_signatures && part.thought_signature.is_none() {
            true => with_signature(item),
            false => item.as_str().to_owned(),
        }
    });
    parts.collect()
}

fn with_signature(item: &VendorItem) -> String {
    let members: IndexMap<String, Box<RawValue>> =
        serde_json::from_str(item.as_str()).unwrap_or_default();
    let object = members.iter().fold(ObjectWriter::new(), |object, member| {
        object.raw(member.0, member.1.get())
    });
    object.raw("thoughtSignature", &string(NO_SIGNATURE)).end()
}

/// All results of a turn, in the order of its calls: the vendor counts them.
fn response_parts(answered: &AnsweredTurn, target: &TurnOrigin, takes_images: bool) -> Vec<String> {
    let is_replayed = answered.turn().origin.replays_at(target);
    let nests_images = checks_signatures(&target.model);
    let mut parts = Vec::new();
    let mut images_beside = Vec::new();
    for (call, outcome) in answered.calls() {
        let output = sendable_parts(&outcome.parts(), takes_images);
        let mut texts = Vec::new();
        let mut images = Vec::new();
        for part in &output {
            match part {
                ContentPart::Text(text) => texts.push(text.as_str()),
                ContentPart::Image(image) => images.push(inline_data(image)),
            }
        }
        let text = match texts.is_empty() {
            true => "(an image)".to_owned(),
            false => texts.join("\n"),
        };
        let key = if outcome.is_error() {
            "error"
        } else {
            "output"
        };
        let mut response = ObjectWriter::new();
        if is_replayed && !call.id.is_empty() {
            response = response.text("id", &call.id);
        }
        response = response
            .text("name", &call.name)
            .raw("response", &ObjectWriter::new().text(key, &text).end());
        if nests_images && !images.is_empty() {
            response = response.raw("parts", &array(&images));
        } else {
            images_beside.append(&mut images);
        }
        parts.push(
            ObjectWriter::new()
                .raw("functionResponse", &response.end())
                .end(),
        );
    }
    parts.append(&mut images_beside);
    parts
}
