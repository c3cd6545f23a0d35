//! A login with a signed assertion instead of a secret (RFC 7523, `private_key_jwt`).
//!
//! The OAuth library can do it only with a second cryptographic library.

use std::time::SystemTime;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use reqwest::Method;
use ring::rand::{SecureRandom, SystemRandom};
use rmcp::transport::auth::{AuthorizationMetadata, OAuthTokenResponse};
use serde_json::{Value, json};
use url::Url;
use url::form_urlencoded::Serializer;

use super::http::bounded_body;
use super::{IssuerFault, TokenRequest, fault, quoted};
use crate::auth::address::is_this_machine;
use crate::auth::client_key::ClientKey;
use crate::auth::guarded_http::GuardedHttp;
use crate::auth::record::seconds;

/// How long an assertion is valid, in seconds.
const LIFETIME_SECONDS: u64 = 300;

/// Exchanges an assertion for a token. The client's id stands in the assertion only.
pub(super) async fn exchange(
    http: &GuardedHttp,
    metadata: &AuthorizationMetadata,
    key: &ClientKey,
    server: &Url,
    resource: &str,
    request: TokenRequest<'_>,
) -> Result<OAuthTokenResponse, IssuerFault> {
    check_support(metadata, key)?;
    let endpoint = Url::parse(&metadata.token_endpoint)
        .ok()
        .filter(|endpoint| is_safe_endpoint(server, endpoint))
        .ok_or_else(|| fault("logging in failed: its token endpoint is not an HTTPS address"))?;
    let issuer = metadata.issuer.as_deref().ok_or_else(|| {
        fault("logging in failed: its authorization server does not name its issuer, which a signed assertion is addressed to")
    })?;
    let assertion = sign(key, request.client_id, issuer, request.now)
        .ok_or_else(|| fault("logging in failed: the system's randomness is not available"))?;
    let form = form(&assertion, resource, request.requested);
    let (is_success, body) = post_form(http, endpoint, form).await.map_err(|error| {
        fault(&format!(
            "logging in failed: {}",
            quoted(&error.to_string())
        ))
    })?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if !is_success {
        return Err(fault(&format!("logging in failed: {}", refusal(&body))));
    }
    serde_json::from_value(body)
        .map_err(|_| fault("its authorization server returned an invalid token"))
}

/// Refuses a key that the authorization server's metadata excludes.
fn check_support(metadata: &AuthorizationMetadata, key: &ClientKey) -> Result<(), IssuerFault> {
    for (field, needed) in [
        ("token_endpoint_auth_methods_supported", "private_key_jwt"),
        (
            "token_endpoint_auth_signing_alg_values_supported",
            key.algorithm(),
        ),
    ] {
        let Some(Value::Array(supported)) = metadata.additional_fields.get(field) else {
            continue;
        };
        let supported: Vec<&str> = supported.iter().filter_map(Value::as_str).collect();
        if !supported.contains(&needed) {
            return Err(fault(&format!(
                "logging in failed: its authorization server supports {}, not {needed}",
                quoted(&supported.join(", "))
            )));
        }
    }
    Ok(())
}

/// HTTPS, or HTTP between two addresses of this machine.
fn is_safe_endpoint(server: &Url, endpoint: &Url) -> bool {
    let is_local = |url: &Url| url.host().is_some_and(|host| is_this_machine(&host));
    match endpoint.scheme() {
        "https" => true,
        "http" => is_local(server) && is_local(endpoint),
        _ => false,
    }
}

/// A JSON Web Token that says who the client is, for this authorization server alone.
fn sign(key: &ClientKey, client_id: &str, issuer: &str, now: SystemTime) -> Option<String> {
    let mut id = [0; 16];
    SystemRandom::new().fill(&mut id).ok()?;
    let now = seconds(now);
    let header = json!({ "typ": "client-authentication+jwt", "alg": key.algorithm() });
    let claims = json!({
        "iss": client_id, "sub": client_id, "aud": issuer,
        "iat": now, "exp": now + LIFETIME_SECONDS, "jti": HEXLOWER.encode(&id),
    });
    let encode = |part: Value| BASE64URL_NOPAD.encode(part.to_string().as_bytes());
    let signed = format!("{}.{}", encode(header), encode(claims));
    let signature = BASE64URL_NOPAD.encode(&key.sign(signed.as_bytes())?);
    Some(format!("{signed}.{signature}"))
}

fn form(assertion: &str, resource: &str, scopes: &[String]) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials")
        .append_pair(
            "client_assertion_type",
            "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        )
        .append_pair("client_assertion", assertion);
    if !scopes.is_empty() {
        form.append_pair("scope", &scopes.join(" "));
    }
    form.append_pair("resource", resource);
    form.finish()
}

/// Whether the request succeeded, and the body of its response.
async fn post_form(
    http: &GuardedHttp,
    endpoint: Url,
    form: String,
) -> Result<(bool, Vec<u8>), Box<dyn std::error::Error + Send + Sync>> {
    let request = http
        .request(Method::POST, endpoint)
        .await
        .ok_or("its address is not permitted")?
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Accept", "application/json")
        .body(form);
    let mut answer = request.send().await?;
    Ok((
        answer.status().is_success(),
        bounded_body(&mut answer).await?,
    ))
}

/// The error of a token endpoint, in its own words.
fn refusal(body: &Value) -> String {
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    match (text("error"), text("error_description")) {
        ("", _) => "the authorization server refused the assertion".to_owned(),
        (error, "") => quoted(error),
        (error, description) => quoted(&format!("{error}: {description}")),
    }
}

#[cfg(test)]
mod tests;
