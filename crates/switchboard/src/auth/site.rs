//! One server as a place to log in to: its address, who we are there, and what is kept of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use url::Url;

use super::guarded::Routes;
use super::record::Record;
use super::{AuthMeans, Clock, Renewals, Vault, VaultFault, VaultLock};
use crate::config::{Environment, HttpAuth, ResolvedUrl, ServerConfig};
use crate::name::ServerName;

/// Everything about a server that a login needs.
pub(super) struct Site {
    pub(super) server: ServerName,
    /// Without a password or fragment: it is sent as the resource.
    pub(super) url: Url,
    /// Expanded.
    pub(super) auth: HttpAuth,
    /// Where relative paths of the entry start.
    pub(super) folder: PathBuf,
    /// How requests of its logins leave.
    pub(super) routes: Routes,
    pub(super) renewals: Renewals,
    vault: Arc<dyn Vault>,
    clock: Clock,
}

impl Site {
    pub(super) fn new(
        config: &ServerConfig,
        resolved: &ResolvedUrl,
        environment: &Environment,
        means: &AuthMeans,
    ) -> Arc<Self> {
        let mut url = resolved.url.clone();
        url.set_fragment(None);
        // Both fail only for addresses that cannot have them.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Arc::new(Self {
            server: config.name.clone(),
            url,
            auth: resolved.auth.clone(),
            folder: config.source.folder.to_path_buf(),
            routes: Routes::of(environment),
            renewals: means.renewals.clone(),
            vault: means.vault.clone(),
            clock: means.clock.clone(),
        })
    }

    pub(super) fn now(&self) -> SystemTime {
        (self.clock)()
    }

    /// What is kept of this server.
    pub(super) async fn recall(self: &Arc<Self>) -> Result<Record, VaultFault> {
        self.aside(|site| match site.vault.get(&site.key())? {
            Some(text) => Record::read(&text),
            None => Ok(Record::default()),
        })
        .await
    }

    /// Keeps it. The caller holds the lock.
    pub(super) async fn keep(self: &Arc<Self>, record: &Record) -> Result<(), VaultFault> {
        let text = record.write();
        self.aside(move |site| site.vault.put(&site.key(), &text))
            .await
    }

    pub(super) async fn forget(self: &Arc<Self>) -> Result<(), VaultFault> {
        self.aside(|site| site.vault.remove(&site.key())).await
    }

    /// Held across reading, renewing and keeping, also against other processes.
    pub(super) async fn lock(self: &Arc<Self>) -> Result<VaultLock, VaultFault> {
        self.aside(|site| site.vault.lock(&site.key())).await
    }

    /// Tokens belong to the address they are sent to; a query may hold a key, and tells accounts
    /// apart.
    fn key(&self) -> String {
        let mut shown = self.url.clone();
        shown.set_query(None);
        match self.url.query() {
            None => shown.to_string(),
            Some(query) => format!("{shown} {}", &blake3::hash(query.as_bytes()).to_hex()[..16]),
        }
    }

    /// A vault may block.
    async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, VaultFault> + Send + 'static,
    ) -> Result<T, VaultFault> {
        let site = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&site)).await;
        done.unwrap_or_else(|_| {
            Err(VaultFault(
                "the place where logins are kept failed".to_owned(),
            ))
        })
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("server", &self.server)
            .field("host", &self.url.host_str())
            .finish_non_exhaustive()
    }
}
