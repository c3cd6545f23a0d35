//! Revokes the token of a login at its authorization server.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;

use crate::auth::guarded_http::GuardedHttp;
use crate::auth::issuer::Issuer;
use crate::auth::record::{Login, LoginRecord};
use crate::auth::target::AuthTarget;

/// The deadline for revoking a token.
pub(super) const REVOCATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Revokes the refresh token, which ends the access token too, or else the access token.
pub(super) async fn revoke(target: &Arc<AuthTarget>, login: &Login, record: &LoginRecord) -> bool {
    let Ok(issuer) = Issuer::discover(&target.url, &target.routes, None, false).await else {
        return false;
    };
    let (Some(endpoint), true) = (issuer.revocation(), issuer.id == login.issuer) else {
        return false;
    };
    let registered = record
        .registrations
        .get(&login.issuer)
        .and_then(|who| who.client_secret.as_ref());
    // The configured secret belongs to the configured client id.
    let is_own = target.auth.client_id.as_ref() == Some(&login.client_id);
    let secret = registered.or(target.auth.client_secret.as_ref().filter(|_| is_own));
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
    // The endpoint comes from metadata, so the request is guarded.
    let guarded = GuardedHttp::new(&target.url, REVOCATION_TIMEOUT, &target.routes);
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
