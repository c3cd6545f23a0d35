//! The definitions of the tools: schemas, titles, icons, annotations.

use serde_json::{Value, json};

use crate::era::Level;
use crate::media;

/// What the names of generated tools begin with.
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

/// The tool that comes and goes.
pub(super) fn surprise() -> Value {
    tool(
        "surprise",
        "Surprise",
        "Is there after toggle_tool, and gone after the next",
        HARMLESS,
        json!({}),
    )
}

/// One of many, for long lists; put together as text, because ten thousand of them must not slow
/// the start.
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

/// What a tool does to the world: (only reads, may destroy).
type Hints = (bool, bool);
const HARMLESS: Hints = (true, false);
const CHANGING: Hints = (false, false);
const DESTRUCTIVE: Hints = (false, true);

fn answering() -> Vec<Value> {
    let mut echo = tool(
        "echo",
        "Echo",
        "Says what it was told",
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
        "Says which era, version and peer the call came with",
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
        "Answers with a text of so many bytes",
        HARMLESS,
        bytes,
    );
    big["inputSchema"]["required"] = json!(["bytes"]);

    let mut route = tool(
        "route",
        "Route",
        "Says where a call with these arguments is routed to",
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
    let mut image = tool("image", "Image", "Shows a small PNG", HARMLESS, json!({}));
    image["icons"] = icons();
    vec![
        image,
        tool("audio", "Audio", "Plays a short WAV", HARMLESS, json!({})),
        tool(
            "resource_link",
            "Resource link",
            "Points to a resource",
            HARMLESS,
            json!({}),
        ),
        tool(
            "embedded_resource",
            "Embedded resource",
            "Brings a text and a binary resource along",
            HARMLESS,
            json!({}),
        ),
        tool(
            "mixed",
            "Mixed",
            "Answers with several kinds of content at once",
            HARMLESS,
            json!({}),
        ),
        tool(
            "hologram",
            "Hologram",
            "Answers with a kind of content that nobody knows yet",
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
        "Runs as a task: tells how far it is, may ask, and can be cancelled",
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
            "Takes its time, reports progress, and can be cancelled",
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
            "Stopped",
            "Says how many calls were stopped before they were answered",
            HARMLESS,
            json!({}),
        ),
        tool(
            "count_up",
            "Count up",
            "Lets demo://counter count",
            CHANGING,
            json!({}),
        ),
        tool(
            "toggle_tool",
            "Toggle tool",
            "Lets the tool surprise come or go",
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
            "Asks for a name, then whether it was meant",
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
            "Asks the peer's own model, and repeats what it said",
            HARMLESS,
            prompt,
        ),
        tool(
            "ask_roots",
            "Ask for roots",
            "Asks which folders the peer works in",
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
