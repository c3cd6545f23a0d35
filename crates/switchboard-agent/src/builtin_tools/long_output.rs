//! Output that is too long for a model: its beginning and its end, and a file with all of it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use switchboard::result::forget_old;

use crate::long_text::shorten;

/// How much of an output the model reads.
const MAX_BYTES: usize = 32 << 10;

/// Where long output goes.
#[derive(Debug, Clone)]
pub(super) struct LongOutput {
    /// `None`: it is cut.
    pub(super) folder: Option<PathBuf>,
}

/// The folder of one project's long results below `folder`: a conversation of another project cannot
/// read them.
pub fn results_of_project(folder: &Path, project: &Path) -> PathBuf {
    let project = blake3::hash(project.as_os_str().as_bytes()).to_hex();
    folder.join(&project[..16])
}

/// Removes old results of all projects below `folder`. Errors are ignored.
pub fn forget_old_results(folder: &Path) {
    for project in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // The folder stays, since a conversation may use it.
        forget_old(&project.path());
    }
}

impl LongOutput {
    /// The text, or its beginning and end with how to read the rest.
    pub(super) fn fit(&self, text: String) -> String {
        shorten(text, MAX_BYTES, self.folder.as_deref())
    }
}
