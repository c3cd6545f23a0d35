//! Output that is too long for a model: its beginning and its end, and a file with all of it.

use std::path::PathBuf;

use crate::long_text::shorten;

/// How much of an output the model reads.
const MAX_BYTES: usize = 32 << 10;

/// Where long output goes.
#[derive(Debug, Clone)]
pub(super) struct LongOutput {
    /// `None`: it is cut.
    pub(super) folder: Option<PathBuf>,
}

impl LongOutput {
    /// The text, or its beginning and end with how to read the rest.
    pub(super) fn fit(&self, text: String) -> String {
        shorten(text, MAX_BYTES, self.folder.as_deref())
    }
}
