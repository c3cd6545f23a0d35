//! The memory of a process and of those that it started, except for servers.

use crate::measure::Fault;

/// Memory in bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    /// All resident pages, those of the program's file included.
    pub(crate) resident: f64,
    /// The same, each page divided by the number of processes that have it.
    pub(crate) proportional: f64,
    /// Pages that belong to the processes alone: heaps and stacks.
    pub(crate) anonymous: f64,
}

/// The memory of a process and its descendants, except for those with one of these words on their
/// command line, and their descendants.
pub(crate) fn of_process(process: u32, without: &[&str]) -> Result<Memory, Fault> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}"));
    let (status, rollup) = (read("status")?, read("smaps_rollup")?);
    let mut memory = Memory {
        resident: size(&status, "VmRSS:"),
        proportional: size(&rollup, "Pss:"),
        anonymous: size(&status, "RssAnon:"),
    };
    for child in children(process) {
        let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        if without.iter().any(|word| line.contains(word)) {
            continue;
        }
        // The process may have ended.
        if let Ok(more) = of_process(child, without) {
            memory.resident += more.resident;
            memory.proportional += more.proportional;
            memory.anonymous += more.anonymous;
        }
    }
    Ok(memory)
}

/// A field of a file in `/proc`, in bytes.
fn size(text: &str, field: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok())
        .map_or(0.0, |kibibytes| kibibytes * 1024.0)
}

/// The children of all threads of a process.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let lists = threads.into_iter().flatten().flatten();
    let lists =
        lists.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let ids = list.split_whitespace().filter_map(|id| id.parse().ok());
            ids.collect::<Vec<u32>>()
        })
        .collect()
}
