//! The library crates of the workspace, for tests that read their sources.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use crate::sources::root;

/// Programs, and crates that are used by tests only.
const NO_LIBRARIES: [&str; 5] = [
    "switchboard-cli",
    "switchboard-demo",
    "switchboard-host-testkit",
    "switchboard-rmcp-fixture",
    "switchboard-testkit",
];

/// The folder of each library crate.
pub(crate) fn library_crates() -> impl Iterator<Item = PathBuf> {
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    crates
        .map(|entry| entry.unwrap().path())
        .filter(|path| !NO_LIBRARIES.contains(&&*path.file_name().unwrap().to_string_lossy()))
}

/// Whether a source file holds tests.
pub(crate) fn is_test(path: &Path) -> bool {
    // The workspace itself may be in a folder of that name.
    let inner = path.strip_prefix(root()).unwrap_or(path);
    inner
        .iter()
        .any(|part| part == "tests" || part == "tests.rs")
}
