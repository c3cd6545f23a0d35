//! The resources: a text, an image, a counter that can be subscribed to, and a template for
//! greetings.

use serde_json::{Value, json};

use crate::exchange::Call;
use crate::fixtures;
use crate::lists;
use crate::media;
use crate::rpc::{Body, Fault};

pub(crate) const TEXT_URI: &str = "demo://text";
pub(crate) const PICTURE_URI: &str = "demo://picture";
pub(crate) const COUNTER_URI: &str = "demo://counter";

/// Before the name in `demo://greeting/{name}`.
const GREETING_PREFIX: &str = "demo://greeting/";
pub(crate) const GREETING_TEMPLATE: &str = "demo://greeting/{name}";

/// `resources/list`.
pub(crate) fn list(call: &Call<'_>) -> Result<Body, Fault> {
    let mut resources = vec![
        json!({
            "uri": TEXT_URI, "name": "text", "title": "Text", "mimeType": "text/plain",
            "description": "a text that never changes", "annotations": {"audience": ["user"], "priority": 0.5},
        }),
        json!({"uri": PICTURE_URI, "name": "picture", "title": "Picture", "mimeType": "image/png"}),
        json!({
            "uri": COUNTER_URI, "name": "counter", "title": "Counter", "mimeType": "text/plain",
            "description": "how often count_up was called; can be subscribed to",
        }),
    ];
    if call.peer.demo.options.has_fixtures {
        resources.extend(fixtures::resources());
    }
    page(call, "resources", &resources)
}

/// `resources/templates/list`.
pub(crate) fn list_templates(call: &Call<'_>) -> Result<Body, Fault> {
    let template = json!({
        "uriTemplate": GREETING_TEMPLATE, "name": "greeting", "title": "Greeting", "mimeType": "text/plain",
        "description": "a greeting for whoever is named",
    });
    let mut templates = vec![template];
    if call.peer.demo.options.has_fixtures {
        templates.push(fixtures::template());
    }
    page(call, "resourceTemplates", &templates)
}

/// `resources/read`.
pub(crate) fn read(call: &Call<'_>) -> Result<Body, Fault> {
    let uri = &*call.params.uri;
    if uri.is_empty() {
        return Err(Fault::invalid_params("uri is missing"));
    }
    let is_modern = call.terms.is_modern();
    let contents = match uri {
        TEXT_URI => text_contents(),
        PICTURE_URI => binary_contents(),
        COUNTER_URI => {
            json!({"uri": COUNTER_URI, "mimeType": "text/plain", "text": call.peer.demo.count().to_string()})
        }
        _ => match uri
            .strip_prefix(GREETING_PREFIX)
            .filter(|name| is_name(name))
        {
            Some(name) => {
                json!({"uri": uri, "mimeType": "text/plain", "text": format!("Hello, {}!", decode(name))})
            }
            None => match fixtures::contents(uri) {
                Some(contents) => contents,
                None => return Err(Fault::no_resource(uri, is_modern)),
            },
        },
    };
    let mut result = json!({"contents": [contents]});
    if is_modern {
        // The counter may change at any time.
        result["ttlMs"] = json!(if uri == COUNTER_URI { 0 } else { 3_600_000 });
        result["cacheScope"] = json!("public");
    }
    Ok(Body::from(result))
}

/// Whether it can be read, and so subscribed to.
pub(crate) fn exists(uri: &str) -> bool {
    [TEXT_URI, PICTURE_URI, COUNTER_URI].contains(&uri)
        || uri.strip_prefix(GREETING_PREFIX).is_some_and(is_name)
        || fixtures::contents(uri).is_some()
}

pub(crate) fn text_contents() -> Value {
    json!({"uri": TEXT_URI, "mimeType": "text/plain", "text": "A switchboard joins those who call with those who answer.\n"})
}

pub(crate) fn binary_contents() -> Value {
    json!({"uri": PICTURE_URI, "mimeType": "image/png", "blob": media::PICTURE})
}

fn page(call: &Call<'_>, field: &str, items: &[Value]) -> Result<Body, Fault> {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    lists::page(
        call,
        field,
        &texts.iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}

/// Decodes the percent-encoding of an expanded template.
fn decode(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match code
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(|_| first == b'%')
        {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_greetings_are_decoded_and_odd_ones_kept() {
        for (name, expected) in [
            ("Ada", "Ada"),
            ("Zo%C3%AB", "Zoë"),
            ("a%20b", "a b"),
            ("100%", "100%"),
            ("%zz", "%zz"),
        ] {
            assert_eq!(decode(name), expected, "{name}");
        }
    }
}
