//! Untrusted text, such as a server's. It has no `Display`: it reaches a terminal only through
//! `Untrusted::for_terminal`, which escapes every character that could move the cursor, hide,
//! reorder or imitate text.

use std::borrow::Cow;
use std::fmt::{self, Write};

use unicode_properties::{GeneralCategory, UnicodeEmoji, UnicodeGeneralCategory};

/// Text from a server, a child's stderr or another untrusted source.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Untrusted(String);

impl Untrusted {
    /// Wraps untrusted text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text unchanged, for machines only: the wire, JSON output, files.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Safe for a terminal: controls (but for newline and tab), bidi, zero-width, tag and private
    /// characters appear as `\u{…}`. Emoji that consist of several characters are shown as
    /// themselves.
    pub fn for_terminal(&self) -> impl fmt::Display + '_ {
        escaped(&self.0)
    }

    /// As [`for_terminal`](Self::for_terminal), on one line: newline and tab are escaped too.
    pub fn for_terminal_line(&self) -> impl fmt::Display + '_ {
        escaped_line(&self.0)
    }

    /// As [`for_terminal`](Self::for_terminal), with each further line indented, so that none can
    /// imitate a line of ours.
    pub fn for_terminal_indented(&self) -> impl fmt::Display + '_ {
        Escaped {
            text: &self.0,
            lines: LineBreaks::Indented,
        }
    }

    /// The text for a model: characters that a person cannot see are dropped. `true` if any was.
    pub fn for_model(&self) -> (Cow<'_, str>, bool) {
        let mut shown = String::new();
        let mut copied = 0;
        for (at, character) in
            hidden_in(&self.0).filter(|(_, character)| !matches!(character, '\n' | '\t'))
        {
            shown.push_str(&self.0[copied..at]);
            copied = at + character.len_utf8();
        }
        if copied == 0 {
            return (Cow::Borrowed(&self.0), false);
        }
        (Cow::Owned(shown + &self.0[copied..]), true)
    }
}

impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.for_terminal_line())
    }
}

impl<T: Into<String>> From<T> for Untrusted {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// Borrowed text, escaped for a terminal; line breaks are kept.
pub fn escaped(text: &str) -> impl fmt::Display + '_ {
    Escaped {
        text,
        lines: LineBreaks::Kept,
    }
}

/// Borrowed text, escaped for a terminal on one line.
pub fn escaped_line(text: &str) -> impl fmt::Display + '_ {
    Escaped {
        text,
        lines: LineBreaks::Escaped,
    }
}

/// A text quoted for a message: one line, at most 80 characters.
pub fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        None => format!("\"{}\"", escaped_line(text)),
        Some((end, _)) => format!("\"{}…\"", escaped_line(&text[..end])),
    }
}

struct Escaped<'a> {
    text: &'a str,
    lines: LineBreaks,
}

/// How line breaks and tabs are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineBreaks {
    Kept,
    Indented,
    Escaped,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Stretches without escapes are written at once: most text has nothing to escape.
        let mut written = 0;
        for (at, character) in hidden_in(self.text) {
            f.write_str(&self.text[written..at])?;
            written = at + character.len_utf8();
            match (character, self.lines) {
                ('\n', LineBreaks::Kept) | ('\t', LineBreaks::Kept | LineBreaks::Indented) => {
                    f.write_char(character)?
                }
                ('\n', LineBreaks::Indented) => f.write_str("\n    ")?,
                // `\r\n` is one line break.
                ('\r', LineBreaks::Kept | LineBreaks::Indented)
                    if self.text[written..].starts_with('\n') => {}
                _ => write!(f, "\\u{{{:x}}}", u32::from(character))?,
            }
        }
        f.write_str(&self.text[written..])
    }
}

/// The hidden characters of a text, except for those that are part of an emoji.
pub fn hidden_in(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut emoji_end = 0;
    text.char_indices().filter(move |&(at, character)| {
        if at < emoji_end {
            return false;
        }
        emoji_end = at + emoji_length(&text[at..]);
        at >= emoji_end && is_hidden(character)
    })
}

/// The length in bytes of the emoji at the start of a text; 0 if there is none.
fn emoji_length(text: &str) -> usize {
    const JOINER: char = '\u{200d}';
    let mut length = element_length(text);
    // A keycap is never part of a joined emoji.
    while length > 0 && !text.starts_with(is_keycap_base) {
        let Some(joined) = text[length..]
            .strip_prefix(JOINER)
            .filter(|next| !next.starts_with(is_keycap_base))
            .map(element_length)
            .filter(|&joined| joined > 0)
        else {
            break;
        };
        length += JOINER.len_utf8() + joined;
    }
    length
}

/// Whether a keycap can have this character on it.
fn is_keycap_base(character: char) -> bool {
    matches!(character, '0'..='9' | '#' | '*')
}

/// The length of one emoji character with its modifiers: variation selector, skin tone, keycap, or
/// the tags of a flag.
fn element_length(text: &str) -> usize {
    /// England, Scotland and Wales: the only flags written with tags.
    const FLAGS: [&str; 3] = [
        "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
        "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
    ];
    let Some(first) = text.chars().next() else {
        return 0;
    };
    let after = &text[first.len_utf8()..];
    if is_keycap_base(first) {
        let keycap = "\u{fe0f}\u{20e3}";
        return if after.starts_with(keycap) {
            first.len_utf8() + keycap.len()
        } else {
            0
        };
    }
    if first.is_ascii() || is_hidden(first) || !first.is_emoji_char() {
        return 0;
    }
    let flag = FLAGS
        .iter()
        .find(|tags| first == '🏴' && after.starts_with(**tags))
        .map(|tags| tags.len());
    let drawn = || {
        after
            .chars()
            .next()
            .filter(|next| matches!(next, '\u{fe0e}' | '\u{fe0f}' | '🏻'..='🏿'))
            .map(char::len_utf8)
    };
    first.len_utf8() + flag.or_else(drawn).unwrap_or(0)
}

/// Whether a character is a control or invisible: control, format and bidi characters, tags,
/// private and unassigned ones, line separators, variation selectors, and letters without a glyph.
pub fn is_hidden(character: char) -> bool {
    match character {
        ' '..='~' => false,
        '\0'..='\u{9f}' => true,
        // Marks and letters that have no visible glyph.
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{2800}'
        | '\u{3164}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => matches!(
            character.general_category(),
            GeneralCategory::Control
                | GeneralCategory::Format
                | GeneralCategory::PrivateUse
                | GeneralCategory::Surrogate
                | GeneralCategory::Unassigned
                | GeneralCategory::LineSeparator
                | GeneralCategory::ParagraphSeparator
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, block: &str, line: &str, model: &str) {
        let text = Untrusted::new(text);
        assert_eq!(text.for_terminal().to_string(), block);
        assert_eq!(text.for_terminal_line().to_string(), line);
        assert_eq!(
            text.for_model(),
            (Cow::Borrowed(model), model != text.raw())
        );
    }

    #[test]
    fn t11_hidden_text_is_shown_to_people_and_removed_for_models() {
        check(
            "plain, naïve, 漢字, 👍",
            "plain, naïve, 漢字, 👍",
            "plain, naïve, 漢字, 👍",
            "plain, naïve, 漢字, 👍",
        );
        check("a\n\tb", "a\n\tb", r"a\u{a}\u{9}b", "a\n\tb");
        // ASCII smuggled as tag characters.
        check(
            "ok\u{e0068}\u{e0069}",
            r"ok\u{e0068}\u{e0069}",
            r"ok\u{e0068}\u{e0069}",
            "ok",
        );
        check(
            "a\u{202e}b\u{2066}c",
            r"a\u{202e}b\u{2066}c",
            r"a\u{202e}b\u{2066}c",
            "abc",
        );
        check(
            "a\u{200b}\u{200d}\u{feff}b",
            r"a\u{200b}\u{200d}\u{feff}b",
            r"a\u{200b}\u{200d}\u{feff}b",
            "ab",
        );
        // Joined into one emoji, and the same characters unjoined.
        let emoji = "👨\u{200d}👩\u{200d}👧, ❤\u{fe0f}, 1\u{fe0f}\u{20e3}, 🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}";
        check(emoji, emoji, emoji, emoji);
        check("👨\u{200d}", r"👨\u{200d}", r"👨\u{200d}", "👨");
        check(
            "❤\u{fe0f}\u{fe0f}",
            "❤\u{fe0f}\\u{fe0f}",
            "❤\u{fe0f}\\u{fe0f}",
            "❤\u{fe0f}",
        );
        check("1\u{fe0f}", r"1\u{fe0f}", r"1\u{fe0f}", "1");
        check("🏴\u{e0041}", r"🏴\u{e0041}", r"🏴\u{e0041}", "🏴");
        check(
            "a\u{fe0f}\u{e0101}b",
            r"a\u{fe0f}\u{e0101}b",
            r"a\u{fe0f}\u{e0101}b",
            "ab",
        );
        check(
            "\u{e000}\u{f0000}\u{378}\u{2028}",
            r"\u{e000}\u{f0000}\u{378}\u{2028}",
            r"\u{e000}\u{f0000}\u{378}\u{2028}",
            "",
        );
        check(
            "\u{3164}x\u{115f}",
            r"\u{3164}x\u{115f}",
            r"\u{3164}x\u{115f}",
            "x",
        );
    }

    #[test]
    fn t12_terminal_sequences_become_literals() {
        check("\x1b[2J", r"\u{1b}[2J", r"\u{1b}[2J", "[2J");
        check(
            "\x1b]52;c;aGk=\x07",
            r"\u{1b}]52;c;aGk=\u{7}",
            r"\u{1b}]52;c;aGk=\u{7}",
            "]52;c;aGk=",
        );
        check(
            "\u{9b}31m\u{90}x\u{9c}",
            r"\u{9b}31m\u{90}x\u{9c}",
            r"\u{9b}31m\u{90}x\u{9c}",
            "31mx",
        );
        check(
            "a\rb\x08\x7f",
            r"a\u{d}b\u{8}\u{7f}",
            r"a\u{d}b\u{8}\u{7f}",
            "ab",
        );
    }

    #[test]
    fn t12_further_lines_are_indented() {
        let text = Untrusted::new("a\r\nb\n\tc\rd");
        assert_eq!(
            text.for_terminal_indented().to_string(),
            "a\n    b\n    \tc\\u{d}d"
        );
        assert_eq!(text.for_terminal().to_string(), "a\nb\n\tc\\u{d}d");
        assert_eq!(
            text.for_terminal_line().to_string(),
            r"a\u{d}\u{a}b\u{a}\u{9}c\u{d}d"
        );
    }

    #[test]
    fn a_quoted_text_is_one_short_line() {
        assert_eq!(quoted("a\nb"), r#""a\u{a}b""#);
        assert_eq!(quoted(&"x".repeat(100)), format!("\"{}…\"", "x".repeat(80)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn t11_nothing_hidden_is_ever_printed(text in any::<String>()) {
            let text = Untrusted::new(text);
            for shown in [text.for_terminal().to_string(), text.for_model().0.into_owned()] {
                prop_assert!(hidden_in(&shown).all(|(_, character)| matches!(character, '\n' | '\t')));
            }
            for shown in [text.for_terminal_line().to_string(), format!("{text:?}")] {
                prop_assert!(hidden_in(&shown).next().is_none());
            }
        }

        #[test]
        fn t11_no_hidden_character_is_printed_outside_an_emoji(text in "[a-z0-9#*\u{200d}\u{fe0f}\u{e0067}\u{20e3}👍🏴\u{1b}]{0,12}") {
            for (at, character) in text.char_indices().filter(|(_, character)| is_hidden(*character)) {
                let before = text[..at].trim_end_matches(['\u{fe0f}', '\u{200d}']).chars().next_back();
                let joins = before.is_some_and(|before| "👍🏴0123456789#*".contains(before));
                prop_assert!(joins || hidden_in(&text).any(|found| found == (at, character)), "{text:?} at {at}");
            }
        }

        #[test]
        fn t11_hidden_categories_are_hidden(character in any::<char>()) {
            let listed = matches!(
                character.general_category(),
                GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse
                    | GeneralCategory::Surrogate | GeneralCategory::Unassigned
            );
            prop_assert!(!listed || is_hidden(character));
        }
    }
}
