//! A login in use: the token for each request, renewed ahead of its end; one renewal serves all who
//! wait, in this process and in others.
//!
//! Whatever changes a login happens in a task of its own, one at a time; a refresh that was sent
//! runs to its end (`renewals`): a request that gives up meanwhile must not lose a token that the
//! authorization server has just exchanged for the old one.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::issuer::{Challenge, Issuer, IssuerFault, fault, quoted};
use super::login::{Occasion, log_in, log_in_alone};
use super::record::{Login, Record, Registration, union};
use super::site::Site;
use super::{Credentials, NeedsLogin, Opener, Refusal, VaultLock, binding};
use crate::caller::BoxFuture;
use crate::config::Grant;
use crate::secret::{LiveSecrets, Secret};

/// How long a token that could not be renewed ahead of its end is used as it is.
const PAUSE: Duration = Duration::from_secs(30);

/// How many tokens are kept out of what is shown.
const RECENT: usize = 8;

/// How many logins a server may cause by itself, and within what time: a server that is never
/// content asks no more.
const MAX_LOGINS: usize = 3;
const LOGINS_WITHIN: Duration = Duration::from_secs(600);

/// What a server that may want a login is authorized with.
pub(super) struct OAuth {
    shared: Arc<Shared>,
    /// Ends with this: nobody is left to use what they would bring.
    tasks: Mutex<JoinSet<()>>,
}

struct Shared {
    site: Arc<Site>,
    opener: Option<Arc<dyn Opener>>,
    held: Mutex<Held>,
    /// The last few tokens.
    secrets: LiveSecrets,
    /// Taken by whoever changes the login.
    turn: tokio::sync::Mutex<Turn>,
}

/// The login as it is used now.
#[derive(Default)]
struct Held {
    /// Whether the vault was looked into.
    recalled: bool,
    login: Option<Login>,
    /// The last few tokens, the newest first.
    recent: Vec<Secret>,
    /// Until then a token is not renewed ahead of its end: that has just failed.
    paused_until: Option<Instant>,
}

/// What happened so far.
#[derive(Default)]
struct Turn {
    /// What was last refused, the answer, and when it was given: it holds for all who asked
    /// before.
    refused: Option<(Option<Secret>, NeedsLogin, Instant)>,
    /// When the server caused a login.
    logins: VecDeque<Instant>,
}

/// A refresh that is ready to be sent.
struct Refresh {
    issuer: Issuer,
    login: Login,
    record: Record,
    /// No other process sends the same token.
    _lock: VaultLock,
}

/// A refusal that outlives the request.
struct Refused {
    status: u16,
    challenge: Option<String>,
    sent: Option<Secret>,
    asked_at: Instant,
}

impl OAuth {
    pub(super) fn new(site: Arc<Site>, opener: Option<Arc<dyn Opener>>) -> Self {
        let shared = Shared {
            site,
            opener,
            held: Mutex::default(),
            secrets: LiveSecrets::default(),
            turn: tokio::sync::Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            tasks: Mutex::default(),
        }
    }

    /// Runs work to its end, whether or not the one who asked still waits.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, heard) = oneshot::channel();
        {
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                // Nobody waits any more if this fails.
                let _ = answer.send(work.await);
            });
        }
        heard.await.ok()
    }
}

impl Credentials for OAuth {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>> {
        if !self.shared.wants_care() {
            // As with nearly every request: nothing is waited for, so nothing is kept for it.
            return Box::pin(ready(Ok(self.shared.header())));
        }
        Box::pin(async move {
            let shared = self.shared.clone();
            self.apart(async move { shared.care().await }).await;
            Ok(self.shared.header())
        })
    }

    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<(), NeedsLogin>> {
        let shared = self.shared.clone();
        let Refusal {
            status,
            challenge,
            sent,
        } = refusal;
        let refused = Refused {
            status,
            challenge: challenge.map(str::to_owned),
            sent: sent.cloned(),
            asked_at: Instant::now(),
        };
        Box::pin(async move {
            let settled = self
                .apart(async move { shared.settle(refused).await })
                .await;
            settled.unwrap_or_else(|| {
                Err(NeedsLogin {
                    reason: "the login could not be renewed".to_owned(),
                })
            })
        })
    }

    fn secrets(&self) -> LiveSecrets {
        self.shared.secrets.clone()
    }
}

impl Shared {
    fn header(&self) -> Option<Secret> {
        lock(&self.held).login.as_ref().map(Login::header)
    }

    /// Whether the login should be looked after before it is used.
    fn wants_care(&self) -> bool {
        let held = lock(&self.held);
        let paused = held
            .paused_until
            .is_some_and(|until| Instant::now() < until);
        !held.recalled
            || (!paused
                && held
                    .login
                    .as_ref()
                    .is_some_and(|login| login.is_stale(self.site.now()) && self.can_renew(login)))
    }

    fn can_renew(&self, login: &Login) -> bool {
        login.refresh_token.is_some() || self.site.auth.grant == Grant::ClientCredentials
    }

    /// Looks into the vault once, and renews a token that is about to end.
    async fn care(self: &Arc<Self>) {
        let _turn = self.turn.lock().await;
        if !self.wants_care() {
            return;
        }
        let recalled = lock(&self.held).recalled;
        if !recalled {
            match self.site.recall().await {
                Ok(record) => self.adopt(record.login),
                Err(fault) => {
                    tracing::warn!("server \"{}\": {fault}", self.site.server);
                    self.adopt(None);
                }
            }
        }
        if !self.wants_care() {
            return;
        }
        let mut renewed = self
            .renew(self.header().as_ref(), None)
            .await
            .map_err(|fault| fault.fact);
        if renewed.is_err() && self.site.auth.grant == Grant::ClientCredentials {
            let occasion = Occasion {
                challenge: None,
                asked_for: true,
                explicit: false,
            };
            renewed = log_in_alone(&self.site, occasion)
                .await
                .map(|login| self.adopt(Some(login)))
                .map_err(|fault| fault.fact());
        }
        if let Err(fact) = renewed {
            // The old one may serve still; if not, the server says so.
            tracing::info!(
                "server \"{}\": the login was not renewed ahead of its end: {fact}",
                self.site.server
            );
            lock(&self.held).paused_until = Some(Instant::now() + PAUSE);
        }
    }

    /// The answer to a refusal. One at a time: most who wait find that somebody else has settled
    /// it.
    async fn settle(self: &Arc<Self>, refused: Refused) -> Result<(), NeedsLogin> {
        let mut turn = self.turn.lock().await;
        let header = self.header();
        if header.is_some() && header != refused.sent {
            return Ok(());
        }
        if let Some((sent, needs, at)) = &turn.refused
            && *sent == refused.sent
            && refused.asked_at <= *at
        {
            return Err(needs.clone());
        }
        let settled = match refused.status {
            403 => self.step_up(&refused, &mut turn).await,
            _ => self.begin_anew(&refused, &mut turn).await,
        };
        turn.refused = settled
            .as_ref()
            .err()
            .map(|needs| (refused.sent, needs.clone(), Instant::now()));
        settled
    }

    /// The server wants a token, or another one.
    async fn begin_anew(
        self: &Arc<Self>,
        refused: &Refused,
        turn: &mut Turn,
    ) -> Result<(), NeedsLogin> {
        let reason = match self
            .renew(refused.sent.as_ref(), refused.challenge.as_deref())
            .await
        {
            Ok(()) => return Ok(()),
            Err(fault) => fault.fact,
        };
        self.log_in(refused, turn, reason).await
    }

    /// The server wants more than the token permits.
    async fn step_up(&self, refused: &Refused, turn: &mut Turn) -> Result<(), NeedsLogin> {
        let challenge = Challenge::read(refused.challenge.as_deref(), &self.site.url);
        if !challenge.insufficient_scope {
            let reason =
                "the server forbids it (HTTP 403), and names nothing that a login could add"
                    .to_owned();
            return Err(NeedsLogin { reason });
        }
        let wanted = quoted(&challenge.scopes.join(" "));
        // Another process may have logged in with more.
        if self.adopt_newer(refused.sent.as_ref()).await {
            return Ok(());
        }
        let asked = lock(&self.held)
            .login
            .as_ref()
            .map(|login| login.asked.clone())
            .unwrap_or_default();
        if challenge.scopes.iter().all(|scope| asked.contains(scope)) {
            let reason = format!(
                "the server wants scope \"{wanted}\", which this login has asked for already; it does not suffice"
            );
            return Err(NeedsLogin { reason });
        }
        self.remember_wanted(&challenge.scopes).await;
        self.log_in(
            refused,
            turn,
            format!("the server wants more than this login permits: scope \"{wanted}\""),
        )
        .await
    }

    /// Logs in without being told to, if somebody is there to do it.
    async fn log_in(
        &self,
        refused: &Refused,
        turn: &mut Turn,
        reason: String,
    ) -> Result<(), NeedsLogin> {
        let alone = self.site.auth.grant == Grant::ClientCredentials;
        if !alone && self.opener.is_none() {
            return Err(NeedsLogin { reason });
        }
        turn.logins.retain(|at| at.elapsed() < LOGINS_WITHIN);
        if turn.logins.len() >= MAX_LOGINS {
            let minutes = LOGINS_WITHIN.as_secs() / 60;
            return Err(NeedsLogin {
                reason: format!(
                    "{reason}; {MAX_LOGINS} logins within {minutes} minutes did not content it"
                ),
            });
        }
        turn.logins.push_back(Instant::now());
        let occasion = Occasion {
            challenge: refused.challenge.as_deref(),
            asked_for: true,
            explicit: false,
        };
        let given = match &self.opener {
            _ if alone => log_in_alone(&self.site, occasion).await,
            Some(opener) => log_in(&self.site, occasion, &**opener).await,
            None => return Err(NeedsLogin { reason }),
        };
        match given {
            Ok(login) => {
                self.adopt(Some(login));
                Ok(())
            }
            Err(fault) => Err(NeedsLogin {
                reason: fault.fact(),
            }),
        }
    }

    /// Exchanges the token that was sent for the next one: what another process got, or one of our
    /// own, never both.
    ///
    /// On a thread and a runtime of its own: the runtime of the one who asked may end while the
    /// request is under way.
    async fn renew(
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
                let preparation = shared.site.renewals.prepare();
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
                // Nobody waits any more if this fails.
                let _ = answer.send(renewed);
            });
            // A vault may block; nobody needs what it would bring.
            runtime.shutdown_background();
        });
        heard
            .await
            .unwrap_or_else(|_| Err(fault("the login could not be renewed")))
    }

    /// Everything before the request for the next token is sent; `None` where another process has
    /// sent it.
    async fn prepare(
        &self,
        sent: Option<&Secret>,
        challenge: Option<&str>,
    ) -> Result<Option<Refresh>, IssuerFault> {
        let refuse = |fact: &str| IssuerFault {
            fact: fact.to_owned(),
            definite: true,
        };
        let kept = |fault: super::VaultFault| IssuerFault {
            fact: fault.0,
            definite: false,
        };
        let lock = self.site.lock().await.map_err(kept)?;
        let record = self.site.recall().await.map_err(kept)?;
        let Some(login) = record.login.clone() else {
            self.adopt(None);
            return Err(refuse("nobody is logged in"));
        };
        if self
            .site
            .auth
            .client_id
            .as_ref()
            .is_some_and(|own| *own != login.client_id)
        {
            return Err(refuse("the login belongs to another `oauth_client_id`"));
        }
        if self
            .site
            .auth
            .issuer
            .as_ref()
            .is_some_and(|own| !binding::is_same(own, &login.issuer))
        {
            return Err(refuse(
                "the login was given by another authorization server than `oauth_issuer`",
            ));
        }
        // Renewed meanwhile by another process, or by `login`.
        let is_new = sent != Some(&login.header()) && !login.is_stale(self.site.now());
        if is_new {
            self.adopt(Some(login));
            return Ok(None);
        }
        if login.refresh_token.is_none() {
            return Err(refuse("the login has ended"));
        }
        let mut issuer =
            Issuer::discover(&self.site.url, &self.site.routes, challenge, true).await?;
        if issuer.id != login.issuer {
            // What one authorization server gave is never shown to another.
            return Err(refuse("its authorization server has changed"));
        }
        issuer.act_as(&self.registration(&record, &login))?;
        Ok(Some(Refresh {
            issuer,
            login,
            record,
            _lock: lock,
        }))
    }

    /// Sends the refresh token, and stores the one that comes back.
    async fn exchange(&self, refresh: Refresh) -> Result<(), IssuerFault> {
        let Refresh {
            mut issuer,
            login,
            mut record,
            _lock,
        } = refresh;
        match issuer.renew(&login, self.site.now()).await {
            Ok(login) => {
                record.login = Some(login.clone());
                // A token that is not kept still serves this process.
                if let Err(fault) = self.site.keep(&record).await {
                    tracing::warn!("server \"{}\": {fault}", self.site.server);
                }
                self.adopt(Some(login));
                Ok(())
            }
            Err(fault) if fault.definite => {
                // It would be refused again: what is left is the token, for as long as it lasts.
                record.login = Some(Login {
                    refresh_token: None,
                    ..login
                });
                let _ = self.site.keep(&record).await;
                self.adopt(record.login);
                Err(IssuerFault {
                    fact: "the login has ended".to_owned(),
                    definite: true,
                })
            }
            Err(fault) => Err(fault),
        }
    }

    /// Who we were when the login was given.
    fn registration(&self, record: &Record, login: &Login) -> Registration {
        let registered = record
            .registrations
            .get(&login.issuer)
            .filter(|known| known.client_id == login.client_id);
        let mut who = registered
            .cloned()
            .unwrap_or_else(|| Registration::given(&login.client_id));
        if self.site.auth.client_id.as_ref() == Some(&login.client_id) {
            who.client_secret = self.site.auth.client_secret.clone();
        }
        who
    }

    /// Takes what the vault has, if it is another token than the one that was refused.
    async fn adopt_newer(&self, sent: Option<&Secret>) -> bool {
        let Ok(Record {
            login: Some(login), ..
        }) = self.site.recall().await
        else {
            return false;
        };
        let newer = sent != Some(&login.header());
        self.adopt(Some(login));
        newer
    }

    /// The next login asks for these too, whoever starts it.
    async fn remember_wanted(&self, scopes: &[String]) {
        let Ok(_lock) = self.site.lock().await else {
            return;
        };
        let Ok(mut record) = self.site.recall().await else {
            return;
        };
        record.wanted = union(&record.wanted, scopes);
        if let Err(fault) = self.site.keep(&record).await {
            tracing::warn!("server \"{}\": {fault}", self.site.server);
        }
    }

    fn adopt(&self, login: Option<Login>) {
        let mut held = lock(&self.held);
        let new = login
            .iter()
            .flat_map(|login| {
                [
                    Some(login.access_token.clone()),
                    login.refresh_token.clone(),
                ]
            })
            .flatten();
        // An answer to a request with the token before may still come.
        let recent: Vec<Secret> = new.chain(held.recent.drain(..)).take(RECENT).collect();
        self.secrets.set(recent.iter().cloned());
        *held = Held {
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
            .field("site", &self.shared.site)
            .finish_non_exhaustive()
    }
}

fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
