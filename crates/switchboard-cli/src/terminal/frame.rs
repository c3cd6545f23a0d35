//! Pages that fit the screen: a head and a foot of our own text, and a body between them that
//! scrolls.
//!
//! Each line of server text is behind a bar, so that it cannot look like ours.

use anstyle::{AnsiColor, Style};
use switchboard::untrusted::Untrusted;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The prefix of each line of server text.
const BAR: &str = "│ ";

/// A key press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    Ctrl(char),
}

/// Rows and columns of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// One line of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScreenLine {
    pub(super) text: String,
    pub(super) style: Style,
}

/// A dialog on the screen.
pub(super) trait Dialog {
    /// The answer that ends it.
    type Answer;

    /// The page to draw.
    fn page(&self, columns: usize) -> Page;

    /// Handles a key; `Some` ends the dialog.
    fn press(&mut self, key: Key, size: Size) -> Option<Self::Answer>;

    /// The first line of the body to show, if the dialog scrolls by itself.
    fn offset(&self) -> usize {
        0
    }
}

/// All lines of a dialog. `head` and `foot` are always on the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) head: Vec<ScreenLine>,
    pub(super) body: Vec<ScreenLine>,
    pub(super) foot: Vec<ScreenLine>,
    /// A line of the body that must be on the screen.
    pub(super) focus: Option<usize>,
}

pub(super) const TITLE: Style = Style::new().bold();
pub(super) const PLAIN: Style = Style::new();
pub(super) const FAINT: Style = Style::new().dimmed();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const FAULT: Style = AnsiColor::Red.on_default();
pub(super) const CHOSEN: Style = Style::new().invert();
pub(super) const KEYS: Style = AnsiColor::Cyan.on_default();

/// A line of our own text.
pub(super) fn own_line(text: impl Into<String>, style: Style) -> ScreenLine {
    ScreenLine {
        text: text.into(),
        style,
    }
}

/// Our own text, wrapped between words; lines after the first are indented.
pub(super) fn own_lines(text: &str, columns: usize, style: Style) -> Vec<ScreenLine> {
    super::super::view::table::wrapped(text, columns)
        .into_iter()
        .map(|line| own_line(line, style))
        .collect()
}

/// Server text: escaped, wrapped, every line behind the bar.
pub(super) fn quoted_lines(text: &str, columns: usize, style: Style) -> Vec<ScreenLine> {
    text.lines()
        .flat_map(|line| wrap(&safe(line), columns.saturating_sub(BAR.chars().count() + 1)))
        .map(|line| ScreenLine {
            text: format!("{BAR}{line}"),
            style,
        })
        .collect()
}

/// One escaped line.
pub(super) fn safe(text: &str) -> String {
    Untrusted::new(text).for_terminal_line().to_string()
}

/// Cuts a line into pieces of at most `width` columns: after a space, or inside a word that is
/// longer than a line. Nothing is lost.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(4);
    let mut lines = Vec::new();
    let mut rest = text;
    loop {
        let mut used = 0;
        let overflows = |(_, character): &(usize, char)| {
            used += character.width().unwrap_or(0);
            used > width
        };
        let Some((end, _)) = rest.char_indices().find(overflows) else {
            break;
        };
        // A word that fits a line is not split, unless only indentation is before it.
        let fits = |at: usize| {
            rest[at..].split(' ').next().is_some_and(|word| {
                word.chars().take(width + 1).collect::<String>().width() <= width
            })
        };
        let after_space = rest[..end]
            .rfind(' ')
            .map(|at| at + 1)
            .filter(|&at| !rest[..at].trim().is_empty() && fits(at));
        let cut = if rest[end..].starts_with(' ') {
            end
        } else {
            after_space.unwrap_or(end)
        };
        let (line, after) = rest.split_at(cut);
        lines.push(line.to_owned());
        rest = after;
    }
    lines.push(rest.to_owned());
    lines
}

/// Wraps lines at the width of the screen. Continuations are indented, behind the bar if their line
/// has one, so that no server text begins at the left edge.
pub(super) fn fold_to_width(text: &str, columns: usize) -> String {
    let fold = |line: &str| {
        let (first, next, words) = match line.strip_prefix(INDENTED_BAR) {
            Some(words) => (INDENTED_BAR, INDENTED_BAR, words),
            None => ("", FOLD, line),
        };
        let rows = wrap(words, columns.saturating_sub(FOLD.width()));
        let row = |(number, row): (usize, &String)| {
            format!("{}{row}\n", if number == 0 { first } else { next })
        };
        rows.iter().enumerate().map(row).collect::<String>()
    };
    text.lines().map(fold).collect()
}

/// The bar in text that is printed line by line.
const INDENTED_BAR: &str = "  │ ";
/// As wide as the bar.
const FOLD: &str = "    ";

/// The choices, side by side on as many lines as they need. None is ever cut.
pub(super) fn choices(each: &[&str], columns: usize) -> Vec<ScreenLine> {
    let mut lines = vec![String::new()];
    for choice in each {
        if let Some(line) = lines
            .last_mut()
            .filter(|line| line.is_empty() || line.width() + 3 + choice.width() <= columns)
        {
            line.push_str(if line.is_empty() { "" } else { "   " });
            line.push_str(choice);
        } else {
            lines.push((*choice).to_owned());
        }
    }
    lines.into_iter().map(|line| own_line(line, KEYS)).collect()
}

/// The number of body lines that fit between head and foot.
pub(super) fn body_rows(page: &Page, size: Size) -> usize {
    size.rows
        .saturating_sub(page.head.len() + page.foot.len() + 2)
        .max(1)
}

/// The last offset that still fills the screen.
pub(super) fn last_offset(page: &Page, size: Size) -> usize {
    page.body.len().saturating_sub(body_rows(page, size))
}

/// The lines of the screen: head, as much of the body as fits, the position in it, foot.
pub(super) fn lay_out<D: Dialog>(dialog: &D, size: Size) -> Vec<ScreenLine> {
    let page = dialog.page(size.columns);
    let rows = body_rows(&page, size);
    let mut first = dialog.offset().min(last_offset(&page, size));
    if let Some(focus) = page.focus {
        first = first.max((focus + 1).saturating_sub(rows)).min(focus);
    }
    let last = (first + rows).min(page.body.len());
    let mut screen = page.head.clone();
    screen.push(own_line(String::new(), PLAIN));
    screen.extend(page.body[first..last].iter().cloned());
    if page.body.len() > rows {
        let more = if last < page.body.len() {
            " · ↓ for more"
        } else {
            ""
        };
        screen.push(own_line(
            format!("lines {} to {last} of {}{more}", first + 1, page.body.len()),
            FAINT,
        ));
    } else {
        screen.push(own_line(String::new(), PLAIN));
    }
    screen.extend(page.foot);
    for line in &mut screen {
        line.text = super::super::view::table::cut(&line.text, size.columns);
    }
    screen.truncate(size.rows);
    screen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t1_lines_that_are_folded_stay_behind_their_bar_and_lose_nothing() {
        let check = |text: &str, expected: &str| assert_eq!(fold_to_width(text, 12), expected);
        check("ours\n  │ theirs", "ours\n  │ theirs\n");
        check("  │ 12345678y/N? y", "  │ 12345678\n  │ y/N? y\n");
        check("123456789", "12345678\n    9\n");
        check("  │ 表表表表表", "  │ 表表表表\n  │ 表\n");
        check("", "");
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let check = |text: &str, expected: &[&str]| assert_eq!(wrap(text, 8), expected, "{text:?}");
        check("one two three", &["one two ", "three"]);
        check("one two! three", &["one two!", " three"]);
        check("  12345678", &["  123456", "78"]);
        check("a 123456789 b", &["a 123456", "789 b"]);
        check("a 12345678 b", &["a ", "12345678", " b"]);
        check("12345678", &["12345678"]);
        check("表表表表 表", &["表表表表", " 表"]);
        check("", &[""]);
    }
}
