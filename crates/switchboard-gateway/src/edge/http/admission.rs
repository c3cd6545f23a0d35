//! Which requests are admitted: only those for a host of ours, from no foreign web page, with a
//! client's token.
//!
//! A web page that a browser shows can send requests to this machine. It cannot choose `Host` and
//! `Origin`, so both are compared before anything else, on every path. Only the public server card is
//! for pages of any origin.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Uri};

use super::connection::HeadNumber;
use super::connections::ConnectionPlace;
use crate::principal::Principal;
use crate::refusal::RefusalReason;
use crate::tokens::{ClientTokens, TokenGeneration};

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

/// The `Authorization` that a connection's last request carried, and whose it was. A connection
/// sends the same again and again: hashing it for each request would take 1,000 instructions.
#[derive(Clone)]
pub(super) struct CheckedToken {
    /// The head of that request.
    head_number: Option<HeadNumber>,
    authorization: Box<[u8]>,
    client: Principal,
    generation: TokenGeneration,
}

impl CheckedToken {
    /// Takes the same time whatever was given: another client may share the connection of a proxy.
    fn is_same(&self, authorization: &[u8]) -> bool {
        let pairs = self.authorization.iter().zip(authorization);
        let difference = pairs.fold(0, |difference, (known, given)| difference | (known ^ given));
        self.authorization.len() == authorization.len() && std::hint::black_box(difference) == 0
    }
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
        self.check_host(headers)?;
        if headers.contains_key(ORIGIN) {
            let is_ours = single(headers, &ORIGIN).is_some_and(|origin| self.is_our_origin(origin));
            if !is_ours {
                return Err(RefusalReason::ForeignOrigin);
            }
        }
        Ok(())
    }

    /// The origin of the web page that sent a request, if it is one whose pages were allowed to. The
    /// browser lets the page read a response only if its headers name the origin.
    pub(super) fn allowed_page<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        if self.origins.is_empty() {
            return None;
        }
        let origin = single(headers, &ORIGIN)?;
        let is_allowed = self.origins.iter().any(|allowed| allowed == origin);
        is_allowed.then(|| headers.get(ORIGIN)).flatten()
    }

    /// Refuses a request for another host.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), RefusalReason> {
        match single(headers, &HOST) {
            Some(host) if self.is_our_host(host) => Ok(()),
            _ => Err(RefusalReason::ForeignHost),
        }
    }

    /// Refuses a target in absolute form for another host: such a host counts instead of `Host`.
    pub(super) fn check_target(&self, target: &Uri) -> Result<(), RefusalReason> {
        match target.authority() {
            Some(host) if !self.is_our_host(host.as_str()) => Err(RefusalReason::ForeignHost),
            _ => Ok(()),
        }
    }

    /// The client whose token the request carries. `checked` and `place` are those of the connection.
    pub(super) fn authenticate(
        &self,
        headers: &HeaderMap,
        head_number: Option<HeadNumber>,
        now: Instant,
        checked: &mut Option<CheckedToken>,
        place: &ConnectionPlace,
    ) -> Result<Principal, RefusalReason> {
        // Before the token is looked up: one that is revoked meanwhile has an old generation.
        let generation = self.tokens.generation(now);
        if let Some(known) = checked
            && known.generation == generation
            && head_number.is_some()
            && known.head_number == head_number
        {
            return Ok(known.client.clone());
        }
        if !headers.contains_key(AUTHORIZATION) {
            return Err(RefusalReason::MissingToken);
        }
        let authorization = single(headers, &AUTHORIZATION).ok_or(RefusalReason::WrongToken)?;
        if let Some(known) = checked
            && known.generation == generation
            && known.is_same(authorization.as_bytes())
        {
            known.head_number = head_number;
            return Ok(known.client.clone());
        }
        let client = self
            .client_of(authorization)
            .ok_or(RefusalReason::WrongToken)?;
        place.set_client(&client)?;
        *checked = Some(CheckedToken {
            head_number,
            authorization: authorization.as_bytes().into(),
            client: client.clone(),
            generation,
        });
        Ok(client)
    }

    /// Whether the token of an earlier request was not revoked since.
    pub(super) fn is_still_valid(&self, checked: &mut CheckedToken) -> bool {
        let generation = self.tokens.generation(Instant::now());
        if checked.generation == generation {
            return true;
        }
        let authorization = std::str::from_utf8(&checked.authorization);
        let client = authorization.ok().and_then(|text| self.client_of(text));
        let is_valid = client.as_ref() == Some(&checked.client);
        if is_valid {
            checked.generation = generation;
        }
        is_valid
    }

    fn client_of(&self, authorization: &str) -> Option<Principal> {
        let (scheme, token) = authorization.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        self.tokens.client_of(token.trim())
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
        for (target, expected) in [
            ("/mcp", Ok(())),
            ("http://localhost:8808/mcp", Ok(())),
            ("http://evil.example/mcp", Err(ForeignHost)),
            ("http://localhost@evil.example/mcp", Err(ForeignHost)),
        ] {
            let checked = admission("127.0.0.1").check_target(&target.parse().unwrap());
            assert_eq!(checked, expected, "{target}");
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
            let authenticated = admission("127.0.0.1").authenticate(
                &headers(pairs),
                None,
                Instant::now(),
                &mut None,
                &ConnectionPlace::alone(),
            );
            assert_eq!(authenticated, Err(expected), "{pairs:?}");
        }
    }

    /// T19: a token that its connection was admitted with is refused once it is revoked, and no
    /// other token is taken for it.
    #[test]
    fn t19_a_connection_is_no_longer_admitted_when_its_token_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = ClientTokens::new(folder.path());
        let (token, other) = (
            tokens.create("codex").unwrap(),
            tokens.create("gemini").unwrap(),
        );
        let admission = Admission::new(tokens, [127, 0, 0, 1].into(), &[], &[]);
        let (mut checked, place) = (None, ConnectionPlace::alone());
        // Each head is sent twice: the second time its headers are not read.
        let mut head_number = HeadNumber::default();
        let mut client = |authorization: &str| {
            head_number = head_number.next();
            let headers = headers(&[("authorization", authorization)]);
            let [first, second] = [0; 2].map(|_| {
                let number = Some(head_number);
                admission.authenticate(&headers, number, Instant::now(), &mut checked, &place)
            });
            assert_eq!(first, second);
            first
        };
        let (token, other) = (format!("Bearer {token}"), format!("Bearer {other}"));
        for _ in 0..2 {
            assert_eq!(client(&token), Ok(Principal::new("codex")));
        }
        let longer = format!("{token}x");
        for wrong in [&longer, &token[..token.len() - 1], "Bearer", ""] {
            assert_eq!(client(wrong), Err(RefusalReason::WrongToken), "{wrong:?}");
        }
        assert_eq!(client(&other), Ok(Principal::new("gemini")));
        assert_eq!(client(&token), Ok(Principal::new("codex")));
        let elsewhere = ClientTokens::new(folder.path());
        elsewhere.revoke("codex").unwrap();
        admission.tokens.expire();
        assert_eq!(client(&token), Err(RefusalReason::WrongToken));
        assert_eq!(client(&other), Ok(Principal::new("gemini")));

        let repeated = Some(head_number);
        let mut again = || {
            let none = HeaderMap::new();
            admission.authenticate(&none, repeated, Instant::now(), &mut checked, &place)
        };
        assert_eq!(again(), Ok(Principal::new("gemini")));
        elsewhere.revoke("gemini").unwrap();
        admission.tokens.expire();
        assert_eq!(again(), Err(RefusalReason::MissingToken));
    }
}
