//! Removes patterns that cannot be matched in linear time; the server still validates them. Also
//! removes or relaxes the keywords that would reject valid arguments once a pattern below them is
//! gone: `not`, `if`, `oneOf`, `maxContains`.

use std::collections::HashSet;

use super::{JsonTree, keyword};
use crate::untrusted::quoted;

/// Removes the patterns that are not `usable`; returns a warning for each.
pub(super) fn remove_unsupported(
    schema: &mut JsonTree<'_>,
    usable: impl FnMut(&str) -> bool,
) -> Vec<String> {
    let mut unsupported = Unsupported::default();
    unsupported.find(schema, &mut { usable });
    if unsupported.patterns.is_empty() {
        return Vec::new();
    }
    let mut is_evaluated_less = false;
    keyword::edit_each(schema, &mut |schema| {
        is_evaluated_less |= unsupported.relax(schema);
    });
    keyword::edit_each(schema, &mut |schema| {
        unsupported.remove_from(schema);
        if is_evaluated_less {
            remove(schema, &["unevaluatedItems", "unevaluatedProperties"]);
        }
    });
    unsupported.warnings
}

#[derive(Default)]
struct Unsupported {
    patterns: HashSet<String>,
    /// One for each pattern, in the schema's order.
    warnings: Vec<String>,
    /// References into keywords. Such a keyword stays, since a reference to nothing is an error.
    references: Vec<String>,
}

impl Unsupported {
    fn find(&mut self, schema: &JsonTree<'_>, usable: &mut impl FnMut(&str) -> bool) {
        for pattern in patterns(schema) {
            if !usable(pattern) && self.patterns.insert(pattern.to_owned()) {
                self.warnings
                    .push(format!("the pattern {} is not checked", quoted(pattern)));
            }
        }
        let references = keyword::references(schema).map(str::to_owned);
        self.references.extend(references);
        for (_, inner) in keyword::subschemas(schema) {
            self.find(inner, usable);
        }
    }

    /// Whether a schema accepts more without the patterns. What a reference refers to may.
    fn concerns(&self, schema: &JsonTree<'_>) -> bool {
        keyword::references(schema).next().is_some()
            || patterns(schema).any(|pattern| self.patterns.contains(pattern))
            || keyword::subschemas(schema).any(|(_, inner)| self.concerns(inner))
    }

    fn is_referenced(&self, keyword: &str) -> bool {
        let mut parts = self.references.iter().flat_map(|to| to.split('/'));
        parts.any(|part| part == keyword)
    }

    /// Relaxes the keywords that reject arguments because a schema below them accepts them. True if
    /// fewer properties or items count as evaluated then.
    fn relax(&self, schema: &mut JsonTree<'_>) -> bool {
        let is_concerned = |keyword: &str| match schema.get(keyword) {
            Some(_) if self.is_referenced(keyword) => false,
            Some(JsonTree::List(schemas)) => schemas.iter().any(|one| self.concerns(one)),
            Some(one) => self.concerns(one),
            None => false,
        };
        let [not, condition, one_of, contains] =
            ["not", "if", "oneOf", "contains"].map(is_concerned);
        if not {
            remove(schema, &["not"]);
        }
        if condition {
            // Without `if`, `then` and `else` have no effect.
            remove(schema, &["if"]);
        }
        if contains {
            remove(schema, &["maxContains"]);
        }
        let is_lost = one_of && !turn_into_any_of(schema);
        condition || is_lost
    }

    fn remove_from(&self, schema: &mut JsonTree<'_>) {
        let JsonTree::Object(entries) = schema else {
            return;
        };
        let is_kept = |pattern: &str| !self.patterns.contains(pattern);
        entries.retain(|(key, value)| match (&**key, value) {
            ("pattern", JsonTree::Text(pattern)) => is_kept(pattern),
            _ => true,
        });
        let mut is_any_gone = false;
        for (key, value) in entries.iter_mut() {
            if let ("patternProperties", JsonTree::Object(patterns)) = (&**key, value) {
                let before = patterns.len();
                patterns.retain(|(pattern, _)| is_kept(pattern));
                is_any_gone |= patterns.len() < before;
            }
        }
        // Properties that the removed pattern would have matched must not be treated as additional.
        if is_any_gone {
            remove(schema, &["additionalProperties", "unevaluatedProperties"]);
        }
    }
}

/// The patterns of a schema, without those of the schemas inside it.
fn patterns<'t>(schema: &'t JsonTree<'_>) -> impl Iterator<Item = &'t str> {
    let entries = match schema {
        JsonTree::Object(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().flat_map(|(key, value)| {
        let found: Vec<&str> = match (&**key, value) {
            ("pattern", JsonTree::Text(pattern)) => vec![pattern],
            ("patternProperties", JsonTree::Object(patterns)) => {
                patterns.iter().map(|(pattern, _)| &**pattern).collect()
            }
            _ => Vec::new(),
        };
        found
    })
}

/// Turns `oneOf` into `anyOf`. If there is an `anyOf` already, removes it; then false.
fn turn_into_any_of(schema: &mut JsonTree<'_>) -> bool {
    let has_any_of = schema.get("anyOf").is_some();
    if has_any_of {
        remove(schema, &["oneOf"]);
    } else if let JsonTree::Object(entries) = schema {
        for (key, _) in entries.iter_mut().filter(|(key, _)| key == "oneOf") {
            *key = "anyOf".into();
        }
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    }
    !has_any_of
}

fn remove(schema: &mut JsonTree<'_>, keywords: &[&str]) {
    if let JsonTree::Object(entries) = schema {
        entries.retain(|(key, _)| !keywords.contains(&&**key));
    }
}
