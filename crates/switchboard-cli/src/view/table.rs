//! Tables that fit the screen: the last column is cut with an ellipsis, or put on lines of its own if
//! too little of it would be left. Other columns are never cut.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// If the last column would be narrower, its cells are put on lines of their own.
const MIN_LAST_COLUMN: usize = 20;

/// The rows, aligned. `columns` is the screen's width; `None` cuts nothing.
pub(crate) fn aligned(rows: &[Vec<String>], columns: Option<usize>) -> String {
    lay_out(rows, columns, false)
}

/// The rows, aligned. A last cell that does not fit is put on lines of its own instead of cut.
pub(crate) fn aligned_whole(rows: &[Vec<String>], columns: usize) -> String {
    lay_out(rows, Some(columns), true)
}

fn lay_out(rows: &[Vec<String>], columns: Option<usize>, is_whole: bool) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<_> = (0..count)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.width())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let before_last: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
    let last = widths.last().copied().unwrap_or(0);
    let narrow = columns.filter(|columns| {
        let left = columns.saturating_sub(before_last);
        before_last > 0 && left < MIN_LAST_COLUMN && left < last
    });
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            if column + 1 == row.len() {
                let is_wide = |columns: &usize| line.width() + cell.width() > *columns;
                let below = match is_whole {
                    true => columns.filter(is_wide),
                    false => narrow,
                };
                if let Some(columns) = below.filter(|_| column > 0 && !cell.is_empty()) {
                    let cell = wrapped(&format!("    {cell}"), columns).join("\n");
                    line = format!("{}\n{cell}", line.trim_end());
                    continue;
                }
                let columns = columns.filter(|_| !is_whole);
                let left = columns.map(|columns| columns.saturating_sub(line.width()).max(12));
                line.push_str(&left.map_or_else(|| cell.clone(), |left| cut(cell, left)));
            } else {
                line.push_str(cell);
                line.push_str(&" ".repeat(widths[column] - cell.width() + 2));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Wraps between words at `columns`; lines after the first are indented by four. A longer word is
/// not split.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = text
        .chars()
        .take_while(|character| *character == ' ')
        .collect::<String>();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.width() + 1 + word.width() > columns {
            lines.push(std::mem::replace(&mut line, "    ".to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// At most `width` columns, with an ellipsis if something was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut start = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        start.push(character);
    }
    start.push('…');
    start
}

/// `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

/// `2h 5m`, `12s`, `340ms`.
pub(crate) fn duration(span: std::time::Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..60 if span.subsec_millis() > 0 => format!("{:.1}s", span.as_secs_f64()),
        1..60 => format!("{seconds}s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        [
            ["mcp__a__long_name", "a", "What it does, at length"],
            ["x", "b", "日本語の説明がここにあります"],
        ]
        .iter()
        .map(|row| row.iter().map(|cell| (*cell).to_owned()).collect())
        .collect()
    }

    #[test]
    fn names_are_never_cut_and_descriptions_fit_the_screen() {
        assert_eq!(
            aligned(&rows(), Some(43)),
            "mcp__a__long_name  a  What it does, at len…\nx                  b  日本語の説明がここに…\n"
        );
        assert_eq!(
            aligned(&rows(), Some(24)),
            "mcp__a__long_name  a\n    What it does, at\n    length\nx                  b\n    日本語の説明がここにあります\n"
        );
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let check = |milliseconds: u64, expected: &str| {
            assert_eq!(
                duration(std::time::Duration::from_millis(milliseconds)),
                expected
            );
        };
        check(340, "340ms");
        check(1500, "1.5s");
        check(30_000, "30s");
        check(600_000, "10m");
        check(65_000, "1m 5s");
        check(7_500_000, "2h 5m");
    }

    #[test]
    fn nothing_is_cut_without_a_terminal() {
        assert_eq!(
            aligned(&rows(), None),
            "mcp__a__long_name  a  What it does, at length\nx                  b  日本語の説明がここにあります\n"
        );
    }
}
