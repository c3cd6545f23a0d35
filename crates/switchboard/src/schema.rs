//! Schemas: checked cheaply when listed, compiled at first call, bounded, without network or files.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use crate::catalog::DefinitionHash;
use crate::untrusted::escaped_line;
use crate::wire::RawJson;

use compile::Compiled;
pub(crate) use tree::Tree;

mod borrowed;
mod compile;
mod cost;
mod keyword;
mod tree;

/// Why a schema is not usable: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaFault(pub String);

impl SchemaFault {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

const MAX_BYTES: usize = 256 * 1024;
const MAX_DEPTH: usize = 64;
const MAX_SUBSCHEMAS: usize = 2_000;

/// The schemas that stand directly in a schema.
pub(crate) fn subschemas<'t, 'a>(schema: &'t Tree<'a>) -> impl Iterator<Item = &'t Tree<'a>> {
    keyword::subschemas(schema).map(|(_, subschema)| subschema)
}

/// Cheap check when listed: object root, size, depth, number of subschemas, no remote `$ref`.
pub fn check(schema: &RawJson) -> Result<(), SchemaFault> {
    let tree: Tree<'_> = schema
        .decode()
        .map_err(|error| SchemaFault::new(format!("is not usable: {error}")))?;
    check_tree(&tree, schema.as_bytes().len())
}

/// As [`check`], of a schema that is already read.
pub(crate) fn check_tree(schema: &Tree<'_>, bytes: usize) -> Result<(), SchemaFault> {
    let is_object = |kind: &Tree<'_>| kind.as_str() == Some("object");
    let describes_objects = match (schema, schema.get("type")) {
        (Tree::Object(_), None) => true,
        (Tree::Object(_), Some(Tree::List(kinds))) => kinds.iter().any(is_object),
        (_, Some(kind)) => is_object(kind),
        (_, None) => false,
    };
    if !describes_objects {
        return Err(SchemaFault::new("describes no object at its root"));
    }
    check_bounds(schema, bytes)
}

/// As [`check_tree`], of a schema that may describe anything.
fn check_bounds(schema: &Tree<'_>, bytes: usize) -> Result<(), SchemaFault> {
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
    // Only references can make a small schema dear.
    if refers {
        cost::deepest(schema).map(|_| ())
    } else {
        Ok(())
    }
}

/// How many compiled schemas are kept.
const KEPT: usize = 512;

/// Compiled schemas, a bounded number of them.
#[derive(Default)]
pub struct Validators {
    kept: RwLock<Kept>,
}

#[derive(Default)]
struct Kept {
    compiled:
        HashMap<DefinitionHash, Arc<Result<Compiled, SchemaFault>>, BuildHasherDefault<FirstBytes>>,
    /// In the order they were compiled; the oldest goes first.
    order: VecDeque<DefinitionHash>,
}

/// Why arguments do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The schema cannot be compiled.
    #[error("the tool's input schema cannot be used: it {0}")]
    Schema(SchemaFault),
    /// The arguments break it: (JSON pointer, what was expected), at most ten, safe to show.
    #[error("the arguments do not fit the tool's input schema: {}", listed(.0))]
    Arguments(Vec<(String, String)>),
}

/// What a schema must describe at its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    Object,
    Anything,
}

fn listed(told: &[(String, String)]) -> String {
    let one = |(at, what): &(String, String)| {
        if at.is_empty() {
            what.clone()
        } else {
            format!("{at}: {what}")
        }
    };
    told.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl Misfit {
    fn whole(what: impl fmt::Display) -> Self {
        Self::Arguments(vec![(
            String::new(),
            escaped_line(&what.to_string()).to_string(),
        )])
    }
}

impl Validators {
    /// Checks `arguments` against the schema, compiling it on first use.
    pub fn validate(
        &self,
        hash: DefinitionHash,
        schema: &RawJson,
        arguments: &RawJson,
    ) -> Result<(), Misfit> {
        let tree: Tree<'_> = arguments
            .decode()
            .map_err(|error| Misfit::whole(format!("expected a JSON object: {error}")))?;
        let Tree::Object(_) = &tree else {
            return Err(Misfit::whole("expected a JSON object"));
        };
        if let Some(key) = tree.repeated_key() {
            // Parsers differ in which of the two they take: what was checked might not be what the
            // server reads.
            return Err(Misfit::whole(format!(
                "the key {key:?} stands twice in one object"
            )));
        }
        match &*self.compiled(hash, schema, Root::Object) {
            Ok(compiled) => compiled.validate(&tree),
            Err(fault) => Err(Misfit::Schema(fault.clone())),
        }
    }

    /// Checks the structured content of a result against the tool's output schema: what does not
    /// fit, in one line safe to show. What cannot be checked (a schema that is none, what is
    /// nested deeper than 128) is not held against the result.
    pub fn misfit_of_result(
        &self,
        hash: DefinitionHash,
        schema: &RawJson,
        structured: &RawJson,
    ) -> Option<String> {
        let tree: Tree<'_> = structured.decode().ok()?;
        // One definition has two schemas: this key cannot be the hash of another definition.
        let key = DefinitionHash(hash.0.map(|byte| !byte));
        match self
            .compiled(key, schema, Root::Anything)
            .as_ref()
            .as_ref()
            .ok()?
            .validate(&tree)
        {
            Err(Misfit::Arguments(told)) => Some(listed(&told)),
            Err(Misfit::Schema(_)) | Ok(()) => None,
        }
    }

    /// What of the schema is not checked, one line each, safe to show: patterns that a linear-time
    /// engine cannot take.
    pub fn warnings(&self, hash: DefinitionHash, schema: &RawJson) -> Vec<String> {
        match &*self.compiled(hash, schema, Root::Object) {
            Ok(compiled) => compiled.warnings.clone(),
            Err(_) => Vec::new(),
        }
    }

    fn compiled(
        &self,
        hash: DefinitionHash,
        schema: &RawJson,
        root: Root,
    ) -> Arc<Result<Compiled, SchemaFault>> {
        // A panic while the lock was held cannot leave the maps half-written: each change is one
        // insertion.
        if let Some(compiled) = self
            .kept
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .compiled
            .get(&hash)
        {
            return Arc::clone(compiled);
        }
        // Compiled outside the lock: a large schema delays no other tool. Two callers may do it
        // twice; the first one's is kept.
        let fresh = Arc::new(Compiled::new(schema, root));
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = kept.compiled.get(&hash) {
            return Arc::clone(compiled);
        }
        while kept.compiled.len() >= KEPT {
            let Some(oldest) = kept.order.pop_front() else {
                break;
            };
            kept.compiled.remove(&oldest);
        }
        kept.compiled.insert(hash, Arc::clone(&fresh));
        kept.order.push_back(hash);
        fresh
    }
}

impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self
            .kept
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .compiled
            .len();
        write!(f, "Validators({kept} compiled)")
    }
}

/// The key is a cryptographic hash: its first bytes are as good as any hash of it.
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
