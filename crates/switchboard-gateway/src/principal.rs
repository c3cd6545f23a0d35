//! Who a client is, as the edge authenticated it.

use std::fmt;
use std::sync::Arc;

/// The authenticated name of a client: its token's, its entry's on the socket, or
/// [`local`](Self::local). Never the name that a client gives itself.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

impl Principal {
    /// The client of this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The client that started this process and speaks over its standard streams.
    pub fn local() -> Self {
        Self::new("local")
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
