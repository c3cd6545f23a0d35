//! The identity of a caller.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The identity of a caller. All calls of one caller have the same id. Cheap to clone.
#[derive(Clone)]
pub struct CallerId {
    text: CallerText,
    /// The length of the client's name, which is the start of the text.
    client_length: usize,
    /// Whether more calls follow from this caller, and not only from its client.
    has_session: bool,
}

#[derive(Clone)]
enum CallerText {
    Static(&'static str),
    Shared(Arc<str>),
}

impl CallerId {
    /// An id with this text.
    pub fn new(text: &str) -> Self {
        Self {
            text: CallerText::Shared(text.into()),
            client_length: text.len(),
            has_session: true,
        }
    }

    /// An id with a fixed text, which can be a `static`.
    pub const fn from_static(text: &'static str) -> Self {
        Self {
            text: CallerText::Static(text),
            client_length: text.len(),
            has_session: true,
        }
    }

    /// The id of one session of an authenticated client: sessions of one client are different
    /// callers.
    pub fn of_client(client: &str, session: impl fmt::Display) -> Self {
        Self {
            text: CallerText::Shared(format!("{client}#{session}").into()),
            client_length: client.len(),
            has_session: true,
        }
    }

    /// The id of one request of an authenticated client that has no sessions. Each request is a
    /// different caller, so that no question of a server reaches another one.
    pub fn of_request(client: &str, request: impl fmt::Display) -> Self {
        Self {
            has_session: false,
            ..Self::of_client(client, request)
        }
    }

    /// Whose connection the caller uses at a server with `session = "per-caller"`: its own, or its
    /// client's if the caller is one request.
    pub(crate) fn connection_owner(&self) -> Self {
        match self.has_session {
            true => self.clone(),
            false => Self::new(self.client()),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        match &self.text {
            CallerText::Static(text) => text,
            CallerText::Shared(text) => text,
        }
    }

    /// The authenticated name of the client, which rules may refer to.
    pub fn client(&self) -> &str {
        &self.as_str()[..self.client_length]
    }

    fn parts(&self) -> (&str, usize) {
        (self.as_str(), self.client_length)
    }
}

impl PartialEq for CallerId {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for CallerId {}

impl Hash for CallerId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialOrd for CallerId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CallerId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl fmt::Debug for CallerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
