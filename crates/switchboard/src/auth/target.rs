//! The server that a login is for: its address, its configuration, and access to its stored login.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use url::Url;

use super::guarded_http::ProxyRoutes;
use super::record::LoginRecord;
use super::{AuthContext, TokenRefreshes, Vault, VaultFault, VaultLock, WallClock};
use crate::config::{Environment, HttpAuth, ResolvedUrl, ServerConfig};
use crate::name::ServerName;

/// Everything about a server that a login needs.
pub(super) struct AuthTarget {
    pub(super) server: ServerName,
    /// Without credentials, query and fragment: it is sent as the OAuth resource.
    pub(super) url: Url,
    /// The vault key.
    key: String,
    /// The `auth` configuration, with references resolved.
    pub(super) auth: HttpAuth,
    /// The folder that relative paths in the configuration refer to.
    pub(super) folder: PathBuf,
    /// The proxies for requests of its logins.
    pub(super) routes: ProxyRoutes,
    pub(super) refreshes: TokenRefreshes,
    vault: Arc<dyn Vault>,
    clock: WallClock,
}

impl AuthTarget {
    pub(super) fn new(
        config: &ServerConfig,
        resolved: &ResolvedUrl,
        environment: &Environment,
        context: &AuthContext,
    ) -> Arc<Self> {
        let mut url = resolved.url.clone();
        url.set_fragment(None);
        // These cannot fail on a URL with a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let key = vault_key(&url);
        url.set_query(None);
        Arc::new(Self {
            server: config.name.clone(),
            url,
            key,
            auth: resolved.auth.clone(),
            folder: config.source.folder.to_path_buf(),
            routes: ProxyRoutes::of(environment),
            refreshes: context.refreshes.clone(),
            vault: context.vault.clone(),
            clock: context.clock.clone(),
        })
    }

    pub(super) fn now(&self) -> SystemTime {
        (self.clock)()
    }

    /// Loads the stored record.
    pub(super) async fn load(self: &Arc<Self>) -> Result<LoginRecord, VaultFault> {
        self.run_blocking(|target| match target.vault.get(&target.key)? {
            Some(text) => LoginRecord::read(&text),
            None => Ok(LoginRecord::default()),
        })
        .await
    }

    /// Stores the record. The caller holds the lock.
    pub(super) async fn save(self: &Arc<Self>, record: &LoginRecord) -> Result<(), VaultFault> {
        let text = record.write();
        self.run_blocking(move |target| target.vault.put(&target.key, &text))
            .await
    }

    pub(super) async fn delete(self: &Arc<Self>) -> Result<(), VaultFault> {
        self.run_blocking(|target| target.vault.remove(&target.key))
            .await
    }

    /// Locks the record while it is read, refreshed and stored, also against other processes.
    pub(super) async fn lock(self: &Arc<Self>) -> Result<VaultLock, VaultFault> {
        self.run_blocking(|target| target.vault.lock(&target.key))
            .await
    }

    /// Runs vault calls on a blocking thread.
    async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, VaultFault> + Send + 'static,
    ) -> Result<T, VaultFault> {
        let target = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&target)).await;
        done.unwrap_or_else(|_| Err(VaultFault("the store of logins failed".to_owned())))
    }
}

/// The key of a login in the vault. Tokens belong to the address they are sent to; a query
/// distinguishes accounts, and is hashed since it may contain a key.
fn vault_key(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    match url.query() {
        None => shown.to_string(),
        Some(query) => format!("{shown} {}", &blake3::hash(query.as_bytes()).to_hex()[..16]),
    }
}

impl std::fmt::Debug for AuthTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthTarget")
            .field("server", &self.server)
            .field("host", &self.url.host_str())
            .finish_non_exhaustive()
    }
}
