//! Metadata of servers of 2025-03-26 that are their own authorization server: it is published at
//! the root of their origin.
//!
//! That revision had no protected resource metadata, and its servers may name an issuer with a path
//! there, which RFC 8414 forbids. The document is trusted only if no newer metadata is published
//! and everything it names is within the server's own origin, so that no other party can be
//! impersonated.

use std::time::Duration;

use reqwest::Method;
use rmcp::transport::auth::AuthorizationMetadata;
use url::Url;

use super::guarded_http::{GuardedHttp, ProxyRoutes};

/// The deadline for one document.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(10);

/// The longest document that is read.
const MAX_BYTES: usize = 256 * 1024;

/// Fetches the metadata, if the server is of that kind.
pub(super) async fn metadata(
    server: &Url,
    challenge: Option<&str>,
    routes: &ProxyRoutes,
) -> Option<AuthorizationMetadata> {
    if challenge.is_some_and(|challenge| challenge.contains("resource_metadata")) {
        return None;
    }
    let guarded = GuardedHttp::new(server, CONNECTION_DEADLINE, routes).ok()?;
    let get = async |path: &str| guarded.request(Method::GET, at(server, path)).await;
    for path in resource_metadata_paths(server) {
        // A failed request does not prove that nothing newer is published.
        if get(&path).await?.send().await.ok()?.status().is_success() {
            return None;
        }
    }
    let mut answer = get("/.well-known/oauth-authorization-server")
        .await?
        .send()
        .await
        .ok()?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            return None;
        }
    }
    trusted_metadata(server, &body)
}

/// Parses the document, and rejects it if it names anything outside the server's own origin.
pub(super) fn trusted_metadata(server: &Url, document: &[u8]) -> Option<AuthorizationMetadata> {
    let metadata: AuthorizationMetadata = serde_json::from_slice(document).ok()?;
    stays_within_origin(server, &metadata).then_some(metadata)
}

/// The well-known paths of protected resource metadata.
fn resource_metadata_paths(server: &Url) -> Vec<String> {
    const NAME: &str = "/.well-known/oauth-protected-resource";
    match server.path().trim_end_matches('/') {
        "" => vec![NAME.to_owned()],
        path => vec![
            format!("{NAME}{path}"),
            format!("{path}{NAME}"),
            NAME.to_owned(),
        ],
    }
}

fn stays_within_origin(server: &Url, metadata: &AuthorizationMetadata) -> bool {
    let named = [
        metadata.issuer.as_ref(),
        Some(&metadata.authorization_endpoint),
        Some(&metadata.token_endpoint),
    ];
    let optional = metadata.registration_endpoint.iter();
    let is_ours = |address: &str| {
        Url::parse(address).is_ok_and(|address| address.origin() == server.origin())
    };
    // A logout sends the refresh token there.
    let revocation = metadata.additional_fields.get("revocation_endpoint");
    named
        .into_iter()
        .all(|address| address.is_some_and(|address| is_ours(address)))
        && optional.into_iter().all(|address| is_ours(address))
        && revocation.is_none_or(|address| address.as_str().is_some_and(is_ours))
}

fn at(server: &Url, path: &str) -> Url {
    let mut url = server.clone();
    url.set_path(path);
    url.set_query(None);
    url
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn t18_metadata_that_leaves_the_servers_origin_is_not_trusted() {
        let server = Url::parse("https://x.example/mcp").unwrap();
        let check = |issuer: &str, token: &str, expected: bool| {
            let document = serde_json::json!({
                "issuer": issuer, "authorization_endpoint": "https://x.example/oauth/authorize", "token_endpoint": token,
            });
            assert_eq!(
                stays_within_origin(&server, &serde_json::from_value(document).unwrap()),
                expected,
                "{issuer} {token}"
            );
        };
        check(
            "https://x.example/oauth",
            "https://x.example/oauth/token",
            true,
        );
        check(
            "https://y.example/oauth",
            "https://x.example/oauth/token",
            false,
        );
        check("https://x.example/oauth", "https://y.example/token", false);
        check(
            "http://x.example/oauth",
            "https://x.example/oauth/token",
            false,
        );
        check("oauth", "https://x.example/oauth/token", false);
    }

    /// A logout sends the refresh token and the client's secret there.
    #[test]
    fn t18_metadata_with_a_revocation_endpoint_of_another_origin_is_not_trusted() {
        let server = Url::parse("https://x.example/mcp").unwrap();
        for (endpoint, expected) in [
            (serde_json::json!("https://x.example/revoke"), true),
            (serde_json::json!("https://y.example/revoke"), false),
            (serde_json::json!(7), false),
        ] {
            let document = serde_json::json!({
                "issuer": "https://x.example/oauth",
                "authorization_endpoint": "https://x.example/oauth/authorize",
                "token_endpoint": "https://x.example/oauth/token",
                "revocation_endpoint": endpoint,
            });
            let metadata = serde_json::from_value(document).unwrap();
            assert_eq!(
                stays_within_origin(&server, &metadata),
                expected,
                "{endpoint}"
            );
        }
    }

    #[test]
    fn newer_metadata_takes_precedence() {
        let paths = |url: &str| resource_metadata_paths(&Url::parse(url).unwrap());
        assert_eq!(
            paths("https://x.example/"),
            ["/.well-known/oauth-protected-resource"]
        );
        let expected = [
            "/.well-known/oauth-protected-resource/a/mcp",
            "/a/mcp/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource",
        ];
        assert_eq!(paths("https://x.example/a/mcp/"), expected);
    }
}
