//! Text that a server wrote. It has no `Display`: it reaches a terminal only through [`Untrusted::for_terminal`], which escapes
//! every character that could move the cursor, hide, reorder or imitate.

use std::borrow::Cow;
use std::fmt;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Text from a server, a child's stderr or any other stranger.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Untrusted(String);

impl Untrusted {
    /// Wraps a stranger's text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text as it came, for machines only: the wire, JSON output, files.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Safe for a terminal: controls (but for newline and tab), bidi, zero-width, tag and private characters appear as `\u{…}`.
    pub fn for_terminal(&self) -> impl fmt::Display + '_ {
        escaped(&self.0)
    }

    /// As [`for_terminal`](Self::for_terminal), on one line: newline and tab are escaped too.
    pub fn for_terminal_line(&self) -> impl fmt::Display + '_ {
        escaped_line(&self.0)
    }

    /// What a model may read: characters that a person would not see are dropped. True if any was.
    pub fn for_model(&self) -> (Cow<'_, str>, bool) {
        let hidden = |character: char| !matches!(character, '\n' | '\t') && is_hidden(character);
        if !self.0.contains(hidden) {
            return (Cow::Borrowed(&self.0), false);
        }
        (Cow::Owned(self.0.chars().filter(|&character| !hidden(character)).collect()), true)
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

/// Borrowed text, escaped for a terminal; lines stay lines.
pub fn escaped(text: &str) -> impl fmt::Display + '_ {
    Escaped { text, keep: &['\n', '\t'] }
}

/// Borrowed text, escaped for a terminal on one line.
pub fn escaped_line(text: &str) -> impl fmt::Display + '_ {
    Escaped { text, keep: &[] }
}

/// The start of a text on one line, for messages that name it: at most 80 characters of it, quoted.
pub fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        None => format!("\"{}\"", escaped_line(text)),
        Some((end, _)) => format!("\"{}…\"", escaped_line(&text[..end])),
    }
}

struct Escaped<'a> {
    text: &'a str,
    keep: &'static [char],
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whole stretches are written at once: nearly all text has nothing to escape.
        let mut written = 0;
        for (at, character) in self.text.char_indices() {
            if is_hidden(character) && !self.keep.contains(&character) {
                f.write_str(&self.text[written..at])?;
                write!(f, "\\u{{{:x}}}", u32::from(character))?;
                written = at + character.len_utf8();
            }
        }
        f.write_str(&self.text[written..])
    }
}

/// Whether a character steers, hides or has no agreed look: controls, format and bidi characters, tags, private and unassigned
/// ones, line separators, variation selectors, and letters that are drawn as nothing.
pub fn is_hidden(character: char) -> bool {
    match character {
        ' '..='~' => false,
        '\0'..='\u{9f}' => true,
        // These are marks or letters to Unicode and nothing at all to the eye.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}' | '\u{3164}' => true,
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
        assert_eq!(text.for_model(), (Cow::Borrowed(model), model != text.raw()));
    }

    #[test]
    fn t11_hidden_text_is_shown_to_people_and_kept_from_models() {
        check("plain, naïve, 漢字, 👍", "plain, naïve, 漢字, 👍", "plain, naïve, 漢字, 👍", "plain, naïve, 漢字, 👍");
        check("a\n\tb", "a\n\tb", r"a\u{a}\u{9}b", "a\n\tb");
        // ASCII smuggled as tag characters.
        check("ok\u{e0068}\u{e0069}", r"ok\u{e0068}\u{e0069}", r"ok\u{e0068}\u{e0069}", "ok");
        check("a\u{202e}b\u{2066}c", r"a\u{202e}b\u{2066}c", r"a\u{202e}b\u{2066}c", "abc");
        check("a\u{200b}\u{200d}\u{feff}b", r"a\u{200b}\u{200d}\u{feff}b", r"a\u{200b}\u{200d}\u{feff}b", "ab");
        check("a\u{fe0f}\u{e0101}b", r"a\u{fe0f}\u{e0101}b", r"a\u{fe0f}\u{e0101}b", "ab");
        check("\u{e000}\u{f0000}\u{378}\u{2028}", r"\u{e000}\u{f0000}\u{378}\u{2028}", r"\u{e000}\u{f0000}\u{378}\u{2028}", "");
        check("\u{3164}x\u{115f}", r"\u{3164}x\u{115f}", r"\u{3164}x\u{115f}", "x");
    }

    #[test]
    fn t12_terminal_sequences_become_literals() {
        check("\x1b[2J", r"\u{1b}[2J", r"\u{1b}[2J", "[2J");
        check("\x1b]52;c;aGk=\x07", r"\u{1b}]52;c;aGk=\u{7}", r"\u{1b}]52;c;aGk=\u{7}", "]52;c;aGk=");
        check("\u{9b}31m\u{90}x\u{9c}", r"\u{9b}31m\u{90}x\u{9c}", r"\u{9b}31m\u{90}x\u{9c}", "31mx");
        check("a\rb\x08\x7f", r"a\u{d}b\u{8}\u{7f}", r"a\u{d}b\u{8}\u{7f}", "ab");
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
            for character in text.for_terminal().to_string().chars() {
                prop_assert!(matches!(character, '\n' | '\t') || !is_hidden(character));
            }
            for character in text.for_terminal_line().to_string().chars().chain(format!("{text:?}").chars()) {
                prop_assert!(!is_hidden(character));
            }
            for character in text.for_model().0.chars() {
                prop_assert!(matches!(character, '\n' | '\t') || !is_hidden(character));
            }
        }

        #[test]
        fn t11_the_categories_of_the_rule_are_hidden(character in any::<char>()) {
            let listed = matches!(
                character.general_category(),
                GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse
                    | GeneralCategory::Surrogate | GeneralCategory::Unassigned
            );
            prop_assert!(!listed || is_hidden(character));
        }
    }
}
