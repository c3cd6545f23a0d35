//! Line operations for the formats that are edited as text.

use std::ops::Range;

/// The text without these lines and the comments directly above them. Of two adjacent blank lines
/// that this leaves, one is removed.
pub(super) fn without(lines: &[&str], cut: Range<usize>) -> String {
    let is_comment = |line: &str| line.trim_start().starts_with(['#', '/']);
    let mut start = cut.start;
    while start > 0 && is_comment(lines[start - 1]) {
        start -= 1;
    }
    // A comment at the top belongs to the file.
    if start == 0 && cut.start > 0 {
        start = cut.start;
    }
    let is_blank = |index: usize| lines.get(index).is_none_or(|line| line.trim().is_empty());
    let mut end = cut.end;
    if (start == 0 || is_blank(start - 1)) && end < lines.len() && is_blank(end) {
        end += 1;
    }
    if end == lines.len() && start > 0 && is_blank(start - 1) {
        start -= 1;
    }
    lines[..start]
        .iter()
        .chain(&lines[end..])
        .copied()
        .collect()
}

/// The lines with their line endings.
#[cfg(feature = "hcl")]
pub(super) fn of(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// The index of the line at an offset.
#[cfg(feature = "hcl")]
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count()
}

/// The line ending of a text.
pub(super) fn ending(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}
