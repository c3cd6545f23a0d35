//! Glob patterns over names: `*`, `?`, `[a-z]` and `{a,b}`, case-sensitive, matched in linear time.
//! Length and memory of a pattern are bounded, since files that nobody has accepted contain them
//! too.

use std::fmt;

use globset::GlobBuilder;
use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use regex_automata::util::syntax;

use crate::untrusted::{escaped_line, quoted};

/// The longest pattern accepted.
const MAX_PATTERN_BYTES: usize = 1024;

/// How large a compiled pattern may become.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// A pattern over the name of a server or a tool. `*` matches any characters, including a slash.
#[derive(Clone)]
pub struct Glob {
    text: String,
    matcher: Matcher,
}

#[derive(Clone)]
enum Matcher {
    Any,
    Exact,
    // An engine without caches: the memory of a thousand patterns stays proportional to their text.
    Pattern(PikeVM),
}

impl Glob {
    /// Parses a pattern. The error is one line, safe to show.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(format!(
                "{} has {} bytes; a pattern has at most {MAX_PATTERN_BYTES}",
                quoted(text),
                text.len()
            ));
        }
        let matcher =
            if text == "*" {
                Matcher::Any
            } else if !Self::has_wildcard(text) {
                // Most patterns are plain names, which need no engine.
                Matcher::Exact
            } else {
                let glob = GlobBuilder::new(text)
                    .literal_separator(false)
                    .backslash_escape(true)
                    .build();
                let glob = glob.map_err(|error| {
                    format!(
                        "{}: {}",
                        quoted(text),
                        escaped_line(&error.kind().to_string())
                    )
                })?;
                Matcher::Pattern(compile(glob.regex()).ok_or_else(|| {
                    format!("{} is too complex or nested too deeply", quoted(text))
                })?)
            };
        Ok(Self {
            text: text.to_owned(),
            matcher,
        })
    }

    /// Whether a text has wildcards.
    pub fn has_wildcard(text: &str) -> bool {
        text.contains(['*', '?', '[', ']', '{', '}', '\\', '!'])
    }

    /// A pattern that matches exactly this text.
    pub fn literal(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            matcher: Matcher::Exact,
        }
    }

    /// Whether it matches one name only.
    pub fn is_literal(&self) -> bool {
        matches!(self.matcher, Matcher::Exact)
    }

    /// Whether it matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Any => true,
            Matcher::Exact => self.text == name,
            Matcher::Pattern(matcher) => matcher.is_match(&mut matcher.create_cache(), name),
        }
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Compiles with limits: `globset`'s own engine panics on patterns that it cannot compile, and its
/// limits are far wider.
fn compile(regex: &str) -> Option<PikeVM> {
    PikeVM::builder()
        .syntax(syntax::Config::new().utf8(false).dot_matches_new_line(true))
        .thompson(
            thompson::Config::new()
                .utf8(false)
                .nfa_size_limit(Some(MAX_COMPILED_BYTES)),
        )
        .build(regex)
        .ok()
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
    fn t33_a_pattern_matches_whole_names_and_is_case_sensitive() {
        let check = |pattern: &str, name: &str, matches: bool| {
            assert_eq!(
                Glob::new(pattern).unwrap().matches(name),
                matches,
                "{pattern} against {name:?}"
            );
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
    fn an_invalid_pattern_reports_why() {
        assert!(Glob::new("[a").unwrap_err().starts_with("\"[a\": "));
        // T12: the part of the pattern that the error quotes is escaped too.
        assert_eq!(
            Glob::new("[a-\u{1b}]").unwrap_err(),
            "\"[a-\\u{1b}]\": invalid range; 'a' > '\\u{1b}'"
        );
        let deep = format!("{}a{}", "{".repeat(300), "}".repeat(300));
        assert!(
            Glob::new(&deep)
                .unwrap_err()
                .ends_with("is too complex or nested too deeply")
        );
    }

    #[test]
    fn t27_a_pattern_is_bounded_before_it_is_compiled() {
        for segment in ["*a", "[!-~]", "{a,b}", "a", "?", "é"] {
            let longest = segment.repeat(MAX_PATTERN_BYTES / segment.len());
            assert!(Glob::new(&longest).is_ok(), "{segment}");
            let fault = Glob::new(&segment.repeat(100_000)).unwrap_err();
            assert!(
                fault.ends_with("bytes; a pattern has at most 1024") && fault.len() < 300,
                "{fault}"
            );
        }
    }
}
