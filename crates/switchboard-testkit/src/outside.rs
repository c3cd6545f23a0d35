//! Test data from outside the project: its location, and the message of a test that is skipped
//! without it.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The file or folder that `variable` names, else `default`, a path next to the workspace. `None`
/// if there is none: the test is [skipped].
///
/// # Panics
///
/// If `variable` names a missing path: a test that was given its data must not be skipped.
pub fn outside_data(variable: &str, default: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        assert!(path.exists(), "{variable}: there is no {}", path.display());
        return Some(path);
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = workspace.join("..").join(default);
    if !path.exists() {
        skipped(&format!("there is no ../{default}; set {variable}"));
        return None;
    }
    Some(path)
}

/// Reports that this test did not run. The test harness counts it as passed, so `.ci/run` counts
/// these lines as skipped and repeats them at its end. It fails for a reason that it does not list.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    // The harness names the thread of a test after the test.
    let test = thread.name().unwrap_or("a test");
    // Not `eprintln!`: the harness hides what that prints in a test that passes. In one write, since
    // other tests print at the same time.
    let line = format!("SKIPPED {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
