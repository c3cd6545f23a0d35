//! Compiles one schema. Patterns that a linear-time regex engine does not support are left out;
//! nothing is fetched.

use std::sync::Arc;

use jsonschema::PatternOptions;

use super::simple::SimpleSchema;
use super::{
    JsonTree, RootType, SchemaFault, ValidationFault, check_bounds, check_tree, cost, keyword,
    pattern,
};
use crate::untrusted::escaped_line;
use crate::wire::RawJson;

/// A schema that is ready to validate arguments.
pub(super) struct CompiledSchema {
    /// Recognises most valid arguments.
    pub(super) simple: Arc<SimpleSchema>,
    /// Of `serde_json` values. A representation of our own would save a copy of the few arguments that
    /// `simple` is not sure of, and compile the whole validator a second time (1.3 MB).
    validator: jsonschema::Validator,
    /// The patterns that are not validated.
    pub(super) warnings: Vec<String>,
    /// How deep arguments may be nested.
    deepest: usize,
}

/// The most violations that are reported.
const MAX_REPORTED: usize = 10;
/// How many patterns of one schema are compiled, and how large each may become.
const MAX_PATTERNS: usize = 64;
const MAX_PATTERN_BYTES: usize = 128 * 1024;

impl CompiledSchema {
    pub(super) fn new(schema: &RawJson, root: RootType) -> Result<Self, SchemaFault> {
        let mut tree: JsonTree<'_> = schema
            .decode()
            .map_err(|error| SchemaFault::new(format!("is not usable: {error}")))?;
        match root {
            RootType::Object => check_tree(&tree, schema.as_bytes().len())?,
            RootType::Anything => check_bounds(&tree, schema.as_bytes().len())?,
        }
        let deepest = cost::deepest(&tree)?;
        remove_unknown_drafts(&mut tree);
        let warnings = remove_unsupported_patterns(&mut tree);
        let simple = Arc::new(SimpleSchema::read(&tree));
        let value = serde_json::to_value(&tree)
            .map_err(|error| SchemaFault::new(format!("is not usable: {error}")))?;
        let validator = options().build(&value).map_err(|error| {
            let text = format!("{}: {}", error.instance_path(), error.masked());
            SchemaFault::new(format!(
                "is not a valid schema: {}",
                shortened(text.trim_start_matches(": "))
            ))
        })?;
        Ok(Self {
            simple,
            validator,
            warnings,
            deepest,
        })
    }

    pub(super) fn validate(&self, arguments: &JsonTree<'_>) -> Result<(), ValidationFault> {
        if self.deepest < 128 && arguments.depth() > self.deepest {
            return Err(ValidationFault::whole(format!(
                "nested deeper than {}, the most that this recursive schema allows to check",
                self.deepest
            )));
        }
        let arguments = serde_json::to_value(arguments)
            .map_err(|error| ValidationFault::whole(format!("not usable: {error}")))?;
        if self.validator.is_valid(&arguments) {
            return Ok(());
        }
        let reported = self
            .validator
            .iter_errors(&arguments)
            .take(MAX_REPORTED)
            .map(|error| {
                let at = escaped_line(error.instance_path().as_str()).to_string();
                (at, shortened(&error.masked().to_string()))
            });
        Err(ValidationFault::Arguments(reported.collect()))
    }
}

fn options<'a>() -> jsonschema::ValidationOptions<'a, Arc<dyn jsonschema::Retrieve>> {
    let patterns = PatternOptions::regex()
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    // The specification makes `format` an annotation; the server may validate it.
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .should_validate_formats(false)
}

/// Truncates a text to one line of readable length.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 300;
    match text.char_indices().nth(LONGEST) {
        None => escaped_line(text).to_string(),
        Some((end, _)) => format!("{}…", escaped_line(&text[..end])),
    }
}

/// An unknown `$schema` would have to be fetched: such a schema is treated as 2020-12.
fn remove_unknown_drafts(schema: &mut JsonTree<'_>) {
    const KNOWN: [&str; 5] = [
        "json-schema.org/draft-04/schema",
        "json-schema.org/draft-06/schema",
        "json-schema.org/draft-07/schema",
        "json-schema.org/draft/2019-09/schema",
        "json-schema.org/draft/2020-12/schema",
    ];
    let known = |draft: &JsonTree<'_>| {
        let draft = draft.as_str().unwrap_or_default();
        let draft = draft
            .strip_prefix("https://")
            .or_else(|| draft.strip_prefix("http://"))
            .unwrap_or(draft);
        KNOWN.contains(&draft.trim_end_matches('#'))
    };
    keyword::edit_each(schema, &mut |schema| {
        if let JsonTree::Object(entries) = schema {
            entries.retain(|(key, value)| key != "$schema" || known(value));
        }
    });
}

/// Removes the patterns that the engine does not support; returns a warning for each.
fn remove_unsupported_patterns(schema: &mut JsonTree<'_>) -> Vec<String> {
    let mut tried = 0;
    pattern::remove_unsupported(schema, |pattern| {
        tried += 1;
        let schema = serde_json::json!({ "pattern": pattern });
        tried <= MAX_PATTERNS && options().build(&schema).is_ok()
    })
}
