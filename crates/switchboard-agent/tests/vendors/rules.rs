//! What each vendor refuses, as checks of a request's body. The texts are the vendors' own where
//! they are known.

use std::collections::HashSet;

use serde_json::Value;
use switchboard_agent::ModelVendor;

mod anthropic;
mod chat;
mod gemini;
mod responses;

/// Why a vendor refuses a request.
pub(crate) type Refused = String;

pub(crate) fn check(vendor: ModelVendor, model: &str, body: &Value) -> Result<(), Refused> {
    match vendor {
        ModelVendor::Anthropic => anthropic::check(body),
        ModelVendor::OpenAi => responses::check(body),
        ModelVendor::OpenAiChat => chat::check(body),
        ModelVendor::Gemini => gemini::check(model, body),
        other => Err(format!("{other:?} has no wire")),
    }
}

fn require(holds: bool, words: impl Into<String>) -> Result<(), Refused> {
    if holds { Ok(()) } else { Err(words.into()) }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn check_names(names: &[&str], limit: usize) -> Result<(), Refused> {
    let is_taken = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        (1..=64).contains(&name.len()) && name.bytes().all(fits)
    };
    let unique: HashSet<&&str> = names.iter().collect();
    require(
        unique.len() == names.len(),
        "tools: Tool names must be unique.",
    )?;
    require(
        names.len() <= limit,
        format!("Invalid 'tools': array too long. Expected an array with maximum length {limit}"),
    )?;
    match names.iter().position(|name| !is_taken(name)) {
        Some(index) => Err(format!(
            "tools.{index}.custom.name: String should match pattern"
        )),
        None => Ok(()),
    }
}
