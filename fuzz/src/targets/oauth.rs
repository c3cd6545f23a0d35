//! Input from an authorization server or on the callback port: metadata outside the server's origin
//! is rejected, and so is a callback without the right state.

use switchboard::auth::parse_page_url;
use switchboard::fuzzing::{read_callback, read_challenge, trusted_metadata_addresses};
use url::Url;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "oauth",
    seeds: &[
        r#"{"issuer":"https://x.example","authorization_endpoint":"https://x.example/a","token_endpoint":"https://x.example/t"}"#,
        r#"{"issuer":"https://x.example/","authorization_endpoint":"https://y.example/a","token_endpoint":"https://x.example/t","registration_endpoint":"https://x.example/r","scopes_supported":["a"],"code_challenge_methods_supported":["S256"]}"#,
        "Bearer realm=\"x\", resource_metadata=\"https://x.example/.well-known/oauth-protected-resource\", scope=\"a b\", error=\"insufficient_scope\"",
        "GET /callback?code=c&state=right&iss=https%3A%2F%2Fx.example HTTP/1.1\r\nHost: 127.0.0.1:7\r\n\r\n",
        "GET /callback?error=access_denied&error_description=no&state=right HTTP/1.1\r\nhost:127.0.0.1:7\r\n\r\n",
        "https://user@x.example:443/a?b=c#d",
    ],
    words: &[
        "https://",
        "http://",
        "@",
        "x.example",
        "y.example",
        "\\",
        "%2f",
        "%00",
        "\"",
        ",",
        "state=right",
        "state=",
        "code=c",
        "&",
        "iss=",
        "Bearer ",
        "scope=",
        "Host: 127.0.0.1:7\r\n",
        "\r\n",
        "\"issuer\":",
        "null",
        "[::1]",
        "xn--",
        "..",
        "//",
    ],
    check,
};

fn check(input: &[u8]) {
    let server = Url::parse("https://x.example/mcp").expect("a good address");
    for named in trusted_metadata_addresses(&server, input).unwrap_or_default() {
        assert_eq!(
            Url::parse(&named).map(|url| url.origin()),
            Ok(server.origin()),
            "{named}"
        );
    }
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    for scope in read_challenge(text, &server) {
        assert!(
            !scope.is_empty() && !scope.contains(char::is_whitespace),
            "{scope:?}"
        );
    }
    let answer = |state| read_callback(text, "http://127.0.0.1:7/callback", state);
    if let Some(code) = answer("right") {
        assert!(
            !code.is_empty() && text.starts_with("GET /callback?"),
            "{code:?}"
        );
        assert_eq!(answer("other"), None, "a callback is valid for two logins");
    }
    if let Ok(page) = parse_page_url(text) {
        assert!(
            page.username().is_empty() && page.password().is_none() && page.has_host(),
            "{page}"
        );
        assert!(
            page.scheme() == "https" || page.scheme() == "http" && is_this_machine(&page),
            "{page}"
        );
    }
}

fn is_this_machine(page: &Url) -> bool {
    match page.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
