//! Schemas for Gemini, without the keywords that Gemini CLI removes and those that its API refuses.

use super::json::{Json, Members};
use super::{ToolDraft, walk};

/// The schema as Gemini CLI shows it to the model: no `$schema`, no `additionalProperties`, no
/// `default` beside `anyOf`, at any depth.
pub(super) fn cleaned(mut schema: Json) -> Json {
    walk::each(&mut schema, &mut |schema| {
        let Some(members) = schema.members_mut() else {
            return;
        };
        members.shift_remove("$schema");
        members.shift_remove("additionalProperties");
        if members.contains_key("anyOf") {
            members.shift_remove("default");
        }
    });
    schema
}

/// Cleans a schema for `parametersJsonSchema`, also of the keywords that make the API refuse a
/// request.
pub(super) fn adapt(draft: &mut ToolDraft) -> Result<(), String> {
    let schema = std::mem::replace(&mut draft.schema, Json::Null);
    draft.schema = cleaned(schema);
    walk::each(&mut draft.schema, &mut |schema| {
        if let Json::Bool(_) = schema {
            *schema = Json::Object(Members::new());
        }
        let Some(members) = schema.members_mut() else {
            return;
        };
        for keyword in REFUSED_KEYWORDS {
            members.shift_remove(keyword);
        }
        for (keyword, words) in [
            ("exclusiveMinimum", "more than"),
            ("exclusiveMaximum", "less than"),
        ] {
            match members.shift_remove(keyword) {
                Some(bound @ Json::Number(_)) => {
                    walk::note(members, &format!("{words} {}", bound.to_text()))
                }
                _ => continue,
            }
        }
        keep_string_enums(members);
        keep_known_formats(members);
        repair_required_and_items(members);
    });
    match draft.schema.members_mut() {
        Some(root) => drop(root.insert("type".to_owned(), Json::Text("object".to_owned()))),
        None => return Err("its inputSchema is not an object".to_owned()),
    }
    Ok(())
}

/// Keywords that the API refuses. They only add restrictions, or mean nothing to a model.
const REFUSED_KEYWORDS: [&str; 16] = [
    "title",
    "examples",
    "discriminator",
    "optional",
    "propertyNames",
    "patternProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "dependentSchemas",
    "dependentRequired",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "$comment",
];

/// Restricts `enum` to strings. Other values are listed in the description instead, so that the
/// model answers with a value of the right type.
fn keep_string_enums(members: &mut Members) {
    if let Some(only) = members.shift_remove("const") {
        members.insert("enum".to_owned(), Json::List(vec![only]));
    }
    let Some(Json::List(choices)) = members.get("enum") else {
        return;
    };
    if choices.iter().all(|choice| choice.as_str().is_some()) {
        members
            .entry("type".to_owned())
            .or_insert_with(|| Json::Text("string".to_owned()));
        return;
    }
    let listed: Vec<_> = choices.iter().map(Json::to_text).collect();
    let words = if let [one] = listed.as_slice() {
        format!("always {one}")
    } else {
        format!("one of {}", listed.join(", "))
    };
    members.shift_remove("enum");
    walk::note(members, &words);
}

fn keep_known_formats(members: &mut Members) {
    let is_text = members
        .get("type")
        .and_then(Json::as_str)
        .is_none_or(|kind| kind == "string");
    let Some(format) = members
        .get("format")
        .and_then(Json::as_str)
        .map(str::to_owned)
    else {
        return;
    };
    if is_text && !matches!(format.as_str(), "enum" | "date-time") {
        members.shift_remove("format");
        walk::note(members, &format!("format: {format}"));
    }
}

/// Removes required properties that are not defined, and adds the missing `items` of an array.
fn repair_required_and_items(members: &mut Members) {
    if members.contains_key("required") {
        let named = members.get("properties").and_then(Json::members);
        let known: Vec<_> = walk::texts(members.get("required"))
            .into_iter()
            .filter(|name| named.is_some_and(|named| named.contains_key(name)))
            .map(Json::Text)
            .collect();
        members.insert("required".to_owned(), Json::List(known));
    }
    if members.get("type").and_then(Json::as_str) == Some("array")
        && !members.contains_key("items")
        && !members.contains_key("prefixItems")
    {
        members.insert(
            "items".to_owned(),
            Json::Object(
                [("type".to_owned(), Json::Text("string".to_owned()))]
                    .into_iter()
                    .collect(),
            ),
        );
    }
}
