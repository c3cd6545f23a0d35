//! What a server that is reached by a URL wants to see before it answers: a token, or the news that
//! a person must log in.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::caller::BoxFuture;
use crate::config::{Environment, HttpAuth, ResolvedUrl, ServerConfig};
use crate::secret::{LiveSecrets, Secret};

pub use address::visitable;
#[cfg(feature = "oauth")]
pub use login::{LoggedIn, LoggedOut, LoginFault, login, logout};
pub use opener::{LoginPage, Opened, Opener};
pub use renewals::Renewals;
pub use vault::{MemoryVault, Vault, VaultFault, VaultLock};
#[cfg(feature = "oauth")]
pub use vault::{SystemVault, VaultChoice};

mod address;
#[cfg(feature = "oauth")]
mod binding;
#[cfg(feature = "oauth")]
mod callback;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
#[cfg(feature = "oauth")]
mod guarded;
#[cfg(feature = "oauth")]
mod issuer;
#[cfg(feature = "oauth")]
mod key;
#[cfg(feature = "oauth")]
mod login;
#[cfg(feature = "oauth")]
mod oauth;
#[cfg(feature = "oauth")]
mod older;
mod opener;
#[cfg(feature = "oauth")]
mod record;
mod renewals;
#[cfg(feature = "oauth")]
mod site;
#[cfg(all(test, feature = "oauth"))]
mod tests;
mod vault;

/// What to authorize with at a server: its own `Authorization` header, its bearer token, or what a
/// login gave.
pub fn for_server(
    config: &ServerConfig,
    resolved: &ResolvedUrl,
    environment: &Environment,
    means: &AuthMeans,
) -> Arc<dyn Credentials> {
    let HttpAuth { bearer_token, .. } = &resolved.auth;
    if let Some(token) = bearer_token {
        return Arc::new(Bearer(Secret::new(format!("Bearer {}", token.expose()))));
    }
    if resolved
        .headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    {
        return Arc::new(NoCredentials);
    }
    #[cfg(feature = "oauth")]
    return Arc::new(oauth::OAuth::new(
        site::Site::new(config, resolved, environment, means),
        means.logins.clone(),
    ));
    #[cfg(not(feature = "oauth"))]
    {
        let _ = (config, environment, means);
        Arc::new(NoCredentials)
    }
}

/// What logins work with. Cheap to clone.
#[derive(Clone)]
pub struct AuthMeans {
    /// Where tokens are kept.
    pub vault: Arc<dyn Vault>,
    /// Who is sent to a login page when a server asks for a login; `None` leaves the server in
    /// state `NeedsLogin`.
    pub logins: Option<Arc<dyn Opener>>,
    /// Tells when a token ends.
    pub clock: Clock,
    /// The token refreshes under way.
    pub renewals: Renewals,
}

/// The wall clock: the end of a token is a date, and nothing else here is.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

impl Default for AuthMeans {
    /// Forgets at the end of the run, and sends nobody anywhere.
    fn default() -> Self {
        Self {
            vault: Arc::new(MemoryVault::default()),
            logins: None,
            clock: Arc::new(SystemTime::now),
            renewals: Renewals::default(),
        }
    }
}

impl fmt::Debug for AuthMeans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthMeans")
            .field("vault", &self.vault)
            .field("logins", &self.logins)
            .finish_non_exhaustive()
    }
}

/// Gives the HTTP wires what to authorize with. Shared by all requests to one server, so that one
/// refresh serves them all.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// The value of `Authorization` for a request that is sent now, renewed ahead of its end;
    /// `None` sends no such header.
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>>;

    /// The server refused a request. `Ok` means that something changed, and the request may be sent
    /// once more.
    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<(), NeedsLogin>>;

    /// The tokens in use, to be kept out of whatever is shown.
    fn secrets(&self) -> LiveSecrets {
        LiveSecrets::default()
    }
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
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>> {
        Box::pin(async { Ok(None) })
    }

    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<(), NeedsLogin>> {
        let reason = format!(
            "the server answered with HTTP {}; check the headers of its entry",
            refusal.status
        );
        Box::pin(async { Err(NeedsLogin { reason }) })
    }
}

/// The token that stands in the entry.
#[derive(Debug)]
struct Bearer(Secret);

impl Credentials for Bearer {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>> {
        Box::pin(async { Ok(Some(self.0.clone())) })
    }

    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<(), NeedsLogin>> {
        let reason = format!(
            "the server refused the token (HTTP {}); check `bearer_token` of its entry",
            refusal.status
        );
        Box::pin(async { Err(NeedsLogin { reason }) })
    }
}
