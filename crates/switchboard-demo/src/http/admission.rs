//! Whether a request is admitted: no foreign web page, and only with the token if one is set.

use std::net::SocketAddr;

use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};

use super::{HttpOptions, Response, refuse};
use crate::rpc::Fault;

/// The checks before a request is handled.
#[derive(Debug)]
pub(super) struct Admission {
    token: Option<Token>,
    origins: Vec<String>,
    /// Whether only this machine can connect, so that a foreign host name means DNS rebinding.
    is_local: bool,
}

/// The digest of a token: comparing digests takes the same time whatever was given, and there is
/// nothing to print.
#[derive(Debug)]
struct Token(blake3::Hash);

impl Admission {
    pub(super) fn new(options: &HttpOptions, address: SocketAddr) -> Self {
        Self {
            token: options
                .token
                .as_ref()
                .map(|token| Token(blake3::hash(token.as_bytes()))),
            origins: options.origins.clone(),
            is_local: address.ip().is_loopback(),
        }
    }

    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Response> {
        let is_foreign = headers
            .get(header::ORIGIN)
            .is_some_and(|origin| !self.allows_origin(origin));
        let is_misnamed = self.is_local
            && headers
                .get(header::HOST)
                .is_some_and(|host| !names_this_machine(host.to_str().unwrap_or("")));
        if is_foreign || is_misnamed {
            return Err(refuse(
                StatusCode::FORBIDDEN,
                &Fault::edge(-32000, "this origin or host is not allowed"),
            ));
        }
        let Some(Token(expected)) = &self.token else {
            return Ok(());
        };
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let given = given
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let challenge = match given {
            Some((_, token)) if blake3::hash(token.trim().as_bytes()) == *expected => return Ok(()),
            Some(_) => r#"Bearer realm="switchboard-demo", error="invalid_token""#,
            None => r#"Bearer realm="switchboard-demo""#,
        };
        let mut refusal = refuse(
            StatusCode::UNAUTHORIZED,
            &Fault::edge(-32000, "a bearer token is required"),
        );
        refusal.headers_mut().insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static(challenge),
        );
        Err(refusal)
    }

    fn allows_origin(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        let host = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(names_this_machine) || self.origins.iter().any(|allowed| allowed == origin)
    }
}

/// Whether `host` or `host:port` names this machine.
fn names_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost")
        || name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .is_some_and(|name| name == "::1")
        || name
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_host_names_are_accepted() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:80", true),
            ("127.0.0.1:8080", true),
            ("127.8.9.1", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("", false),
            ("localhost.evil.example", false),
            ("evil.example:80", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(names_this_machine(host), expected, "{host}");
        }
    }
}
