//! The children and descendants of a process, read from /proc.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The direct children of a process. The pids of our own children cannot be reused before we have
/// waited for them, so they can be signalled safely.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    children_from_kernel_list(parent).unwrap_or_else(|| children_from_scan(parent))
}

/// Sends a signal to every descendant of this process, parents first.
pub(crate) fn signal_descendants(signal: Signal) {
    let mut pending = children(Pid::this());
    // More processes than this are a fork bomb. Killing has no such limit: it goes layer by layer
    // (`Keeper::kill_children`).
    for _ in 0..10_000 {
        let Some(pid) = pending.pop() else { return };
        pending.extend(children(pid));
        let _ = kill(pid, signal);
    }
}

/// From `/proc/PID/task/TID/children`. `None` where the kernel does not provide it.
fn children_from_kernel_list(parent: Pid) -> Option<Vec<Pid>> {
    let mut found = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else {
        return Some(found);
    };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(
                list.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse().ok())
                    .map(Pid::from_raw),
            ),
            // Either the thread has ended since, or the kernel has no such file for any thread.
            Err(_) if parent == Pid::this() => return None,
            Err(_) if !fs::exists("/proc/thread-self/children").unwrap_or(false) => return None,
            Err(_) => {}
        }
    }
    Some(found)
}

/// From the parent of every process.
fn children_from_scan(parent: Pid) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in parentheses and may contain any character.
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
        .map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_kernels_list_and_the_scan_agree() {
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        // Other tests of this binary may have children too. Their threads and children end while
        // the lists are read: then there is none from the kernel, or it lacks an entry.
        type Listing = fn(Pid) -> Option<Vec<Pid>>;
        let lists: [Listing; 2] = [children_from_kernel_list, |parent| {
            Some(children_from_scan(parent))
        }];
        for list in lists {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !list(Pid::this()).is_some_and(|children| children.contains(&pid)) {
                assert!(Instant::now() < deadline, "the child is never listed");
                std::thread::yield_now();
            }
        }
        assert_eq!((children(pid), parent_of(pid)), (vec![], Some(Pid::this())));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(children(pid), vec![]);
    }
}
