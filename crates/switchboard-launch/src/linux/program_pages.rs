//! Takes the program's code out of the memory of a process that waits.
//!
//! The pages of a program file count as a process's memory from when it first runs them until it
//! ends, and the kernel maps up to 64 KiB around each of them. Most of them only its start needs: of
//! an idle gateway's 19 MiB of code, 2 MiB are left.

use std::ffi::c_void;
use std::time::Duration;

use nix::libc;

/// How long a process has nothing to do before it releases its code. While many servers start, the
/// processor is needed for them.
pub(super) const IDLE_TIME: Duration = Duration::from_secs(1);

/// Unmaps the code and the constants of the program and its libraries. What runs again is mapped
/// again, from the page cache.
pub(crate) fn release() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return;
    };
    for (start, length) in maps.lines().filter_map(unchanged_mapping) {
        // SAFETY: these pages are never written, so the file has the same bytes.
        unsafe { libc::madvise(start as *mut c_void, length, libc::MADV_DONTNEED) };
    }
}

/// Address and length, if the mapping is a part of a file that nothing in this process has changed:
/// code, and the constants at the start of the file. (Read-only pages behind the code may have been
/// written before: they contain addresses, which the dynamic linker has relocated.)
fn unchanged_mapping(line: &str) -> Option<(usize, usize)> {
    // START-END RIGHTS OFFSET DEVICE INODE PATH
    let mut fields = line.split_ascii_whitespace();
    let (range, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
    if !fields.nth(2)?.starts_with('/') {
        return None;
    }
    let is_start_of_file = offset.bytes().all(|digit| digit == b'0');
    if rights != "r-xp" && !(rights == "r--p" && is_start_of_file) {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_of_files_that_are_never_written_are_released() {
        let file = "fe:00 1442                     /usr/bin/a program";
        let check = |range: &str, rights: &str, offset: &str, file: &str, expected| {
            let line = format!("{range} {rights} {offset} {file}");
            assert_eq!(unchanged_mapping(&line), expected, "{line}");
        };
        let whole = Some((0x5000_0000_1000, 0x2000));
        let range = "500000001000-500000003000";
        check(range, "r-xp", "001f0000", file, whole);
        check(range, "r--p", "00000000", file, whole);
        // Relocated addresses, variables, shared pages, and memory that is no file.
        check(range, "r--p", "00400000", file, None);
        check(range, "rw-p", "00000000", file, None);
        check(range, "r-xs", "00000000", file, None);
        check(range, "r-xp", "00000000", "00:00 0 [vdso]", None);
        check(range, "r-xp", "00000000", "00:00 0", None);
    }

    /// The figure in `/proc/self/status`, in KiB.
    fn resident_file_pages() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssFile:"));
        let size = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        size.expect("RssFile is a number of kB")
    }

    #[test]
    fn a_process_has_less_in_memory_and_goes_on() {
        let before = resident_file_pages();
        release();
        let after = resident_file_pages();
        assert!(after < before, "{before} KiB before, {after} KiB after");
    }
}
