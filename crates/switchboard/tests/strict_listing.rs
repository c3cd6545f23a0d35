//! Tests that every tool of a large corpus of real servers is listed in a form that strict clients
//! accept.
//!
//! The corpus is not part of the project: `SWITCHBOARD_TOOL_CORPUS` names its file.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use switchboard::RawJson;
use switchboard::vendor::repair_definition;

/// What a strict client rejects in a schema of arguments.
fn fault(schema: &Value) -> Option<String> {
    if schema["type"] != "object" {
        return Some("its type is not object".to_owned());
    }
    let choice = ["oneOf", "anyOf", "allOf"]
        .into_iter()
        .find(|keyword| schema.get(keyword).is_some());
    choice
        .map(|keyword| format!("{keyword} at the top"))
        .or_else(|| boolean_in(schema))
}

fn boolean_in(schema: &Value) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if property.is_boolean() {
            return Some(format!("property {name} is a boolean"));
        }
        if let Some(fault) = boolean_in(property) {
            return Some(fault);
        }
    }
    match schema.get("items") {
        Some(Value::Bool(_)) => Some("items is a boolean".to_owned()),
        Some(items) => boolean_in(items),
        None => None,
    }
}

#[test]
fn every_tool_of_the_corpus_passes_the_strict_rules_after_the_repair() {
    let file = "shared/corpus/livemcpbench-tools.json";
    let Some(file) = switchboard_testkit::outside_data("SWITCHBOARD_TOOL_CORPUS", file) else {
        return;
    };
    let text = std::fs::read_to_string(file).unwrap();
    let servers: Vec<Value> = serde_json::from_str(&text).unwrap();
    let offers = servers
        .iter()
        .filter_map(|entry| entry["tools"].as_object())
        .flatten();
    let tools: Vec<&Value> = offers
        .flat_map(|(_, offer)| offer["tools"].as_array().into_iter().flatten())
        .collect();
    assert!(tools.len() > 500, "{} tools", tools.len());
    for tool in tools {
        let schema = RawJson::from(tool["inputSchema"].clone());
        let repaired = repair_definition(tool["description"].as_str(), &schema, None);
        let listed = match repaired.and_then(|repaired| repaired.input_schema) {
            Some(text) => serde_json::from_str(&text).unwrap(),
            None => tool["inputSchema"].clone(),
        };
        assert_eq!(fault(&listed), None, "{}", tool["name"]);
    }
}
