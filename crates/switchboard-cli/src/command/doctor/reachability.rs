//! Probes an unreachable URL server, to find whether name resolution or the port fails, and suggests
//! a `curl` command.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use switchboard::Host;
use switchboard::config::{Endpoint, Environment, HttpEndpoint, resolve_url};
use switchboard::name::ServerName;
use switchboard::server::{ServerHandle, State};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::view::server::escaped;
use crate::view::{mask, table};

/// The time limit of each probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The most addresses of a name that are shown.
const SHOWN_ADDRESSES: usize = 4;

/// What the probes of each server found.
pub(super) type NetworkFacts = HashMap<ServerName, Vec<(&'static str, String)>>;

/// Probes each URL server that failed. An untrusted one was never contacted, and is not probed.
pub(super) async fn probe_servers(
    host: &Host,
    server: Option<&str>,
    environment: &Environment,
) -> NetworkFacts {
    let mut probes = JoinSet::new();
    for handle in host
        .servers()
        .iter()
        .filter(|handle| server.is_none_or(|name| name == handle.config.name.as_str()))
    {
        if let (Endpoint::Http(http), true) = (&handle.config.endpoint, is_unreachable(handle)) {
            let (name, http, environment) = (
                handle.config.name.clone(),
                http.clone(),
                environment.clone(),
            );
            probes.spawn(async move { (name, probe(&http, &environment).await) });
        }
    }
    let mut facts = NetworkFacts::new();
    while let Some(found) = probes.join_next().await {
        facts.extend(found);
    }
    facts
}

fn is_unreachable(handle: &ServerHandle) -> bool {
    matches!(
        handle.snapshot().state,
        State::Failed { .. } | State::Backoff { .. } | State::Connecting { .. }
    )
}

/// The steps up to the first that fails. TLS and HTTP faults are in the server's own error.
async fn probe(endpoint: &HttpEndpoint, environment: &Environment) -> Vec<(&'static str, String)> {
    let Ok(resolved) = resolve_url(endpoint, environment) else {
        return Vec::new();
    };
    let (Some(host), Some(port)) = (
        resolved.url.host_str(),
        resolved.url.port_or_known_default(),
    ) else {
        return Vec::new();
    };
    if let Some(variable) = proxy_variable(environment) {
        return vec![(
            "Proxy",
            format!(
                "{variable} is set; the connection beyond the proxy cannot be checked from here"
            ),
        )];
    }
    // An IPv6 address is in brackets in a URL.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match look_up(host, port).await {
        Ok((addresses, fact)) => vec![("Name", fact), ("Port", connect(&addresses, port).await)],
        Err(fact) => vec![("Name", fact)],
    }
}

/// The addresses of a name, and the fact to show.
async fn look_up(host: &str, port: u16) -> Result<(Vec<SocketAddr>, String), String> {
    let shown_host = escaped(host);
    let started_at = Instant::now();
    let addresses: Vec<SocketAddr> = match timeout(PROBE_TIMEOUT, lookup_host((host, port))).await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return Err(format!("cannot resolve {shown_host}: {error}")),
        Err(_) => {
            let seconds = PROBE_TIMEOUT.as_secs();
            return Err(format!("{shown_host} was not resolved within {seconds} s"));
        }
    };
    let shown: Vec<_> = addresses
        .iter()
        .take(SHOWN_ADDRESSES)
        .map(|address| address.ip().to_string())
        .collect();
    let fact = format!(
        "{shown_host} resolves to {} ({})",
        shown.join(", "),
        table::duration(started_at.elapsed())
    );
    Ok((addresses, fact))
}

/// Whether the port is open.
async fn connect(addresses: &[SocketAddr], port: u16) -> String {
    let started_at = Instant::now();
    match timeout(PROBE_TIMEOUT, TcpStream::connect(addresses)).await {
        Ok(Ok(_)) => format!("{port} is open ({})", table::duration(started_at.elapsed())),
        Ok(Err(error)) => format!("{port} does not answer: {error}"),
        Err(_) => format!(
            "{port} does not answer within {} s",
            PROBE_TIMEOUT.as_secs()
        ),
    }
}

/// The variable that sets a proxy, if one does.
fn proxy_variable(environment: &Environment) -> Option<&'static str> {
    [
        "https_proxy",
        "HTTPS_PROXY",
        "http_proxy",
        "HTTP_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ]
    .into_iter()
    .find(|name| {
        environment
            .get(name)
            .is_some_and(|value| !value.expose().is_empty())
    })
}

/// A `curl` command to copy; `None` if the URL may contain a secret.
pub(super) fn curl_command(url: &str) -> Option<String> {
    let hides_nothing = mask::url(url) == url && !url.contains('$');
    hides_nothing.then(|| {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        // A server may reject a request that does not accept both.
        let headers =
            "-H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream'";
        format!(
            "curl -i --max-time 10 {headers} -d '{ping}' '{}'",
            url.replace('\'', r"'\''")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curl_command_is_shown_only_for_a_url_without_secrets() {
        let check =
            |url: &str, shown: bool| assert_eq!(curl_command(url).is_some(), shown, "{url}");
        check("https://example.com/mcp", true);
        check("https://example.com/mcp?key=1", false);
        check("https://me:word@example.com/mcp", false);
        check("https://${HOST}/mcp", false);
    }

    #[tokio::test]
    async fn f24_probes_report_up_to_the_first_failing_step() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let open = listener.local_addr().expect("an address").port();
        let endpoint = |port: u16| HttpEndpoint::new(format!("http://127.0.0.1:{port}/mcp"));
        let facts = probe(&endpoint(open), &Environment::default()).await;
        assert_eq!(
            facts.iter().map(|(label, _)| *label).collect::<Vec<_>>(),
            ["Name", "Port"]
        );
        assert!(
            facts[1].1.starts_with(&format!("{open} is open")),
            "{facts:?}"
        );

        drop(listener);
        let facts = probe(&endpoint(open), &Environment::default()).await;
        assert!(
            facts[1].1.starts_with(&format!("{open} does not answer")),
            "{facts:?}"
        );

        let environment = Environment::new([("HTTPS_PROXY".to_owned(), "http://proxy".to_owned())]);
        let expected = vec![(
            "Proxy",
            "HTTPS_PROXY is set; the connection beyond the proxy cannot be checked from here"
                .to_owned(),
        )];
        assert_eq!(probe(&endpoint(open), &environment).await, expected);
    }
}
