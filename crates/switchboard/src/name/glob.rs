//! Patterns over names: `*`, `?`, `[a-z]` and `{a,b}`, case-sensitive, matched in linear time.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};

use crate::untrusted::quoted;

/// A pattern over the name of a server or a tool. `*` stands for any characters, a slash too.
#[derive(Clone)]
pub struct Glob {
    text: String,
    matcher: Matcher,
}

#[derive(Clone)]
enum Matcher {
    Any,
    Exact,
    Pattern(GlobMatcher),
}

impl Glob {
    /// Reads a pattern. The error is one line, safe to show.
    pub fn new(text: &str) -> Result<Self, String> {
        let matcher = if text == "*" {
            Matcher::Any
        } else if !text.contains(['*', '?', '[', ']', '{', '}', '\\', '!']) {
            // Most patterns are plain names: no engine for those.
            Matcher::Exact
        } else {
            let glob = GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build();
            Matcher::Pattern(glob.map_err(|error| format!("{}: {}", quoted(text), error.kind()))?.compile_matcher())
        };
        Ok(Self { text: text.to_owned(), matcher })
    }

    /// A name in which no character is a wildcard.
    pub(crate) fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), matcher: Matcher::Exact }
    }

    /// Whether it stands for one name alone.
    pub(crate) fn is_literal(&self) -> bool {
        matches!(self.matcher, Matcher::Exact)
    }

    /// Whether the whole of a name fits.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Any => true,
            Matcher::Exact => self.text == name,
            Matcher::Pattern(matcher) => matcher.is_match(name),
        }
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn t33_a_pattern_matches_whole_names_and_minds_case() {
        let check = |pattern: &str, name: &str, matches: bool| {
            assert_eq!(Glob::new(pattern).unwrap().matches(name), matches, "{pattern} against {name:?}");
        };
        check("*", "", true);
        check("*", "a/b\nc", true);
        check("read_file", "read_file", true);
        check("read_file", "Read_File", false);
        check("read_*", "read_file", true);
        check("read_*", "xread_file", false);
        check("read_*", "Read_file", false);
        check("*_file", "a/b_file", true);
        check("*_file", "a\n_file", true);
        check("*.js", "a/.js", true);
        check("{get,list}_?", "list_x", true);
        check("[a-c]", "b", true);
        check("a**b", "a/x/b", true);
    }

    #[test]
    fn a_pattern_that_cannot_be_read_says_why() {
        assert!(Glob::new("[a").unwrap_err().starts_with("\"[a\": "));
    }
}
