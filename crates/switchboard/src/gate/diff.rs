//! What was and what is, line by line: `- ` before, `+ ` after. Lines that stayed are left out.

use crate::untrusted::escaped_line;

/// How many pairs of lines are compared before the whole is shown as replaced.
const MAX_COMPARED: usize = 1_000_000;

/// The lines that differ, escaped.
pub(super) fn lines(before: &str, after: &str) -> Vec<String> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let head = before
        .iter()
        .zip(&after)
        .take_while(|(one, other)| one == other)
        .count();
    let (before, after) = (&before[head..], &after[head..]);
    let tail = before
        .iter()
        .rev()
        .zip(after.iter().rev())
        .take_while(|(one, other)| one == other)
        .count();
    let (before, after) = (&before[..before.len() - tail], &after[..after.len() - tail]);

    let mut shown = Vec::new();
    let mut show = |sign: char, line: &str| shown.push(format!("{sign} {}", escaped_line(line)));
    if before.len().saturating_mul(after.len()) > MAX_COMPARED {
        before.iter().for_each(|line| show('-', line));
        after.iter().for_each(|line| show('+', line));
        return shown;
    }
    // common[i][j]: how many lines the rests from i and j have in common, in order.
    let width = after.len() + 1;
    let mut common = vec![0_u32; (before.len() + 1) * width];
    for i in (0..before.len()).rev() {
        for j in (0..after.len()).rev() {
            common[i * width + j] = if before[i] == after[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < before.len() || j < after.len() {
        if i < before.len() && j < after.len() && before[i] == after[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == after.len()
            || i < before.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            show('-', before[i]);
            i += 1;
        } else {
            show('+', after[j]);
            j += 1;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str, expected: &[&str]) {
        assert_eq!(lines(before, after), expected);
    }

    #[test]
    fn only_what_differs_is_shown() {
        check("a\nb\nc", "a\nb\nc", &[]);
        check("a\nb\nc", "a\nx\nc", &["- b", "+ x"]);
        check("a\nc", "a\nb\nc\nd", &["+ b", "+ d"]);
        check("a\nb", "", &["- a", "- b"]);
        check("a\nb\nc\nd", "b\nx\nd", &["- a", "- c", "+ x"]);
    }

    #[test]
    fn t12_lines_of_a_server_are_escaped() {
        check("a", "a\u{1b}[2J", &["- a", "+ a\\u{1b}[2J"]);
    }

    #[test]
    fn a_huge_change_is_shown_whole_without_comparing() {
        let text = |word: &str| {
            (0..2_000)
                .map(|index| format!("{word}{index}\n"))
                .collect::<String>()
        };
        assert_eq!(lines(&text("a"), &text("b")).len(), 4_000);
    }
}
