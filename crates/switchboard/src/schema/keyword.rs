//! Which keywords of a schema contain subschemas. A property that is *named* like a keyword is not
//! a keyword.

use std::borrow::Cow;

use super::{JsonTree, SchemaFault};
use crate::untrusted::quoted;

/// The part of the instance that a subschema applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppliesTo {
    /// The same part as its parent.
    Same,
    /// One child, which no sibling subschema of this keyword applies to.
    OneChild,
    /// Several children, which sibling subschemas may apply to as well.
    Children,
    /// None, unless it is referenced.
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeywordShape {
    /// One schema, or a list of them.
    Schemas,
    /// An object whose values are schemas.
    Map,
}

fn shape(keyword: &str) -> Option<(KeywordShape, AppliesTo)> {
    Some(match keyword {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
            (KeywordShape::Schemas, AppliesTo::Same)
        }
        "dependentSchemas" | "dependencies" => (KeywordShape::Map, AppliesTo::Same),
        "properties" => (KeywordShape::Map, AppliesTo::OneChild),
        "prefixItems" => (KeywordShape::Schemas, AppliesTo::OneChild),
        "patternProperties" => (KeywordShape::Map, AppliesTo::Children),
        "items"
        | "additionalItems"
        | "contains"
        | "additionalProperties"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties" => (KeywordShape::Schemas, AppliesTo::Children),
        "$defs" | "definitions" => (KeywordShape::Map, AppliesTo::Nothing),
        "contentSchema" => (KeywordShape::Schemas, AppliesTo::Nothing),
        _ => return None,
    })
}

/// The direct subschemas of a schema.
pub(super) fn subschemas<'t, 'a>(
    schema: &'t JsonTree<'a>,
) -> impl Iterator<Item = (AppliesTo, &'t JsonTree<'a>)> {
    let entries: &[(Cow<'a, str>, JsonTree<'a>)] = if let JsonTree::Object(entries) = schema {
        entries
    } else {
        &[]
    };
    entries
        .iter()
        .filter_map(|(key, value)| shape(key).map(|(shape, applies_to)| (shape, applies_to, value)))
        .flat_map(|(shape, applies_to, value)| {
            let found: Vec<&'t JsonTree<'a>> = match (shape, value) {
                (KeywordShape::Schemas, JsonTree::List(items)) => items.iter().collect(),
                (KeywordShape::Schemas, one) => vec![one],
                (KeywordShape::Map, JsonTree::Object(entries)) => {
                    entries.iter().map(|(_, value)| value).collect()
                }
                (KeywordShape::Map, _) => Vec::new(),
            };
            found
                .into_iter()
                .filter(|schema| matches!(schema, JsonTree::Object(_) | JsonTree::Bool(_)))
                .map(move |schema| (applies_to, schema))
        })
}

/// Finds the most common mistakes, so that an invalid tool is withheld when it is listed instead of
/// failing when it is called.
pub(super) fn check_form(schema: &JsonTree<'_>) -> Result<(), SchemaFault> {
    let JsonTree::Object(entries) = schema else {
        return Ok(());
    };
    let fault = |key: &str, what: &str| Err(SchemaFault::new(format!("has a \"{key}\" {what}")));
    for (key, value) in entries {
        let key = &**key;
        match (key, value) {
            ("type", JsonTree::Text(kind)) => check_kind(kind)?,
            ("type", JsonTree::List(kinds)) => {
                for kind in kinds {
                    match kind.as_str() {
                        Some(kind) => check_kind(kind)?,
                        None => return fault(key, "that is not a text or a list of texts"),
                    }
                }
            }
            ("type", _) => return fault(key, "that is not a text or a list of texts"),
            ("required", JsonTree::List(names))
                if names.iter().all(|name| name.as_str().is_some()) => {}
            ("required", _) => return fault(key, "that is not a list of texts"),
            ("enum" | "allOf" | "anyOf" | "oneOf", JsonTree::List(_)) => {}
            ("enum" | "allOf" | "anyOf" | "oneOf", _) => return fault(key, "that is not a list"),
            (
                "properties" | "patternProperties" | "$defs" | "definitions",
                JsonTree::Object(entries),
            ) if entries
                .iter()
                .all(|(_, value)| matches!(value, JsonTree::Object(_) | JsonTree::Bool(_))) => {}
            ("properties" | "patternProperties" | "$defs" | "definitions", JsonTree::Object(_)) => {
                return fault(key, "with a value that is not a schema");
            }
            ("properties" | "patternProperties" | "$defs" | "definitions", _) => {
                return fault(key, "that is not an object");
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_kind(kind: &str) -> Result<(), SchemaFault> {
    match kind {
        "array" | "boolean" | "integer" | "null" | "number" | "object" | "string" => Ok(()),
        other => Err(SchemaFault::new(format!(
            "has an unknown type {}",
            quoted(other)
        ))),
    }
}

/// Calls `edit` for a schema and every schema inside it.
pub(super) fn edit_each(schema: &mut JsonTree<'_>, edit: &mut impl FnMut(&mut JsonTree<'_>)) {
    edit(schema);
    let JsonTree::Object(entries) = schema else {
        return;
    };
    for (key, value) in entries {
        match (shape(key), value) {
            (Some((KeywordShape::Schemas, _)), JsonTree::List(items)) => {
                items.iter_mut().for_each(|item| edit_each(item, edit))
            }
            (Some((KeywordShape::Schemas, _)), one) => edit_each(one, edit),
            (Some((KeywordShape::Map, _)), JsonTree::Object(entries)) => entries
                .iter_mut()
                .for_each(|(_, value)| edit_each(value, edit)),
            (Some((KeywordShape::Map, _)) | None, _) => {}
        }
    }
}

/// The references of a schema.
pub(super) fn references<'t>(schema: &'t JsonTree<'_>) -> impl Iterator<Item = &'t str> {
    ["$ref", "$dynamicRef", "$recursiveRef"]
        .into_iter()
        .filter_map(|keyword| schema.get(keyword)?.as_str())
}
