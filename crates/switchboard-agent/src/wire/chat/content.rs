//! Text and thoughts of a chat answer in the forms that servers send them.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fault::ModelFault;
use crate::json::null_as_default;

#[derive(Deserialize)]
struct ChatContentPart<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    r#type: String,
    #[serde(default, deserialize_with = "null_as_default")]
    text: String,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
}

/// The content of a message: each text, and whether it is a thought.
pub(super) fn read_content(raw: Option<&RawValue>) -> Result<Vec<(String, bool)>, ModelFault> {
    let Some(json) = raw.map(RawValue::get) else {
        return Ok(Vec::new());
    };
    if !json.starts_with('[') {
        let text = serde_json::from_str(json).map_err(ModelFault::unreadable)?;
        return Ok(vec![(text, false)]);
    }
    let parts: Vec<ChatContentPart<'_>> =
        serde_json::from_str(json).map_err(ModelFault::unreadable)?;
    let mut texts = Vec::new();
    for part in parts {
        match part.r#type.as_str() {
            "thinking" => {
                let thoughts = read_content(part.thinking)?.into_iter();
                texts.extend(thoughts.map(|(text, _)| (text, true)));
            }
            _ => texts.push((part.text, false)),
        }
    }
    Ok(texts)
}

/// Adds a piece of a thought's details: pieces of the same thought are joined.
pub(super) fn add_detail(
    details: &mut Vec<IndexMap<String, Value>>,
    detail: IndexMap<String, Value>,
) {
    let last = details.last_mut().filter(|last| {
        let is_same = |key: &str| last.get(key) == detail.get(key);
        let is_text = detail.contains_key("text") || detail.contains_key("summary");
        is_text && is_same("type") && is_same("index")
    });
    let Some(last) = last else {
        details.push(detail);
        return;
    };
    for (key, value) in detail {
        match (last.get_mut(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if matches!(key.as_str(), "text" | "summary") =>
            {
                text.push_str(&more);
            }
            (_, value) => {
                last.insert(key, value);
            }
        }
    }
}
