//! Where a schema holds other schemas. A property that is *named* like a keyword is none.

use std::borrow::Cow;

use super::{SchemaFault, Tree};
use crate::untrusted::quoted;

/// What part of the instance a subschema is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The same part as its parent.
    Same,
    /// A part inside it, of which no sibling of this kind sees the same one.
    OneChild,
    /// Parts inside it.
    Children,
    /// None, unless something refers to it.
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One schema, or a list of them.
    Schemas,
    /// An object of them.
    Map,
}

fn shape(keyword: &str) -> Option<(Shape, Reach)> {
    Some(match keyword {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
            (Shape::Schemas, Reach::Same)
        }
        "dependentSchemas" | "dependencies" => (Shape::Map, Reach::Same),
        "properties" => (Shape::Map, Reach::OneChild),
        "prefixItems" => (Shape::Schemas, Reach::OneChild),
        "patternProperties" => (Shape::Map, Reach::Children),
        "items"
        | "additionalItems"
        | "contains"
        | "additionalProperties"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties" => (Shape::Schemas, Reach::Children),
        "$defs" | "definitions" => (Shape::Map, Reach::Nothing),
        "contentSchema" => (Shape::Schemas, Reach::Nothing),
        _ => return None,
    })
}

/// The schemas that stand directly in a schema.
pub(super) fn subschemas<'t, 'a>(
    schema: &'t Tree<'a>,
) -> impl Iterator<Item = (Reach, &'t Tree<'a>)> {
    let entries: &[(Cow<'a, str>, Tree<'a>)] = if let Tree::Object(entries) = schema {
        entries
    } else {
        &[]
    };
    entries
        .iter()
        .filter_map(|(key, value)| shape(key).map(|(shape, reach)| (shape, reach, value)))
        .flat_map(|(shape, reach, value)| {
            let found: Vec<&'t Tree<'a>> = match (shape, value) {
                (Shape::Schemas, Tree::List(items)) => items.iter().collect(),
                (Shape::Schemas, one) => vec![one],
                (Shape::Map, Tree::Object(entries)) => {
                    entries.iter().map(|(_, value)| value).collect()
                }
                (Shape::Map, _) => Vec::new(),
            };
            found
                .into_iter()
                .filter(|schema| matches!(schema, Tree::Object(_) | Tree::Bool(_)))
                .map(move |schema| (reach, schema))
        })
}

/// Finds the mistakes that servers make most, so that a broken tool is withheld when listed and not
/// when called.
pub(super) fn check_form(schema: &Tree<'_>) -> Result<(), SchemaFault> {
    let Tree::Object(entries) = schema else {
        return Ok(());
    };
    let fault = |key: &str, what: &str| Err(SchemaFault::new(format!("has a \"{key}\" {what}")));
    for (key, value) in entries {
        let key = &**key;
        match (key, value) {
            ("type", Tree::Text(kind)) => check_kind(kind)?,
            ("type", Tree::List(kinds)) => {
                for kind in kinds {
                    match kind.as_str() {
                        Some(kind) => check_kind(kind)?,
                        None => return fault(key, "that is not a text or a list of texts"),
                    }
                }
            }
            ("type", _) => return fault(key, "that is not a text or a list of texts"),
            ("required", Tree::List(names)) if names.iter().all(|name| name.as_str().is_some()) => {
            }
            ("required", _) => return fault(key, "that is not a list of texts"),
            ("enum" | "allOf" | "anyOf" | "oneOf", Tree::List(_)) => {}
            ("enum" | "allOf" | "anyOf" | "oneOf", _) => return fault(key, "that is not a list"),
            (
                "properties" | "patternProperties" | "$defs" | "definitions",
                Tree::Object(entries),
            ) if entries
                .iter()
                .all(|(_, value)| matches!(value, Tree::Object(_) | Tree::Bool(_))) => {}
            ("properties" | "patternProperties" | "$defs" | "definitions", Tree::Object(_)) => {
                return fault(key, "with something in it that is no schema");
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
pub(super) fn edit_each(schema: &mut Tree<'_>, edit: &mut impl FnMut(&mut Tree<'_>)) {
    edit(schema);
    let Tree::Object(entries) = schema else {
        return;
    };
    for (key, value) in entries {
        match (shape(key), value) {
            (Some((Shape::Schemas, _)), Tree::List(items)) => {
                items.iter_mut().for_each(|item| edit_each(item, edit))
            }
            (Some((Shape::Schemas, _)), one) => edit_each(one, edit),
            (Some((Shape::Map, _)), Tree::Object(entries)) => entries
                .iter_mut()
                .for_each(|(_, value)| edit_each(value, edit)),
            (Some((Shape::Map, _)) | None, _) => {}
        }
    }
}

/// What a schema refers to.
pub(super) fn references<'t>(schema: &'t Tree<'_>) -> impl Iterator<Item = &'t str> {
    ["$ref", "$dynamicRef", "$recursiveRef"]
        .into_iter()
        .filter_map(|keyword| schema.get(keyword)?.as_str())
}
