//! The story of one login: find the authorization server, be somebody there, show the page, take
//! the answer, keep the token.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::callback::{Callback, Returned, read_returned};
use super::guarded::{Guarded, Routes};
use super::issuer::{Challenge, Issuer, IssuerFault, Proof, Terms, quoted};
use super::record::{Login, Record, Registration, union};
use super::site::Site;
use super::{AuthMeans, LoginPage, Opened, Opener, VaultFault, binding, key};
use crate::config::{
    Endpoint, Environment, Grant, ResolvedUrl, ServerConfig, UrlFault, resolve_url,
};
use crate::name::ServerName;
use crate::transport::WireFault;
use crate::transport::http::trouble::unsent;
use crate::untrusted::escaped_line;

/// How long a person may take.
const DEADLINE: Duration = Duration::from_secs(600);

/// How long a server may take to say that it wants a login.
const PROBE: Duration = Duration::from_secs(15);

/// How long an authorization server may take to hear that a token is given back.
const REVOCATION: Duration = Duration::from_secs(10);

/// Logs in to a server: a person through `opener`, or the program by itself where the entry says
/// so.
pub async fn login(
    config: &ServerConfig,
    environment: &Environment,
    means: &AuthMeans,
    opener: &dyn Opener,
) -> Result<LoggedIn, LoginFault> {
    let (site, resolved) = site(config, environment, means)?;
    let asked = probe(&resolved, &site.routes)
        .await
        .map_err(|fact| LoginFault::new(&config.name, Why::Unreachable(fact)))?;
    let occasion = Occasion {
        challenge: asked.challenge.as_deref(),
        asked_for: asked.is_wanted,
        explicit: true,
    };
    let login = match site.auth.grant {
        Grant::AuthorizationCode => log_in(&site, occasion, opener).await?,
        Grant::ClientCredentials => log_in_alone(&site, occasion).await?,
    };
    Ok(LoggedIn {
        server: config.name.clone(),
        issuer: quoted(&login.issuer),
        scopes: shown(&login.granted),
        lasts: lasts(&login),
    })
}

/// Gives the token back where that is possible, and forgets everything about the login.
pub async fn logout(
    config: &ServerConfig,
    environment: &Environment,
    means: &AuthMeans,
) -> Result<LoggedOut, LoginFault> {
    let (site, _) = site(config, environment, means)?;
    let vault = |fault| LoginFault::new(&site.server, Why::Vault(fault));
    let _lock = site.lock().await.map_err(vault)?;
    // What cannot be read can still be forgotten.
    let record = site.recall().await.unwrap_or_default();
    let revoked = match &record.login {
        Some(login) => tokio::time::timeout(REVOCATION, revoke(&site, login, &record))
            .await
            .unwrap_or(false),
        None => false,
    };
    site.forget().await.map_err(vault)?;
    Ok(LoggedOut {
        server: config.name.clone(),
        was_logged_in: record.login.is_some(),
        revoked,
    })
}

/// A login that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// Where.
    pub server: ServerName,
    /// Who gave it, safe to show.
    pub issuer: String,
    /// What it permits, as far as was said; safe to show.
    pub scopes: Vec<String>,
    /// Whether it renews itself.
    pub lasts: bool,
}

/// A login that was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedOut {
    /// Where.
    pub server: ServerName,
    /// Whether there was one.
    pub was_logged_in: bool,
    /// Whether the authorization server was told, and said yes.
    pub revoked: bool,
}

/// Why there is no login: a sentence with the server's name, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("server \"{server}\": {why}")]
pub struct LoginFault {
    /// Where.
    pub server: ServerName,
    why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Why {
    #[error("no such server is configured; `switchboard status` lists them")]
    Unknown,
    #[error("it is a program on this machine; only servers with a `url` have logins")]
    NoUrl,
    #[error(
        "it authorizes with what its entry says (`bearer_token`, or an Authorization header); there is nothing to log in to"
    )]
    HasToken,
    #[error("{0}")]
    Entry(UrlFault),
    #[error("{0}")]
    Issuer(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("no login was given: {0}")]
    Denied(String),
    #[error("nobody logged in within {} minutes", DEADLINE.as_secs() / 60)]
    TooLate,
    #[error("{0}")]
    Vault(VaultFault),
}

impl LoginFault {
    pub(super) fn new(server: &ServerName, why: Why) -> Self {
        Self {
            server: server.clone(),
            why,
        }
    }

    /// There is no such server.
    pub(crate) fn unknown(server: &ServerName) -> Self {
        Self::new(server, Why::Unknown)
    }

    /// Without the server's name.
    pub(super) fn fact(&self) -> String {
        self.why.to_string()
    }

    /// Whether a person, or the authorization server, said no.
    pub fn is_denied(&self) -> bool {
        matches!(self.why, Why::Denied(_) | Why::TooLate)
    }

    /// Whether the entry is what must change.
    pub fn is_of_entry(&self) -> bool {
        matches!(
            self.why,
            Why::Unknown | Why::NoUrl | Why::HasToken | Why::Entry(_)
        )
    }
}

/// What a login comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occasion<'a> {
    /// `WWW-Authenticate`.
    pub(super) challenge: Option<&'a str>,
    /// The server itself asked for a login.
    pub(super) asked_for: bool,
    /// A person wants a login as if there had been none.
    pub(super) explicit: bool,
}

/// A person logs in.
pub(super) async fn log_in(
    site: &Arc<Site>,
    occasion: Occasion<'_>,
    opener: &dyn Opener,
) -> Result<Login, LoginFault> {
    let fail = |why| LoginFault::new(&site.server, why);
    let of_issuer = |fault: IssuerFault| fail(Why::Issuer(fault.fact));
    let mut issuer = Issuer::discover(
        &site.url,
        &site.routes,
        occasion.challenge,
        occasion.asked_for,
    )
    .await
    .map_err(of_issuer)?;
    let record = site
        .recall()
        .await
        .map_err(|fault| fail(Why::Vault(fault)))?;
    let scopes = scopes(site, &issuer, &record, occasion).await;
    let (registration, callback) = be_somebody(site, &mut issuer, &record, &scopes).await?;
    let redirect = callback.redirect.clone();
    let who = Registration {
        redirect: redirect.clone(),
        ..registration.clone()
    };
    issuer.act_as(&who).map_err(of_issuer)?;
    let (url, state) = issuer.page(&scopes).await.map_err(of_issuer)?;
    let page = LoginPage {
        server: site.server.clone(),
        url,
        scopes: shown(&scopes),
        redirect,
    };

    let returned = visit(site, &page, callback, &state, opener).await?;
    // RFC 9207: before anything is done with the answer, an error included.
    if !issuer.gave(returned.iss.as_deref()) {
        return Err(fail(Why::Denied(
            "the answer does not say that it comes from the authorization server that was asked"
                .to_owned(),
        )));
    }
    let code = returned.outcome.map_err(|(error, description)| {
        let words = description
            .map(|description| format!(": {}", quoted(&description)))
            .unwrap_or_default();
        fail(Why::Denied(format!(
            "the authorization server answered {}{words}",
            quoted(&error)
        )))
    })?;
    binding::bind(site, &issuer).await?;
    let terms = Terms {
        client_id: &who.client_id,
        asked: &scopes,
        now: site.now(),
    };
    let login = issuer
        .redeem(&code, &state, returned.iss.as_deref(), terms)
        .await
        .map_err(of_issuer)?;
    keep(site, &login, registration).await?;
    Ok(login)
}

/// The program logs in by itself.
pub(super) async fn log_in_alone(
    site: &Arc<Site>,
    occasion: Occasion<'_>,
) -> Result<Login, LoginFault> {
    let fail = |why| LoginFault::new(&site.server, why);
    let of_issuer = |fault: IssuerFault| fail(Why::Issuer(fault.fact));
    let Some(client_id) = site.auth.client_id.clone() else {
        return Err(fail(Why::Issuer("`oauth_client_id` is not set".to_owned())));
    };
    let proof = match (&site.auth.client_secret, &site.auth.client_key) {
        (Some(secret), _) => Proof::Secret(secret.clone()),
        (None, Some(path)) => {
            let path = site.folder.join(path);
            let read = tokio::task::spawn_blocking(move || key::read(&path)).await;
            let (key, algorithm) = read
                .unwrap_or_else(|_| Err("the key could not be read".to_owned()))
                .map_err(|fact| fail(Why::Issuer(fact)))?;
            Proof::Key(key, algorithm)
        }
        (None, None) => {
            return Err(fail(Why::Issuer(
                "neither `oauth_client_secret` nor `oauth_client_key` is set".to_owned(),
            )));
        }
    };
    let issuer = Issuer::discover(
        &site.url,
        &site.routes,
        occasion.challenge,
        occasion.asked_for,
    )
    .await
    .map_err(of_issuer)?;
    binding::bind(site, &issuer).await?;
    let record = site
        .recall()
        .await
        .map_err(|fault| fail(Why::Vault(fault)))?;
    let scopes = scopes(site, &issuer, &record, occasion).await;
    let terms = Terms {
        client_id: &client_id,
        asked: &scopes,
        now: site.now(),
    };
    let login = issuer.admit(&proof, &site.url, terms).await.map_err(|IssuerFault { fact, .. }| {
        fail(Why::Issuer(format!("{fact}; check `oauth_client_id` of its entry, and the secret or key that goes with it")))
    })?;
    keep(site, &login, Registration::given(&client_id)).await?;
    Ok(login)
}

/// What to ask for: what the entry says, else what the server names; and what a login of the same
/// issuer has or lacks (SEP-2350).
async fn scopes(
    site: &Site,
    issuer: &Issuer,
    record: &Record,
    occasion: Occasion<'_>,
) -> Vec<String> {
    let challenge = Challenge::read(occasion.challenge, &site.url);
    let named = match site.auth.scopes.as_slice() {
        [] => issuer.scopes().await,
        own if challenge.insufficient_scope => union(own, &challenge.scopes),
        own => own.to_vec(),
    };
    let before = record
        .login
        .as_ref()
        .filter(|login| login.issuer == issuer.id);
    let had = before
        .filter(|_| !occasion.explicit)
        .map(|login| login.asked.as_slice())
        .unwrap_or_default();
    let lacked = before.map(|_| record.wanted.as_slice()).unwrap_or_default();
    issuer.lasting(&union(had, &union(&named, lacked)))
}

/// Who we are with this issuer, in the specification's order: an id from the entry, a document, a
/// registration of before, a new one.
async fn be_somebody(
    site: &Arc<Site>,
    issuer: &mut Issuer,
    record: &Record,
    scopes: &[String],
) -> Result<(Registration, Callback), LoginFault> {
    let fail = |why| LoginFault::new(&site.server, why);
    let listen = async |port: Option<u16>| {
        let bound = Callback::bind(port.or(site.auth.callback_port)).await;
        bound.map_err(|error| {
            let port = site
                .auth
                .callback_port
                .map(|port| format!(" {port} (`oauth_callback_port`)"))
                .unwrap_or_default();
            fail(Why::Issuer(format!(
                "no port{port} of this machine can be listened on: {error}"
            )))
        })
    };
    binding::check(site, issuer, record)?;
    if let Some(client_id) = &site.auth.client_id {
        let given = Registration {
            client_secret: site.auth.client_secret.clone(),
            ..Registration::given(client_id)
        };
        return Ok((given, listen(None).await?));
    }
    if let Some(document) = site
        .auth
        .client_metadata_url
        .as_ref()
        .filter(|_| issuer.takes_documents())
    {
        return Ok((Registration::given(document), listen(None).await?));
    }
    let known = record
        .registrations
        .get(&issuer.id)
        .filter(|known| !known.given);
    if let Some(known) = known {
        // The address that was registered has a port; if somebody else has it now, we register
        // anew.
        let port = Url::parse(&known.redirect)
            .ok()
            .and_then(|redirect| redirect.port());
        if site
            .auth
            .callback_port
            .is_none_or(|wanted| Some(wanted) == port)
            && let Ok(callback) = Callback::bind(port).await
        {
            return Ok((known.clone(), callback));
        }
    }
    let callback = listen(None).await?;
    let registered = issuer.register(&callback.redirect, scopes).await;
    let registration = registered.map_err(|IssuerFault { fact, .. }| {
        fail(Why::Issuer(format!("{fact}; if it takes no registrations, set `oauth_client_id` or `bearer_token` in its entry")))
    })?;
    Ok((registration, callback))
}

/// Shows the page and waits for its answer, wherever it comes first: at the redirect address, or by
/// hand.
async fn visit(
    site: &Site,
    page: &LoginPage,
    callback: Callback,
    state: &str,
    opener: &dyn Opener,
) -> Result<Returned, LoginFault> {
    let fail = |why| LoginFault::new(&site.server, why);
    let answered = async {
        let mut answer = std::pin::pin!(callback.answer(state));
        let opened = tokio::select! {
            biased;
            returned = &mut answer => return Ok(returned),
            opened = opener.open(page) => opened,
        };
        match opened {
            Opened::Shown => Ok(answer.await),
            Opened::Returned(address) => read_returned(&address, &page.redirect, state)
                .map_err(|fact| fail(Why::Denied(fact.to_owned()))),
            Opened::Refused(line) => Err(fail(Why::Denied(line))),
        }
    };
    timeout_at(Instant::now() + DEADLINE, answered)
        .await
        .unwrap_or_else(|_| Err(fail(Why::TooLate)))
}

/// Keeps a new login, under the lock: another process may be renewing the old one.
async fn keep(
    site: &Arc<Site>,
    login: &Login,
    registration: Registration,
) -> Result<(), LoginFault> {
    let fail = |fault| LoginFault::new(&site.server, Why::Vault(fault));
    let _lock = site.lock().await.map_err(fail)?;
    let mut record = site.recall().await.unwrap_or_default();
    // The entry keeps its own secret.
    let registration = if registration.given {
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
    record.wanted.clear();
    site.keep(&record).await.map_err(fail)
}

/// Tells the authorization server that the token is not used any more. The longer-lived one takes
/// the other with it.
async fn revoke(site: &Arc<Site>, login: &Login, record: &Record) -> bool {
    let Ok(issuer) = Issuer::discover(&site.url, &site.routes, None, false).await else {
        return false;
    };
    let (Some(endpoint), true) = (issuer.revocation(), issuer.id == login.issuer) else {
        return false;
    };
    let registered = record
        .registrations
        .get(&login.issuer)
        .and_then(|who| who.client_secret.as_ref());
    // The entry's secret goes with the entry's id.
    let is_own = site.auth.client_id.as_ref() == Some(&login.client_id);
    let secret = registered.or(site.auth.client_secret.as_ref().filter(|_| is_own));
    let (token, hint) = match &login.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&login.access_token, "access_token"),
    };
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("token", token.expose())
        .append_pair("token_type_hint", hint)
        .append_pair("client_id", &login.client_id);
    if let Some(secret) = secret {
        form.append_pair("client_secret", secret.expose());
    }
    // Metadata names the endpoint, so it is not to be believed where it leads.
    let guarded = Guarded::new(&site.url, REVOCATION, &site.routes);
    let Ok(guarded) = guarded else { return false };
    let Some(request) = guarded.request(Method::POST, endpoint).await else {
        return false;
    };
    let request = request
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(form.finish());
    request
        .send()
        .await
        .is_ok_and(|answer| answer.status().is_success())
}

/// What a server said when it was asked without a token.
struct Asked {
    challenge: Option<String>,
    is_wanted: bool,
}

/// Asks the server whether it wants a login. Where nothing is at its address, that is the fault;
/// what else keeps it from answering is told about by what comes after.
async fn probe(resolved: &ResolvedUrl, routes: &Routes) -> Result<Asked, String> {
    let nothing = Asked {
        challenge: None,
        is_wanted: false,
    };
    // The address is the entry's own, and nothing that the server says leads to another.
    let Ok(sender) = routes.builder()?.timeout(PROBE).build() else {
        return Ok(nothing);
    };
    let mut request = sender
        .post(resolved.url.clone())
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    for (name, value) in &resolved.headers {
        if !name.eq_ignore_ascii_case("content-type") && !name.eq_ignore_ascii_case("accept") {
            request = request.header(name, value.expose());
        }
    }
    let answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) => {
            let host = resolved.url.host_str().unwrap_or_default();
            let port = resolved.url.port_or_known_default().unwrap_or_default();
            return match unsent(&error, &format!("{host}:{port}")) {
                WireFault::NotSent(fact) => Err(fact),
                _ => Ok(nothing),
            };
        }
    };
    let challenges: Vec<&str> = answer
        .headers()
        .get_all("www-authenticate")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let is_wanted = answer.status().as_u16() == 401;
    Ok(Asked {
        challenge: (is_wanted && !challenges.is_empty()).then(|| challenges.join(", ")),
        is_wanted,
    })
}

fn site(
    config: &ServerConfig,
    environment: &Environment,
    means: &AuthMeans,
) -> Result<(Arc<Site>, ResolvedUrl), LoginFault> {
    let fail = |why| LoginFault::new(&config.name, why);
    let Endpoint::Http(endpoint) = &config.endpoint else {
        return Err(fail(Why::NoUrl));
    };
    let resolved = resolve_url(endpoint, environment).map_err(|fault| fail(Why::Entry(fault)))?;
    let has_header = resolved
        .headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if has_header || resolved.auth.bearer_token.is_some() {
        return Err(fail(Why::HasToken));
    }
    Ok((Site::new(config, &resolved, environment, means), resolved))
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
