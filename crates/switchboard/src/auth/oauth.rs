//! Credentials from a login: the token for each request, renewed before it expires. One refresh
//! serves all waiting requests, in this process and in others.
//!
//! A login is changed in a task of its own, one change at a time, and a refresh that was sent is
//! completed (`token_refresh`): a cancelled request must not lose a token that the authorization
//! server has just issued.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::issuer::{Challenge, quoted};
use super::login::{LoginTrigger, log_in_as_program, log_in_with_page};
use super::record::{Login, LoginRecord, union};
use super::target::AuthTarget;
use super::{AuthRejection, Credentials, NeedsLogin, Opener};
use crate::config::OAuthGrant;
use crate::future::BoxFuture;
use crate::hint::Hint;
use crate::secret::{LiveSecrets, Secret};
use crate::sync::lock;

mod refresh;

/// After a failed refresh the current token is used for this long before the next attempt.
const REFRESH_BACKOFF: Duration = Duration::from_secs(30);

/// How many recent tokens are redacted from output.
const MAX_RECENT_TOKENS: usize = 8;

/// The most logins that a server may trigger, and in which time.
const MAX_LOGINS: usize = 3;
const LOGIN_WINDOW: Duration = Duration::from_secs(600);

/// The credentials of a server that may require a login.
pub(super) struct OAuth {
    shared: Arc<OAuthState>,
    /// Aborted when the credentials are dropped.
    tasks: Mutex<JoinSet<()>>,
}

struct OAuthState {
    target: Arc<AuthTarget>,
    opener: Option<Arc<dyn Opener>>,
    current: Mutex<CurrentLogin>,
    /// The recent tokens, to be redacted.
    secrets: LiveSecrets,
    /// Locked while the login is changed.
    history: tokio::sync::Mutex<LoginHistory>,
}

/// The login in use.
#[derive(Default)]
struct CurrentLogin {
    /// Whether the vault was read.
    recalled: bool,
    login: Option<Login>,
    /// The recent tokens, newest first.
    recent: Vec<Secret>,
    /// No refresh before this time: the last one failed.
    paused_until: Option<Instant>,
}

/// Earlier rejections and logins.
#[derive(Default)]
struct LoginHistory {
    /// The last rejected token, the outcome, and when: the outcome also applies to requests
    /// rejected before that.
    last_rejection: Option<(Option<Secret>, NeedsLogin, Instant)>,
    /// When the server triggered logins.
    logins: VecDeque<Instant>,
}

/// An [`AuthRejection`] that owns its data.
struct RejectedRequest {
    status: u16,
    challenge: Option<String>,
    sent: Option<Secret>,
    asked_at: Instant,
}

impl OAuth {
    pub(super) fn new(target: Arc<AuthTarget>, opener: Option<Arc<dyn Opener>>) -> Self {
        let shared = OAuthState {
            target,
            opener,
            current: Mutex::default(),
            secrets: LiveSecrets::default(),
            history: tokio::sync::Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            tasks: Mutex::default(),
        }
    }

    /// Runs work to completion, even if the caller stops waiting.
    async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, heard) = oneshot::channel();
        {
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                // Fails only if the caller stopped waiting.
                let _ = answer.send(work.await);
            });
        }
        heard.await.ok()
    }
}

impl Credentials for OAuth {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>> {
        if !self.shared.needs_update() {
            // The common case needs no waiting, so the future stays small.
            return Box::pin(ready(Ok(self.shared.header())));
        }
        Box::pin(async move {
            let shared = self.shared.clone();
            self.run_detached(async move { shared.update().await })
                .await;
            Ok(self.shared.header())
        })
    }

    fn rejected<'a>(
        &'a self,
        rejection: AuthRejection<'a>,
    ) -> BoxFuture<'a, Result<(), NeedsLogin>> {
        let shared = self.shared.clone();
        let AuthRejection {
            status,
            challenge,
            sent,
        } = rejection;
        let rejected = RejectedRequest {
            status,
            challenge: challenge.map(str::to_owned),
            sent: sent.cloned(),
            asked_at: Instant::now(),
        };
        Box::pin(async move {
            let handled = self
                .run_detached(async move { shared.handle_rejection(rejected).await })
                .await;
            handled.unwrap_or_else(|| Err(NeedsLogin::new("the login could not be renewed")))
        })
    }

    fn forget(&self) {
        let mut current = lock(&self.shared.current);
        (current.login, current.recalled) = (None, false);
    }

    fn secrets(&self) -> LiveSecrets {
        self.shared.secrets.clone()
    }
}

impl OAuthState {
    fn header(&self) -> Option<Secret> {
        lock(&self.current).login.as_ref().map(Login::header)
    }

    /// Whether the login must be loaded or renewed before it is used.
    fn needs_update(&self) -> bool {
        let current = lock(&self.current);
        let paused = current
            .paused_until
            .is_some_and(|until| Instant::now() < until);
        !current.recalled
            || (!paused
                && current.login.as_ref().is_some_and(|login| {
                    login.is_stale(self.target.now()) && self.can_renew(login)
                }))
    }

    fn can_renew(&self, login: &Login) -> bool {
        login.refresh_token.is_some() || self.target.auth.grant == OAuthGrant::ClientCredentials
    }

    /// Loads the login once, and renews a token that is about to expire.
    async fn update(self: &Arc<Self>) {
        let _turn = self.history.lock().await;
        if !self.needs_update() {
            return;
        }
        let recalled = lock(&self.current).recalled;
        if !recalled {
            match self.target.load().await {
                Ok(record) => self.set_login(record.login),
                Err(fault) => {
                    tracing::warn!("server \"{}\": {fault}", self.target.server);
                    self.set_login(None);
                }
            }
        }
        if !self.needs_update() {
            return;
        }
        let mut renewed = self
            .renew(self.header().as_ref(), None)
            .await
            .map_err(|fault| fault.fact);
        if renewed.is_err() && self.target.auth.grant == OAuthGrant::ClientCredentials {
            let trigger = LoginTrigger {
                challenge: None,
                asked_for: true,
                explicit: false,
            };
            renewed = log_in_as_program(&self.target, trigger)
                .await
                .map(|login| self.set_login(Some(login)))
                .map_err(|fault| fault.fact());
        }
        if let Err(fact) = renewed {
            // The old token may still work; if not, the server rejects it.
            tracing::info!(
                "server \"{}\": the login was not renewed ahead of its end: {fact}",
                self.target.server
            );
            lock(&self.current).paused_until = Some(Instant::now() + REFRESH_BACKOFF);
        }
    }

    /// Handles a rejected request, one at a time: most waiting requests find that another one has
    /// refreshed the token.
    async fn handle_rejection(
        self: &Arc<Self>,
        rejected: RejectedRequest,
    ) -> Result<(), NeedsLogin> {
        let mut history = self.history.lock().await;
        let header = self.header();
        if header.is_some() && header != rejected.sent {
            return Ok(());
        }
        if let Some((sent, needs, at)) = &history.last_rejection
            && *sent == rejected.sent
            && rejected.asked_at <= *at
        {
            return Err(needs.clone());
        }
        let handled = match rejected.status {
            403 => self.step_up(&rejected, &mut history).await,
            _ => self.renew_or_log_in(&rejected, &mut history).await,
        };
        history.last_rejection = handled
            .as_ref()
            .err()
            .map(|needs| (rejected.sent, needs.clone(), Instant::now()));
        handled
    }

    /// The server requires a token, or a new one.
    async fn renew_or_log_in(
        self: &Arc<Self>,
        rejected: &RejectedRequest,
        history: &mut LoginHistory,
    ) -> Result<(), NeedsLogin> {
        let renewed = self
            .renew(rejected.sent.as_ref(), rejected.challenge.as_deref())
            .await;
        let is_person = self.target.auth.grant != OAuthGrant::ClientCredentials;
        match renewed {
            Ok(()) => Ok(()),
            // The login may still be good: the next request tries again.
            Err(fault) if is_person && !fault.is_final && !fault.rejects_client => {
                Err(NeedsLogin {
                    reason: fault.fact,
                    hint: Hint::Examine,
                })
            }
            Err(fault) => self.log_in(rejected, history, fault.fact).await,
        }
    }

    /// The server requires more scopes than were granted.
    async fn step_up(
        &self,
        rejected: &RejectedRequest,
        history: &mut LoginHistory,
    ) -> Result<(), NeedsLogin> {
        let challenge = Challenge::read(rejected.challenge.as_deref(), &self.target.url);
        if !challenge.insufficient_scope {
            return Err(NeedsLogin::new(
                "the server denied access (HTTP 403) and named no missing scope",
            ));
        }
        let wanted = quoted(&challenge.scopes.join(" "));
        // Another process may have logged in with more scopes.
        if self.load_newer(rejected.sent.as_ref()).await {
            return Ok(());
        }
        let asked = lock(&self.current)
            .login
            .as_ref()
            .map(|login| login.requested.clone())
            .unwrap_or_default();
        if challenge.scopes.iter().all(|scope| asked.contains(scope)) {
            let reason = format!(
                "the server requires scope \"{wanted}\", which this login has already requested"
            );
            return Err(NeedsLogin::new(reason));
        }
        self.save_missing_scopes(&challenge.scopes).await;
        self.log_in(
            rejected,
            history,
            format!("the server requires more scopes than this login has: \"{wanted}\""),
        )
        .await
    }

    /// Logs in because the server requires it, if a person or client credentials are available.
    async fn log_in(
        &self,
        rejected: &RejectedRequest,
        history: &mut LoginHistory,
        reason: String,
    ) -> Result<(), NeedsLogin> {
        let alone = self.target.auth.grant == OAuthGrant::ClientCredentials;
        if !alone && self.opener.is_none() {
            return Err(NeedsLogin::new(reason));
        }
        history.logins.retain(|at| at.elapsed() < LOGIN_WINDOW);
        if history.logins.len() >= MAX_LOGINS {
            let minutes = LOGIN_WINDOW.as_secs() / 60;
            return Err(NeedsLogin::new(format!(
                "{reason}, and {MAX_LOGINS} logins within {minutes} minutes did not change that"
            )));
        }
        history.logins.push_back(Instant::now());
        let trigger = LoginTrigger {
            challenge: rejected.challenge.as_deref(),
            asked_for: true,
            explicit: false,
        };
        let given = match &self.opener {
            _ if alone => log_in_as_program(&self.target, trigger).await,
            Some(opener) => log_in_with_page(&self.target, trigger, &**opener).await,
            None => return Err(NeedsLogin::new(reason)),
        };
        match given {
            Ok(login) => {
                self.set_login(Some(login));
                Ok(())
            }
            Err(fault) => Err(NeedsLogin {
                reason: fault.fact(),
                hint: fault.hint.unwrap_or(Hint::LogIn),
            }),
        }
    }

    /// Loads the stored login; true if its token is not the rejected one.
    async fn load_newer(&self, sent: Option<&Secret>) -> bool {
        let Ok(LoginRecord {
            login: Some(login), ..
        }) = self.target.load().await
        else {
            return false;
        };
        let newer = sent != Some(&login.header());
        self.set_login(Some(login));
        newer
    }

    /// Stores scopes that the next login must request.
    async fn save_missing_scopes(&self, scopes: &[String]) {
        let Ok(_lock) = self.target.lock().await else {
            return;
        };
        let Ok(mut record) = self.target.load().await else {
            return;
        };
        record.missing_scopes = union(&record.missing_scopes, scopes);
        if let Err(fault) = self.target.save(&record).await {
            tracing::warn!("server \"{}\": {fault}", self.target.server);
        }
    }

    fn set_login(&self, login: Option<Login>) {
        let mut current = lock(&self.current);
        let new = login
            .iter()
            .flat_map(|login| {
                [
                    Some(login.access_token.clone()),
                    login.refresh_token.clone(),
                ]
            })
            .flatten();
        // A response to a request with an older token may still arrive.
        let recent: Vec<Secret> = new
            .chain(current.recent.drain(..))
            .take(MAX_RECENT_TOKENS)
            .collect();
        self.secrets.set(recent.iter().cloned());
        *current = CurrentLogin {
            recalled: true,
            login,
            recent,
            paused_until: None,
        };
    }
}

impl std::fmt::Debug for OAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuth")
            .field("target", &self.shared.target)
            .finish_non_exhaustive()
    }
}
