//! A schema without the keywords that vendors and local servers refuse.
//!
//! Only limits are lost: the server's own schema still checks the arguments of a call.

use serde_json::{Map, Value};

use crate::json::JsonText;

/// No schema is followed deeper: references may lead back to themselves.
const MAX_DEPTH: usize = 16;

/// Keywords that are dropped wherever they stand. Local servers turn a schema into a grammar, and
/// one of these can make that impossible.
const DROPPED: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicRef",
    "$id",
    "$schema",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "default",
    "definitions",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "pattern",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// Keywords whose value is a list of schemas. At the top they are dropped: no vendor takes them
/// there.
const ALTERNATIVES: &[&str] = &["allOf", "anyOf", "oneOf"];

/// The schema of a tool's arguments, loosened. What cannot be read becomes an object without
/// stated properties.
pub fn loosen(schema: &JsonText) -> JsonText {
    let root: Value = serde_json::from_str(schema.as_str()).unwrap_or_default();
    let mut loosened = match loosen_value(&root, &root, 0) {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    for keyword in ALTERNATIVES {
        loosened.remove(*keyword);
    }
    loosened.insert("type".to_owned(), "object".into());
    if !loosened.get("properties").is_some_and(Value::is_object) {
        loosened.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    JsonText::from_value(&loosened)
}

fn loosen_value(value: &Value, root: &Value, depth: usize) -> Value {
    let Value::Object(members) = value else {
        return value.clone();
    };
    if depth > MAX_DEPTH {
        return Value::Object(Map::new());
    }
    if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
        let target = reference.strip_prefix('#');
        return match target.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => loosen_value(target, root, depth + 1),
            None => Value::Object(Map::new()),
        };
    }
    let mut loosened = Map::new();
    for (key, value) in members {
        let value = match key.as_str() {
            key if DROPPED.contains(&key) => continue,
            "properties" => loosen_members(value, root, depth),
            "items" | "additionalProperties" => loosen_value(value, root, depth + 1),
            key if ALTERNATIVES.contains(&key) => loosen_list(value, root, depth),
            _ => value.clone(),
        };
        loosened.insert(key.clone(), value);
    }
    Value::Object(loosened)
}

/// Names of properties are no keywords: a property may be called `pattern`.
fn loosen_members(value: &Value, root: &Value, depth: usize) -> Value {
    let members = value.as_object().into_iter().flatten();
    let members = members.map(|(key, value)| (key.clone(), loosen_value(value, root, depth + 1)));
    Value::Object(members.collect())
}

fn loosen_list(value: &Value, root: &Value, depth: usize) -> Value {
    let items = value.as_array().into_iter().flatten();
    Value::Array(
        items
            .map(|item| loosen_value(item, root, depth + 1))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, expected: &str) {
        let schema = JsonText::parse(schema).expect("JSON");
        let expected: Value = serde_json::from_str(expected).expect("JSON");
        let found: Value = serde_json::from_str(loosen(&schema).as_str()).expect("JSON");
        assert_eq!(found, expected);
    }

    #[test]
    fn limits_go_and_shapes_stay() {
        check(
            r##"{"$schema":"x","type":"object","required":["pattern"],"properties":{
                "pattern":{"type":"string","pattern":"^(?=a)","maxLength":9999999},
                "list":{"type":"array","items":{"$ref":"#/$defs/one"},"minItems":1}},
                "$defs":{"one":{"type":"integer","minimum":3,"description":"d"}},
                "anyOf":[{"required":["list"]}]}"##,
            r#"{"type":"object","required":["pattern"],"properties":{
                "pattern":{"type":"string"},
                "list":{"type":"array","items":{"type":"integer","description":"d"}}}}"#,
        );
    }

    #[test]
    fn references_that_lead_nowhere_or_in_a_circle_end() {
        check(
            r##"{"properties":{"a":{"$ref":"#/$defs/missing"},"b":{"$ref":"#/properties/b"}}}"##,
            r#"{"type":"object","properties":{"a":{},"b":{}}}"#,
        );
        check("true", r#"{"type":"object","properties":{}}"#);
    }
}
