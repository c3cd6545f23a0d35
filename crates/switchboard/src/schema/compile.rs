//! One schema compiled: patterns that a linear-time engine cannot take are left out, and nothing is
//! ever fetched.

use std::sync::Arc;

use jsonschema::PatternOptions;

use super::borrowed::Borrowed;
use super::{Misfit, Root, SchemaFault, Tree, check_bounds, check_tree, cost, keyword};
use crate::untrusted::{escaped_line, quoted};
use crate::wire::RawJson;

/// A schema ready to check arguments.
pub(super) struct Compiled {
    validator: jsonschema::Validator<Borrowed>,
    /// What is not checked.
    pub(super) warnings: Vec<String>,
    /// How deep arguments may be.
    deepest: usize,
}

/// How many misfits are told.
const TOLD: usize = 10;
/// How many patterns of one schema are compiled, and how large each may become.
const MAX_PATTERNS: usize = 64;
const MAX_PATTERN_BYTES: usize = 128 * 1024;

impl Compiled {
    pub(super) fn new(schema: &RawJson, root: Root) -> Result<Self, SchemaFault> {
        let mut tree: Tree<'_> = schema
            .decode()
            .map_err(|error| SchemaFault::new(format!("is not usable: {error}")))?;
        match root {
            Root::Object => check_tree(&tree, schema.as_bytes().len())?,
            Root::Anything => check_bounds(&tree, schema.as_bytes().len())?,
        }
        let deepest = cost::deepest(&tree)?;
        forget_strange_drafts(&mut tree);
        let warnings = drop_patterns(&mut tree);
        let value = serde_json::to_value(&tree)
            .map_err(|error| SchemaFault::new(format!("is not usable: {error}")))?;
        let validator = options().build(&value).map_err(|error| {
            let text = format!("{}: {}", error.instance_path(), error.masked());
            SchemaFault::new(format!(
                "is not a valid schema: {}",
                brief(text.trim_start_matches(": "))
            ))
        })?;
        Ok(Self {
            validator,
            warnings,
            deepest,
        })
    }

    pub(super) fn validate(&self, arguments: &Tree<'_>) -> Result<(), Misfit> {
        if self.deepest < 128 && arguments.depth() > self.deepest {
            return Err(Misfit::whole(format!(
                "nested deeper than {}, the most that this recursive schema allows to check",
                self.deepest
            )));
        }
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        let told = self
            .validator
            .iter_errors(arguments)
            .take(TOLD)
            .map(|error| {
                let at = escaped_line(error.instance_path().as_str()).to_string();
                (at, brief(&error.masked().to_string()))
            });
        Err(Misfit::Arguments(told.collect()))
    }
}

fn options<'a>() -> jsonschema::ValidationOptions<'a, Arc<dyn jsonschema::Retrieve>, Borrowed> {
    let patterns = PatternOptions::regex()
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    // `format` is an annotation to the specification; what it means is the server's to check.
    jsonschema::options_for::<Borrowed>()
        .offline()
        .with_pattern_options(patterns)
        .should_validate_formats(false)
}

/// One line of a length that can be read.
fn brief(text: &str) -> String {
    const LONGEST: usize = 300;
    match text.char_indices().nth(LONGEST) {
        None => escaped_line(text).to_string(),
        Some((end, _)) => format!("{}…", escaped_line(&text[..end])),
    }
}

/// A `$schema` of nobody's would have to be fetched: such a schema is read as 2020-12.
fn forget_strange_drafts(schema: &mut Tree<'_>) {
    const KNOWN: [&str; 5] = [
        "json-schema.org/draft-04/schema",
        "json-schema.org/draft-06/schema",
        "json-schema.org/draft-07/schema",
        "json-schema.org/draft/2019-09/schema",
        "json-schema.org/draft/2020-12/schema",
    ];
    let known = |draft: &Tree<'_>| {
        let draft = draft.as_str().unwrap_or_default();
        let draft = draft
            .strip_prefix("https://")
            .or_else(|| draft.strip_prefix("http://"))
            .unwrap_or(draft);
        KNOWN.contains(&draft.trim_end_matches('#'))
    };
    keyword::edit_each(schema, &mut |schema| {
        if let Tree::Object(entries) = schema {
            entries.retain(|(key, value)| key != "$schema" || known(value));
        }
    });
}

/// Leaves out what cannot be matched in linear time; the server still checks it.
fn drop_patterns(schema: &mut Tree<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut tried = 0;
    let mut usable = |pattern: &str| {
        tried += 1;
        let usable = tried <= MAX_PATTERNS
            && options()
                .build(&serde_json::json!({ "pattern": pattern }))
                .is_ok();
        if !usable {
            warnings.push(format!("the pattern {} is not checked", quoted(pattern)));
        }
        usable
    };
    keyword::edit_each(schema, &mut |schema| {
        let Tree::Object(entries) = schema else {
            return;
        };
        entries.retain(|(key, value)| match (&**key, value) {
            ("pattern", Tree::Text(pattern)) => usable(pattern),
            _ => true,
        });
        let mut dropped = false;
        for (key, value) in entries.iter_mut() {
            if let ("patternProperties", Tree::Object(patterns)) = (&**key, value) {
                let before = patterns.len();
                patterns.retain(|(pattern, _)| usable(pattern));
                dropped |= patterns.len() < before;
            }
        }
        // What the dropped pattern would have taken must not fall to these.
        if dropped {
            entries.retain(|(key, _)| {
                !matches!(&**key, "additionalProperties" | "unevaluatedProperties")
            });
        }
    });
    warnings
}
