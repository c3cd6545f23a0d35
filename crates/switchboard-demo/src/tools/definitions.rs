//! The definitions of the tools: schemas, titles, icons, annotations.

use serde_json::{Value, json};

use crate::era::Level;
use crate::media;

/// The prefix of generated tool names.
pub(super) const GENERATED_PREFIX: &str = "tool_";

/// The arguments of `route`, and the headers that HTTP repeats them in.
pub(super) const ROUTE_HEADERS: [(&str, &str); 3] = [
    ("region", "Region"),
    ("priority", "Priority"),
    ("express", "Express"),
];

/// The tools that are always there, in the order they are listed in.
pub(super) fn fixed() -> Vec<Value> {
    let mut tools = answering();
    tools.extend(showing());
    tools.extend(acting());
    tools.extend(asking());
    tools
}

/// The tool that `toggle_tool` adds and removes.
pub(super) fn surprise() -> Value {
    tool(
        "surprise",
        "Surprise",
        "Listed after toggle_tool, and removed by the next",
        HARMLESS,
        json!({}),
    )
}

/// A generated tool, for long lists; built as text, so that ten thousand do not slow the start.
pub(super) fn generated(number: usize) -> String {
    format!(
        concat!(
            r#"{{"name":"{name}","description":"Generated tool number {number}: tells its name and what it was given","#,
            r#""inputSchema":{{"type":"object","properties":{{"text":{{"type":"string","description":"any text"}},"#,
            r#""count":{{"type":"integer","minimum":0}},"flag":{{"type":"boolean","default":false}}}},"required":["text"]}}}}"#,
        ),
        name = generated_name(number),
        number = number,
    )
}

pub(super) fn generated_name(number: usize) -> String {
    format!("{GENERATED_PREFIX}{number:05}")
}

/// Annotations of a tool: (read-only, destructive).
type Hints = (bool, bool);
const HARMLESS: Hints = (true, false);
const CHANGING: Hints = (false, false);
const DESTRUCTIVE: Hints = (false, true);

fn answering() -> Vec<Value> {
    let mut echo = tool(
        "echo",
        "Echo",
        "Returns its message",
        HARMLESS,
        json!({"message": {"type": "string"}}),
    );
    echo["inputSchema"]["required"] = json!(["message"]);
    echo["icons"] = icons();

    let number = json!({"type": "number"});
    let mut add = tool(
        "add",
        "Add",
        "Adds two numbers",
        HARMLESS,
        json!({"a": number, "b": number}),
    );
    add["inputSchema"]["required"] = json!(["a", "b"]);
    add["outputSchema"] =
        json!({"type": "object", "properties": {"sum": number}, "required": ["sum"]});

    let mut whoami = tool(
        "whoami",
        "Who am I",
        "Reports the era, version, client and capabilities of the call",
        HARMLESS,
        json!({}),
    );
    whoami["outputSchema"] = json!({
        "type": "object",
        "properties": {"era": {"enum": ["legacy", "modern"]}, "protocolVersion": {"type": "string"}},
        "required": ["era", "protocolVersion"],
    });

    let bytes = json!({"bytes": {"type": "integer", "minimum": 0, "maximum": 67_108_864}});
    let mut big = tool(
        "big",
        "Big",
        "Returns a text of so many bytes",
        HARMLESS,
        bytes,
    );
    big["inputSchema"]["required"] = json!(["bytes"]);

    let mut route = tool(
        "route",
        "Route",
        "Returns its arguments as a route",
        HARMLESS,
        route_properties(),
    );
    route["inputSchema"]["required"] = json!(["region"]);

    let fail = tool(
        "fail",
        "Fail",
        "Always fails",
        HARMLESS,
        json!({"reason": {"type": "string"}}),
    );
    vec![echo, add, whoami, big, route, fail]
}

fn route_properties() -> Value {
    let mut properties = json!({
        "region": {"type": "string", "description": "where to"},
        "priority": {"type": "integer", "description": "how soon"},
        "express": {"type": "boolean", "description": "whether without a stop"},
    });
    for (argument, header) in ROUTE_HEADERS {
        properties[argument]["x-mcp-header"] = json!(header);
    }
    properties
}

fn showing() -> Vec<Value> {
    let mut image = tool("image", "Image", "Returns a small PNG", HARMLESS, json!({}));
    image["icons"] = icons();
    vec![
        image,
        tool("audio", "Audio", "Returns a short WAV", HARMLESS, json!({})),
        tool(
            "resource_link",
            "Resource link",
            "Returns a link to a resource",
            HARMLESS,
            json!({}),
        ),
        tool(
            "embedded_resource",
            "Embedded resource",
            "Returns a text and a binary resource",
            HARMLESS,
            json!({}),
        ),
        tool(
            "mixed",
            "Mixed",
            "Returns several kinds of content at once",
            HARMLESS,
            json!({}),
        ),
        tool(
            "hologram",
            "Hologram",
            "Returns a content kind that no revision defines",
            HARMLESS,
            json!({}),
        ),
    ]
}

fn acting() -> Vec<Value> {
    let slow = json!({
        "seconds": {"type": "number", "minimum": 0, "maximum": 3600, "default": 1},
        "steps": {"type": "integer", "minimum": 1, "default": 5},
    });
    let hang_up =
        json!({"seconds": {"type": "number", "minimum": 0, "maximum": 3600, "default": 0.1}});
    let errand = json!({
        "seconds": {"type": "number", "minimum": 0, "maximum": 3600, "default": 1},
        "steps": {"type": "integer", "minimum": 1, "default": 4},
        "ask": {"type": "boolean", "description": "whether it asks for a name on the way", "default": false},
        "end": {"type": "string", "enum": ["done", "fail", "cancel", "forget"], "default": "done"},
    });
    let mut errand = tool(
        "errand",
        "Errand",
        "Runs as a task: reports its progress, may ask, and can be cancelled",
        HARMLESS,
        errand,
    );
    errand["execution"] = json!({"taskSupport": "required"});
    let log =
        json!({"level": {"type": "string", "enum": Level::NAMES}, "message": {"type": "string"}});
    vec![
        tool(
            "slow",
            "Slow",
            "Runs for a while, reports progress, and can be cancelled",
            HARMLESS,
            slow,
        ),
        tool(
            "hang_up",
            "Hang up",
            "Drops its HTTP stream before it answers, once; the stream can be resumed",
            HARMLESS,
            hang_up,
        ),
        errand,
        tool(
            "log",
            "Log",
            "Writes to the peer's log, at one level or at each",
            HARMLESS,
            log,
        ),
        tool(
            "stopped",
            "Cancellation",
            "Reports how many calls were cancelled before they were answered",
            HARMLESS,
            json!({}),
        ),
        tool(
            "count_up",
            "Count up",
            "Increments demo://counter",
            CHANGING,
            json!({}),
        ),
        tool(
            "toggle_tool",
            "Toggle tool",
            "Adds or removes the tool surprise",
            CHANGING,
            json!({}),
        ),
    ]
}

fn asking() -> Vec<Value> {
    let prompt = json!({"prompt": {"type": "string", "description": "what to ask it"}});
    let subject = json!({"subject": {"type": "string", "description": "what would be erased", "default": "everything"}});
    vec![
        tool(
            "ask_form",
            "Ask with a form",
            "Asks for one value of every kind that a form can hold",
            HARMLESS,
            json!({}),
        ),
        tool(
            "ask_url",
            "Ask by address",
            "Asks to open a web address",
            HARMLESS,
            json!({}),
        ),
        tool(
            "ask_secret",
            "Ask for a secret",
            "Asks for a password in a form, which a server should never do",
            HARMLESS,
            json!({}),
        ),
        tool(
            "ask_twice",
            "Ask twice",
            "Asks for a name, then for a confirmation",
            HARMLESS,
            json!({}),
        ),
        tool(
            "confirm",
            "Confirm",
            "Pretends to erase something, after asking",
            DESTRUCTIVE,
            subject,
        ),
        tool(
            "ask_model",
            "Ask the model",
            "Asks the client's own model, and repeats its answer",
            HARMLESS,
            prompt,
        ),
        tool(
            "ask_roots",
            "Ask for roots",
            "Asks for the client's roots",
            HARMLESS,
            json!({}),
        ),
    ]
}

fn tool(
    name: &str,
    title: &str,
    description: &str,
    (only_reads, may_destroy): Hints,
    properties: Value,
) -> Value {
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
        "annotations": {"title": title, "readOnlyHint": only_reads, "destructiveHint": may_destroy, "openWorldHint": false},
    })
}

fn icons() -> Value {
    json!([{"src": format!("data:image/png;base64,{}", media::PICTURE), "mimeType": "image/png", "sizes": ["16x16"]}])
}
