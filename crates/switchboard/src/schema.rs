//! Schemas: checked cheaply when listed, compiled at first call, bounded, without network or files.

use crate::catalog::DefinitionHash;
use crate::wire::RawJson;

/// Why a schema is not usable: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaFault(pub String);

/// Cheap check when listed: object root, size, depth, number of subschemas, no remote `$ref`.
pub fn check(schema: &RawJson) -> Result<(), SchemaFault> {
    let _ = schema;
    todo!()
}

/// Compiled schemas, a bounded number of them.
#[derive(Debug, Default)]
pub struct Validators {}

/// Why arguments do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The schema cannot be compiled.
    #[error("the tool's input schema cannot be used: {0}")]
    Schema(SchemaFault),
    /// The arguments break it: (JSON pointer, what was expected), at most ten, safe to show.
    #[error("the arguments do not fit the tool's input schema: {}", .0.iter().map(|(at, what)| format!("{at}: {what}")).collect::<Vec<_>>().join("; "))]
    Arguments(Vec<(String, String)>),
}

impl Validators {
    /// Checks `arguments` against the schema, compiling it on first use.
    pub fn validate(&self, hash: DefinitionHash, schema: &RawJson, arguments: &RawJson) -> Result<(), Misfit> {
        let _ = (hash, schema, arguments);
        todo!()
    }
}
