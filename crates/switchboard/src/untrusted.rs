//! Text that a server wrote. It has no `Display`: it reaches a terminal only through [`Untrusted::for_terminal`], which escapes
//! every character that could move the cursor, hide, reorder or imitate.

use std::fmt;

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
        struct Escaped<'a>(&'a str);
        impl fmt::Display for Escaped<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let _ = (self.0, f);
                todo!()
            }
        }
        Escaped(&self.0)
    }

    /// As [`for_terminal`](Self::for_terminal), on one line: newline and tab are escaped too.
    pub fn for_terminal_line(&self) -> impl fmt::Display + '_ {
        struct Escaped<'a>(&'a str);
        impl fmt::Display for Escaped<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let _ = (self.0, f);
                todo!()
            }
        }
        Escaped(&self.0)
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
