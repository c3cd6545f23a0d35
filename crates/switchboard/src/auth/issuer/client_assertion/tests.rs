//! Where client assertions may be sent, and what they say.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn a_token_endpoint_is_reached_over_https_or_on_this_machine() {
    let check = |resource: &str, endpoint: &str, expected| {
        let parse = |url: &str| Url::parse(url).unwrap();
        assert_eq!(
            is_safe_endpoint(&parse(resource), &parse(endpoint)),
            expected,
            "{resource} {endpoint}"
        );
    };
    check("https://a.example/mcp", "https://b.example/token", true);
    check("http://127.0.0.1:1/mcp", "http://localhost:2/token", true);
    check("http://[::1]/mcp", "http://as.localhost/token", true);
    check("https://a.example/mcp", "http://b.example/token", false);
    check("https://a.example/mcp", "http://127.0.0.1/token", false);
    check("http://127.0.0.1/mcp", "http://b.example/token", false);
    check("http://127.0.0.1/mcp", "ftp://127.0.0.1/token", false);
}

#[test]
fn a_refusal_is_quoted_in_the_servers_words() {
    let check = |body: Value, expected| assert_eq!(refusal(&body), expected);
    check(
        json!({ "error": "invalid_client", "error_description": "unknown key" }),
        "invalid_client: unknown key",
    );
    check(json!({ "error": "invalid_client" }), "invalid_client");
    check(
        Value::Null,
        "the authorization server refused the assertion",
    );
}
