//! Which addresses a login may open or send a secret to: https, and http to this machine only.

use std::net::IpAddr;

use url::{Host, Url};

/// Parses an address that a browser may open. Open the returned URL, never the original text.
pub fn parse_page_url(address: &str) -> Result<Url, &'static str> {
    if address
        .chars()
        .any(|character| character.is_control() || character.is_whitespace())
    {
        return Err("the address has spaces or control characters");
    }
    let page = Url::parse(address).map_err(|_| "it is not a URL")?;
    if !page.username().is_empty() || page.password().is_some() {
        return Err("the address contains a user name, which can disguise the host");
    }
    match (page.scheme(), page.host()) {
        (_, None) => Err("the address names no host"),
        ("https", Some(_)) => Ok(page),
        ("http", Some(host)) if is_this_machine(&host) => Ok(page),
        ("http", Some(_)) => Err("only https is allowed (http only for this machine)"),
        _ => Err("only https is allowed"),
    }
}

/// Whether a host is this machine by its name or address.
pub(super) fn is_this_machine(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => IpAddr::V4(*address).is_loopback(),
        Host::Ipv6(address) => IpAddr::V6(*address).is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t16_t31_only_https_and_this_machine_are_opened() {
        let check = |address: &str, good: bool| {
            assert_eq!(parse_page_url(address).is_ok(), good, "{address}")
        };
        check("https://example.com/a?b=c", true);
        check("http://localhost:8080/", true);
        check("http://127.0.0.1/", true);
        check("http://[::1]:9/", true);
        check("http://example.com/", false);
        check("http://localhost.example.com/", false);
        check("http://10.0.0.1/", false);
        check("https://good.com@evil.com/", false);
        check("javascript:alert(1)", false);
        check("file:///etc/passwd", false);
        check("https://", false);
        check("https://a b/", false);
        check("https://x/\u{1b}[2J", false);
        check("https://x/\n--new-window", false);
        check("--upload-pack=x", false);
        check("smb://x/y", false);
    }

    #[test]
    fn t16_the_opened_url_is_the_normalized_one() {
        let written =
            parse_page_url("HTTPS://Example.com/$(touch)`id`\"'|calc").map(|page| page.to_string());
        assert_eq!(
            written.as_deref(),
            Ok("https://example.com/$(touch)%60id%60%22'|calc")
        );
    }
}
