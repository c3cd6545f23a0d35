//! The source files of the workspace, for tests that read them as text.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Every Rust file below these folders, with its text.
pub(crate) fn rust_files(folders: impl IntoIterator<Item = PathBuf>) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = folders.into_iter().collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}
