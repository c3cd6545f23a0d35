//! What the sources of library and gateway must not contain: read as text, without tests and
//! comments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const LIBRARY: &str = "switchboard";
const GATEWAY: &str = "switchboard-gateway";

/// How many lines of code of each file contain one of these words, by its path in `src`.
fn lines_with(crate_name: &str, words: &[&str]) -> BTreeMap<String, usize> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let root = crates.join(crate_name).join("src");
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

fn table(lines: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let lines = lines.iter();
    lines
        .map(|(file, count)| ((*file).to_owned(), *count))
        .collect()
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
    let found = lines_with(LIBRARY, &["tools/call", "TOOLS_CALL"]);
    assert_eq!(found, table(&expected));
}

/// F32: nothing that waits reads the wall clock. Another line that reads it has to be justified here.
#[test]
fn f32_deadlines_of_requests_connections_and_retries_do_not_read_the_wall_clock() {
    let of_library = [
        // When a token expires: the clock that is given to `auth`.
        ("auth.rs", 1),
        // When a grant was made, for display.
        ("gate/grants.rs", 1),
        // When a server was started, for display.
        ("server/connect.rs", 1),
        // How many days old a remembered era is.
        ("server/launch_store.rs", 1),
        ("server/switching.rs", 1),
        // The same twice, and `retry_at`, for display: the task waits for an `Instant`.
        ("server/task.rs", 3),
        // When a state was entered, for display.
        ("server/status_publisher.rs", 2),
        ("state.rs", 1),
        // The moment of a line of a log.
        ("store/log.rs", 1),
        // `Retry-After` may be a date.
        ("transport/http/status_fault.rs", 1),
    ];
    let of_gateway = [
        // When a call began to wait, and until when it is kept, for display.
        ("approval_queue.rs", 3),
        ("operations.rs", 1),
        // The moment of a line of the log.
        ("audit.rs", 1),
        // When a task began and ended, for its client.
        ("client_tasks.rs", 2),
        // When what a client stores sealed can no longer be opened: a day or more after its use ended.
        ("client/questions.rs", 1),
        ("cluster.rs", 1),
        ("edge/http/sessions.rs", 2),
        ("suspended.rs", 1),
        // The `Date` of a response.
        ("edge/http/plain/response_head.rs", 1),
        // When the configuration was read, for display.
        ("loaded_config.rs", 1),
        // In how many seconds a server is retried, for display.
        ("page/problems.rs", 1),
        // When a token was made, for display.
        ("tokens.rs", 1),
    ];
    let words = ["SystemTime::now", "Utc::now", "UNIX_EPOCH.elapsed"];
    assert_eq!(lines_with(LIBRARY, &words), table(&of_library));
    assert_eq!(lines_with(GATEWAY, &words), table(&of_gateway));
}
