//! Changes Claude Code's file through `claude mcp`, because Claude Code rewrites that file often.

use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use switchboard::untrusted::Untrusted;

use super::ENTRY_NAME;

/// How long the program may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Adds our entry for all projects; `replace` removes an entry of that name first. The error is a
/// sentence.
pub(crate) fn add(program: &Path, entry: &str, replace: bool) -> Result<(), String> {
    if replace {
        remove(program)?;
    }
    run(
        program,
        &["mcp", "add-json", "--scope", "user", ENTRY_NAME, entry],
    )
}

/// Removes our entry.
pub(crate) fn remove(program: &Path) -> Result<(), String> {
    run(program, &["mcp", "remove", "--scope", "user", ENTRY_NAME])
}

fn run(program: &Path, arguments: &[&str]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("`claude mcp` could not be run: {error}");
    // A file instead of a pipe, so that nothing has to be read while the program runs.
    let mut output = tempfile::tempfile().map_err(failed)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed)?)
        .stderr(output.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let deadline = Instant::now() + DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "`claude mcp` did not end within {} s",
                DEADLINE.as_secs()
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if status.success() {
        return Ok(());
    }
    let mut text = Vec::new();
    let _ = output.rewind().and_then(|()| output.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text).into_owned();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    let last = Untrusted::new(last.unwrap_or("it wrote nothing"))
        .for_terminal_line()
        .to_string();
    Err(format!("`claude mcp` failed ({status}): {last}"))
}
