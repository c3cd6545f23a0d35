//! JSON schemas of tools: a cheap check when a tool is listed, compiled at its first call. Bounded;
//! nothing is fetched from the network or read from files.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, RwLock};

use crate::sync;
use crate::untrusted::escaped_line;
use crate::wire::RawJson;

use compile::CompiledSchema;
pub(crate) use json_tree::JsonTree;
pub(crate) use pointer::pointer_steps;
pub(crate) use simple::SimpleSchema;

mod compile;
mod cost;
mod json_tree;
mod keyword;
mod pattern;
mod pointer;
mod simple;

/// Why a schema is not usable: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaFault(pub String);

impl SchemaFault {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// BLAKE3 of what a person approves: name, title, description, schemas, annotations. Key order and
/// formatting do not matter. Also the cache key of the definition's compiled schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefinitionHash(pub [u8; 32]);

const MAX_BYTES: usize = 256 * 1024;
const MAX_DEPTH: usize = 64;
const MAX_SUBSCHEMAS: usize = 2_000;

/// The direct subschemas of a schema.
pub(crate) fn subschemas<'t, 'a>(
    schema: &'t JsonTree<'a>,
) -> impl Iterator<Item = &'t JsonTree<'a>> {
    keyword::subschemas(schema).map(|(_, subschema)| subschema)
}

/// A cheap check when listed: object root, size, depth, number of subschemas, no remote `$ref`.
pub fn check(schema: &RawJson) -> Result<(), SchemaFault> {
    let tree: JsonTree<'_> = schema
        .decode()
        .map_err(|error| SchemaFault::new(format!("is not usable: {error}")))?;
    check_tree(&tree, schema.as_bytes().len())
}

/// Like [`check`], for a schema that is already parsed.
pub(crate) fn check_tree(schema: &JsonTree<'_>, bytes: usize) -> Result<(), SchemaFault> {
    let is_object = |kind: &JsonTree<'_>| kind.as_str() == Some("object");
    let describes_objects = match (schema, schema.get("type")) {
        (JsonTree::Object(_), None) => true,
        (JsonTree::Object(_), Some(JsonTree::List(kinds))) => kinds.iter().any(is_object),
        (_, Some(kind)) => is_object(kind),
        (_, None) => false,
    };
    if !describes_objects {
        return Err(SchemaFault::new("describes no object at its root"));
    }
    check_bounds(schema, bytes)
}

/// As [`check_tree`], without requiring an object at the root.
fn check_bounds(schema: &JsonTree<'_>, bytes: usize) -> Result<(), SchemaFault> {
    if bytes > MAX_BYTES {
        return Err(SchemaFault::new(format!(
            "is larger than 256 KiB ({} KiB)",
            bytes.div_ceil(1024)
        )));
    }
    if schema.depth() > MAX_DEPTH {
        return Err(SchemaFault::new(format!(
            "is nested deeper than {MAX_DEPTH}"
        )));
    }
    let mut count = 0;
    let mut refers = false;
    let mut waiting = vec![schema];
    while let Some(schema) = waiting.pop() {
        count += 1;
        if count > MAX_SUBSCHEMAS {
            return Err(SchemaFault::new(format!(
                "has more than {MAX_SUBSCHEMAS} subschemas"
            )));
        }
        keyword::check_form(schema)?;
        for reference in keyword::references(schema) {
            if !reference.starts_with('#') {
                let shown = crate::untrusted::quoted(reference);
                return Err(SchemaFault::new(format!(
                    "refers to {shown}: only references inside the schema are followed"
                )));
            }
            refers = true;
        }
        waiting.extend(subschemas(schema));
    }
    // Only references can make a small schema expensive to validate.
    if refers {
        cost::deepest(schema).map(|_| ())
    } else {
        Ok(())
    }
}

/// The most compiled schemas that are cached.
const MAX_COMPILED: usize = 512;

/// A bounded cache of compiled schemas.
#[derive(Default)]
pub struct Validators {
    cache: RwLock<CompiledCache>,
}

#[derive(Default)]
struct CompiledCache {
    compiled: HashMap<
        DefinitionHash,
        Arc<Result<CompiledSchema, SchemaFault>>,
        BuildHasherDefault<FirstBytes>,
    >,
    /// In the order they were compiled; the oldest is evicted first.
    order: VecDeque<DefinitionHash>,
}

/// Why a value failed validation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValidationFault {
    /// The schema cannot be compiled.
    #[error("the tool's input schema cannot be used: it {0}")]
    Schema(SchemaFault),
    /// The arguments violate the schema: (JSON pointer, what was expected), at most ten, safe to
    /// show.
    #[error("the arguments do not fit the tool's input schema: {}", listed(.0))]
    Arguments(Vec<(String, String)>),
}

/// What a schema must describe at its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RootType {
    Object,
    Anything,
}

fn listed(reported: &[(String, String)]) -> String {
    let one = |(at, what): &(String, String)| {
        if at.is_empty() {
            what.clone()
        } else {
            format!("{at}: {what}")
        }
    };
    reported.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl ValidationFault {
    fn whole(what: impl fmt::Display) -> Self {
        Self::Arguments(vec![(
            String::new(),
            escaped_line(&what.to_string()).to_string(),
        )])
    }
}

impl Validators {
    /// Validates `arguments` against the schema, compiling it on first use.
    pub fn validate(
        &self,
        hash: DefinitionHash,
        schema: &RawJson,
        arguments: &RawJson,
    ) -> Result<(), ValidationFault> {
        let compiled = self.compiled(hash, schema, RootType::Object);
        if let Ok(compiled) = &*compiled
            && compiled.simple.fits(arguments.as_str())
        {
            return Ok(());
        }
        let tree: JsonTree<'_> = arguments
            .decode()
            .map_err(|error| ValidationFault::whole(format!("expected a JSON object: {error}")))?;
        let JsonTree::Object(_) = &tree else {
            return Err(ValidationFault::whole("expected a JSON object"));
        };
        if let Some(key) = tree.repeated_key() {
            // Parsers differ in which of the two they use: the server might use another value than
            // the validated one.
            return Err(ValidationFault::whole(format!(
                "the key {key:?} occurs twice in one object"
            )));
        }
        match &*compiled {
            Ok(compiled) => compiled.validate(&tree),
            Err(fault) => Err(ValidationFault::Schema(fault.clone())),
        }
    }

    /// What recognises most arguments that fit. Compiles the schema on first use.
    pub(crate) fn simple(&self, hash: DefinitionHash, schema: &RawJson) -> Arc<SimpleSchema> {
        match &*self.compiled(hash, schema, RootType::Object) {
            Ok(compiled) => compiled.simple.clone(),
            Err(_) => Arc::new(SimpleSchema::Unknown),
        }
    }

    /// Validates the structured content of a result against the tool's output schema. Returns the
    /// violations as one line, safe to show. A result that cannot be validated (the schema is
    /// invalid, or the content is nested deeper than 128) passes.
    pub(crate) fn check_result(
        &self,
        hash: DefinitionHash,
        schema: &RawJson,
        structured: &RawJson,
    ) -> Option<String> {
        let tree: JsonTree<'_> = structured.decode().ok()?;
        // A definition has two schemas and one hash; the inverted hash is the output schema's key.
        let key = DefinitionHash(hash.0.map(|byte| !byte));
        match self
            .compiled(key, schema, RootType::Anything)
            .as_ref()
            .as_ref()
            .ok()?
            .validate(&tree)
        {
            Err(ValidationFault::Arguments(reported)) => Some(listed(&reported)),
            Err(ValidationFault::Schema(_)) | Ok(()) => None,
        }
    }

    /// The parts of the schema that are not validated, one line each, safe to show: patterns that a
    /// linear-time regex engine does not support.
    pub fn warnings(&self, hash: DefinitionHash, schema: &RawJson) -> Vec<String> {
        match &*self.compiled(hash, schema, RootType::Object) {
            Ok(compiled) => compiled.warnings.clone(),
            Err(_) => Vec::new(),
        }
    }

    fn compiled(
        &self,
        hash: DefinitionHash,
        schema: &RawJson,
        root: RootType,
    ) -> Arc<Result<CompiledSchema, SchemaFault>> {
        // A poisoned lock is safe to use: each change is one insertion.
        if let Some(compiled) = sync::read(&self.cache).compiled.get(&hash) {
            return Arc::clone(compiled);
        }
        // Compiled outside the lock: a large schema delays no other tool. If two callers compile the
        // same schema at once, the first result is cached.
        let fresh = Arc::new(CompiledSchema::new(schema, root));
        let mut cache = sync::write(&self.cache);
        if let Some(compiled) = cache.compiled.get(&hash) {
            return Arc::clone(compiled);
        }
        while cache.compiled.len() >= MAX_COMPILED {
            let Some(oldest) = cache.order.pop_front() else {
                break;
            };
            cache.compiled.remove(&oldest);
        }
        cache.compiled.insert(hash, Arc::clone(&fresh));
        cache.order.push_back(hash);
        fresh
    }
}

impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = sync::read(&self.cache).compiled.len();
        write!(f, "Validators({cache} compiled)")
    }
}

/// Hashes a cryptographic hash by its first bytes.
#[derive(Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
