//! The identity of a caller.

use std::fmt;
use std::sync::Arc;

/// The identity of a caller. All calls of one caller have the same id.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallerId {
    text: Arc<str>,
    /// The length of the client's name, which is the start of the text.
    client_length: usize,
}

impl CallerId {
    /// An id with this text.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            client_length: text.len(),
        }
    }

    /// The id of one session of an authenticated client: sessions of one client are different
    /// callers.
    pub fn of_client(client: &str, session: impl fmt::Display) -> Self {
        Self {
            text: format!("{client}#{session}").into(),
            client_length: client.len(),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The authenticated name of the client, which rules may refer to.
    pub fn client(&self) -> &str {
        &self.text[..self.client_length]
    }
}

impl fmt::Debug for CallerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
