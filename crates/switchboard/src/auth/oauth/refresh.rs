//! Refreshes the token of a login: at most once for all processes, and to completion.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::OAuthState;
use crate::auth::issuer::{Issuer, IssuerFault, fault, final_fault};
use crate::auth::record::{Login, LoginRecord, Registration};
use crate::auth::{VaultFault, VaultLock, issuer_binding};
use crate::secret::Secret;

/// A refresh that is ready to send.
struct PreparedRefresh {
    issuer: Issuer,
    login: Login,
    record: LoginRecord,
    /// Keeps other processes from sending the same token.
    _lock: VaultLock,
}

impl OAuthState {
    /// Replaces the token that was sent: with one that another process has stored, or by a refresh,
    /// never both.
    ///
    /// Runs on its own thread and runtime: the caller's runtime may shut down while the request is
    /// in flight.
    pub(super) async fn renew(
        self: &Arc<Self>,
        sent: Option<&Secret>,
        challenge: Option<&str>,
    ) -> Result<(), IssuerFault> {
        let (shared, sent, challenge) = (self.clone(), sent.cloned(), challenge.map(str::to_owned));
        let (mut answer, heard) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
            else {
                return;
            };
            runtime.block_on(async {
                let preparation = shared.target.refreshes.prepare();
                let prepared = tokio::select! {
                    biased;
                    () = answer.closed() => return,
                    prepared = shared.prepare(sent.as_ref(), challenge.as_deref()) => prepared,
                };
                let renewed = match prepared {
                    Ok(None) => Ok(()),
                    Ok(Some(refresh)) => match preparation.send() {
                        Some(_sent) => shared.exchange(refresh).await,
                        None => return,
                    },
                    Err(fault) => Err(fault),
                };
                // Fails only if the caller stopped waiting.
                let _ = answer.send(renewed);
            });
            // Does not wait for a blocked vault call, whose result is not needed.
            runtime.shutdown_background();
        });
        heard
            .await
            .unwrap_or_else(|_| Err(fault("the login could not be renewed")))
    }

    /// Prepares a refresh; `None` if another process has already renewed the token.
    async fn prepare(
        &self,
        sent: Option<&Secret>,
        challenge: Option<&str>,
    ) -> Result<Option<PreparedRefresh>, IssuerFault> {
        let refuse = final_fault;
        let kept = |VaultFault(fact)| fault(&fact);
        let lock = self.target.lock().await.map_err(kept)?;
        let record = self.target.load().await.map_err(kept)?;
        let Some(login) = record.login.clone() else {
            self.set_login(None);
            return Err(refuse("there is no login"));
        };
        if self
            .target
            .auth
            .client_id
            .as_ref()
            .is_some_and(|own| *own != login.client_id)
        {
            return Err(refuse("the login belongs to another `oauth_client_id`"));
        }
        if self
            .target
            .auth
            .issuer
            .as_ref()
            .is_some_and(|own| !issuer_binding::is_same(own, &login.issuer))
        {
            return Err(refuse(
                "the login was given by another authorization server than `oauth_issuer`",
            ));
        }
        // Another process, or a login, may have renewed the token.
        let is_new = sent != Some(&login.header()) && !login.is_stale(self.target.now());
        if is_new {
            self.set_login(Some(login));
            return Ok(None);
        }
        if login.refresh_token.is_none() {
            return Err(refuse("the login has expired"));
        }
        let mut issuer =
            Issuer::discover(&self.target.url, &self.target.routes, challenge, true).await?;
        if issuer.id != login.issuer {
            // Credentials of one authorization server are never sent to another.
            return Err(refuse("its authorization server has changed"));
        }
        issuer.set_client(&self.registration(&record, &login))?;
        Ok(Some(PreparedRefresh {
            issuer,
            login,
            record,
            _lock: lock,
        }))
    }

    /// Sends the refresh token, and stores the new token.
    async fn exchange(&self, refresh: PreparedRefresh) -> Result<(), IssuerFault> {
        let PreparedRefresh {
            mut issuer,
            login,
            mut record,
            _lock,
        } = refresh;
        match issuer.renew(&login, self.target.now()).await {
            Ok(login) => {
                record.login = Some(login.clone());
                // A token that cannot be stored still serves this process.
                if let Err(fault) = self.target.save(&record).await {
                    tracing::warn!("server \"{}\": {fault}", self.target.server);
                }
                self.set_login(Some(login));
                Ok(())
            }
            Err(fault)
                if fault.is_final
                    || fault.rejects_client
                        && record.forget_registration(&login.issuer, &login.client_id) =>
            {
                // The refresh token would be rejected again, also with a new client; the access token
                // may last a while.
                record.login = Some(Login {
                    refresh_token: None,
                    ..login
                });
                let _ = self.target.save(&record).await;
                self.set_login(record.login);
                Err(final_fault("the login has expired"))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The client that the login was granted to.
    fn registration(&self, record: &LoginRecord, login: &Login) -> Registration {
        let registered = record
            .registrations
            .get(&login.issuer)
            .filter(|known| known.client_id == login.client_id);
        let mut who = registered
            .cloned()
            .unwrap_or_else(|| Registration::configured(&login.client_id));
        if self.target.auth.client_id.as_ref() == Some(&login.client_id) {
            who.client_secret = self.target.auth.client_secret.clone();
        }
        who
    }
}
