//! What the library's sources must not contain: read as text, without tests and comments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How many lines of code of each file contain one of these words, by its path in `src`.
fn lines_with(words: &[&str]) -> BTreeMap<String, usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.file_stem().is_some_and(|name| name == "tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next();
            let is_code = |line: &&str| {
                let line = line.trim_start();
                !["//", "use ", "pub(crate) use "]
                    .iter()
                    .any(|start| line.starts_with(start))
            };
            let has_word = |line: &&str| words.iter().any(|word| line.contains(word));
            let lines = code.unwrap_or_default().lines();
            let count = lines.filter(is_code).filter(has_word).count();
            if count > 0 {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                found.insert(name, count);
            }
        }
    }
    found
}

/// T33: each era has one place that makes a request to call a tool, and it needs a permit. Another
/// line that names the method has to be justified here.
#[test]
fn t33_one_place_of_each_era_sends_tool_calls() {
    let expected = [
        // The message of the refusal below.
        ("session/fault.rs", 1),
        // `tool_request`, from a permit.
        ("session/legacy.rs", 1),
        // `tool_request`, from a permit.
        ("session/modern.rs", 1),
        // Encodes a usual call in two places, and checks before each call that it is approved.
        ("session/peer.rs", 3),
        // Refuses to forward the method.
        ("session.rs", 1),
        // The constant, and the frequent names.
        ("wire/message.rs", 2),
    ];
    let expected: BTreeMap<String, usize> = expected
        .into_iter()
        .map(|(file, count)| (file.to_owned(), count))
        .collect();
    assert_eq!(lines_with(&["tools/call", "TOOLS_CALL"]), expected);
}

/// F32: nothing that waits reads the wall clock; `Retry-After` may be a date.
#[test]
fn f32_deadlines_of_requests_connections_and_retries_do_not_read_the_wall_clock() {
    let waits = ["session", "transport", "call", "requests", "server/backoff"];
    let is_waiting = |file: &str| waits.iter().any(|start| file.starts_with(start));
    let mut found = lines_with(&["SystemTime::now", "Utc::now", "UNIX_EPOCH.elapsed"]);
    found.retain(|file, _| is_waiting(file));
    let dates = ("transport/http/status_fault.rs".to_owned(), 1);
    assert_eq!(found, BTreeMap::from([dates]));
}
