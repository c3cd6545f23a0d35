//! One server's entry, read and checked.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::server_settings::{
    Asks, MAX_MESSAGE_BYTES, Protocol, Sharing, Start, TimeField, Timeouts,
};
use super::{Dialect, Endpoint, Source, package_runner};
use crate::name::ServerName;

/// One server, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The server's key.
    pub name: ServerName,
    /// The dialect of its file, whose profile applies to it.
    pub dialect: Dialect,
    /// Where the entry is written.
    pub source: Source,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Which protocol era to use.
    pub protocol: Protocol,
    /// When to start it.
    pub start: Start,
    /// `false`: never started, still listed.
    pub enabled: bool,
    /// `true`: no approval for any of its tools. Always `false` for a project file's entry: see
    /// `ProjectPermissions::trusted`.
    pub trust: bool,
    /// Whether the server sends requests to the caller during calls; decides whether calls of
    /// different callers may overlap.
    pub asks: Asks,
    /// Whether callers share one session.
    pub session: Sharing,
    /// The deadlines.
    pub timeouts: Timeouts,
    /// The deadline of its first start, if a package runner may have to install it and the entry
    /// sets no deadline.
    pub first_connect: Option<Duration>,
    /// The call deadline, if the entry itself sets one.
    pub written_call_timeout: Option<Duration>,
    /// If set, only tools that match one of these globs are offered.
    pub include_tools: Option<Vec<String>>,
    /// Tools that match one of these globs are not offered.
    pub exclude_tools: Vec<String>,
    /// Tools that may be called again after a lost response.
    pub idempotent_tools: Vec<String>,
    /// A description, for people.
    pub description: Option<String>,
    /// The longest line or body that is accepted.
    pub max_message_bytes: usize,
}

/// The name of the gateway's program, and of its entry in clients' files.
const OWN_NAME: &str = "switchboard";

fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

impl ServerConfig {
    /// Whether this is the gateway's own entry, as `switchboard install` writes it into the files
    /// of clients, or the same under another name. Several of these files are read here too: a
    /// gateway that used the entry would connect to itself, and `serve` would start itself
    /// endlessly. With `-c` the gateway reads another file, and its entry may be a server like any
    /// other.
    pub(crate) fn is_gateway(&self) -> bool {
        let is_our_name = self.name.as_str() == OWN_NAME;
        match &self.endpoint {
            Endpoint::Stdio(stdio) => {
                let program = Path::new(&stdio.command).file_name();
                let has = |words: &[&str]| stdio.args.iter().any(|arg| words.contains(&&**arg));
                let is_own_file = |arg: &String| {
                    arg.starts_with("-c") || arg.split('=').next() == Some("--config")
                };
                let has_own_file = stdio.args.iter().any(is_own_file);
                let is_our_program = program.is_some_and(|name| name == OWN_NAME);
                (is_our_name && has(&["attach"]))
                    || (is_our_program && !has_own_file && has(&["attach", "serve"]))
            }
            Endpoint::Http(http) => {
                let url = url::Url::parse(&http.url);
                is_our_name && url.is_ok_and(|url| is_loopback(&url) && url.path() == "/mcp")
            }
            Endpoint::Invalid(_) => false,
        }
    }

    /// Whether its URL is that of a gateway that listens at this address of this machine.
    pub(crate) fn is_gateway_at(&self, address: SocketAddr) -> bool {
        let Endpoint::Http(http) = &self.endpoint else {
            return false;
        };
        url::Url::parse(&http.url).is_ok_and(|url| {
            let is_address = match url.host() {
                Some(url::Host::Ipv4(ip)) => address.ip() == ip,
                Some(url::Host::Ipv6(ip)) => address.ip() == ip,
                _ => false,
            };
            let is_here = address.ip().is_loopback() || address.ip().is_unspecified();
            url.port_or_known_default() == Some(address.port())
                && (is_address || is_here && is_loopback(&url))
        })
    }

    /// A server with an endpoint; everything else has the default of an entry.
    pub fn new(name: ServerName, source: Source, endpoint: Endpoint) -> Self {
        let first_connect = endpoint
            .package_runner()
            .map(|_| package_runner::FIRST_START_TIMEOUT);
        Self {
            name,
            dialect: Dialect::default(),
            source,
            endpoint,
            protocol: Protocol::default(),
            start: Start::default(),
            enabled: true,
            trust: false,
            asks: Asks::default(),
            session: Sharing::default(),
            timeouts: Timeouts::default(),
            first_connect,
            written_call_timeout: None,
            include_tools: None,
            exclude_tools: Vec::new(),
            idempotent_tools: Vec::new(),
            description: None,
            max_message_bytes: MAX_MESSAGE_BYTES,
        }
    }

    /// The upper bound on connecting, which is also the upper bound on waiting for the server.
    pub fn longest_connect(&self) -> Duration {
        self.first_connect
            .unwrap_or_default()
            .max(self.timeouts.connect)
    }

    /// The field of its entry that limits a call: with `total`, the whole call; else the time
    /// between two progress notifications.
    pub fn time_field(&self, total: bool) -> TimeField {
        match self.dialect.profile().call_timeout_field {
            Some(field) => field,
            None if total => TimeField::CallTimeoutMax,
            None => TimeField::CallTimeout,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{HttpEndpoint, StdioEndpoint};

    fn server(name: &str, endpoint: Endpoint) -> ServerConfig {
        ServerConfig::new(ServerName::new(name).unwrap(), Source::code(), endpoint)
    }

    #[test]
    fn the_gateways_own_entry_is_recognised_under_any_name() {
        let launched = |name: &str, command: &str, args: &[&str]| {
            let stdio = StdioEndpoint::new(command, args.iter().copied());
            server(name, Endpoint::Stdio(stdio)).is_gateway()
        };
        assert!(launched(
            "switchboard",
            "/opt/sb",
            &["attach", "--as", "codex"]
        ));
        assert!(launched("all", "/usr/bin/switchboard", &["attach"]));
        assert!(launched("all", "switchboard", &["--debug", "attach"]));
        assert!(launched("all", "switchboard", &["serve"]));
        assert!(!launched(
            "all",
            "switchboard",
            &["-c", "other.toml", "serve"]
        ));
        assert!(!launched(
            "all",
            "switchboard",
            &["--config=o.toml", "serve"]
        ));
        assert!(!launched("all", "switchboard", &["-co.toml", "attach"]));
        assert!(!launched("all", "node", &["attach"]));
        assert!(!launched("switchboard", "node", &["server.js"]));
        let url = |name: &str, url: &str| server(name, Endpoint::Http(HttpEndpoint::new(url)));
        assert!(url("switchboard", "http://localhost:8808/mcp").is_gateway());
        assert!(!url("other", "http://localhost:8808/mcp").is_gateway());
        assert!(!url("switchboard", "https://example.com/mcp").is_gateway());
    }

    #[test]
    fn a_url_of_the_gateways_own_address_is_recognised_in_any_notation() {
        let leads_to = |url: &str, address: &str| {
            let server = server("other", Endpoint::Http(HttpEndpoint::new(url)));
            server.is_gateway_at(address.parse().unwrap())
        };
        for url in [
            "http://127.0.0.1:8808/mcp",
            "http://localhost:8808/mcp/git",
            "http://[::1]:8808/sse",
        ] {
            assert!(leads_to(url, "127.0.0.1:8808"), "{url}");
            assert!(leads_to(url, "0.0.0.0:8808"), "{url}");
        }
        assert!(leads_to("http://10.0.0.1:8808/mcp", "10.0.0.1:8808"));
        assert!(!leads_to("http://127.0.0.1:8809/mcp", "127.0.0.1:8808"));
        assert!(!leads_to("http://10.0.0.1:8808/mcp", "127.0.0.1:8808"));
        assert!(!leads_to("http://${HOST}:8808/mcp", "127.0.0.1:8808"));
    }
}
