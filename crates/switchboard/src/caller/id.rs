//! Who makes a call.

use std::fmt;
use std::sync::Arc;

/// Who asked. Two calls of one caller carry the same id.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallerId {
    text: Arc<str>,
    /// The length of the client's name, with which the text begins.
    client_length: usize,
}

impl CallerId {
    /// Names a caller.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            client_length: text.len(),
        }
    }

    /// One session of an authenticated client: sessions of one client are different callers.
    pub fn of_client(client: &str, session: impl fmt::Display) -> Self {
        Self {
            text: format!("{client}#{session}").into(),
            client_length: client.len(),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The authenticated name of the client, which rules may name.
    pub fn client(&self) -> &str {
        &self.text[..self.client_length]
    }
}

impl fmt::Debug for CallerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
