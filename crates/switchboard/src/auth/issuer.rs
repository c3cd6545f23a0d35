//! The authorization server of an MCP server: discovery, registration, the login page, exchanging
//! codes and refreshing tokens.
//!
//! The only file that uses the OAuth library. The library's requests are sent through `GuardedHttp`
//! (`http`). Every step has a deadline.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig,
    CredentialStore, InMemoryCredentialStore, OAuthClientConfig, OAuthTokenResponse,
    StoredCredentials, WWWAuthenticateParams,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

use super::client_key::ClientKey;
use super::guarded_http::{GuardedHttp, ProxyRoutes};
use super::legacy_metadata;
use super::parse_page_url;
use super::record::{Login, Registration, seconds, union};
use crate::secret::Secret;
use crate::untrusted::escaped_line;

mod client_assertion;
mod http;

/// The deadline for discovery, all its requests together.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The deadline for one request to the authorization server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The client name that is registered.
const CLIENT_NAME: &str = "Switchboard";

/// The most characters of foreign text quoted in a message.
const MAX_QUOTED_CHARACTERS: usize = 300;

/// A discovered authorization server.
pub(super) struct Issuer {
    manager: AuthorizationManager,
    /// Sends the manager's requests and our own.
    http: Arc<GuardedHttp>,
    metadata: AuthorizationMetadata,
    /// What credentials are bound to: the issuer's name for itself, or the origin of its token
    /// endpoint.
    pub(super) id: String,
}

/// A failure at an authorization server: one line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IssuerFault {
    pub(super) fact: String,
    /// Whether it rejected our credentials, so that a retry is useless.
    pub(super) is_final: bool,
    /// Whether it rejected our client: it may have forgotten a registration, or its secret has expired.
    pub(super) rejects_client: bool,
}

/// The parsed `WWW-Authenticate` header.
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
    /// Discovers the authorization server: from the challenge if there is one, else from well-known
    /// addresses. Default endpoints (2025-03-26) count only if the server required a login.
    pub(super) async fn discover(
        url: &Url,
        routes: &ProxyRoutes,
        challenge: Option<&str>,
        guess: bool,
    ) -> Result<Self, IssuerFault> {
        let http = Arc::new(GuardedHttp::new(url, REQUEST_TIMEOUT, routes).map_err(fault)?);
        let finding = async {
            let manager =
                AuthorizationManager::new_with_oauth_http_client(url.clone(), http.clone()).await?;
            let (metadata, discovered) =
                match manager.resolve_metadata_from_challenge(challenge).await {
                    Ok(found) => (found.metadata, found.source.is_discovered()),
                    Err(error @ AuthError::AuthorizationServerMismatch { .. }) => {
                        let legacy = legacy_metadata::metadata(url, challenge, routes).await;
                        (legacy.ok_or(error)?, true)
                    }
                    Err(error) => return Err(error),
                };
            Ok((manager, metadata, discovered))
        };
        let (mut manager, metadata, discovered) = within(
            DISCOVERY_TIMEOUT,
            "finding its authorization server",
            finding,
        )
        .await?;
        if !discovered && !guess {
            return Err(fault(
                "the server does not ask for a login, and names no authorization server",
            ));
        }
        check_metadata(&metadata, discovered)?;
        let id = metadata
            .issuer
            .clone()
            .unwrap_or_else(|| origin_of(&metadata.token_endpoint));
        manager.set_metadata(metadata.clone());
        Ok(Self {
            manager,
            http,
            metadata,
            id,
        })
    }

    /// Whether client id metadata documents are supported.
    pub(super) fn supports_client_id_documents(&self) -> bool {
        self.supports("client_id_metadata_document_supported")
    }

    /// The default scopes: those of the challenge, else those of the server's metadata.
    pub(super) async fn scopes(&self) -> Vec<String> {
        self.manager.select_initial_scopes(&[]).await
    }

    /// Adds the scope for refresh tokens, if it is offered.
    pub(super) fn with_offline_access(&self, scopes: &[String]) -> Vec<String> {
        const OFFLINE_ACCESS: &str = "offline_access";
        let offered = self
            .metadata
            .scopes_supported
            .iter()
            .flatten()
            .any(|scope| scope == OFFLINE_ACCESS);
        if offered && !scopes.is_empty() {
            union(scopes, &[OFFLINE_ACCESS.to_owned()])
        } else {
            scopes.to_vec()
        }
    }

    /// Registers a client.
    pub(super) async fn register(
        &mut self,
        redirect: &str,
        scopes: &[String],
    ) -> Result<Registration, IssuerFault> {
        if self.metadata.registration_endpoint.is_none() {
            return Err(fault(
                "its authorization server has no dynamic client registration",
            ));
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registered = within(
            REQUEST_TIMEOUT,
            "registering",
            self.manager.register_client(CLIENT_NAME, redirect, &scopes),
        )
        .await?;
        Ok(Registration {
            client_id: registered.client_id,
            client_secret: registered.client_secret.map(Secret::new),
            redirect: redirect.to_owned(),
            is_configured: false,
        })
    }

    /// Sets the client that later requests are made for.
    pub(super) fn set_client(&mut self, registration: &Registration) -> Result<(), IssuerFault> {
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

    /// The login page, and the state that its response must carry.
    pub(super) async fn authorization_page(
        &self,
        scopes: &[String],
    ) -> Result<(Url, String), IssuerFault> {
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let made = self.manager.get_authorization_url(&scopes).await;
        let address = made.map_err(|error| from_auth(&error, "preparing the login"))?;
        let page = parse_page_url(&address)
            .map_err(|reason| fault(&format!("the login page cannot be opened: {reason}")))?;
        let state = page
            .query_pairs()
            .find(|(name, _)| name == "state")
            .map(|(_, state)| state.into_owned());
        Ok((
            page,
            state.ok_or_else(|| fault("the login page carries no state"))?,
        ))
    }

    /// RFC 9207: whether a response with this `iss` may come from this authorization server.
    /// Compared byte for byte.
    pub(super) fn may_have_sent(&self, iss: Option<&str>) -> bool {
        match (&self.metadata.issuer, iss) {
            (Some(expected), Some(iss)) => expected == iss,
            (Some(_), None) => !self.supports("authorization_response_iss_parameter_supported"),
            (None, iss) => iss.is_none(),
        }
    }

    /// Exchanges a code for a token.
    pub(super) async fn redeem(
        &self,
        code: &str,
        state: &str,
        iss: Option<&str>,
        request: TokenRequest<'_>,
    ) -> Result<Login, IssuerFault> {
        let redeemed = self
            .manager
            .exchange_code_for_token_with_issuer(code, state, iss);
        let token = within(REQUEST_TIMEOUT, "exchanging the login code", redeemed).await?;
        self.login(&token, request, None)
    }

    /// Refreshes the token of a login. Call `set_client` first.
    pub(super) async fn renew(
        &mut self,
        login: &Login,
        now: SystemTime,
    ) -> Result<Login, IssuerFault> {
        let Some(refresh_token) = &login.refresh_token else {
            return Err(final_fault("the login has expired"));
        };
        let token = json!({
            "access_token": login.access_token.expose(), "token_type": "bearer", "refresh_token": refresh_token.expose(),
        });
        let token: OAuthTokenResponse =
            serde_json::from_value(token).map_err(|_| fault("the stored login cannot be read"))?;
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
        let token = within(
            REQUEST_TIMEOUT,
            "renewing the login",
            self.manager.refresh_token(),
        )
        .await?;
        let request = TokenRequest {
            client_id: &login.client_id,
            requested: &login.requested,
            now,
        };
        self.login(&token, request, Some(&login.granted))
    }

    /// Logs in with client credentials.
    pub(super) async fn log_in_with_client_credentials(
        mut self,
        client_proof: &ClientProof,
        server: &Url,
        request: TokenRequest<'_>,
    ) -> Result<Login, IssuerFault> {
        let resource = self.resource().await;
        let resource = resource.unwrap_or_else(|| server.to_string());
        match client_proof {
            ClientProof::Secret(secret) => self.log_in_with_secret(secret, resource, request).await,
            ClientProof::Key(key) => {
                let (http, metadata) = (&self.http, &self.metadata);
                let exchanged =
                    client_assertion::exchange(http, metadata, key, server, &resource, request);
                self.login(&exchanged.await?, request, None)
            }
        }
    }

    /// The resource that tokens are requested for: the one that the server's metadata names, else the
    /// server's address. The library shows it only in the address of a login page.
    async fn resource(&mut self) -> Option<String> {
        let mut metadata = self.metadata.clone();
        metadata.response_types_supported = None;
        metadata.code_challenge_methods_supported = Some(vec!["S256".to_owned()]);
        self.manager.set_metadata(metadata);
        let any_client = OAuthClientConfig::new("client", "http://127.0.0.1/");
        let page = match self.manager.configure_client(any_client) {
            Ok(()) => self.manager.get_authorization_url(&[]).await.ok(),
            Err(_) => None,
        };
        self.manager.set_metadata(self.metadata.clone());
        let page = Url::parse(&page?).ok()?;
        let (_, resource) = page.query_pairs().find(|(name, _)| name == "resource")?;
        Some(resource.into_owned()).filter(|resource| !resource.is_empty())
    }

    async fn log_in_with_secret(
        mut self,
        secret: &Secret,
        resource: String,
        request: TokenRequest<'_>,
    ) -> Result<Login, IssuerFault> {
        let who = ClientCredentialsConfig::ClientSecret {
            client_id: request.client_id.to_owned(),
            client_secret: secret.expose().to_owned(),
            scopes: request.requested.to_vec(),
            resource: Some(resource),
        };
        let refuse = |error: AuthError| from_auth(&error, "logging in");
        self.manager
            .validate_client_credentials_metadata(&who)
            .map_err(refuse)?;
        self.manager
            .configure_client_credentials(&who)
            .map_err(refuse)?;
        // The library's future is not `Send`, so it runs on one thread.
        let runtime = tokio::runtime::Handle::current();
        let exchanged = tokio::task::spawn_blocking(move || {
            let token = runtime.block_on(within(
                REQUEST_TIMEOUT,
                "logging in",
                self.manager.exchange_client_credentials(&who),
            ));
            token.map(|token| (self, token))
        });
        let (issuer, token) = exchanged
            .await
            .unwrap_or_else(|_| Err(fault("logging in failed")))?;
        issuer.login(&token, request, None)
    }

    /// The revocation endpoint, if there is one.
    pub(super) fn revocation(&self) -> Option<Url> {
        parse_page_url(
            self.metadata
                .additional_fields
                .get("revocation_endpoint")?
                .as_str()?,
        )
        .ok()
    }

    fn supports(&self, field: &str) -> bool {
        self.metadata
            .additional_fields
            .get(field)
            .and_then(Value::as_bool)
            == Some(true)
    }

    /// RFC 6749: without `scope` the requested scopes were granted. The library keeps the old
    /// refresh token if the response has none.
    fn login(
        &self,
        token: &OAuthTokenResponse,
        request: TokenRequest<'_>,
        before: Option<&[String]>,
    ) -> Result<Login, IssuerFault> {
        let token = serde_json::to_value(token)
            .map_err(|_| fault("its authorization server returned an invalid token"))?;
        let text = |name: &str| token.get(name).and_then(Value::as_str);
        let scopes = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let received_at = seconds(request.now);
        let access_token = text("access_token").filter(|token| is_header_safe(token));
        Ok(Login {
            issuer: self.id.clone(),
            client_id: request.client_id.to_owned(),
            access_token: Secret::new(
                access_token
                    .ok_or_else(|| fault("its authorization server returned an invalid token"))?,
            ),
            refresh_token: text("refresh_token").map(Secret::new),
            received_at,
            expires_at: token
                .get("expires_in")
                .and_then(Value::as_u64)
                .map(|lasts| received_at.saturating_add(lasts)),
            granted: text("scope")
                .map(scopes)
                .unwrap_or_else(|| before.unwrap_or(request.requested).to_vec()),
            requested: request.requested.to_vec(),
        })
    }
}

/// The parameters of a token request.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenRequest<'a> {
    pub(super) client_id: &'a str,
    pub(super) requested: &'a [String],
    pub(super) now: SystemTime,
}

/// The credentials of a client that logs in by itself.
pub(super) enum ClientProof {
    Secret(Secret),
    Key(Box<ClientKey>),
}

/// Checks that logins can be made with this metadata. Default endpoints are not discovered, and
/// announce nothing.
fn check_metadata(metadata: &AuthorizationMetadata, discovered: bool) -> Result<(), IssuerFault> {
    // The specification requires PKCE, and this field announces it.
    if discovered
        && metadata.code_challenge_methods_supported.is_none()
        && !is_machine_only(metadata)
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
        if let Some(reason) = endpoint.and_then(|endpoint| parse_page_url(endpoint).err()) {
            return Err(fault(&format!(
                "its authorization server names an unusable {name}: {reason}"
            )));
        }
    }
    Ok(())
}

/// An authorization server without the authorization code grant needs no PKCE.
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
    let is_final = matches!(
        error,
        AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired
    );
    let text = error.to_string();
    // The library has no variant for it.
    let rejects_client = text.contains("error response: invalid_client");
    let text = text.strip_prefix("Registration failed: ").unwrap_or(&text);
    // It ends so if the response has no text.
    let text = text.trim_end_matches([':', ' ']);
    // What failed, and the cause of all causes: those in between say less, and fill the line.
    let mut causes = text.split("\n  Caused by: ");
    let what = causes.next().map(quoted);
    let why = causes.last().map(quoted);
    let facts: Vec<String> = what.into_iter().chain(why).collect();
    IssuerFault {
        fact: format!("{doing} failed: {}", facts.join(": ")),
        is_final,
        rejects_client,
    }
}

pub(super) fn fault(fact: &str) -> IssuerFault {
    IssuerFault {
        fact: fact.to_owned(),
        is_final: false,
        rejects_client: false,
    }
}

pub(super) fn final_fault(fact: &str) -> IssuerFault {
    IssuerFault {
        is_final: true,
        ..fault(fact)
    }
}

/// Foreign text as one escaped line, shortened.
pub(super) fn quoted(words: &str) -> String {
    let line: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(MAX_QUOTED_CHARACTERS).collect();
    let more = if cut.len() < line.len() { "…" } else { "" };
    format!("{}{more}", escaped_line(&cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_the_first_and_the_last_of_its_causes() {
        let check = |text: &str, expected: &str| {
            let error = AuthError::MetadataError(text.to_owned());
            assert_eq!(from_auth(&error, "finding it").fact, expected);
        };
        check("no issuer", "finding it failed: Metadata error: no issuer");
        check(
            "discovery failed\n  Caused by: error sending request\n  Caused by: it resolves to no permitted address",
            "finding it failed: Metadata error: discovery failed: it resolves to no permitted address",
        );
    }
}
