//! Repairs schemas that strict MCP clients reject.
//!
//! Because of one such schema some clients drop the whole server, and others send a request that
//! the model's vendor refuses. A repaired schema may allow more than the server's, never less:
//! arguments are validated against the server's own schema before a call.

use super::json::{Json, Members};
use super::walk::flatten_root;
use crate::wire::RawJson;

/// One change of a listed definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingRepair {
    /// The place, as a JSON pointer into the definition.
    pub pointer: String,
    /// The change, in one line.
    pub change: &'static str,
}

/// The members of a definition that differ for a strict client, with the changes; `None` if the
/// definition is accepted as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairedDefinition {
    /// The schema of the arguments, if it differs.
    pub input_schema: Option<String>,
    /// The schema of the result, if it differs; `Some(None)` if it is left out.
    pub output_schema: Option<Option<String>>,
    /// The description, if it states what the schema cannot express.
    pub description: Option<String>,
    /// All changes.
    pub repairs: Vec<ListingRepair>,
}

/// Keywords that a strict client does not accept at the top of `inputSchema`.
const COMBINATORS: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Repairs a definition for strict clients.
pub fn repair_definition(
    description: Option<&str>,
    input: &RawJson,
    output: Option<&RawJson>,
) -> Option<RepairedDefinition> {
    let mut repairs = Vec::new();
    let mut expected = description.unwrap_or_default().to_owned();
    let input_schema = repaired_input(input, &mut expected, &mut repairs);
    let output_schema = output.and_then(|output| repaired_output(output, &mut repairs));
    if repairs.is_empty() {
        return None;
    }
    Some(RepairedDefinition {
        input_schema,
        output_schema,
        description: (description.unwrap_or_default() != expected).then_some(expected),
        repairs,
    })
}

fn repaired_input(
    raw: &RawJson,
    description: &mut String,
    repairs: &mut Vec<ListingRepair>,
) -> Option<String> {
    let before = repairs.len();
    let pointer = "/inputSchema";
    let Ok(mut schema @ Json::Object(_)) = raw.decode::<Json>() else {
        add(repairs, pointer, "not an object: any arguments are listed");
        return Some(r#"{"type":"object"}"#.to_owned());
    };
    let members = schema.members_mut()?;
    if members.get("type").and_then(Json::as_str) != Some("object") {
        members.insert("type".to_owned(), Json::Text("object".to_owned()));
        add(repairs, &format!("{pointer}/type"), "is \"object\"");
    }
    let found = COMBINATORS
        .into_iter()
        .filter(|key| members.contains_key(*key));
    let found: Vec<&str> = found.collect();
    if !found.is_empty() && flatten_root(&mut schema, description).is_ok() {
        for keyword in found {
            let pointer = format!("{pointer}/{keyword}");
            add(repairs, &pointer, "its properties are listed side by side");
        }
    }
    without_booleans(&mut schema, pointer, repairs);
    (repairs.len() > before).then(|| schema.to_text())
}

fn repaired_output(raw: &RawJson, repairs: &mut Vec<ListingRepair>) -> Option<Option<String>> {
    let before = repairs.len();
    let pointer = "/outputSchema";
    let decoded = raw.decode::<Json>().ok();
    let is_object = |schema: &Json| {
        let members = schema.members();
        members.is_some_and(|members| members.get("type").and_then(Json::as_str) == Some("object"))
    };
    let Some(mut schema) = decoded.filter(is_object) else {
        add(repairs, pointer, "left out: it is not that of an object");
        return Some(None);
    };
    without_booleans(&mut schema, pointer, repairs);
    (repairs.len() > before).then(|| Some(schema.to_text()))
}

/// Replaces boolean schemas by their object form. `additionalProperties` stays: every client
/// accepts booleans there.
fn without_booleans(schema: &mut Json, pointer: &str, repairs: &mut Vec<ListingRepair>) {
    if let Json::Bool(flag) = *schema {
        let mut members = Members::new();
        if !flag {
            members.insert("not".to_owned(), Json::Object(Members::new()));
        }
        *schema = Json::Object(members);
        let change = if flag {
            "`true` is listed as {}"
        } else {
            "`false` is listed as {\"not\": {}}"
        };
        return add(repairs, pointer, change);
    }
    let Json::Object(members) = schema else {
        return;
    };
    for (keyword, value) in members {
        let pointer = format!("{pointer}/{}", escaped(keyword));
        match (keyword.as_str(), value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Json::Object(schemas),
            ) => {
                for (name, schema) in schemas {
                    let pointer = format!("{pointer}/{}", escaped(name));
                    without_booleans(schema, &pointer, repairs);
                }
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Json::List(schemas)) => {
                for (index, schema) in schemas.iter_mut().enumerate() {
                    without_booleans(schema, &format!("{pointer}/{index}"), repairs);
                }
            }
            (
                "items" | "contains" | "propertyNames" | "not" | "if" | "then" | "else"
                | "contentSchema",
                schema @ (Json::Object(_) | Json::Bool(_)),
            )
            | (
                "additionalItems"
                | "additionalProperties"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                schema @ Json::Object(_),
            ) => without_booleans(schema, &pointer, repairs),
            _ => {}
        }
    }
}

fn add(repairs: &mut Vec<ListingRepair>, pointer: &str, change: &'static str) {
    repairs.push(ListingRepair {
        pointer: pointer.to_owned(),
        change,
    });
}

/// Escapes a key for a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn check(input: Value, expected: Value, pointers: &[&str]) {
        let repaired = repair_definition(Some("Does."), &RawJson::from(input.clone()), None);
        let Some(repaired) = repaired else {
            return assert_eq!((input, pointers.len()), (expected, 0));
        };
        let schema: Value =
            serde_json::from_str(repaired.input_schema.as_deref().unwrap()).unwrap();
        assert_eq!(schema, expected, "{input}");
        let found: Vec<_> = repaired
            .repairs
            .iter()
            .map(|repair| &*repair.pointer)
            .collect();
        assert_eq!(found, pointers, "{input}");
    }

    #[test]
    fn schemas_that_strict_clients_reject_are_repaired() {
        let plain = json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
        check(plain.clone(), plain, &[]);
        check(
            json!({"type": "object", "properties": {"any": true, "a/b": {"items": false}}}),
            json!({"type": "object", "properties": {"any": {}, "a/b": {"items": {"not": {}}}}}),
            &[
                "/inputSchema/properties/a~1b/items",
                "/inputSchema/properties/any",
            ],
        );
        check(json!({}), json!({"type": "object"}), &["/inputSchema/type"]);
        check(
            json!({"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"b": true}, "required": ["b"]}]}),
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]}),
            &["/inputSchema/allOf", "/inputSchema/properties/b"],
        );
    }

    #[test]
    fn alternatives_are_described_in_the_description() {
        let input =
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b", "c"]}]});
        let repaired = repair_definition(Some("Does."), &RawJson::from(input), None).unwrap();
        let expected = "Does.\nNeeds exactly one of these sets of arguments: a; or b, c";
        assert_eq!(repaired.description.as_deref(), Some(expected));
    }

    #[test]
    fn an_output_schema_that_is_not_an_object_is_left_out() {
        let (input, output) = (json!({"type": "object"}), json!({"type": "array"}));
        let repaired = repair_definition(None, &RawJson::from(input), Some(&RawJson::from(output)));
        let repaired = repaired.unwrap();
        assert_eq!(
            (repaired.input_schema, repaired.output_schema),
            (None, Some(None))
        );
    }
}
