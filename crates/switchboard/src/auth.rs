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

#[cfg(feature = "http")]
use crate::config::{Environment, HttpAuth, ResolvedUrl, ServerConfig};
pub use crate::transport::{AuthRejection, Credentials, NeedsLogin, NoCredentials};

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
#[cfg(feature = "http")]
mod bearer;
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
        return Arc::new(bearer::BearerToken::new(token));
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

/// The dependencies of logins. Cheap to clone.
#[derive(Clone)]
pub struct AuthContext {
    /// Where tokens are stored.
    pub vault: Arc<dyn Vault>,
    /// Shows login pages when a server requires a login; `None` leaves the server in state
    /// `NeedsLogin`.
    pub logins: Option<Arc<dyn Opener>>,
    /// Decides when a token has expired.
    #[cfg(feature = "oauth")]
    pub(crate) clock: WallClock,
    /// The token refreshes in flight.
    pub(crate) refreshes: TokenRefreshes,
}

/// The wall clock, which token expiry depends on.
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
