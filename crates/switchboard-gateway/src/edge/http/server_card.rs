//! Server cards (SEP-2127): what a client may read before it connects. They are served only if the
//! gateway has a public address. Anybody may read the card of `/mcp`, which names no server; that of
//! `/mcp/NAME` needs a client's token, so that nobody else learns which servers there are.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};
use switchboard::revision::Revision;
use url::Url;

use super::connection::ServedConnection;
use super::{HttpBody, HttpState, response};
use crate::path_segment;
use crate::settings::ServerSelection;

const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";
const MEDIA_TYPE: &str = "application/mcp-server-card+json";

/// The end of a card's path, after that of its endpoint.
const SUFFIX: &str = "/server-card";

/// Where clients reach the gateway from outside, such as `https://mcp.example.com`: an address
/// without query, to which `/mcp` is appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(Url);

impl PublicUrl {
    /// The host name, which is one of ours.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The address of all servers, or of one.
    fn endpoint(&self, server: Option<&str>) -> String {
        let base = self.0.as_str().trim_end_matches('/');
        match server {
            Some(server) => format!("{base}/mcp/{}", path_segment::encode(server)),
            None => format!("{base}/mcp"),
        }
    }

    /// The name of a card: the host in reverse, a slash, and this word.
    fn card_name(&self, word: &str) -> String {
        let labels: Vec<_> = self.host().trim_matches(['[', ']']).rsplit('.').collect();
        let allowed = |other: &[char], text: &str| -> String {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || other.contains(&c);
            let text = text.chars();
            text.map(|c| if is_allowed(c) { c } else { '-' }).collect()
        };
        let namespace = allowed(&['.', '-'], &labels.join("."));
        format!("{namespace}/{}", allowed(&['.', '_', '-'], word))
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected an address such as https://mcp.example.com";
        let url = Url::parse(text).map_err(|error| format!("{error}; {EXPECTED}"))?;
        let is_plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        match is_plain {
            true => Ok(Self(url)),
            false => Err(format!("not a plain http or https address; {EXPECTED}")),
        }
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// The server whose card a path is: an empty name is that of all servers.
pub(super) fn server_of_path(path: &str) -> Option<&str> {
    let endpoint = path.strip_suffix(SUFFIX)?.strip_prefix("/mcp")?;
    match endpoint.strip_prefix('/') {
        Some(name) => Some(name),
        None => endpoint.is_empty().then_some(""),
    }
}

/// Whether the path is that of the card that anybody may read, from a web page of any origin too.
pub(super) fn is_public(state: &HttpState, path: &str) -> bool {
    state.public_url.is_some() && server_of_path(path) == Some("")
}

/// The card of a server. Without a public address, or a token where one is needed, there is none.
pub(super) fn respond(
    state: &Arc<HttpState>,
    connection: &ServedConnection,
    request: &Parts,
    server: &str,
) -> Response<HttpBody> {
    let none = || response::not_found("there is no server card at this address");
    let Some(public_url) = &state.public_url else {
        return none();
    };
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return response::method_not_allowed("GET");
    }
    if server.is_empty() {
        return card(public_url, None);
    }
    if let Err(reason) = connection.authenticate(state, &request.headers, None, Instant::now()) {
        state.refused(reason, connection.peer, None, request.uri.path());
        return none();
    }
    match state.selection(server) {
        Some(ServerSelection::One(name)) => card(public_url, Some(name.as_str())),
        _ => none(),
    }
}

fn card(public_url: &PublicUrl, server: Option<&str>) -> Response<HttpBody> {
    let text = document(public_url, server).to_string();
    let mut response = response::json(StatusCode::OK, text.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    let cached = match server {
        Some(_) => "private, no-store",
        None => {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            "public, max-age=3600"
        }
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cached));
    response
}

fn document(public_url: &PublicUrl, server: Option<&str>) -> Value {
    let versions = Revision::MODERN.iter().chain(&Revision::LEGACY);
    let versions: Vec<_> = versions.map(|revision| revision.as_str()).collect();
    let description = match server {
        Some(_) => "One MCP server behind a gateway, under its own names",
        None => "All MCP servers of a gateway as one",
    };
    json!({
        "$schema": SCHEMA,
        "name": public_url.card_name(server.unwrap_or(crate::SERVER_NAME)),
        "version": env!("CARGO_PKG_VERSION"),
        "description": description,
        "remotes": [{
            "type": "streamable-http",
            "url": public_url.endpoint(server),
            "supportedProtocolVersions": versions,
            "headers": [{
                "name": "Authorization",
                "description": "`Bearer` and the token that the gateway's operator has made for the client",
                "isRequired": true,
                "isSecret": true,
            }],
        }],
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_cards_name_is_the_host_in_reverse_and_a_word() {
        let check = |url: &str, word: &str, expected: &str| {
            let url: PublicUrl = url.parse().unwrap();
            assert_eq!(url.card_name(word), expected);
        };
        check("https://mcp.example.com", "git", "com.example.mcp/git");
        check("http://localhost:8808/", "my git", "localhost/my-git");
        check("https://[::1]/x", "a/b", "--1/a-b");
    }

    #[test]
    fn an_address_with_more_than_a_path_is_refused() {
        for text in [
            "mcp.example.com",
            "ftp://example.com",
            "https://user@example.com",
            "https://example.com/?a",
            "https://example.com/#a",
        ] {
            assert!(text.parse::<PublicUrl>().is_err(), "{text}");
        }
        let below: PublicUrl = "https://example.com/tools/".parse().unwrap();
        assert_eq!(
            below.endpoint(Some("git")),
            "https://example.com/tools/mcp/git"
        );
        assert_eq!(below.endpoint(None), "https://example.com/tools/mcp");
        assert_eq!(
            below.endpoint(Some("my files")),
            "https://example.com/tools/mcp/my%20files"
        );
    }

    #[test]
    fn the_path_of_a_card_is_that_of_its_endpoint_and_a_suffix() {
        let check = |path, expected| assert_eq!(server_of_path(path), expected, "{path}");
        check("/mcp/server-card", Some(""));
        check("/mcp/git/server-card", Some("git"));
        check("/mcp", None);
        check("/mcp/git", None);
        check("/mcpx/server-card", None);
        check("/sse/server-card", None);
    }
}
