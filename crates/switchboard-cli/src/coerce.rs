//! Converts `key=value` arguments to a JSON object by the tool's schema; `key:=JSON` is passed as it
//! is. Numbers keep their text.

use std::io::Read;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use switchboard::wire::RawJson;

/// The largest file that a value is read from.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// One `key=value` argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    key: String,
    value: String,
    /// Written `key:=JSON`.
    json: bool,
}

/// Parses an argument. The first `=` separates: `K=a=b` has the value `a=b`. `K=@FILE` reads a
/// file, `K=@@x` is the text `@x`.
pub(crate) fn pair(word: &str) -> Result<Pair, String> {
    let Some((key, value)) = word.split_once('=') else {
        return Err("expected key=value, or key:=JSON".to_owned());
    };
    let (key, json) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if key.is_empty() {
        return Err("expected a key before \"=\"".to_owned());
    }
    let value = match value.strip_prefix('@') {
        None => value.to_owned(),
        Some(text) if text.starts_with('@') => text.to_owned(),
        Some(file) => read(file)
            .map_err(|what| format!("{what} (for the text itself, write {key}=@{value})"))?,
    };
    Ok(Pair {
        key: key.to_owned(),
        value,
        json,
    })
}

/// Parses an argument where only text is accepted: `key:=JSON` must be a JSON string.
pub(crate) fn text_pair(word: &str) -> Result<(String, String), String> {
    let Pair { key, value, json } = pair(word)?;
    let text = match json {
        false => value,
        true => serde_json::from_str(&value).map_err(|_| {
            format!("this argument is text; write {key}=TEXT, or a JSON string after {key}:=")
        })?,
    };
    Ok((key, text))
}

/// Reads the text of a file for a value.
fn read(file: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let opened =
        std::fs::File::open(file).map_err(|error| format!("{file:?} cannot be read: {error}"))?;
    opened
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("{file:?} cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!(
            "{file:?} is larger than {} MiB",
            MAX_FILE_BYTES >> 20
        ));
    }
    String::from_utf8(bytes).map_err(|_| format!("{file:?} is not text (UTF-8)"))
}

impl Pair {
    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

/// The arguments of a call: the given object, overridden by the pairs. Without pairs the object
/// passes byte for byte.
pub(crate) fn arguments(
    base: Option<&RawJson>,
    pairs: &[Pair],
    schema: &Value,
) -> Result<RawJson, String> {
    let mut fields = match base {
        Some(raw) if pairs.is_empty() => {
            fields(raw)?;
            return Ok(raw.clone());
        }
        Some(raw) => fields(raw)?,
        None => Vec::new(),
    };
    for (key, text) in coerce_pairs(pairs, schema)? {
        match fields.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = text,
            None => fields.push((key, text)),
        }
    }
    let body: Vec<_> = fields
        .iter()
        .map(|(key, text)| format!("{}:{text}", Value::from(key.as_str())))
        .collect();
    RawJson::parse(format!("{{{}}}", body.join(",")).into_bytes())
        .map_err(|error| error.to_string())
}

/// Keys that the schema does not have although it lists properties: probably typing errors, even if
/// the schema allows them.
pub(crate) fn unknown_keys<'a>(pairs: &'a [Pair], schema: &Value) -> Vec<&'a str> {
    const OPEN: [&str; 6] = [
        "additionalProperties",
        "patternProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
    ];
    let names_some = schema
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|properties| !properties.is_empty());
    if !names_some || OPEN.iter().any(|word| schema.get(word).is_some()) {
        return Vec::new();
    }
    pairs
        .iter()
        .map(Pair::key)
        .filter(|key| property(schema, key).is_none())
        .collect()
}

/// The fields of a JSON object as (key, JSON text), in their order.
pub(crate) fn fields(raw: &RawJson) -> Result<Vec<(String, String)>, String> {
    struct Fields(Vec<(String, String)>);
    impl<'de> Deserialize<'de> for Fields {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Object;
            impl<'de> Visitor<'de> for Object {
                type Value = Fields;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("a JSON object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                    let mut fields = Vec::new();
                    while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                        fields.push((key, value.get().to_owned()));
                    }
                    Ok(Fields(fields))
                }
            }
            deserializer.deserialize_map(Object)
        }
    }
    raw.decode::<Fields>()
        .map(|fields| fields.0)
        .map_err(|error| match kind_instead_of_object(raw) {
            Some(kind) => format!("expected a JSON object, found {kind}"),
            None => format!("expected a JSON object: {error}"),
        })
}

/// What a text is instead of an object; `None` if it begins as one.
fn kind_instead_of_object(raw: &RawJson) -> Option<&'static str> {
    Some(match raw.as_str().trim_start().as_bytes().first()? {
        b'[' => "a list",
        b'"' => "text",
        b't' | b'f' => "true or false",
        b'n' => "null",
        b'{' => return None,
        _ => "a number",
    })
}

/// Each key once, as JSON text. A repeated key makes an array.
fn coerce_pairs(pairs: &[Pair], schema: &Value) -> Result<Vec<(String, String)>, String> {
    let mut done: Vec<(String, String)> = Vec::new();
    for pair in pairs {
        if done.iter().any(|(key, _)| *key == pair.key) {
            continue;
        }
        let same: Vec<_> = pairs.iter().filter(|other| other.key == pair.key).collect();
        let property = property(schema, &pair.key);
        let text = match same.as_slice() {
            [only] => value(only, property, schema),
            many if allows(property, schema, "array") => {
                let items: Result<Vec<_>, _> = many
                    .iter()
                    .map(|each| value(each, items(property, schema), schema))
                    .collect();
                items.map(|items| format!("[{}]", items.join(",")))
            }
            _ => Err("given more than once, and it takes no array".to_owned()),
        };
        done.push((
            pair.key.clone(),
            text.map_err(|what| format!("{}: {what}", pair.key))?,
        ));
    }
    Ok(done)
}

fn value(pair: &Pair, property: Option<&Value>, root: &Value) -> Result<String, String> {
    let text = pair.value.as_str();
    if pair.json {
        return json_text(text).map_err(|error| format!("not JSON: {error}"));
    }
    let Some(property) = property.map(|property| follow_refs(property, root)) else {
        return Ok(Value::from(text).to_string());
    };
    if let Some(chosen) = enum_values(property)
        .into_iter()
        .find(|choice| choice_text(choice) == text)
    {
        return Ok(chosen.to_string());
    }
    let types = types(property, root, 0);
    let may = |kind: &str| types.iter().any(|known| known == kind);
    let parsed = json_text(text).ok();
    let kind = parsed.as_deref().map(kind_of);
    match (kind, parsed) {
        (Some("integer"), Some(json)) if may("integer") || may("number") => Ok(json),
        (Some("number"), Some(json)) if may("number") => Ok(json),
        (Some("boolean"), Some(json)) if may("boolean") => Ok(json),
        (Some("array"), Some(json)) if may("array") => Ok(json),
        (Some("object"), Some(json)) if may("object") => Ok(json),
        (Some("null"), Some(json)) if may("null") && !may("string") => Ok(json),
        _ if types.is_empty() || may("string") => Ok(Value::from(text).to_string()),
        // A single element without brackets; further ones repeat the key.
        _ if may("array") => {
            value(pair, items(Some(property), root), root).map(|item| format!("[{item}]"))
        }
        _ => Err(format!("expected {}, found {text:?}", types.join(" or "))),
    }
}

/// The text, if it is one JSON value.
fn json_text(text: &str) -> Result<String, String> {
    serde_json::from_str::<&RawValue>(text)
        .map(|raw| raw.get().to_owned())
        .map_err(|error| error.to_string())
}

fn kind_of(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ if json.contains(['.', 'e', 'E']) => "number",
        _ => "integer",
    }
}

pub(crate) fn property<'a>(root: &'a Value, key: &str) -> Option<&'a Value> {
    let schema = follow_refs(root, root);
    let own = schema
        .get("properties")
        .and_then(|properties| properties.get(key));
    own.or_else(|| {
        let parts = ["allOf", "anyOf", "oneOf"]
            .iter()
            .filter_map(|word| schema.get(word)?.as_array())
            .flatten();
        parts
            .filter_map(|part| follow_refs(part, root).get("properties")?.get(key))
            .next()
    })
}

pub(crate) fn items<'a>(property: Option<&'a Value>, root: &'a Value) -> Option<&'a Value> {
    let property = follow_refs(property?, root);
    let alternatives = ["anyOf", "oneOf", "allOf"]
        .iter()
        .filter_map(|word| property.get(word)?.as_array())
        .flatten();
    property.get("items").or_else(|| {
        alternatives
            .filter_map(|part| follow_refs(part, root).get("items"))
            .next()
    })
}

fn allows(property: Option<&Value>, root: &Value, kind: &str) -> bool {
    property.is_some_and(|property| types(property, root, 0).iter().any(|known| known == kind))
}

/// Follows local `$ref`s, up to a limit.
pub(crate) fn follow_refs<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..16 {
        let target = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|text| text.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

pub(crate) fn types(schema: &Value, root: &Value, depth: usize) -> Vec<String> {
    let schema = follow_refs(schema, root);
    let mut found: Vec<String> = match schema.get("type") {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(many)) => many
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    };
    if found.is_empty() {
        found.extend(
            enum_values(schema)
                .into_iter()
                .map(|choice| kind_of(&choice.to_string()).to_owned()),
        );
    }
    if found.is_empty() && depth < 8 {
        let parts = ["anyOf", "oneOf", "allOf"]
            .iter()
            .filter_map(|word| schema.get(word)?.as_array())
            .flatten();
        found.extend(parts.flat_map(|part| types(part, root, depth + 1)));
    }
    found.dedup();
    found
}

pub(crate) fn enum_values(schema: &Value) -> Vec<&Value> {
    let listed = schema
        .get("enum")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    listed.chain(schema.get("const")).collect()
}

fn choice_text(choice: &Value) -> String {
    choice
        .as_str()
        .map_or_else(|| choice.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
