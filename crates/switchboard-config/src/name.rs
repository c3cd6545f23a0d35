//! Names of servers and tools, and the names that a model sees.
//!
//! The pair (`ServerName`, `ToolName`) is the identity of a tool. An `ExposedName` is derived from
//! it by a `Style`, is looked up in a table, and is never parsed: neither for routing nor for
//! authorisation.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::untrusted::{Untrusted, escaped_line, is_hidden};

pub use exposure::{AssignedNames, NameRequest, NamingError, ReservedNames, expose};
pub use glob::Glob;
pub(crate) use style::STYLE_CHOICES;
pub use style::{Style, Unnameable};
pub use style::{as_word, kebab};

mod exposure;
mod glob;
mod style;

/// The server name of host tools. Not valid as a server's name in a file.
const HOST: &str = "@host";

/// The key of a server in the configuration: `[A-Za-z0-9_-]{1,32}`, no `__`, no `_` at its ends.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(Arc<str>);

/// Why a text cannot name a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot name a server: {reason}; expected {expected}")]
pub struct BadName {
    text: String,
    reason: &'static str,
    expected: &'static str,
}

impl ServerName {
    /// Names that the gateway's paths use for something else: `/mcp/server-card`. A native file must
    /// not have them. A server of another dialect is offered under `/mcp` only.
    pub const RESERVED: [&str; 1] = ["server-card"];

    /// Checks the rules of the native file.
    pub fn new(text: &str) -> Result<Self, BadName> {
        let reason = if text.is_empty() {
            "it is empty"
        } else if !text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        {
            "it has a character outside A-Z a-z 0-9 _ -"
        } else if text.len() > 32 {
            "it is longer than 32 characters"
        } else if text.contains("__") {
            "it contains \"__\""
        } else if text.starts_with('_') || text.ends_with('_') {
            "it has \"_\" at an end"
        } else if Self::RESERVED.contains(&text) {
            "the gateway uses it for something else, at /mcp/server-card"
        } else {
            return Ok(Self(text.into()));
        };
        let expected = match Self::RESERVED.contains(&text) {
            true => "another name",
            false => "1 to 32 of A-Z a-z 0-9 _ -, without \"__\" and without \"_\" at either end",
        };
        Err(BadName {
            text: text.to_owned(),
            reason,
            expected,
        })
    }

    /// Checks the rules of lenient dialects, which allow nearly any text.
    pub fn lenient(text: &str) -> Result<Self, BadName> {
        let reason = if text.is_empty() {
            "it is empty"
        } else if text.chars().count() > 128 {
            "it is longer than 128 characters"
        } else if text.contains('/') {
            "it contains \"/\""
        } else if text == HOST {
            "it stands for the tools that are not a server's"
        } else if text.contains(is_hidden) {
            "it has a control or hidden character"
        } else {
            return Ok(Self(text.into()));
        };
        let expected = "1 to 128 visible characters without \"/\"";
        Err(BadName {
            text: text.to_owned(),
            reason,
            expected,
        })
    }

    /// The server name of host tools: `@host`.
    pub fn host() -> Self {
        Self(HOST.into())
    }

    /// Whether this is `@host`.
    pub fn is_host(&self) -> bool {
        &*self.0 == HOST
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as the last argument of a command that a person copies, quoted: a dialect's file
    /// may contain any name.
    pub fn for_shell(&self) -> std::borrow::Cow<'_, str> {
        crate::shell::argument(&self.0)
    }
}

impl Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A tool as its server spells it. Untrusted text, so it does not print by itself.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Wraps the server's spelling unchanged.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The server's spelling, for the wire and for look-ups.
    pub fn as_wire(&self) -> &str {
        &self.0
    }

    /// The spelling as text that may be shown once escaped.
    pub fn untrusted(&self) -> Untrusted {
        Untrusted::new(&*self.0)
    }
}

impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The identity of a tool: the server and the tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolId {
    /// The server that offers it.
    pub server: ServerName,
    /// The server's own name for it.
    pub tool: ToolName,
}

impl ToolId {
    /// `server/tool` on one line, safe to show.
    pub fn shown(&self) -> impl fmt::Display + '_ {
        struct DisplayValue<'a>(&'a ToolId);
        impl fmt::Display for DisplayValue<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "{}/{}",
                    self.0.server,
                    escaped_line(self.0.tool.as_wire())
                )
            }
        }
        DisplayValue(self)
    }
}

/// The name under which a tool is offered to a model. Its characters are safe to print.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExposedName(Arc<str>);

impl ExposedName {
    /// A name that is not derived by a style, for something that no server offers.
    pub fn unlisted(text: &str) -> Self {
        Self(text.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ExposedName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExposedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ExposedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_native_server_name_has_an_unambiguous_end() {
        let check = |text: &str, reason: Option<&str>| {
            assert_eq!(
                ServerName::new(text).err().map(|bad| bad.reason),
                reason,
                "{text:?}"
            );
        };
        check("github", None);
        check("remote-tools", None);
        check("a_b", None);
        check("-", None);
        check(&"a".repeat(32), None);
        check("", Some("it is empty"));
        check(&"a".repeat(33), Some("it is longer than 32 characters"));
        check("a__b", Some("it contains \"__\""));
        check("_a", Some("it has \"_\" at an end"));
        check("a_", Some("it has \"_\" at an end"));
        check(
            "file.system",
            Some("it has a character outside A-Z a-z 0-9 _ -"),
        );
        check("gîthub", Some("it has a character outside A-Z a-z 0-9 _ -"));
        check("server-cards", None);
        check(
            "server-card",
            Some("the gateway uses it for something else, at /mcp/server-card"),
        );
    }

    #[test]
    fn a_dialect_server_name_may_be_nearly_any_visible_text() {
        let check = |text: &str, reason: Option<&str>| {
            assert_eq!(
                ServerName::lenient(text).err().map(|bad| bad.reason),
                reason,
                "{text:?}"
            );
        };
        check("file.system", None);
        check("my server__x_", None);
        check(&"é".repeat(128), None);
        check(&"é".repeat(129), Some("it is longer than 128 characters"));
        check("", Some("it is empty"));
        check("a/b", Some("it contains \"/\""));
        check(
            "@host",
            Some("it stands for the tools that are not a server's"),
        );
        check("@hosts", None);
        check("a\nb", Some("it has a control or hidden character"));
        check("a\u{202e}b", Some("it has a control or hidden character"));
    }

    #[test]
    fn an_invalid_name_reports_what_was_expected() {
        assert_eq!(
            ServerName::new("a b").unwrap_err().to_string(),
            "\"a b\" cannot name a server: it has a character outside A-Z a-z 0-9 _ -; \
             expected 1 to 32 of A-Z a-z 0-9 _ -, without \"__\" and without \"_\" at either end"
        );
    }
}
