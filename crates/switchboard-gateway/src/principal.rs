//! Who a client is, as the edge authenticated it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The authenticated name of a client: its token's, its entry's on the socket, or
/// [`local`](Self::local). Never the name that a client gives itself.
///
/// Principals of one name are equal, whichever token they were authenticated with.
#[derive(Clone)]
pub struct Principal {
    name: Arc<str>,
    /// The token that the client sent; `None` for one that needs none.
    token: Option<TokenId>,
}

/// Which token a client was authenticated with: the beginning of its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TokenId(u64);

impl TokenId {
    pub(crate) fn of(digest: &blake3::Hash) -> Self {
        let (first, _) = digest.as_bytes().split_at(8);
        Self(u64::from_le_bytes(first.try_into().expect("8 bytes")))
    }
}

impl Principal {
    /// The client of this name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            token: None,
        }
    }

    /// The client of this name, authenticated with a token.
    pub(crate) fn with_token(name: &str, token: TokenId) -> Self {
        Self {
            name: name.into(),
            token: Some(token),
        }
    }

    /// The client that started this process and speaks over its standard streams.
    pub fn local() -> Self {
        Self::new("local")
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The token that it was authenticated with, if it needs one.
    pub(crate) fn token(&self) -> Option<TokenId> {
        self.token
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl PartialOrd for Principal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Principal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
