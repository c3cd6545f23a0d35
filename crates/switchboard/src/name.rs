//! Names of servers and tools, and the names that a model sees.
//!
//! The pair ([`ServerName`], [`ToolName`]) is the identity of a tool. An [`ExposedName`] is made from it by a [`Style`], is looked up
//! in a table, and is never taken apart: not to route, not to authorise.

use std::fmt;
use std::sync::Arc;

use crate::untrusted::Untrusted;

/// The key of a server in the configuration: `[A-Za-z0-9_-]{1,32}`, no `__`, no `_` at its ends.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(Arc<str>);

/// Why a text cannot name a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot name a server: {reason}; expected 1 to 32 of A-Z a-z 0-9 _ -, without \"__\" and without \"_\" at either end"
)]
pub struct BadName {
    text: String,
    reason: &'static str,
}

impl ServerName {
    /// Checks the rules of the native file.
    pub fn new(text: &str) -> Result<Self, BadName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let reason = if text.is_empty() {
            "it is empty"
        } else if !text.bytes().all(allowed) {
            "it has other characters"
        } else if text.len() > 32 {
            "it is too long"
        } else if text.contains("__") {
            "it contains \"__\""
        } else if text.starts_with('_') || text.ends_with('_') {
            "it begins or ends with \"_\""
        } else {
            return Ok(Self(text.into()));
        };
        Err(BadName { text: text.to_owned(), reason })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
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
    /// Takes the server's spelling as it is.
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

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The identity of a tool: which server, which tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolId {
    /// The server that offers it.
    pub server: ServerName,
    /// The server's own name for it.
    pub tool: ToolName,
}

/// The name under which a tool is offered to a model. Its characters are safe to print.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExposedName(Arc<str>);

impl ExposedName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ExposedName {
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

/// How exposed names are made from pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// `mcp__server__tool`, at most 64 of `[A-Za-z0-9_-]`.
    #[default]
    Mcp,
    /// `server_tool`, at most 64 of `[A-Za-z0-9_]`.
    ServerTool,
    /// `server-tool` in kebab case.
    ServerDashTool,
    /// The bare tool name for the first server in config order, `server__tool` for later ones.
    FirstWins,
    /// The bare tool name; pairs that meet are withheld.
    Identity,
}

/// Why a pair has no exposed name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unnameable {
    /// What stands in the way, naming the other pair where two met.
    pub reason: String,
}

impl Style {
    /// Names every pair, in the order given (servers in config order). The answer stands in the same order.
    pub fn expose(self, pairs: &[ToolId]) -> Vec<Result<ExposedName, Unnameable>> {
        let _ = pairs;
        todo!()
    }
}
