//! A URL as it will be requested: references expanded, headers and credentials checked.

use std::fmt;

use super::environment::Environment;
use super::expand::Expansion;
use super::reference::TextRole;
use super::sensitive::{is_ordinary, secrets_of};
use super::{HttpAuth, HttpEndpoint, server_entry};
use crate::secret::Secret;

/// A URL as it will be requested.
#[derive(Clone)]
pub struct ResolvedUrl {
    /// The endpoint.
    pub url: url::Url,
    /// Sent with each request.
    pub headers: Vec<(String, Secret)>,
    /// Credentials, expanded.
    pub auth: HttpAuth,
    /// References to unset variables: (variable, field).
    pub unset: Vec<(String, String)>,
    /// Every value that must not appear in a log.
    pub secrets: Vec<Secret>,
}

impl fmt::Debug for ResolvedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path and the query may contain secrets.
        f.debug_struct("ResolvedUrl")
            .field("host", &self.url.host_str())
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Why a URL cannot be used as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` cannot be used: {fact}")]
pub struct UrlFault {
    /// The field.
    pub field: String,
    /// The error; never the text.
    pub fact: String,
}

/// Expands the references of a URL, its headers and credentials against `environment`.
pub fn resolve_url(
    endpoint: &HttpEndpoint,
    environment: &Environment,
) -> Result<ResolvedUrl, UrlFault> {
    let mut expansion = Expansion::new(environment, endpoint.syntax);
    let fault = |field: &str, fact: &str| UrlFault {
        field: field.to_owned(),
        fact: fact.to_owned(),
    };
    let text = expansion
        .expand(TextRole::Launch, "url", &endpoint.url)
        .map_err(|fact| fault("url", fact))?;
    let url = server_entry::check_url(&text).map_err(|fact| fault("url", &fact))?;
    let mut headers = Vec::with_capacity(endpoint.headers.len());
    for (name, value) in &endpoint.headers {
        let field = format!("headers.{name}");
        let value = Secret::new(
            expansion
                .expand(TextRole::Value, &field, value.expose())
                .map_err(|fact| fault(&field, fact))?,
        );
        server_entry::check_header(name, &value).map_err(|fact| fault(&field, fact))?;
        expansion.secrets.extend(secrets_of(name, value.expose()));
        headers.push((name.clone(), value));
    }
    let auth = resolve_auth(&endpoint.auth, &mut expansion)?;
    let Expansion {
        unset, mut secrets, ..
    } = expansion;
    // A user name without a password is a token.
    secrets.extend(url.password().or(Some(url.username())).map(Secret::new));
    secrets.extend(
        url.query_pairs()
            .flat_map(|(name, value)| secrets_of(&name, &value)),
    );
    secrets.retain(|secret| !is_ordinary(secret.expose()));
    Ok(ResolvedUrl {
        url,
        headers,
        auth,
        unset,
        secrets,
    })
}

fn resolve_auth(auth: &HttpAuth, expansion: &mut Expansion<'_>) -> Result<HttpAuth, UrlFault> {
    let fault = |field: &str, fact: &str| UrlFault {
        field: field.to_owned(),
        fact: fact.to_owned(),
    };
    let mut resolved = auth.clone();
    for (field, text) in [
        ("oauth_issuer", &mut resolved.issuer),
        ("oauth_client_id", &mut resolved.client_id),
        ("oauth_client_key", &mut resolved.client_key),
        (
            "oauth_client_metadata_url",
            &mut resolved.client_metadata_url,
        ),
    ] {
        if let Some(text) = text {
            *text = expansion
                .expand(TextRole::Launch, field, text)
                .map_err(|fact| fault(field, fact))?;
        }
    }
    for (field, secret) in [
        ("bearer_token", &mut resolved.bearer_token),
        ("oauth_client_secret", &mut resolved.client_secret),
    ] {
        if let Some(secret) = secret {
            *secret = Secret::new(
                expansion
                    .expand(TextRole::Value, field, secret.expose())
                    .map_err(|fact| fault(field, fact))?,
            );
            server_entry::check_header(field, secret).map_err(|fact| fault(field, fact))?;
            expansion.secrets.push(secret.clone());
        }
    }
    Ok(resolved)
}
