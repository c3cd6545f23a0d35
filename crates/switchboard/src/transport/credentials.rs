//! How a transport that sends HTTP requests authorizes them.

use std::fmt;

use crate::future::BoxFuture;
use crate::hint::Hint;
use crate::secret::{LiveSecrets, Secret};

/// Authorizes the requests to one server. All of them share it, so that one refresh serves all.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// The value of the `Authorization` header for a request that is sent now, renewed before it
    /// expires; `None` sends no such header.
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>>;

    /// The server rejected a request. `Ok` means that the credentials changed and the request may
    /// be sent once more.
    fn rejected<'a>(
        &'a self,
        rejection: AuthRejection<'a>,
    ) -> BoxFuture<'a, Result<(), NeedsLogin>>;

    /// The login was revoked: its token is no longer used. What is stored of a login since is.
    fn forget(&self) {}

    /// The tokens in use, for redaction from all output.
    fn secrets(&self) -> LiveSecrets {
        LiveSecrets::default()
    }
}

/// A rejected request: the server requires a token (401), or one with more scopes (403).
#[derive(Debug, Clone, Copy)]
pub struct AuthRejection<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The `WWW-Authenticate` header.
    pub challenge: Option<&'a str>,
    /// The `Authorization` that was sent: if it was renewed since, no further refresh is needed.
    pub sent: Option<&'a Secret>,
}

/// A person must log in. The reason is one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NeedsLogin {
    /// The reason.
    pub reason: String,
    /// The remedy: a login, or a change of the entry.
    pub hint: Hint,
}

impl NeedsLogin {
    /// With a login as the remedy.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            hint: Hint::LogIn,
        }
    }
}

/// No credentials besides the configured headers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl Credentials for NoCredentials {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>> {
        Box::pin(async { Ok(None) })
    }

    fn rejected<'a>(
        &'a self,
        rejection: AuthRejection<'a>,
    ) -> BoxFuture<'a, Result<(), NeedsLogin>> {
        let reason = format!("the server answered with HTTP {}", rejection.status);
        let hint = Hint::CheckHeaders;
        Box::pin(async move { Err(NeedsLogin { reason, hint }) })
    }
}
