//! `logs`: the last of each server's log file in the state folder, escaped.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use clap::Args;
use switchboard::untrusted::Untrusted;

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::output;
use crate::place::Place;

/// Whose log, and how much of it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  switchboard logs git\n  switchboard logs git -n 500\n  switchboard logs --json")]
pub(crate) struct Wanted {
    /// Only this server's
    #[arg(add = server_names())]
    server: Option<String>,
    /// How many of its last lines
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 50)]
    lines: usize,
}

pub(crate) fn run(options: &Options, wanted: &Wanted) -> Result<u8, Failure> {
    let folder = Place::find()?.logs();
    let logs = found(&folder, wanted.server.as_deref())?;
    let mut text = String::new();
    let mut document = Vec::new();
    for (server, path) in &logs {
        let lines =
            tail(path, wanted.lines).map_err(|error| Failure::new(Code::Usage, format!("{}: {error}", path.display())))?;
        if logs.len() > 1 {
            text.push_str(&format!("==> {} <==\n", Untrusted::new(server.as_str()).for_terminal_line()));
        }
        for line in &lines {
            text.push_str(&format!("{}\n", Untrusted::new(line.as_str()).for_terminal_line()));
        }
        document.push(serde_json::json!({ "server": server, "file": path, "lines": lines }));
    }
    if options.json {
        output::print_json(&serde_json::json!({ "logs": document }).to_string())?;
    } else {
        output::print(&text)?;
    }
    Ok(0)
}

/// (server, file), by name. A server that was named must have one.
fn found(folder: &Path, server: Option<&str>) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut logs = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".log"));
        if let Some(name) = name.filter(|name| server.is_none_or(|server| server == *name)) {
            logs.push((name.to_owned(), path.clone()));
        }
    }
    logs.sort();
    match server {
        Some(server) if logs.is_empty() => {
            let name = Untrusted::new(server);
            Err(Failure::new(Code::Usage, format!("no log of a server {name:?} in {}", folder.display()))
                .hint("a server has one once it was started"))
        }
        _ => Ok(logs),
    }
}

/// The last lines of a log and, where it was just rotated, of the file before it.
fn tail(path: &Path, lines: usize) -> std::io::Result<Vec<String>> {
    let mut text = String::new();
    let rotated = path.with_extension("log.1");
    if rotated.exists() {
        text.push_str(&last_bytes(&rotated)?);
    }
    text.push_str(&last_bytes(path)?);
    let all: Vec<_> = text.lines().map(str::to_owned).collect();
    Ok(all[all.len().saturating_sub(lines)..].to_vec())
}

/// At most the last 2 MiB: logs are rotated at 1 MiB.
fn last_bytes(path: &Path) -> std::io::Result<String> {
    const LIMIT: u64 = 2 * 1024 * 1024;
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LIMIT)))?;
    let mut bytes = Vec::new();
    file.take(LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_tail_reaches_into_the_rotated_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("git.log.1"), "one\ntwo\n").unwrap();
        std::fs::write(folder.path().join("git.log"), "three\nfour\n").unwrap();
        std::fs::write(folder.path().join("other.log"), "x\n").unwrap();
        let logs = found(folder.path(), Some("git")).unwrap();
        assert_eq!(logs, [("git".to_owned(), folder.path().join("git.log"))]);
        assert_eq!(tail(&logs[0].1, 3).unwrap(), ["two", "three", "four"]);
        assert_eq!(found(folder.path(), None).unwrap().len(), 2);
        assert_eq!(found(folder.path(), Some("none")).unwrap_err().code, Code::Usage);
    }
}
