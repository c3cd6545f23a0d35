//! Schemas for OpenAI's functions without strict mode: each has a type, each object `properties`,
//! each array `items`, and no definition is unused.

use std::collections::HashSet;

use super::json::{Json, Members};
use super::{ToolDraft, walk};
use crate::schema::pointer_steps;

pub(super) fn adapt(draft: &mut ToolDraft) -> Result<(), String> {
    walk::flatten_root(&mut draft.schema, &mut draft.description)?;
    walk::each(&mut draft.schema, &mut |schema| {
        if let Json::Bool(_) = schema {
            *schema = Json::Object(typed("string"));
        }
        if let Some(members) = schema.members_mut() {
            if let Some(only) = members.shift_remove("const") {
                members.insert("enum".to_owned(), Json::List(vec![only]));
            }
            if let Some(kind) = missing_type(members) {
                members.insert("type".to_owned(), Json::Text(kind.to_owned()));
            }
            complete(members);
        }
    });
    prune(&mut draft.schema);
    Ok(())
}

fn typed(kind: &str) -> Members {
    [("type".to_owned(), Json::Text(kind.to_owned()))]
        .into_iter()
        .collect()
}

/// The type that the other keywords of a schema without `type` imply, if any.
fn missing_type(members: &Members) -> Option<&'static str> {
    let has = |keywords: &[&str]| {
        keywords
            .iter()
            .any(|keyword| members.contains_key(*keyword))
    };
    if has(&["type", "$ref", "anyOf", "oneOf", "allOf"]) {
        None
    } else if has(&["properties", "required", "additionalProperties"]) {
        Some("object")
    } else if has(&["items", "prefixItems"]) {
        Some("array")
    } else if let Some(Json::List(choices)) = members.get("enum") {
        let all_numbers = choices
            .iter()
            .all(|choice| matches!(choice, Json::Number(_)));
        let all_flags = choices.iter().all(|choice| matches!(choice, Json::Bool(_)));
        Some(if all_numbers {
            "number"
        } else if all_flags {
            "boolean"
        } else {
            "string"
        })
    } else if has(&["format"]) {
        Some("string")
    } else if has(&[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ]) {
        Some("number")
    } else {
        None
    }
}

fn complete(members: &mut Members) {
    let is = |kind: &str, members: &Members| match members.get("type") {
        Some(Json::Text(one)) => one == kind,
        Some(Json::List(kinds)) => kinds.iter().any(|one| one.as_str() == Some(kind)),
        _ => false,
    };
    if is("object", members) {
        members
            .entry("properties".to_owned())
            .or_insert_with(|| Json::Object(Members::new()));
    }
    if is("array", members) {
        members
            .entry("items".to_owned())
            .or_insert_with(|| Json::Object(typed("string")));
    }
}

/// Removes the definitions that nothing refers to.
fn prune(schema: &mut Json) {
    let Some(root) = schema.members_mut() else {
        return;
    };
    let mut waiting = Vec::new();
    for (keyword, value) in root.iter() {
        if !matches!(keyword.as_str(), "$defs" | "definitions") {
            references(value, &mut waiting);
        }
    }
    let mut reached: HashSet<(String, String)> = HashSet::new();
    while let Some((of, name)) = waiting.pop() {
        if let Some(definition) = root
            .get(&of)
            .and_then(Json::members)
            .and_then(|known| known.get(&name))
            && reached.insert((of, name))
        {
            references(definition, &mut waiting);
        }
    }
    for of in ["$defs", "definitions"] {
        let Some(known) = root.get_mut(of).and_then(Json::members_mut) else {
            continue;
        };
        known.retain(|name, _| reached.contains(&(of.to_owned(), name.clone())));
        if known.is_empty() {
            root.shift_remove(of);
        }
    }
}

/// The first two steps of every reference, such as `$defs` and `NAME`.
fn references(value: &Json, found: &mut Vec<(String, String)>) {
    match value {
        Json::List(items) => items.iter().for_each(|item| references(item, found)),
        Json::Object(members) => {
            if let Some(reference) = members.get("$ref").and_then(Json::as_str) {
                let steps = reference.strip_prefix('#').and_then(pointer_steps);
                if let Some([of, name, ..]) = steps.as_deref() {
                    found.push((of.clone(), name.clone()));
                }
            }
            members.values().for_each(|value| references(value, found));
        }
        _ => {}
    }
}
