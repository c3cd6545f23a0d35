//! Authorization at servers that are reached by URL: which token a request carries, and logins.
//!
//! `oauth` supplies the token of a login to every request and renews it (`token_refresh` lets sent
//! refreshes finish); `login` runs one login: `issuer` talks to the authorization server,
//! `callback` receives the browser's redirect, `opener` shows the login page. `target` is the
//! server that a login is for, `record` what is stored of it in a `vault`, `issuer_binding` which
//! authorization server its client id may be sent to. `guarded_http` and `address` refuse addresses
//! that metadata may not name; `legacy_metadata` and `client_key` read special cases.

use std::fmt;
use std::sync::Arc;

use crate::caller::BoxFuture;
#[cfg(feature = "http")]
use crate::config::{Environment, HttpAuth, ResolvedUrl, ServerConfig};
use crate::hint::Hint;
use crate::secret::{LiveSecrets, Secret};

pub use address::parse_page_url;
#[cfg(feature = "http")]
pub use guarded_http::GuardedHttp;
#[cfg(feature = "oauth")]
pub use login::{LoggedIn, LoggedOut, LoginFault, login, logout};
pub use opener::{LoginPage, Opener, PageOutcome};
pub(crate) use token_refresh::TokenRefreshes;
pub use vault::{MemoryVault, Vault, VaultFault, VaultLock};
#[cfg(feature = "oauth")]
pub use vault::{SystemVault, VaultChoice};

mod address;
#[cfg(feature = "oauth")]
mod callback;
#[cfg(feature = "oauth")]
mod client_key;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
#[cfg(feature = "http")]
mod guarded_http;
#[cfg(feature = "oauth")]
mod issuer;
#[cfg(feature = "oauth")]
mod issuer_binding;
#[cfg(feature = "oauth")]
mod legacy_metadata;
#[cfg(feature = "oauth")]
mod login;
#[cfg(feature = "oauth")]
mod oauth;
mod opener;
#[cfg(feature = "oauth")]
mod record;
#[cfg(feature = "oauth")]
mod target;
#[cfg(all(test, feature = "oauth"))]
mod tests;
mod token_refresh;
mod vault;

/// The credentials for a server: its own `Authorization` header, its bearer token, or the token of
/// a login.
#[cfg(feature = "http")]
pub(crate) fn for_server(
    config: &ServerConfig,
    resolved: &ResolvedUrl,
    environment: &Environment,
    context: &AuthContext,
) -> Arc<dyn Credentials> {
    let HttpAuth { bearer_token, .. } = &resolved.auth;
    if let Some(token) = bearer_token {
        return Arc::new(BearerToken(Secret::new(format!(
            "Bearer {}",
            token.expose()
        ))));
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
        target::AuthTarget::new(config, resolved, environment, context),
        context.logins.clone(),
    ));
    #[cfg(not(feature = "oauth"))]
    {
        let _ = (config, environment, context);
        Arc::new(NoCredentials)
    }
}

/// What logins need. Cheap to clone.
#[derive(Clone)]
pub struct AuthContext {
    /// Where tokens are stored.
    pub vault: Arc<dyn Vault>,
    /// Shows login pages when a server asks for a login; `None` leaves the server in state
    /// `NeedsLogin`.
    pub logins: Option<Arc<dyn Opener>>,
    /// Decides when a token has expired.
    #[cfg(feature = "oauth")]
    pub(crate) clock: WallClock,
    /// The token refreshes in flight.
    pub(crate) refreshes: TokenRefreshes,
}

/// The wall clock: tokens expire at a date.
#[cfg(feature = "oauth")]
pub(crate) type WallClock = Arc<dyn Fn() -> std::time::SystemTime + Send + Sync>;

impl Default for AuthContext {
    /// Tokens are kept in memory, and no login page is shown.
    fn default() -> Self {
        Self::with_vault(Arc::new(MemoryVault::default()))
    }
}

impl AuthContext {
    /// Tokens are kept in this vault, and no login page is shown.
    pub fn with_vault(vault: Arc<dyn Vault>) -> Self {
        Self {
            vault,
            logins: None,
            #[cfg(feature = "oauth")]
            clock: Arc::new(std::time::SystemTime::now),
            refreshes: TokenRefreshes::default(),
        }
    }
}

impl fmt::Debug for AuthContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthContext")
            .field("vault", &self.vault)
            .field("logins", &self.logins)
            .finish_non_exhaustive()
    }
}

/// Authorizes the requests to one server. Shared by all of them, so that one refresh serves all.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// The value of the `Authorization` header of a request that is sent now, renewed before it
    /// expires; `None` sends no such header.
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>>;

    /// The server rejected a request. `Ok` means that the credentials changed and the request may
    /// be sent once more.
    fn rejected<'a>(
        &'a self,
        rejection: AuthRejection<'a>,
    ) -> BoxFuture<'a, Result<(), NeedsLogin>>;

    /// The tokens in use, to be redacted from all output.
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
    /// The `Authorization` that was sent: if it was renewed since, no other refresh is needed.
    pub sent: Option<&'a Secret>,
}

/// A person must log in. The reason is one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NeedsLogin {
    /// The reason.
    pub reason: String,
    /// What helps: a login, or a change of the entry.
    pub hint: Hint,
}

impl NeedsLogin {
    /// A login helps.
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

/// The configured bearer token.
#[cfg(feature = "http")]
#[derive(Debug)]
struct BearerToken(Secret);

#[cfg(feature = "http")]
impl Credentials for BearerToken {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>> {
        Box::pin(async { Ok(Some(self.0.clone())) })
    }

    fn rejected<'a>(
        &'a self,
        rejection: AuthRejection<'a>,
    ) -> BoxFuture<'a, Result<(), NeedsLogin>> {
        let reason = format!("the server refused the token (HTTP {})", rejection.status);
        let hint = Hint::CheckToken;
        Box::pin(async move { Err(NeedsLogin { reason, hint }) })
    }
}
