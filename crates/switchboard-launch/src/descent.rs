//! Who descends from a process, read from /proc (Linux).

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The direct children of a process. Those of a single-threaded caller stay theirs until it waits
/// for them, so no stranger is among them.
pub(crate) fn children(of: Pid) -> Vec<Pid> {
    listed(of).unwrap_or_else(|| scanned(of))
}

/// Sends a signal to every descendant of this process, parents first.
pub(crate) fn signal_all(signal: Signal) {
    let mut pending = children(Pid::this());
    // A tree deeper or wider than this is a fork bomb; SIGKILL goes by layers and has no such
    // limit.
    for _ in 0..10_000 {
        let Some(pid) = pending.pop() else { return };
        pending.extend(children(pid));
        let _ = kill(pid, signal);
    }
}

/// From the kernel's own list, one per thread. `None` where the kernel keeps none.
fn listed(of: Pid) -> Option<Vec<Pid>> {
    let mut found = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{of}/task")) else {
        return Some(found);
    };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(
                list.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse().ok())
                    .map(Pid::from_raw),
            ),
            // The thread may have ended since; a kernel without the list has it for no thread, ours
            // included.
            Err(_) if of == Pid::this() => return None,
            Err(_) if !fs::exists("/proc/thread-self/children").unwrap_or(false) => return None,
            Err(_) => {}
        }
    }
    Some(found)
}

fn scanned(of: Pid) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .filter(|pid| parent(*pid) == Some(of))
        .collect()
}

fn parent(of: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{of}/stat")).ok()?;
    // The program's name stands in parentheses and may itself hold any character.
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
    use super::*;

    #[test]
    fn the_kernels_list_and_the_scan_agree() {
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        // Other tests of this binary may have children too.
        assert!(listed(Pid::this()).unwrap().contains(&pid));
        assert!(scanned(Pid::this()).contains(&pid));
        assert_eq!((children(pid), parent(pid)), (vec![], Some(Pid::this())));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(children(pid), vec![]);
    }
}
