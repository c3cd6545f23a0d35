//! Servers of 2025-03-26 that are their own authorization server: their metadata stands at the root
//! of their origin.
//!
//! That revision knew no metadata of the protected resource, and its servers may name an issuer
//! with a path there, which RFC 8414 does not permit. It is believed only if nothing newer is
//! published and everything it names stays within the server's own origin: then there is nobody it
//! could be mixed up with.

use std::time::Duration;

use reqwest::Method;
use rmcp::transport::auth::AuthorizationMetadata;
use url::Url;

use super::guarded::{Guarded, Routes};

/// How long one document may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest document that is read.
const MAX_BYTES: usize = 256 * 1024;

/// What such a server publishes, if it is one.
pub(super) async fn metadata(
    server: &Url,
    challenge: Option<&str>,
    routes: &Routes,
) -> Option<AuthorizationMetadata> {
    if challenge.is_some_and(|challenge| challenge.contains("resource_metadata")) {
        return None;
    }
    let guarded = Guarded::new(server, PATIENCE, routes).ok()?;
    let get = async |path: &str| guarded.request(Method::GET, at(server, path)).await;
    for path in newer_paths(server) {
        // One that cannot be asked may have one.
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
    believed(server, &body)
}

/// The document, if it is metadata that names nothing outside of the server's own origin.
pub(super) fn believed(server: &Url, document: &[u8]) -> Option<AuthorizationMetadata> {
    let metadata: AuthorizationMetadata = serde_json::from_slice(document).ok()?;
    stays_within(server, &metadata).then_some(metadata)
}

/// Where the metadata of a protected resource would stand.
fn newer_paths(server: &Url) -> Vec<String> {
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

fn stays_within(server: &Url, metadata: &AuthorizationMetadata) -> bool {
    let named = [
        metadata.issuer.as_ref(),
        Some(&metadata.authorization_endpoint),
        Some(&metadata.token_endpoint),
    ];
    let optional = metadata.registration_endpoint.iter();
    let is_ours = |address: &String| {
        Url::parse(address).is_ok_and(|address| address.origin() == server.origin())
    };
    named
        .into_iter()
        .all(|address| address.is_some_and(is_ours))
        && optional.into_iter().all(is_ours)
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
    fn t18_what_leaves_the_servers_origin_is_not_believed() {
        let server = Url::parse("https://x.example/mcp").unwrap();
        let check = |issuer: &str, token: &str, expected: bool| {
            let document = serde_json::json!({
                "issuer": issuer, "authorization_endpoint": "https://x.example/oauth/authorize", "token_endpoint": token,
            });
            assert_eq!(
                stays_within(&server, &serde_json::from_value(document).unwrap()),
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

    #[test]
    fn newer_metadata_is_looked_for_first() {
        let paths = |url: &str| newer_paths(&Url::parse(url).unwrap());
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
