//! The shape of a call's arguments: their names, and the types of their values.

use serde_json::{Map, Value};
use switchboard::RawJson;

/// Deeper values are shown by their type alone.
const MAX_DEPTH: usize = 3;

/// More members are counted.
const MAX_MEMBERS: usize = 24;

/// Larger arguments are not taken apart.
const MAX_BYTES: usize = 64 << 10;

/// As JSON: `{"path":"string","lines":["number"]}`.
pub(super) fn shape(arguments: &RawJson) -> String {
    if arguments.as_str().len() > MAX_BYTES {
        return format!("\"{} bytes\"", arguments.as_str().len());
    }
    match arguments.to_value() {
        Ok(value) => shape_of(&value, 0).to_string(),
        Err(_) => "\"unreadable\"".to_owned(),
    }
}

fn shape_of(value: &Value, depth: usize) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) if depth >= MAX_DEPTH => "array".into(),
        Value::Object(_) if depth >= MAX_DEPTH => "object".into(),
        // One element stands for all.
        Value::Array(items) => items
            .first()
            .map(|first| shape_of(first, depth + 1))
            .into_iter()
            .collect(),
        Value::Object(members) => {
            let mut shown: Map<String, Value> = members
                .iter()
                .take(MAX_MEMBERS)
                .map(|(key, value)| (shortened(key), shape_of(value, depth + 1)))
                .collect();
            if let Some(more @ 1..) = members.len().checked_sub(MAX_MEMBERS) {
                shown.insert("…".to_owned(), format!("{more} more").into());
            }
            Value::Object(shown)
        }
    }
}

fn shortened(key: &str) -> String {
    match key.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key.to_owned(),
    }
}
