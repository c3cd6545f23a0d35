//! What a call returned: the server's bytes, and two projections of them: for a model, for a person.

use std::path::PathBuf;

use crate::untrusted::Untrusted;
use crate::wire::{NotJson, RawJson};

/// The final result of a `tools/call`, byte for byte. A tool that answers `isError` has answered.
#[derive(Debug, Clone)]
pub struct CallResult {
    /// The result object.
    pub raw: RawJson,
}

/// One projection, cut at a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// The text, as far as the limit allows.
    pub text: Untrusted,
    /// Where the full text is, if it did not fit.
    pub spilled: Option<PathBuf>,
}

impl CallResult {
    /// Whether the tool says that it failed.
    pub fn is_error(&self) -> bool {
        todo!()
    }

    /// Text for the model: text as text, structured content as JSON, other kinds named by type and size.
    pub fn for_model(&self) -> Result<Untrusted, NotJson> {
        todo!()
    }

    /// Text for a person: text as text, JSON pretty-printed in a block, other kinds by type and size.
    pub fn for_person(&self) -> Result<Untrusted, NotJson> {
        todo!()
    }
}

/// Cuts a text at `limit` bytes (at a character), writing the whole of it to a 0600 file in `folder` that is named in the text.
pub fn fit(text: Untrusted, limit: usize, folder: &std::path::Path) -> std::io::Result<Projection> {
    let _ = (text, limit, folder);
    todo!()
}
