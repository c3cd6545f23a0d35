//! Line diffs: `- ` before, `+ ` after.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::untrusted::escaped_line;

/// The most pairs of lines that are compared; beyond it every line counts as replaced.
const MAX_COMPARED: usize = 1_000_000;

/// The changed lines of a file, with up to `context` lines around them, escaped, and `…` for
/// omitted equal lines.
pub fn file_changes(before: &str, after: &str, context: usize) -> Vec<String> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    // A common end is left out of the comparison, whose cost is limited.
    let same = |(one, other): &(&&str, &&str)| one == other;
    let shorter = before.len().min(after.len());
    let start = before.iter().zip(&after).take_while(same).count();
    let ends = before.iter().rev().zip(after.iter().rev());
    let end = ends.take(shorter - start).take_while(same).count();
    let (first, last) = (start.saturating_sub(context), end.saturating_sub(context));
    let lines = line_diff(
        &before[first..before.len() - last],
        &after[first..after.len() - last],
    );
    let is_change = |line: &DiffLine<'_>| !matches!(line, DiffLine::Same(_));
    let changes: Vec<usize> = (0..lines.len())
        .filter(|at| is_change(&lines[*at]))
        .collect();
    let is_near = |at: usize| {
        let next = changes.partition_point(|change| *change < at);
        let distance = |index: usize| changes.get(index).map(|change| change.abs_diff(at));
        let before = next.checked_sub(1).and_then(distance);
        [before, distance(next)]
            .into_iter()
            .flatten()
            .any(|lines| lines <= context)
    };
    let mut shown = Vec::new();
    let mut left_out = first > 0;
    for (at, line) in lines.iter().enumerate() {
        if !is_near(at) {
            left_out = true;
            continue;
        }
        if std::mem::take(&mut left_out) {
            shown.push("…".to_owned());
        }
        shown.push(match line {
            DiffLine::Same(line) => format!("  {}", visible_line(line)),
            DiffLine::Removed(line) => format!("- {}", visible_line(line)),
            DiffLine::Added(line) => format!("+ {}", visible_line(line)),
        });
    }
    shown
}

/// The changed lines, escaped: the texts may be a server's.
pub fn changed_lines(before: &str, after: &str) -> Vec<String> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    line_diff(&before, &after)
        .into_iter()
        .filter_map(|line| match line {
            DiffLine::Same(_) => None,
            DiffLine::Removed(line) => Some(format!("- {}", visible_line(line))),
            DiffLine::Added(line) => Some(format!("+ {}", visible_line(line))),
        })
        .collect()
}

/// The line, escaped, with tabs as spaces: an indented file would be hard to read otherwise.
fn visible_line(line: &str) -> String {
    escaped_line(&line.replace('\t', "    ")).to_string()
}

/// All lines, unchanged ones after two spaces. Not escaped.
pub(crate) fn all_lines(before: &[String], after: &[String]) -> Vec<String> {
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let after: Vec<&str> = after.iter().map(String::as_str).collect();
    line_diff(&before, &after)
        .into_iter()
        .map(|line| match line {
            DiffLine::Same(line) => format!("  {line}"),
            DiffLine::Removed(line) => format!("- {line}"),
            DiffLine::Added(line) => format!("+ {line}"),
        })
        .collect()
}

/// One line of the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffLine<'a> {
    /// In both texts.
    Same(&'a str),
    /// Only in the text before.
    Removed(&'a str),
    /// Only in the text after.
    Added(&'a str),
}

/// Every line of both texts once, in order.
fn line_diff<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<DiffLine<'a>> {
    // A common start stays in place even if other alignments are equally short.
    let mut lines: Vec<_> = before
        .iter()
        .zip(after)
        .take_while(|(one, other)| one == other)
        .map(|(line, _)| DiffLine::Same(line))
        .collect();
    let (before, after) = (&before[lines.len()..], &after[lines.len()..]);
    let ending = before
        .iter()
        .rev()
        .zip(after.iter().rev())
        .take_while(|(one, other)| one == other)
        .count();
    let (before, ending) = before.split_at(before.len() - ending);
    let after = &after[..after.len() - ending.len()];
    let same = ending.iter().copied().map(DiffLine::Same);
    let removed =
        |lines: &[&'a str]| -> Vec<_> { lines.iter().copied().map(DiffLine::Removed).collect() };
    let added =
        |lines: &[&'a str]| -> Vec<_> { lines.iter().copied().map(DiffLine::Added).collect() };
    if before.len().saturating_mul(after.len()) > MAX_COMPARED {
        lines.extend(removed(before));
        lines.extend(added(after));
        lines.extend(same);
        return lines;
    }
    for operation in capture_diff_slices(Algorithm::Myers, before, after) {
        let (old, new) = (
            &before[operation.old_range()],
            &after[operation.new_range()],
        );
        match operation {
            DiffOp::Equal { .. } => lines.extend(new.iter().copied().map(DiffLine::Same)),
            DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                lines.extend(removed(old));
                lines.extend(added(new));
            }
        }
    }
    lines.extend(same);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn every_line_of_both_texts_is_shown_once_and_in_order() {
        let check = |before: &str, after: &str, expected: &str| {
            assert_eq!(
                all_lines(&words(before), &words(after)).join("|"),
                expected,
                "{before} → {after}"
            );
        };
        check("", "", "");
        check("a b c", "a b c", "  a|  b|  c");
        check("a b c", "a x c", "  a|- b|+ x|  c");
        check("a b", "a b c", "  a|  b|+ c");
        check("a b c d", "b d a", "- a|  b|- c|  d|+ a");
        check("", "a", "+ a");
        check("a", "", "- a");
        check("a a", "a", "  a|- a");
    }

    #[test]
    fn only_changed_lines_are_shown() {
        let check = |before: &str, after: &str, expected: &[&str]| {
            assert_eq!(changed_lines(before, after), expected);
        };
        check("a\nb\nc", "a\nb\nc", &[]);
        check("a\nb\nc", "a\nx\nc", &["- b", "+ x"]);
        check("a\nc", "a\nb\nc\nd", &["+ b", "+ d"]);
        check("a\nb", "", &["- a", "- b"]);
        check("a\nb\nc\nd", "b\nx\nd", &["- a", "- c", "+ x"]);
    }

    #[test]
    fn a_files_change_is_shown_with_context() {
        let file = |lines: &str| lines.replace(' ', "\n");
        let check = |before: &str, after: &str, expected: &str| {
            let shown = file_changes(&file(before), &file(after), 1).join("|");
            assert_eq!(shown, expected, "{before} → {after}");
        };
        check("a b c", "a b c", "");
        check("a b c d e", "a b x d e", "…|  b|- c|+ x|  d");
        check(
            "a b c d e f g",
            "x b c d e f y",
            "- a|+ x|  b|…|  f|- g|+ y",
        );
        check("", "a b", "+ a|+ b");
        check("a a a", "a a", "…|  a|- a");
    }

    /// A change at the end of a long file is not lost in the limit on comparisons.
    #[test]
    fn a_small_change_of_a_long_file_has_a_small_diff() {
        let mut lines: Vec<String> = (0..50_000).map(|line| line.to_string()).collect();
        let before = lines.join("\n");
        lines[10] = "x".to_owned();
        assert_eq!(
            file_changes(&before, &lines.join("\n"), 1),
            ["…", "  9", "- 10", "+ x", "  11"]
        );
    }

    #[test]
    fn tabs_are_shown_as_spaces() {
        assert_eq!(changed_lines("", "\ta\tb"), ["+     a    b"]);
        assert_eq!(file_changes("\ta", "\tb", 1), ["-     a", "+     b"]);
    }

    #[test]
    fn t12_lines_of_a_server_are_escaped() {
        assert_eq!(changed_lines("a", "a\u{1b}[2J"), ["- a", "+ a\\u{1b}[2J"]);
    }

    #[test]
    fn a_huge_change_is_cheap_and_shows_every_line() {
        let lines = |letter: char| -> Vec<String> {
            (0..20_000)
                .map(|number| format!("{letter}{number}"))
                .collect()
        };
        let shown = all_lines(&lines('a'), &lines('b'));
        assert_eq!(shown.len(), 40_000);
        assert_eq!(
            (shown[0].as_str(), shown[39_999].as_str()),
            ("- a0", "+ b19999")
        );
    }
}
