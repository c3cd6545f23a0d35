//! Reads the process table, polls for changes of other processes, and ends child processes.
//!
//! In a container orphans may never be reaped, so a process in state `Z` counts as dead. Linux only:
//! it reads `/proc`.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Child;
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

/// Every live process that was started with this variable, written `NAME=value`: the descendants of
/// a test's server.
///
/// The environment is inherited through double forks and new sessions, so it finds processes that
/// parents and groups no longer show.
pub fn descendants_with_env(canary: &str) -> Vec<Process> {
    assert!(
        canary.contains('='),
        "a canary is written NAME=value, not {canary:?}"
    );
    let folders = std::fs::read_dir("/proc")
        .expect("/proc is there")
        .flatten();
    let pids = folders.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // An unreadable process belongs to another user, or is gone.
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

/// The resident memory of the process.
pub fn rss_bytes(pid: i32) -> Option<u64> {
    status_bytes(pid, "VmRSS:")
}

/// The peak memory of the process; the kernel counts it to within a few hundred KiB.
pub fn peak_rss_bytes(pid: i32) -> Option<u64> {
    status_bytes(pid, "VmHWM:")
}

/// Polls until the condition holds or the time is over; true if it holds. For other processes:
/// events of this one can be awaited.
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

/// How long [`until`] waits: long enough for a busy machine; a test that passes never waits so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Polls in an async test until the condition holds. For what has no event to await: other processes,
/// and the records of servers.
///
/// # Panics
///
/// After two minutes, with what was waited for.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A child process that is killed and reaped when this is dropped, also by a test that fails.
#[derive(Debug)]
pub struct KilledOnDrop(pub Child);

impl Deref for KilledOnDrop {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for KilledOnDrop {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn look_up(pid: i32) -> Option<Process> {
    let folder = format!("/proc/{pid}");
    let stat = std::fs::read_to_string(Path::new(&folder).join("stat")).ok()?;
    // The name in parentheses may contain any character, so the fields are counted from its end.
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
