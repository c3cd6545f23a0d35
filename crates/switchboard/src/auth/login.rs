//! One login from start to end: discover the authorization server, register, show the page, receive
//! the code, store the token.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use url::Url;

use super::callback::{CallbackListener, CallbackResponse, parse_returned_address};
use super::issuer::{Challenge, ClientProof, Issuer, IssuerFault, TokenRequest, quoted};
use super::record::{Login, LoginRecord, Registration, union};
use super::target::AuthTarget;
use super::{AuthContext, LoginPage, Opener, PageOutcome, client_key, issuer_binding};
use crate::config::{Endpoint, Environment, OAuthGrant, ResolvedUrl, ServerConfig, resolve_url};
use crate::hint::Hint;
use crate::name::ServerName;
use crate::untrusted::escaped_line;

pub use fault::LoginFault;
pub(super) use fault::LoginFaultReason;
use probe::probe;
use revoke::{REVOCATION_TIMEOUT, revoke};

mod fault;
mod probe;
mod revoke;

/// The deadline for a person to log in.
const DEADLINE: Duration = Duration::from_secs(600);

/// Logs in to a server: a person through `opener`, or with client credentials if so configured.
pub async fn login(
    config: &ServerConfig,
    environment: &Environment,
    context: &AuthContext,
    opener: &dyn Opener,
) -> Result<LoggedIn, LoginFault> {
    let (target, resolved) = target(config, environment, context)?;
    let asked = probe(&resolved, &target.routes)
        .await
        .map_err(|fact| LoginFault::new(&config.name, LoginFaultReason::Unreachable(fact)))?;
    let trigger = LoginTrigger {
        challenge: asked.challenge.as_deref(),
        asked_for: asked.is_wanted,
        explicit: true,
    };
    let login = match target.auth.grant {
        OAuthGrant::AuthorizationCode => log_in_with_page(&target, trigger, opener).await?,
        OAuthGrant::ClientCredentials => log_in_as_program(&target, trigger).await?,
    };
    Ok(LoggedIn {
        server: config.name.clone(),
        issuer: quoted(&login.issuer),
        scopes: shown(&login.granted),
        lasts: lasts(&login),
    })
}

/// Revokes the token if possible, and deletes everything stored about the login.
pub async fn logout(
    config: &ServerConfig,
    environment: &Environment,
    context: &AuthContext,
) -> Result<LoggedOut, LoginFault> {
    let (target, _) = target(config, environment, context)?;
    let vault = |fault| LoginFault::new(&target.server, LoginFaultReason::Vault(fault));
    let _lock = target.lock().await.map_err(vault)?;
    // An unreadable record can still be deleted.
    let record = target.load().await.unwrap_or_default();
    let revoked = match &record.login {
        Some(login) => tokio::time::timeout(REVOCATION_TIMEOUT, revoke(&target, login, &record))
            .await
            .unwrap_or(false),
        None => false,
    };
    target.delete().await.map_err(vault)?;
    Ok(LoggedOut {
        server: config.name.clone(),
        was_logged_in: record.login.is_some(),
        revoked,
    })
}

/// The outcome of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedIn {
    /// The server.
    pub server: ServerName,
    /// The authorization server, safe to show.
    pub issuer: String,
    /// The granted scopes as far as known, safe to show.
    pub scopes: Vec<String>,
    /// Whether the login is renewed without a person.
    pub lasts: bool,
}

/// The outcome of a logout.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedOut {
    /// The server.
    pub server: ServerName,
    /// Whether there was a login.
    pub was_logged_in: bool,
    /// Whether the authorization server confirmed the revocation.
    pub revoked: bool,
}

/// What triggered a login.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoginTrigger<'a> {
    /// The `WWW-Authenticate` header.
    pub(super) challenge: Option<&'a str>,
    /// Whether the server itself required a login.
    pub(super) asked_for: bool,
    /// Whether a person requested a new login.
    pub(super) explicit: bool,
}

/// A login on the page that failed.
struct FailedLogin {
    fault: LoginFault,
    /// The authorization server, and the client that it rejected.
    rejected: Option<(String, String)>,
}

impl From<LoginFault> for FailedLogin {
    fn from(fault: LoginFault) -> Self {
        Self {
            fault,
            rejected: None,
        }
    }
}

/// Logs a person in on the login page. A registration that its authorization server no longer knows
/// is replaced, once, and the page shown again.
pub(super) async fn log_in_with_page(
    target: &Arc<AuthTarget>,
    trigger: LoginTrigger<'_>,
    opener: &dyn Opener,
) -> Result<Login, LoginFault> {
    let FailedLogin { fault, rejected } = match show_page_and_redeem(target, trigger, opener).await
    {
        Ok(login) => return Ok(login),
        Err(failed) => failed,
    };
    let is_forgotten = match rejected {
        Some((issuer, client_id)) => forget_registration(target, &issuer, &client_id).await?,
        None => false,
    };
    if !is_forgotten {
        return Err(fault);
    }
    let second = show_page_and_redeem(target, trigger, opener).await;
    second.map_err(|failed| failed.fault)
}

/// Forgets a registration that its authorization server rejected; false if it is none of ours.
async fn forget_registration(
    target: &Arc<AuthTarget>,
    issuer: &str,
    client_id: &str,
) -> Result<bool, LoginFault> {
    let fail = |fault| LoginFault::new(&target.server, LoginFaultReason::Vault(fault));
    let _lock = target.lock().await.map_err(fail)?;
    let mut record = target.load().await.map_err(fail)?;
    let is_forgotten = record.forget_registration(issuer, client_id);
    if is_forgotten {
        target.save(&record).await.map_err(fail)?;
    }
    Ok(is_forgotten)
}

async fn show_page_and_redeem(
    target: &Arc<AuthTarget>,
    trigger: LoginTrigger<'_>,
    opener: &dyn Opener,
) -> Result<Login, FailedLogin> {
    let fail = |reason| LoginFault::new(&target.server, reason);
    let of_issuer = |fault: IssuerFault| fail(LoginFaultReason::Issuer(fault.fact));
    let mut issuer = discover(target, trigger).await?;
    let record = stored_record(target).await?;
    let scopes = scopes(target, &issuer, &record, trigger).await;
    let (registration, callback) =
        registration_and_callback(target, &mut issuer, &record, &scopes).await?;
    let redirect = callback.redirect.clone();
    let who = Registration {
        redirect: redirect.clone(),
        ..registration.clone()
    };
    issuer.set_client(&who).map_err(of_issuer)?;
    let (url, state) = issuer
        .authorization_page(&scopes)
        .await
        .map_err(of_issuer)?;
    let page = LoginPage {
        server: target.server.clone(),
        url,
        scopes: shown(&scopes),
        redirect,
    };

    let returned = show_page(target, &page, callback, &state, opener).await?;
    let code = authorization_code(&issuer, &returned).map_err(fail)?;
    issuer_binding::bind(target, &issuer).await?;
    let request = TokenRequest {
        client_id: &who.client_id,
        requested: &scopes,
        now: target.now(),
    };
    let login = issuer
        .redeem(code, &state, returned.iss.as_deref(), request)
        .await
        .map_err(|fault| FailedLogin {
            rejected: (fault.rejects_client).then(|| (issuer.id.clone(), who.client_id.clone())),
            fault: of_issuer(fault),
        })?;
    save(target, &login, registration).await?;
    Ok(login)
}

/// The code in the response of the login page.
fn authorization_code<'a>(
    issuer: &Issuer,
    returned: &'a CallbackResponse,
) -> Result<&'a str, LoginFaultReason> {
    // RFC 9207: checked before the response is used, even if it is an error.
    if !issuer.may_have_sent(returned.iss.as_deref()) {
        return Err(LoginFaultReason::Denied(
            "the response does not name the authorization server that was asked as its issuer"
                .to_owned(),
        ));
    }
    let (error, description) = match &returned.outcome {
        Ok(code) => return Ok(code),
        Err(refusal) => refusal,
    };
    let words = description
        .as_ref()
        .map(|description| format!(": {}", quoted(description)))
        .unwrap_or_default();
    Err(LoginFaultReason::Denied(format!(
        "the authorization server answered {}{words}",
        quoted(error)
    )))
}

/// Logs in with client credentials, without a person.
pub(super) async fn log_in_as_program(
    target: &Arc<AuthTarget>,
    trigger: LoginTrigger<'_>,
) -> Result<Login, LoginFault> {
    let fail = |reason| LoginFault::new(&target.server, reason);
    let Some(client_id) = target.auth.client_id.clone() else {
        return Err(fail(LoginFaultReason::Issuer(
            "`oauth_client_id` is not set".to_owned(),
        )));
    };
    let client_proof = match (&target.auth.client_secret, &target.auth.client_key) {
        (Some(secret), _) => ClientProof::Secret(secret.clone()),
        (None, Some(path)) => {
            let path = target.folder.join(path);
            let read = tokio::task::spawn_blocking(move || client_key::read(&path)).await;
            let key = read
                .unwrap_or_else(|_| Err("the key could not be read".to_owned()))
                .map_err(|fact| fail(LoginFaultReason::Issuer(fact)))?;
            ClientProof::Key(Box::new(key))
        }
        (None, None) => {
            return Err(fail(LoginFaultReason::Issuer(
                "neither `oauth_client_secret` nor `oauth_client_key` is set".to_owned(),
            )));
        }
    };
    let issuer = discover(target, trigger).await?;
    issuer_binding::bind(target, &issuer).await?;
    let record = stored_record(target).await?;
    let scopes = scopes(target, &issuer, &record, trigger).await;
    let request = TokenRequest {
        client_id: &client_id,
        requested: &scopes,
        now: target.now(),
    };
    let login = issuer
        .log_in_with_client_credentials(&client_proof, &target.url, request)
        .await
        .map_err(|IssuerFault { fact, .. }| {
            fail(LoginFaultReason::Issuer(fact)).with_hint(Hint::CheckClient)
        })?;
    save(target, &login, Registration::configured(&client_id)).await?;
    Ok(login)
}

/// Discovers the server's authorization server.
async fn discover(target: &AuthTarget, trigger: LoginTrigger<'_>) -> Result<Issuer, LoginFault> {
    let LoginTrigger {
        challenge,
        asked_for,
        ..
    } = trigger;
    let found = Issuer::discover(&target.url, &target.routes, challenge, asked_for).await;
    found.map_err(|fault| LoginFault::new(&target.server, LoginFaultReason::Issuer(fault.fact)))
}

/// The stored record of earlier logins.
async fn stored_record(target: &Arc<AuthTarget>) -> Result<LoginRecord, LoginFault> {
    let loaded = target.load().await;
    loaded.map_err(|fault| LoginFault::new(&target.server, LoginFaultReason::Vault(fault)))
}

/// The scopes to request: the configured ones, else those that the server names; plus those that an
/// earlier login at the same issuer requested or lacked (SEP-2350).
async fn scopes(
    target: &AuthTarget,
    issuer: &Issuer,
    record: &LoginRecord,
    trigger: LoginTrigger<'_>,
) -> Vec<String> {
    let challenge = Challenge::read(trigger.challenge, &target.url);
    let named = match target.auth.scopes.as_slice() {
        [] => issuer.scopes().await,
        own if challenge.insufficient_scope => union(own, &challenge.scopes),
        own => own.to_vec(),
    };
    let before = record
        .login
        .as_ref()
        .filter(|login| login.issuer == issuer.id);
    let had = before
        .filter(|_| !trigger.explicit)
        .map(|login| login.requested.as_slice())
        .unwrap_or_default();
    let lacked = before
        .map(|_| record.missing_scopes.as_slice())
        .unwrap_or_default();
    issuer.with_offline_access(&union(had, &union(&named, lacked)))
}

/// Finds or creates a registration, in the specification's order: a configured client id, a
/// metadata document, an earlier registration, a new one.
async fn registration_and_callback(
    target: &Arc<AuthTarget>,
    issuer: &mut Issuer,
    record: &LoginRecord,
    scopes: &[String],
) -> Result<(Registration, CallbackListener), LoginFault> {
    let fail = |reason| LoginFault::new(&target.server, reason);
    let listen = async |port: Option<u16>| {
        let bound = CallbackListener::bind(port.or(target.auth.callback_port)).await;
        bound.map_err(|error| {
            let port = match target.auth.callback_port {
                Some(port) => format!("port {port} (`oauth_callback_port`)"),
                None => "a local port".to_owned(),
            };
            fail(LoginFaultReason::Issuer(format!(
                "cannot listen on {port}: {error}"
            )))
        })
    };
    issuer_binding::check(target, issuer, record)?;
    if let Some(client_id) = &target.auth.client_id {
        let given = Registration {
            client_secret: target.auth.client_secret.clone(),
            ..Registration::configured(client_id)
        };
        return Ok((given, listen(None).await?));
    }
    if let Some(document) = target
        .auth
        .client_metadata_url
        .as_ref()
        .filter(|_| issuer.supports_client_id_documents())
    {
        return Ok((Registration::configured(document), listen(None).await?));
    }
    let known = record
        .registrations
        .get(&issuer.id)
        .filter(|known| !known.is_configured);
    if let Some(known) = known {
        // The registered address has a port; if that is taken, a new client is registered.
        let port = Url::parse(&known.redirect)
            .ok()
            .and_then(|redirect| redirect.port());
        if target
            .auth
            .callback_port
            .is_none_or(|wanted| Some(wanted) == port)
            && let Ok(callback) = CallbackListener::bind(port).await
        {
            return Ok((known.clone(), callback));
        }
    }
    let callback = listen(None).await?;
    let registered = issuer.register(&callback.redirect, scopes).await;
    let registration = registered.map_err(|IssuerFault { fact, .. }| {
        fail(LoginFaultReason::Issuer(fact)).with_hint(Hint::SetClient)
    })?;
    Ok((registration, callback))
}

/// Shows the page and waits for the response: at the redirect address, or pasted by the person.
async fn show_page(
    target: &AuthTarget,
    page: &LoginPage,
    callback: CallbackListener,
    state: &str,
    opener: &dyn Opener,
) -> Result<CallbackResponse, LoginFault> {
    let fail = |reason| LoginFault::new(&target.server, reason);
    let answered = async {
        let mut answer = std::pin::pin!(callback.answer(state));
        let opened = tokio::select! {
            biased;
            returned = &mut answer => return Ok(returned),
            opened = opener.open(page) => opened,
        };
        match opened {
            PageOutcome::Shown => Ok(answer.await),
            PageOutcome::Returned(address) => {
                parse_returned_address(&address, &page.redirect, state)
                    .map_err(|fact| fail(LoginFaultReason::Denied(fact.to_owned())))
            }
            PageOutcome::Refused(line) => Err(fail(LoginFaultReason::Denied(line))),
        }
    };
    timeout_at(Instant::now() + DEADLINE, answered)
        .await
        .unwrap_or_else(|_| Err(fail(LoginFaultReason::TooLate)))
}

/// Stores a new login under the lock: another process may be refreshing the old one.
async fn save(
    target: &Arc<AuthTarget>,
    login: &Login,
    registration: Registration,
) -> Result<(), LoginFault> {
    let fail = |fault| LoginFault::new(&target.server, LoginFaultReason::Vault(fault));
    let _lock = target.lock().await.map_err(fail)?;
    let mut record = target.load().await.unwrap_or_default();
    // A configured secret is not copied into the vault.
    let registration = if registration.is_configured {
        Registration {
            client_secret: None,
            ..registration
        }
    } else {
        registration
    };
    record
        .registrations
        .insert(login.issuer.clone(), registration);
    record.login = Some(login.clone());
    record.missing_scopes.clear();
    target.save(&record).await.map_err(fail)
}

fn target(
    config: &ServerConfig,
    environment: &Environment,
    context: &AuthContext,
) -> Result<(Arc<AuthTarget>, ResolvedUrl), LoginFault> {
    let fail = |reason| LoginFault::new(&config.name, reason);
    let Endpoint::Http(endpoint) = &config.endpoint else {
        return Err(fail(LoginFaultReason::NoUrl));
    };
    let resolved =
        resolve_url(endpoint, environment).map_err(|fault| fail(LoginFaultReason::Entry(fault)))?;
    let has_header = resolved
        .headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if has_header || resolved.auth.bearer_token.is_some() {
        return Err(fail(LoginFaultReason::HasToken));
    }
    Ok((
        AuthTarget::new(config, &resolved, environment, context),
        resolved,
    ))
}

fn shown(scopes: &[String]) -> Vec<String> {
    scopes
        .iter()
        .map(|scope| escaped_line(scope).to_string())
        .collect()
}

fn lasts(login: &Login) -> bool {
    login.refresh_token.is_some() || login.expires_at.is_none()
}
