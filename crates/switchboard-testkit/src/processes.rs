//! Reads the process table, and waits for what other processes do.
//!
//! In a container orphans may never be reaped, so a process in state `Z` counts as dead. Linux only:
//! it reads `/proc`.

use std::path::Path;
use std::time::{Duration, Instant};

/// A process that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent's number.
    pub parent: i32,
    /// Its state: `S`, `R`, `D`, `T`.
    pub state: char,
    /// Its command line, with spaces.
    pub command: String,
}

/// Every live process that was started with this variable, written `NAME=value`: what a server of
/// this test left behind.
///
/// The environment is inherited through double forks and new sessions, so it finds what parents and
/// groups no longer tell.
pub fn descendants_with_env(canary: &str) -> Vec<Process> {
    assert!(
        canary.contains('='),
        "a canary is written NAME=value, not {canary:?}"
    );
    let folders = std::fs::read_dir("/proc")
        .expect("/proc is there")
        .flatten();
    let pids = folders.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // One that cannot be read is another's, or is gone by now.
    let carries = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == canary.as_bytes())
    };
    let mut found: Vec<Process> = pids.filter(carries).filter_map(look_up).collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// Whether the process is there and not dead.
pub fn is_alive(pid: i32) -> bool {
    look_up(pid).is_some()
}

/// How much memory the process holds now.
pub fn rss_bytes(pid: i32) -> Option<u64> {
    status_bytes(pid, "VmRSS:")
}

/// The most memory the process ever held; the kernel counts it to within a few hundred KiB.
pub fn peak_rss_bytes(pid: i32) -> Option<u64> {
    status_bytes(pid, "VmHWM:")
}

/// Asks again and again until the answer is yes, or the time is over; tells which. For what happens
/// in other processes: what happens in this one can be awaited.
pub fn wait_until(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if condition() {
            return true;
        }
        if started.elapsed() >= deadline {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(25));
    }
}

fn look_up(pid: i32) -> Option<Process> {
    let folder = format!("/proc/{pid}");
    let stat = std::fs::read_to_string(Path::new(&folder).join("stat")).ok()?;
    // The name in parentheses may hold anything, so the fields are counted from its end.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    if matches!(state, 'Z' | 'X') {
        return None;
    }
    let command = std::fs::read(Path::new(&folder).join("cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command)
        .trim_end_matches('\0')
        .replace('\0', " ");
    Some(Process {
        pid,
        parent,
        state,
        command,
    })
}

fn status_bytes(pid: i32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes * 1024)
}
