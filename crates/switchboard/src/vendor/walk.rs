//! Visits a schema and all its subschemas. A property that has the name of a keyword is not taken
//! for the keyword.

use super::json::{Json, Members};
use crate::schema::pointer_steps;

/// Applies a change to a schema and then to each of its subschemas.
pub(super) fn each(schema: &mut Json, change: &mut dyn FnMut(&mut Json)) {
    change(schema);
    let Json::Object(members) = schema else {
        return;
    };
    for (keyword, value) in members {
        match (keyword.as_str(), value) {
            (
                // `dependencies` may also contain lists of names, which are not changed.
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Json::Object(schemas),
            ) => {
                schemas.values_mut().for_each(|schema| each(schema, change));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Json::List(schemas)) => {
                schemas.iter_mut().for_each(|schema| each(schema, change));
            }
            (
                "items"
                | "additionalItems"
                | "additionalProperties"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contains"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contentSchema",
                schema @ Json::Object(_),
            ) => each(schema, change),
            // `true` and `false` are schemas too. As `additionalProperties` every vendor accepts
            // them.
            ("items" | "contains" | "not", schema @ Json::Bool(_)) => each(schema, change),
            _ => {}
        }
    }
}

/// Whether a schema has any argument.
pub(super) fn has_properties(schema: &Json) -> bool {
    let named = |members: &Members| matches!(members.get("properties"), Some(Json::Object(named)) if !named.is_empty());
    let refers = |members: &Members| {
        ["$ref", "anyOf", "oneOf", "allOf"]
            .iter()
            .any(|keyword| members.contains_key(*keyword))
    };
    schema
        .members()
        .is_some_and(|members| named(members) || refers(members))
}

/// Adds a text to the description, for what the vendor has no keyword for.
pub(super) fn note(schema: &mut Members, what: &str) {
    let said = schema
        .get("description")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let said = if said.is_empty() {
        what.to_owned()
    } else {
        format!("{said} ({what})")
    };
    schema.insert("description".to_owned(), Json::Text(said));
}

/// Makes the root an object with properties, without `anyOf`, `oneOf` or `allOf`: the properties of
/// the alternatives move to the root, and the description states which of them belong together.
pub(super) fn flatten_root(schema: &mut Json, description: &mut String) -> Result<(), String> {
    let definitions = schema.clone();
    let root = schema.members_mut().ok_or("/inputSchema: not an object")?;
    root.insert("type".to_owned(), Json::Text("object".to_owned()));
    let mut required = texts(root.get("required"));
    for (keyword, words) in [
        ("allOf", ""),
        ("anyOf", "Needs one of these sets of arguments"),
        ("oneOf", "Needs exactly one of these sets of arguments"),
    ] {
        let Some(Json::List(choices)) = root.shift_remove(keyword) else {
            continue;
        };
        let mut sets = Vec::new();
        for choice in choices {
            let Some(choice) = resolved(&definitions, &choice).and_then(Json::members) else {
                continue;
            };
            let needs = texts(choice.get("required"));
            if let Some(Json::Object(named)) = choice.get("properties") {
                let properties = root
                    .entry("properties".to_owned())
                    .or_insert_with(|| Json::Object(Members::new()));
                let Some(properties) = properties.members_mut() else {
                    continue;
                };
                for (name, of) in named {
                    properties.entry(name.clone()).or_insert_with(|| of.clone());
                }
            }
            if keyword == "allOf" {
                required.extend(
                    needs
                        .into_iter()
                        .filter(|name| !required.contains(name))
                        .collect::<Vec<_>>(),
                );
            } else if !needs.is_empty() {
                sets.push(needs.join(", "));
            }
        }
        if !sets.is_empty() {
            let gap = if description.is_empty() { "" } else { "\n" };
            description.push_str(&format!("{gap}{words}: {}", sets.join("; or ")));
        }
    }
    for keyword in ["not", "enum", "const", "if", "then", "else"] {
        root.shift_remove(keyword);
    }
    root.entry("properties".to_owned())
        .or_insert_with(|| Json::Object(Members::new()));
    if !required.is_empty() {
        root.insert(
            "required".to_owned(),
            Json::List(required.into_iter().map(Json::Text).collect()),
        );
    }
    Ok(())
}

/// The definition that a schema of only a `$ref` names. Follows one reference, not a chain.
fn resolved<'a>(root: &'a Json, schema: &'a Json) -> Option<&'a Json> {
    let Some(reference) = schema.members()?.get("$ref").and_then(Json::as_str) else {
        return Some(schema);
    };
    target(root, reference)
}

/// The schema that a reference names.
pub(super) fn target<'a>(root: &'a Json, reference: &str) -> Option<&'a Json> {
    let mut steps = pointer_steps(reference.strip_prefix('#')?)?.into_iter();
    steps.try_fold(root, |at, step| match at {
        Json::Object(members) => members.get(&step),
        Json::List(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The strings of an array.
pub(super) fn texts(list: Option<&Json>) -> Vec<String> {
    let Some(Json::List(items)) = list else {
        return Vec::new();
    };
    items
        .iter()
        .filter_map(Json::as_str)
        .map(str::to_owned)
        .collect()
}
