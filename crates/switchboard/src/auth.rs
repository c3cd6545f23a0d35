//! What a server that is reached by a URL wants to see before it answers: a token, or the news that a person must log in.

use std::fmt;

use crate::caller::Answering;
use crate::secret::Secret;

/// Gives the HTTP wires what to authorize with. Shared by all requests to one server, so that one refresh serves them all.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// The value of `Authorization` for a request that is sent now, renewed ahead of its end; `None` sends no such header.
    fn authorization(&self) -> Answering<'_, Result<Option<Secret>, NeedsLogin>>;

    /// The server refused a request. `Ok` means that something changed, and the request may be sent once more.
    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> Answering<'a, Result<(), NeedsLogin>>;
}

/// How a server refused: it wants a token (401), or more than this one permits (403).
#[derive(Debug, Clone, Copy)]
pub struct Refusal<'a> {
    /// The HTTP status.
    pub status: u16,
    /// `WWW-Authenticate`, as it came.
    pub challenge: Option<&'a str>,
    /// What was sent: a refresh that happened meanwhile makes another needless.
    pub sent: Option<&'a Secret>,
}

/// A person must log in; one line that says why, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NeedsLogin {
    /// Why.
    pub reason: String,
}

/// No more than the headers of the entry.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl Credentials for NoCredentials {
    fn authorization(&self) -> Answering<'_, Result<Option<Secret>, NeedsLogin>> {
        Box::pin(async { Ok(None) })
    }

    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> Answering<'a, Result<(), NeedsLogin>> {
        let reason = format!("the server answered with HTTP {}; check the headers of its entry", refusal.status);
        Box::pin(async { Err(NeedsLogin { reason }) })
    }
}
