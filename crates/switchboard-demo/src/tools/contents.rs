//! Tools that return content of every kind, and of one kind that does not exist yet.

use serde_json::{Value, json};

use crate::media;
use crate::resources;
use crate::rpc::Body;

pub(super) fn image() -> Body {
    Body::from(json!({"content": [image_block()]}))
}

pub(super) fn audio() -> Body {
    Body::from(
        json!({"content": [{"type": "audio", "data": media::tone(), "mimeType": "audio/wav"}]}),
    )
}

pub(super) fn resource_link() -> Body {
    Body::from(json!({"content": [
        text_block("the counter can be read, and subscribed to"),
        link_block(),
    ]}))
}

pub(super) fn embedded_resource() -> Body {
    Body::from(json!({"content": [
        {"type": "resource", "resource": resources::text_contents()},
        {"type": "resource", "resource": resources::binary_contents()},
    ]}))
}

pub(super) fn mixed() -> Body {
    let mut text =
        text_block("a text for everybody, then a picture, a link and a resource for the assistant");
    text["annotations"] = json!({"audience": ["user", "assistant"], "priority": 0.9});
    let mut resource = json!({"type": "resource", "resource": resources::text_contents()});
    resource["annotations"] = json!({"audience": ["assistant"], "priority": 0.2});
    Body::from(json!({
        "content": [text, image_block(), link_block(), resource],
        "structuredContent": {"kinds": ["text", "image", "resource_link", "resource"]},
    }))
}

/// A content kind that no revision knows; a good client passes it on.
pub(super) fn hologram() -> Body {
    Body::from(json!({"content": [
        {"type": "hologram", "data": "c29tZXRoaW5nIHRvIHdhbGsgYXJvdW5k", "mimeType": "model/gltf-binary", "depth": 3},
        text_block("a peer that does not know holograms still sees this"),
    ]}))
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image_block() -> Value {
    json!({"type": "image", "data": media::PICTURE, "mimeType": "image/png"})
}

fn link_block() -> Value {
    json!({
        "type": "resource_link",
        "uri": resources::COUNTER_URI,
        "name": "counter",
        "title": "Counter",
        "description": "how often count_up was called",
        "mimeType": "text/plain",
    })
}
