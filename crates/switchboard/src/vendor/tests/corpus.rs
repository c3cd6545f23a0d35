//! Each of the 527 tools of a public corpus of MCP servers passes each vendor's rules, or is
//! withheld with the place and the rule.
//!
//! The corpus (LiveMCPBench's `tools.json`, Apache-2.0) is not part of the project. It is looked
//! for where `SWITCHBOARD_TOOL_CORPUS` points, else in `../shared/corpus` beside the workspace;
//! where it is absent, the test says on stderr that it was skipped.

use std::collections::HashSet;

use super::*;

fn corpus() -> Option<Vec<Arc<Tool>>> {
    let file = "shared/corpus/livemcpbench-tools.json";
    let file = switchboard_testkit::outside_data("SWITCHBOARD_TOOL_CORPUS", file)?;
    let text = std::fs::read_to_string(file).unwrap();
    let servers: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut tools = Vec::new();
    let mut seen = HashSet::new();
    let entries = servers
        .iter()
        .filter_map(|entry| entry["tools"].as_object());
    for (_, offer) in entries.flatten() {
        for tool in offer["tools"].as_array().into_iter().flatten() {
            let name = tool["name"].as_str().unwrap();
            let description = tool["description"].as_str().unwrap_or_default();
            let schema = tool["inputSchema"].clone();
            if seen.insert((name.to_owned(), schema.to_string())) {
                tools.push(of(Dialect::Native, name, description, schema));
            }
        }
    }
    Some(tools)
}

/// The vendor's rules, written independently: the error in a schema, with its pointer.
fn fault(vendor: Vendor, schema: &Value, pointer: &str) -> Option<String> {
    let wrong = |rule: &str| Some(format!("{pointer}: {rule}"));
    let members = match schema {
        Value::Object(members) => members,
        Value::Bool(_) if vendor == Vendor::Anthropic => return None,
        _ => return wrong("not a schema"),
    };
    let is = |kind: &str| members.get("type").is_some_and(|found| found == kind);
    if pointer.is_empty() {
        if vendor != Vendor::Gemini && !(is("object") && members.contains_key("properties")) {
            return wrong("no object at the root");
        }
        let combines = ["anyOf", "oneOf", "allOf"];
        if vendor != Vendor::Gemini && combines.iter().any(|word| members.contains_key(*word)) {
            return wrong("a choice at the root");
        }
        let is_key = |key: &String| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
            (1..=64).contains(&key.len()) && key.bytes().all(fits)
        };
        let keys = members.get("properties").and_then(Value::as_object);
        if vendor == Vendor::Anthropic && !keys.is_none_or(|keys| keys.keys().all(is_key)) {
            return wrong("the name of an argument");
        }
    }
    let refused: &[&str] = match vendor {
        Vendor::Gemini => &["$schema", "title", "examples", "const", "discriminator"],
        Vendor::OpenAi | Vendor::OpenAiChat => &["const"],
        Vendor::Local => &[
            "$ref",
            "$defs",
            "definitions",
            "pattern",
            "format",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minimum",
            "maximum",
            "propertyNames",
            "not",
            "if",
            "const",
            "patternProperties",
            "$schema",
            "default",
        ],
        Vendor::Anthropic => &[],
    };
    if let Some(keyword) = refused
        .iter()
        .find(|keyword| members.contains_key(**keyword))
    {
        return wrong(&format!("the keyword {keyword}"));
    }
    if matches!(vendor, Vendor::OpenAi | Vendor::OpenAiChat) {
        if is("array") && !members.contains_key("items") {
            return wrong("a list without items");
        }
        if is("object") && !members.contains_key("properties") {
            return wrong("an object without properties");
        }
    }
    let mut schemas: Vec<(String, &Value)> = Vec::new();
    for keyword in ["properties", "$defs", "definitions"] {
        let named = members.get(keyword).and_then(Value::as_object);
        let named = named.into_iter().flatten();
        schemas.extend(named.map(|(name, schema)| (format!("{pointer}/{keyword}/{name}"), schema)));
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let choices = members.get(keyword).and_then(Value::as_array);
        let choices = choices.into_iter().flatten().enumerate();
        schemas.extend(
            choices.map(|(index, schema)| (format!("{pointer}/{keyword}/{index}"), schema)),
        );
    }
    schemas.extend(
        members
            .get("items")
            .map(|schema| (format!("{pointer}/items"), schema)),
    );
    schemas
        .into_iter()
        .find_map(|(pointer, schema)| fault(vendor, schema, &pointer))
}

fn is_name(vendor: Vendor, name: &str) -> bool {
    let fits = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || b"_-".contains(&byte)
            || (vendor == Vendor::Gemini && b".:".contains(&byte))
    };
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

#[test]
fn every_tool_of_the_corpus_passes_each_vendors_rules_or_is_withheld_with_the_reason() {
    let Some(tools) = corpus() else {
        return;
    };
    assert!(tools.len() > 500, "{} tools", tools.len());
    for vendor in Vendor::ALL {
        let mut withheld = 0;
        for tool in &tools {
            let set = Toolset::new(vendor, [tool]);
            let Some(adapted) = set.tools().first() else {
                let reason = &set.withheld()[0].reason;
                assert!(reason.contains("/inputSchema"), "{vendor:?}: {reason}");
                withheld += 1;
                continue;
            };
            assert!(
                is_name(vendor, &adapted.name),
                "{vendor:?}: {}",
                adapted.name
            );
            let schema = adapted.schema().to_value().unwrap();
            let found = fault(vendor, &schema, "");
            assert_eq!(found, None, "{vendor:?}, {}: {schema}", adapted.name);
        }
        assert!(withheld <= 1, "{vendor:?}: {withheld} withheld");
    }
}
