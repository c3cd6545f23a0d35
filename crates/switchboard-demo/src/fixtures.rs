//! The tools, prompts and resources that the protocol's conformance suite calls by name
//! (`--fixtures conformance`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::era::Level;
use crate::exchange::{Call, Cancellation, Exchange, Outcome};
use crate::media;
use crate::rpc::{Body, Fault};

/// The tools and prompts that ask.
mod asking;

/// The pause between two messages of a tool.
const PAUSE: Duration = Duration::from_millis(50);

const TEXT_URI: &str = "test://static-text";
const BINARY_URI: &str = "test://static-binary";
const WATCHED_URI: &str = "test://watched-resource";

/// The template, and the text before and after its variable.
pub(crate) const TEMPLATE: &str = "test://template/{id}/data";
const TEMPLATE_PARTS: (&str, &str) = ("test://template/", "/data");

/// The prompt with arguments, which can be completed.
pub(crate) const PROMPT_WITH_ARGUMENTS: &str = "test_prompt_with_arguments";

/// Whether the prompt that can be toggled is listed.
static HAS_PASSING_PROMPT: AtomicBool = AtomicBool::new(false);

/// The definitions of the tools.
pub(crate) fn tools() -> Vec<Value> {
    let plain = [
        ("test_simple_text", "returns a text"),
        ("test_image_content", "returns an image"),
        ("test_audio_content", "returns a sound"),
        ("test_embedded_resource", "returns a resource"),
        (
            "test_multiple_content_types",
            "returns content of several kinds",
        ),
        ("test_tool_with_logging", "logs three messages"),
        ("test_logging_tool", "logs three messages"),
        ("test_error_handling", "returns an error"),
        ("test_tool_with_progress", "reports progress"),
        ("test_reconnection", "closes its stream before it answers"),
        ("test_missing_capability", "needs the capability sampling"),
        ("test_trigger_tool_change", "changes the list of tools"),
        ("test_trigger_prompt_change", "changes the list of prompts"),
    ];
    let tool = |(name, description): (&str, &str)| json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": {}}});
    let mut tools: Vec<Value> = plain.map(tool).into();
    tools.extend(asking::tools());
    tools.push(json!({
        "name": "json_schema_2020_12_tool",
        "description": "has a schema with keywords of JSON Schema 2020-12",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                },
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        },
    }));
    tools
}

/// Calls one of the tools; `None` for a name that is not theirs.
pub(crate) fn call(call: &Call<'_>) -> Option<Result<Outcome, Fault>> {
    let body = match &*call.params.name {
        "test_simple_text" => Body::from_message("This is a simple text response for testing."),
        "test_image_content" => Body::from(json!({"content": [image()]})),
        "test_audio_content" => Body::from(json!({"content": [
            {"type": "audio", "data": media::tone(), "mimeType": "audio/wav"},
        ]})),
        "test_embedded_resource" => Body::from(json!({"content": [resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )]})),
        "test_multiple_content_types" => Body::from(json!({"content": [
            {"type": "text", "text": "Multiple content types test:"},
            image(),
            resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ]})),
        "test_error_handling" => {
            Body::from_failure("This tool intentionally returns an error for testing")
        }
        "test_tool_with_logging" | "test_logging_tool" => return Some(Ok(log(call))),
        "test_tool_with_progress" => return Some(Ok(progress(call))),
        "test_reconnection" => return Some(Ok(crate::tools::hang_up(call))),
        "test_missing_capability" => {
            let required = json!({"sampling": {}});
            return Some(match call.terms.may_ask(crate::era::AskMode::Sample) {
                Ok(()) => Ok(Outcome::Done(Body::from_message("sampling is declared"))),
                Err(_) => Err(Fault::missing_capability(required)),
            });
        }
        "test_trigger_tool_change" => crate::tools::toggle_tool(call),
        "test_trigger_prompt_change" => {
            HAS_PASSING_PROMPT.fetch_xor(true, Ordering::Relaxed);
            call.peer.demo.announce(crate::demo::Change::Prompts);
            Body::from_message("the list of prompts changed")
        }
        "json_schema_2020_12_tool" => Body::from_message("the arguments fit"),
        name => return asking::call(call, name),
    };
    Some(Ok(Outcome::Done(body)))
}

fn image() -> Value {
    json!({"type": "image", "data": media::PICTURE, "mimeType": "image/png"})
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}})
}

fn log(call: &Call<'_>) -> Outcome {
    let is_wanted = call
        .terms
        .log_level()
        .is_some_and(|least| Level::Info >= least);
    in_steps(call, "the tool has logged", move |exchange, step| {
        let text = [
            "Tool execution started",
            "Tool processing data",
            "Tool execution completed",
        ][step];
        if is_wanted {
            let params = json!({"level": "info", "data": text});
            exchange.notify("notifications/message", &params);
        }
    })
}

fn progress(call: &Call<'_>) -> Outcome {
    in_steps(call, "the tool has reported progress", |exchange, step| {
        exchange.progress(50 * step as u64, 100, "");
    })
}

/// Three steps with a pause after each.
fn in_steps(
    call: &Call<'_>,
    end: &'static str,
    report: impl Fn(&Exchange, usize) + Send + 'static,
) -> Outcome {
    let mut exchange = call.detach();
    // The task ends by itself, by cancellation, or with its connection.
    tokio::spawn(async move {
        for step in 0..3 {
            report(&exchange, step);
            let stopped: Option<Cancellation> = tokio::select! {
                biased;
                stopped = exchange.stopped() => Some(stopped),
                () = tokio::time::sleep(PAUSE) => None,
            };
            if let Some(stopped) = stopped {
                return exchange.abandon(&stopped);
            }
        }
        exchange.finish(&Body::from_message(end));
    });
    Outcome::Later
}

/// The definitions of the prompts.
pub(crate) fn prompts() -> Vec<Value> {
    let argument = |name: &str, description: &str| json!({"name": name, "description": description, "required": true});
    let mut prompts = vec![
        json!({"name": "test_simple_prompt", "description": "without arguments"}),
        json!({
            "name": PROMPT_WITH_ARGUMENTS, "description": "with two arguments",
            "arguments": [argument("arg1", "the first"), argument("arg2", "the second")],
        }),
        json!({
            "name": "test_prompt_with_embedded_resource", "description": "with a resource",
            "arguments": [argument("resourceUri", "the address of the resource")],
        }),
        json!({"name": "test_prompt_with_image", "description": "with an image"}),
        json!({"name": "test_input_required_result_prompt", "description": "asks for its context"}),
    ];
    if HAS_PASSING_PROMPT.load(Ordering::Relaxed) {
        prompts.push(json!({"name": "test_passing_prompt", "description": "comes and goes"}));
    }
    prompts
}

/// One of the prompts; `None` for a name that is not theirs.
pub(crate) fn prompt(
    call: &Call<'_>,
    arguments: &Map<String, Value>,
) -> Option<Result<Outcome, Fault>> {
    let argument = |name: &str| match arguments.get(name).and_then(Value::as_str) {
        Some(value) => Ok(value),
        None => Err(Fault::invalid_params(format!("argument {name} is missing"))),
    };
    let message = |content: Value| json!({"role": "user", "content": content});
    let text = |text: &str| message(json!({"type": "text", "text": text}));
    let messages = match &*call.params.name {
        "test_simple_prompt" | "test_passing_prompt" => {
            Ok(vec![text("This is a simple prompt for testing.")])
        }
        PROMPT_WITH_ARGUMENTS => argument("arg1").and_then(|one| {
            let two = argument("arg2")?;
            let words = format!("Prompt with arguments: arg1='{one}', arg2='{two}'");
            Ok(vec![text(&words)])
        }),
        "test_prompt_with_embedded_resource" => argument("resourceUri").map(|uri| {
            let words = "Embedded resource content for testing.";
            vec![
                message(resource(uri, "text/plain", words)),
                text("Please process the embedded resource above."),
            ]
        }),
        "test_prompt_with_image" => Ok(vec![
            message(image()),
            text("Please analyze the image above."),
        ]),
        "test_input_required_result_prompt" => return Some(asking::prompt(call)),
        _ => return None,
    };
    Some(messages.map(|messages| Outcome::Done(Body::from(json!({"messages": messages})))))
}

/// The definitions of the resources.
pub(crate) fn resources() -> Vec<Value> {
    let resource = |uri: &str, name: &str, mime_type: &str| json!({"uri": uri, "name": name, "description": name, "mimeType": mime_type});
    vec![
        resource(TEXT_URI, "static text", "text/plain"),
        resource(BINARY_URI, "static binary", "image/png"),
        resource(WATCHED_URI, "watched resource", "text/plain"),
    ]
}

/// The definition of the template.
pub(crate) fn template() -> Value {
    json!({
        "uriTemplate": TEMPLATE, "name": "template", "description": "data by id",
        "mimeType": "application/json",
    })
}

/// The contents of one of the resources.
pub(crate) fn contents(uri: &str) -> Option<Value> {
    let (before, after) = TEMPLATE_PARTS;
    Some(match uri {
        TEXT_URI => json!({
            "uri": uri, "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }),
        BINARY_URI => json!({"uri": uri, "mimeType": "image/png", "blob": media::PICTURE}),
        WATCHED_URI => json!({"uri": uri, "mimeType": "text/plain", "text": "nothing changed"}),
        _ => {
            let id = uri.strip_prefix(before)?.strip_suffix(after)?;
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
    })
}
