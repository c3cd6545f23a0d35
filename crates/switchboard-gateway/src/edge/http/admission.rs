//! Which requests are admitted: only those for a host of ours, from no foreign web page, with a
//! client's token.
//!
//! A web page that a browser shows can send requests to this machine. It cannot choose `Host` and
//! `Origin`, so both are compared before anything else, on every path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};

use crate::principal::Principal;
use crate::refusal::RefusalReason;
use crate::tokens::ClientTokens;

/// The rules of admission.
#[derive(Debug)]
pub(super) struct Admission {
    tokens: ClientTokens,
    /// Whether only this machine can connect, so that its names are ours.
    is_loopback: bool,
    /// Further names of ours, in lower case, without a port.
    hosts: Vec<String>,
    /// Further origins whose pages may send requests.
    origins: Vec<String>,
}

impl Admission {
    pub(super) fn new(
        tokens: ClientTokens,
        address: IpAddr,
        hosts: &[String],
        origins: &[String],
    ) -> Self {
        Self {
            tokens,
            is_loopback: address.is_loopback(),
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            origins: origins.to_vec(),
        }
    }

    /// Refuses a request for another host, or from a foreign page.
    pub(super) fn check_source(&self, headers: &HeaderMap) -> Result<(), RefusalReason> {
        let is_ours = single(headers, &HOST).is_some_and(|host| self.is_our_host(host));
        if !is_ours {
            return Err(RefusalReason::ForeignHost);
        }
        if headers.contains_key(ORIGIN) {
            let is_ours = single(headers, &ORIGIN).is_some_and(|origin| self.is_our_origin(origin));
            if !is_ours {
                return Err(RefusalReason::ForeignOrigin);
            }
        }
        Ok(())
    }

    /// The client whose token the request carries.
    pub(super) fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, RefusalReason> {
        if !headers.contains_key(AUTHORIZATION) {
            return Err(RefusalReason::MissingToken);
        }
        let (scheme, token) = single(headers, &AUTHORIZATION)
            .and_then(|value| value.split_once(' '))
            .ok_or(RefusalReason::WrongToken)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(RefusalReason::WrongToken);
        }
        let client = self.tokens.client_of(token.trim());
        client
            .map(|client| Principal::new(&client))
            .ok_or(RefusalReason::WrongToken)
    }

    fn is_our_host(&self, host: &str) -> bool {
        let name = without_port(host);
        (self.is_loopback && is_loopback_name(name))
            || self
                .hosts
                .iter()
                .any(|ours| name.eq_ignore_ascii_case(ours))
    }

    fn is_our_origin(&self, origin: &str) -> bool {
        let host = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| self.is_our_host(host))
            || self.origins.iter().any(|allowed| allowed == origin)
    }
}

/// The value of a header that occurs once and is text.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name
        }
        _ => host,
    }
}

/// Whether a name always means this machine. Names below `localhost` do not: some resolvers ask the
/// network for them.
fn is_loopback_name(name: &str) -> bool {
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bracketed = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    match bracketed {
        Some(name) => name
            .parse()
            .is_ok_and(|address: Ipv6Addr| address.is_loopback()),
        None => name
            .parse()
            .is_ok_and(|address: Ipv4Addr| address.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn admission(address: &str) -> Admission {
        let folder = std::path::Path::new("/nonexistent");
        Admission::new(
            ClientTokens::new(folder),
            address.parse().unwrap(),
            &["Gateway.example".to_owned()],
            &["https://page.example".to_owned()],
        )
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    /// T20: only our own names and our own pages, each given once.
    #[test]
    fn t20_foreign_hosts_and_origins_are_refused() {
        use RefusalReason::{ForeignHost, ForeignOrigin};
        for (pairs, expected) in [
            (&[("host", "127.0.0.1:8808")][..], Ok(())),
            (&[("host", "localhost")], Ok(())),
            (&[("host", "LOCALHOST:1")], Ok(())),
            (&[("host", "[::1]:8808")], Ok(())),
            (&[("host", "gateway.example:443")], Ok(())),
            (&[], Err(ForeignHost)),
            (&[("host", "evil.example")], Err(ForeignHost)),
            (&[("host", "127.0.0.1.evil.example:8808")], Err(ForeignHost)),
            (&[("host", "a.localhost")], Err(ForeignHost)),
            (&[("host", "192.168.1.2")], Err(ForeignHost)),
            (
                &[("host", "localhost"), ("host", "localhost")],
                Err(ForeignHost),
            ),
            (
                &[("host", "localhost"), ("origin", "http://localhost:5173")],
                Ok(()),
            ),
            (
                &[("host", "localhost"), ("origin", "https://page.example")],
                Ok(()),
            ),
            (
                &[("host", "localhost"), ("origin", "http://page.example")],
                Err(ForeignOrigin),
            ),
            (
                &[("host", "localhost"), ("origin", "null")],
                Err(ForeignOrigin),
            ),
            (&[("host", "localhost"), ("origin", "")], Err(ForeignOrigin)),
            (
                &[("host", "localhost"), ("origin", "http://evil.example")],
                Err(ForeignOrigin),
            ),
            (
                &[
                    ("host", "localhost"),
                    ("origin", "http://localhost@evil.example"),
                ],
                Err(ForeignOrigin),
            ),
            (
                &[
                    ("host", "localhost"),
                    ("origin", "http://localhost"),
                    ("origin", "http://localhost"),
                ],
                Err(ForeignOrigin),
            ),
        ] {
            let checked = admission("127.0.0.1").check_source(&headers(pairs));
            assert_eq!(checked, expected, "{pairs:?}");
        }
        // For an address on the network, local names prove nothing.
        let network = admission("0.0.0.0");
        assert_eq!(
            network.check_source(&headers(&[("host", "localhost")])),
            Err(ForeignHost)
        );
        assert_eq!(
            network.check_source(&headers(&[("host", "gateway.example")])),
            Ok(())
        );
    }

    /// T19: a token is needed, and it must be one of ours.
    #[test]
    fn t19_a_missing_token_and_a_wrong_one_are_refused() {
        for (pairs, expected) in [
            (&[][..], RefusalReason::MissingToken),
            (
                &[("authorization", "Bearer CANARY")],
                RefusalReason::WrongToken,
            ),
            (
                &[("authorization", "Basic CANARY")],
                RefusalReason::WrongToken,
            ),
            (&[("authorization", "CANARY")], RefusalReason::WrongToken),
            (
                &[("authorization", "Bearer a"), ("authorization", "Bearer b")],
                RefusalReason::WrongToken,
            ),
        ] {
            let authenticated = admission("127.0.0.1").authenticate(&headers(pairs));
            assert_eq!(authenticated, Err(expected), "{pairs:?}");
        }
    }
}
