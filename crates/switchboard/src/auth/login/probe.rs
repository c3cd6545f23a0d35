//! Probes whether a server requires a login.

use std::time::Duration;

use crate::auth::guarded_http::ProxyRoutes;
use crate::config::ResolvedUrl;
use crate::transport::TransportFault;
use crate::transport::http::connection_fault::send_fault;

/// The deadline for the response.
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// How a server responded to a request without a token.
pub(super) struct ProbeResult {
    pub(super) challenge: Option<String>,
    pub(super) is_wanted: bool,
}

/// Probes whether the server requires a login. Fails only if the server cannot be reached.
pub(super) async fn probe(
    resolved: &ResolvedUrl,
    routes: &ProxyRoutes,
) -> Result<ProbeResult, String> {
    let nothing = ProbeResult {
        challenge: None,
        is_wanted: false,
    };
    // The address is configured, and no redirect is followed.
    let Ok(sender) = routes.builder()?.timeout(PROBE_TIMEOUT).build() else {
        return Ok(nothing);
    };
    let mut request = sender
        .post(resolved.url.clone())
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    for (name, value) in &resolved.headers {
        if !name.eq_ignore_ascii_case("content-type") && !name.eq_ignore_ascii_case("accept") {
            request = request.header(name, value.expose());
        }
    }
    let answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) => {
            let host = resolved.url.host_str().unwrap_or_default();
            let port = resolved.url.port_or_known_default().unwrap_or_default();
            return match send_fault(&error, &format!("{host}:{port}")) {
                TransportFault::NotSent(fact) => Err(fact),
                _ => Ok(nothing),
            };
        }
    };
    let challenges: Vec<&str> = answer
        .headers()
        .get_all("www-authenticate")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let is_wanted = answer.status().as_u16() == 401;
    Ok(ProbeResult {
        challenge: (is_wanted && !challenges.is_empty()).then(|| challenges.join(", ")),
        is_wanted,
    })
}
