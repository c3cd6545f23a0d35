//! The authorization server of a server, as discovery found it: registers us, gives the login page,
//! redeems and renews.
//!
//! The one place that knows the library which speaks OAuth. It sends what it has to over our
//! connections (`carrier`), which refuse addresses that metadata may not name (T17). Every step has
//! a deadline.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig,
    CredentialStore, InMemoryCredentialStore, JwtSigningAlgorithm, OAuthClientConfig,
    OAuthTokenResponse, StoredCredentials, WWWAuthenticateParams,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

use super::guarded::{Guarded, Routes};
use super::key::Algorithm;
use super::older;
use super::record::{Login, Registration, seconds, union};
use super::visitable;
use crate::secret::Secret;
use crate::untrusted::escaped_line;

mod carrier;

/// How long discovery may take, all its requests together.
const DISCOVERY: Duration = Duration::from_secs(30);

/// How long one request to the authorization server may take.
const REQUEST: Duration = Duration::from_secs(30);

/// The name under which we register.
const OUR_NAME: &str = "Switchboard";

/// How much of a stranger's words a sentence quotes.
const QUOTED: usize = 300;

/// An authorization server, found.
pub(super) struct Issuer {
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    /// What credentials are bound to: its own name for itself; where it has none, where it stands.
    pub(super) id: String,
}

/// What went wrong with an authorization server: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IssuerFault {
    pub(super) fact: String,
    /// It refused what we hold: to try again is no use.
    pub(super) definite: bool,
}

/// What a challenge says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) scopes: Vec<String>,
    pub(super) insufficient_scope: bool,
}

impl Challenge {
    pub(super) fn read(header: Option<&str>, url: &Url) -> Self {
        let Some(header) = header else {
            return Self::default();
        };
        let params = WWWAuthenticateParams::parse(header, url);
        let scopes = params
            .scope
            .as_deref()
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        Self {
            scopes,
            insufficient_scope: params.is_insufficient_scope(),
        }
    }
}

impl Issuer {
    /// Finds the authorization server of a server: from its challenge, where there is one, else by
    /// asking around. Endpoints that were only guessed (2025-03-26) count where the server has
    /// asked for a login.
    pub(super) async fn discover(
        url: &Url,
        routes: &Routes,
        challenge: Option<&str>,
        guess: bool,
    ) -> Result<Self, IssuerFault> {
        let guarded = Guarded::new(url, REQUEST, routes).map_err(fault)?;
        let found = within(DISCOVERY, "finding its authorization server", async {
            let manager =
                AuthorizationManager::new_with_oauth_http_client(url.clone(), Arc::new(guarded))
                    .await?;
            let found = manager.resolve_metadata_from_challenge(challenge).await;
            let (metadata, discovered) = match found {
                Ok(found) => (found.metadata, found.source.is_discovered()),
                Err(error @ AuthError::AuthorizationServerMismatch { .. }) => {
                    match older::metadata(url, challenge, routes).await {
                        Some(metadata) => (metadata, true),
                        None => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            };
            Ok((manager, metadata, discovered))
        });
        let (mut manager, metadata, discovered) = found.await?;
        if !discovered && !guess {
            return Err(fault(
                "the server does not ask for a login, and names no authorization server",
            ));
        }
        // The specification: without it there is no PKCE, and without PKCE no login.
        if discovered
            && metadata.code_challenge_methods_supported.is_none()
            && !is_machine_only(&metadata)
        {
            return Err(fault(
                "its authorization server does not say that it supports PKCE (code_challenge_methods_supported)",
            ));
        }
        for (name, endpoint) in [
            (
                "authorization_endpoint",
                Some(&metadata.authorization_endpoint),
            ),
            ("token_endpoint", Some(&metadata.token_endpoint)),
            (
                "registration_endpoint",
                metadata.registration_endpoint.as_ref(),
            ),
        ] {
            if let Some(why) = endpoint.and_then(|endpoint| visitable(endpoint).err()) {
                return Err(fault(&format!(
                    "its authorization server names a {name} that is not used: {why}"
                )));
            }
        }
        let id = metadata
            .issuer
            .clone()
            .unwrap_or_else(|| origin_of(&metadata.token_endpoint));
        manager.set_metadata(metadata.clone());
        Ok(Self {
            manager,
            metadata,
            id,
        })
    }

    /// Whether it takes the address of a document for an id.
    pub(super) fn takes_documents(&self) -> bool {
        self.says("client_id_metadata_document_supported")
    }

    /// What to ask for where nobody said: what the challenge names, else what the server's metadata
    /// names.
    pub(super) async fn scopes(&self) -> Vec<String> {
        self.manager.select_initial_scopes(&[]).await
    }

    /// These scopes, and the one that makes a login last, where it is offered.
    pub(super) fn lasting(&self, scopes: &[String]) -> Vec<String> {
        const LASTS: &str = "offline_access";
        let offered = self
            .metadata
            .scopes_supported
            .iter()
            .flatten()
            .any(|scope| scope == LASTS);
        if offered && !scopes.is_empty() {
            union(scopes, &[LASTS.to_owned()])
        } else {
            scopes.to_vec()
        }
    }

    /// Registers us.
    pub(super) async fn register(
        &mut self,
        redirect: &str,
        scopes: &[String],
    ) -> Result<Registration, IssuerFault> {
        if self.metadata.registration_endpoint.is_none() {
            let fact = "its authorization server takes no registrations; register Switchboard there by hand and set `oauth_client_id`";
            return Err(fault(fact));
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registered = within(
            REQUEST,
            "registering",
            self.manager.register_client(OUR_NAME, redirect, &scopes),
        )
        .await?;
        Ok(Registration {
            client_id: registered.client_id,
            client_secret: registered.client_secret.map(Secret::new),
            redirect: redirect.to_owned(),
            given: false,
        })
    }

    /// From now on we are this.
    pub(super) fn act_as(&mut self, registration: &Registration) -> Result<(), IssuerFault> {
        let redirect = if registration.redirect.is_empty() {
            "http://127.0.0.1/"
        } else {
            registration.redirect.as_str()
        };
        let mut who = OAuthClientConfig::new(&registration.client_id, redirect);
        if let Some(secret) = &registration.client_secret {
            who = who.with_client_secret(secret.expose());
        }
        self.manager
            .configure_client(who)
            .map_err(|error| from_auth(&error, "preparing the login"))
    }

    /// The page where a person logs in, and the state that its answer must carry.
    pub(super) async fn page(&self, scopes: &[String]) -> Result<(Url, String), IssuerFault> {
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let made = self.manager.get_authorization_url(&scopes).await;
        let address = made.map_err(|error| from_auth(&error, "preparing the login"))?;
        let page = visitable(&address)
            .map_err(|why| fault(&format!("the login page cannot be opened: {why}")))?;
        let state = page
            .query_pairs()
            .find(|(name, _)| name == "state")
            .map(|(_, state)| state.into_owned());
        Ok((
            page,
            state.ok_or_else(|| fault("the login page carries no state"))?,
        ))
    }

    /// RFC 9207: whether an answer may be believed that says it comes from `iss`. Compared as it
    /// stands.
    pub(super) fn gave(&self, iss: Option<&str>) -> bool {
        match (&self.metadata.issuer, iss) {
            (Some(expected), Some(iss)) => expected == iss,
            (Some(_), None) => !self.says("authorization_response_iss_parameter_supported"),
            (None, iss) => iss.is_none(),
        }
    }

    /// Turns a code into a token.
    pub(super) async fn redeem(
        &self,
        code: &str,
        state: &str,
        iss: Option<&str>,
        terms: Terms<'_>,
    ) -> Result<Login, IssuerFault> {
        let redeemed = self
            .manager
            .exchange_code_for_token_with_issuer(code, state, iss);
        let token = within(REQUEST, "redeeming the login", redeemed).await?;
        self.login(&token, terms, None)
    }

    /// The next token of a login. `act_as` came before.
    pub(super) async fn renew(
        &mut self,
        login: &Login,
        now: SystemTime,
    ) -> Result<Login, IssuerFault> {
        let Some(refresh_token) = &login.refresh_token else {
            return Err(IssuerFault {
                fact: "the login has ended".to_owned(),
                definite: true,
            });
        };
        let token = json!({
            "access_token": login.access_token.expose(), "token_type": "bearer", "refresh_token": refresh_token.expose(),
        });
        let token: OAuthTokenResponse = serde_json::from_value(token)
            .map_err(|_| fault("what is kept of the login cannot be read"))?;
        let kept = StoredCredentials::new(
            login.client_id.clone(),
            Some(token),
            login.granted.clone(),
            None,
        );
        let store = InMemoryCredentialStore::new();
        store
            .save(kept)
            .await
            .map_err(|error| from_auth(&error, "renewing the login"))?;
        self.manager.set_credential_store(store);
        let token = within(REQUEST, "renewing the login", self.manager.refresh_token()).await?;
        let terms = Terms {
            client_id: &login.client_id,
            asked: &login.asked,
            now,
        };
        self.login(&token, terms, Some(&login.granted))
    }

    /// A token for a program that logs in by itself.
    pub(super) async fn admit(
        mut self,
        proof: &Proof,
        resource: &Url,
        terms: Terms<'_>,
    ) -> Result<Login, IssuerFault> {
        let (client_id, scopes) = (terms.client_id.to_owned(), terms.asked.to_vec());
        let resource = Some(resource.to_string());
        let who = match proof {
            Proof::Secret(secret) => {
                let client_secret = secret.expose().to_owned();
                ClientCredentialsConfig::ClientSecret {
                    client_id,
                    client_secret,
                    scopes,
                    resource,
                }
            }
            Proof::Key(key, algorithm) => ClientCredentialsConfig::PrivateKeyJwt {
                client_id,
                signing_key: key.expose().as_bytes().to_vec(),
                signing_algorithm: match algorithm {
                    Algorithm::Rs256 => JwtSigningAlgorithm::RS256,
                    Algorithm::Es256 => JwtSigningAlgorithm::ES256,
                    Algorithm::Es384 => JwtSigningAlgorithm::ES384,
                },
                token_endpoint_audience: None,
                scopes,
                resource,
            },
        };
        let refuse = |error: AuthError| from_auth(&error, "logging in");
        self.manager
            .validate_client_credentials_metadata(&who)
            .map_err(refuse)?;
        self.manager
            .configure_client_credentials(&who)
            .map_err(refuse)?;
        // The library's future for this cannot move between threads, so it stays on one.
        let runtime = tokio::runtime::Handle::current();
        let exchanged = tokio::task::spawn_blocking(move || {
            let token = runtime.block_on(within(
                REQUEST,
                "logging in",
                self.manager.exchange_client_credentials(&who),
            ));
            token.map(|token| (self, token))
        });
        let (issuer, token) = exchanged
            .await
            .unwrap_or_else(|_| Err(fault("logging in failed")))?;
        issuer.login(&token, terms, None)
    }

    /// Where tokens are given back, if anywhere.
    pub(super) fn revocation(&self) -> Option<Url> {
        visitable(
            self.metadata
                .additional_fields
                .get("revocation_endpoint")?
                .as_str()?,
        )
        .ok()
    }

    fn says(&self, field: &str) -> bool {
        self.metadata
            .additional_fields
            .get(field)
            .and_then(Value::as_bool)
            == Some(true)
    }

    /// RFC 6749: scopes that are not named are those that were asked for; a refresh token that is
    /// not named stays (the library sees to it).
    fn login(
        &self,
        token: &OAuthTokenResponse,
        terms: Terms<'_>,
        before: Option<&[String]>,
    ) -> Result<Login, IssuerFault> {
        let token = serde_json::to_value(token)
            .map_err(|_| fault("its authorization server gave a token that cannot be kept"))?;
        let text = |name: &str| token.get(name).and_then(Value::as_str);
        let scopes = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let received_at = seconds(terms.now);
        let access_token = text("access_token").filter(|token| is_header_safe(token));
        Ok(Login {
            issuer: self.id.clone(),
            client_id: terms.client_id.to_owned(),
            access_token: Secret::new(
                access_token
                    .ok_or_else(|| fault("its authorization server gave a token that is none"))?,
            ),
            refresh_token: text("refresh_token").map(Secret::new),
            received_at,
            expires_at: token
                .get("expires_in")
                .and_then(Value::as_u64)
                .map(|lasts| received_at.saturating_add(lasts)),
            granted: text("scope")
                .map(scopes)
                .unwrap_or_else(|| before.unwrap_or(terms.asked).to_vec()),
            asked: terms.asked.to_vec(),
        })
    }
}

/// On what terms a token is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) client_id: &'a str,
    pub(super) asked: &'a [String],
    pub(super) now: SystemTime,
}

/// What a program proves itself with.
pub(super) enum Proof {
    Secret(Secret),
    Key(Secret, Algorithm),
}

/// An authorization server for programs alone has no use for PKCE.
fn is_machine_only(metadata: &AuthorizationMetadata) -> bool {
    let grants = metadata
        .additional_fields
        .get("grant_types_supported")
        .and_then(Value::as_array);
    grants.is_some_and(|grants| {
        grants
            .iter()
            .all(|grant| grant.as_str() != Some("authorization_code"))
    })
}

fn origin_of(endpoint: &str) -> String {
    Url::parse(endpoint)
        .map(|url| url.origin().ascii_serialization())
        .unwrap_or_default()
}

fn is_header_safe(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

async fn within<T>(
    limit: Duration,
    doing: &str,
    work: impl Future<Output = Result<T, AuthError>>,
) -> Result<T, IssuerFault> {
    match timeout(limit, work).await {
        Ok(done) => done.map_err(|error| from_auth(&error, doing)),
        Err(_) => Err(fault(&format!(
            "{doing} took more than {} s",
            limit.as_secs()
        ))),
    }
}

fn from_auth(error: &AuthError, doing: &str) -> IssuerFault {
    let definite = matches!(
        error,
        AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired
    );
    let said = error.to_string();
    // It was said what failed.
    let said = said.strip_prefix("Registration failed: ").unwrap_or(&said);
    IssuerFault {
        fact: format!("{doing} failed: {}", quoted(said)),
        definite,
    }
}

pub(super) fn fault(fact: &str) -> IssuerFault {
    IssuerFault {
        fact: fact.to_owned(),
        definite: false,
    }
}

/// A stranger's words on one line, cut.
pub(super) fn quoted(words: &str) -> String {
    let line: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(QUOTED).collect();
    let more = if cut.len() < line.len() { "…" } else { "" };
    format!("{}{more}", escaped_line(&cut))
}
