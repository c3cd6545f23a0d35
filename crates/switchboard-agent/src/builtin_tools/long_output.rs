//! Output that is too long for a model: its beginning and its end, and a file with all of it.

use std::path::PathBuf;

use switchboard::Untrusted;
use switchboard::result::fit_ends;

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
        if text.len() <= MAX_BYTES {
            return text;
        }
        let Some(folder) = &self.folder else {
            let cut = text.floor_char_boundary(MAX_BYTES);
            return format!(
                "{}\n[cut here: {cut} of {} bytes]",
                &text[..cut],
                text.len()
            );
        };
        match fit_ends(Untrusted::new(&*text), MAX_BYTES, folder) {
            Ok(fitted) => fitted.text.raw().to_owned(),
            Err(error) => {
                let cut = text.floor_char_boundary(MAX_BYTES);
                let start = &text[..cut];
                format!("{start}\n[cut here; the rest cannot be stored: {error}]")
            }
        }
    }
}
