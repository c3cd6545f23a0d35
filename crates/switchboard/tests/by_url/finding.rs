//! Tests of detecting the transport and era of a URL: by the specification's rules, remembered, and
//! detected again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::config::{Endpoint, HttpTransportKind, Protocol};
use switchboard::server::DetectedTransport;
use switchboard::session::Era;
use switchboard::store::{MemoryStore, Store};

use crate::peer::{Kind, Peer};
use crate::support::{TIMEOUT, entry, error, found, server, start};

const DISCOVER: &str = "POST /mcp server/discover";
const INITIALIZE: &str = "POST /mcp initialize";
const STREAM: &str = "GET /mcp";

/// The detected era and transport.
type Found = (Era, DetectedTransport);

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// The requests until a server of this kind is ready.
async fn handshakes(peer: &Peer, store: &Arc<dyn Store>, expected: Found) -> Vec<String> {
    let host = start(entry(&peer.url()), store).await;
    assert_eq!(found(&host), (expected.0, Some(expected.1)));
    host.stop().await;
    let asked = peer.handshakes(expected.1 == DetectedTransport::Sse);
    // On HTTP+SSE the handshake itself is posted elsewhere.
    asked
        .into_iter()
        .filter(|line| !line.contains("/messages"))
        .collect()
}

/// F21, C5: modern, then legacy, then HTTP+SSE; the next time only what worked is tried.
#[tokio::test]
async fn f21_the_transport_and_era_of_a_url_are_detected_and_remembered() {
    let cases: [(Kind, Found, &[&str], &[&str]); 5] = [
        (
            Kind::Modern,
            (Era::Modern, DetectedTransport::Http),
            &[DISCOVER],
            &[DISCOVER],
        ),
        (
            Kind::Legacy,
            (Era::Legacy, DetectedTransport::Http),
            &[DISCOVER, INITIALIZE],
            &[INITIALIZE],
        ),
        (
            Kind::Sse(404),
            (Era::Legacy, DetectedTransport::Sse),
            &[DISCOVER, INITIALIZE, STREAM],
            &[STREAM],
        ),
        (
            Kind::Sse(405),
            (Era::Legacy, DetectedTransport::Sse),
            &[DISCOVER, INITIALIZE, STREAM],
            &[STREAM],
        ),
        (
            Kind::Sse(400),
            (Era::Legacy, DetectedTransport::Sse),
            &[DISCOVER, INITIALIZE, STREAM],
            &[STREAM],
        ),
    ];
    for (kind, expected, first, second) in cases {
        let peer = Peer::start(kind.clone()).await;
        let store = store();
        assert_eq!(
            handshakes(&peer, &store, expected).await,
            first,
            "{kind:?}, unknown"
        );
        assert_eq!(
            handshakes(&peer, &store, expected).await,
            second,
            "{kind:?}, known"
        );
    }
}

/// If what is remembered stops working, everything is tried again in the same attempt, and the
/// result is remembered.
#[tokio::test]
async fn a_changed_server_is_detected_again_in_one_attempt() {
    let cases: [(Kind, Found, Kind, Found, &[&str]); 4] = [
        (
            Kind::Sse(404),
            (Era::Legacy, DetectedTransport::Sse),
            Kind::Modern,
            (Era::Modern, DetectedTransport::Http),
            &[DISCOVER],
        ),
        (
            Kind::Sse(404),
            (Era::Legacy, DetectedTransport::Sse),
            Kind::Legacy,
            (Era::Legacy, DetectedTransport::Http),
            &[DISCOVER, INITIALIZE],
        ),
        (
            Kind::Legacy,
            (Era::Legacy, DetectedTransport::Http),
            Kind::Modern,
            (Era::Modern, DetectedTransport::Http),
            &[INITIALIZE, DISCOVER],
        ),
        (
            Kind::Legacy,
            (Era::Legacy, DetectedTransport::Http),
            Kind::Sse(404),
            (Era::Legacy, DetectedTransport::Sse),
            &[INITIALIZE, DISCOVER, INITIALIZE, STREAM],
        ),
    ];
    for (old, before, new, after, asked) in cases {
        let peer = Peer::start(old.clone()).await;
        let store = store();
        handshakes(&peer, &store, before).await;
        peer.become_kind(new.clone());
        assert_eq!(
            handshakes(&peer, &store, after).await,
            asked,
            "{old:?} became {new:?}"
        );

        let again = handshakes(&peer, &store, after).await;
        assert!(again.len() == 1, "{new:?} is not remembered: {again:?}");
    }
}

/// F21, F23: a status that does not concern the transport is reported, and no other transport is
/// tried.
#[tokio::test]
async fn f21_only_400_404_and_405_lead_to_http_sse() {
    let cases = [
        (
            Kind::Always(500, "boom"),
            false,
            "answered the handshake with HTTP 500: boom",
        ),
        (
            Kind::Always(503, ""),
            false,
            "answered the handshake with HTTP 503",
        ),
        (
            Kind::Always(200, "<html>hello</html>"),
            false,
            "answered with text/html instead of JSON or events: an HTML page: hello (is this the URL of an MCP endpoint?)",
        ),
    ];
    let mut cases: Vec<_> = cases
        .map(|(kind, falls_back, fact)| (kind, falls_back, fact.to_owned()))
        .into();
    for status in [400, 404, 405] {
        let fact = format!(
            "the server refused the handshake: it speaks neither Streamable HTTP (HTTP {status}) nor HTTP+SSE (HTTP {status})"
        );
        cases.push((Kind::Always(status, ""), true, fact));
    }
    for status in [403, 406, 410, 415] {
        let fact = format!("answered the handshake with HTTP {status}: no");
        cases.push((Kind::Always(status, "no"), false, fact));
    }
    for (kind, falls_back, fact) in cases {
        let peer = Peer::start(kind.clone()).await;
        let host = start(entry(&peer.url()), &store()).await;
        assert_eq!(error(&host), fact, "{kind:?}");
        host.stop().await;
        assert_eq!(
            peer.handshakes(true).iter().any(|line| line == STREAM),
            falls_back,
            "{kind:?}"
        );
    }
}

/// An entry that names the transport or the era determines it.
#[tokio::test]
async fn an_entry_that_names_the_transport_or_era_determines_it() {
    let cases: [(HttpTransportKind, Protocol, &[&str]); 4] = [
        (
            HttpTransportKind::Streamable,
            Protocol::Auto,
            &[DISCOVER, INITIALIZE],
        ),
        (HttpTransportKind::Auto, Protocol::Modern, &[DISCOVER]),
        (
            HttpTransportKind::Auto,
            Protocol::Legacy,
            &[INITIALIZE, STREAM],
        ),
        (HttpTransportKind::Sse, Protocol::Auto, &[STREAM]),
    ];
    for (wire, protocol, asked) in cases {
        let peer = Peer::start(Kind::Always(404, "")).await;
        let mut entry = entry(&peer.url());
        entry.protocol = protocol;
        let Endpoint::Http(endpoint) = &mut entry.endpoint else {
            unreachable!()
        };
        endpoint.wire = wire;
        let host = start(entry, &store()).await;
        error(&host);
        host.stop().await;
        // The first attempt only: others may have begun.
        let seen = peer.handshakes(true);
        assert_eq!(
            seen.iter().take(asked.len()).collect::<Vec<_>>(),
            asked,
            "{wire:?}, {protocol:?}"
        );
        assert!(
            seen.iter().all(|line| asked.contains(&line.as_str())),
            "{wire:?}, {protocol:?}: {seen:?}"
        );
    }
}

/// All transports that are tried share one deadline.
#[tokio::test]
async fn all_tried_transports_share_one_deadline() {
    for (kind, fact) in [
        (Kind::Hangs, "no answer to the handshake within 1 s"),
        (Kind::SseThatHangs, "no answer to the handshake within 1 s"),
    ] {
        let peer = Peer::start(kind.clone()).await;
        let mut entry = entry(&peer.url());
        entry.timeouts.connect = Duration::from_secs(1);
        let began = Instant::now();
        let host = start(entry, &store()).await;
        // Less than twice the deadline.
        assert!(
            began.elapsed() < Duration::from_millis(1950),
            "{kind:?} took {:?}",
            began.elapsed()
        );
        assert_eq!(error(&host), fact, "{kind:?}");
        host.stop().await;
    }
}

/// F24: if nothing listens, no other transport is tried, and the error says so.
#[tokio::test]
async fn f24_a_port_without_a_listener_is_reported_as_such() {
    let peer = Peer::start(Kind::Modern).await;
    let (url, port) = (peer.url(), peer.port);
    drop(peer);
    let host = start(entry(&url), &store()).await;
    assert_eq!(
        error(&host),
        format!("127.0.0.1:{port} refused the connection (is the server running?)")
    );
    let not_ready = server(&host).ready(TIMEOUT).await.unwrap_err();
    assert!(
        not_ready
            .to_string()
            .starts_with("server \"peer\": 127.0.0.1:"),
        "{not_ready}"
    );
    host.stop().await;
}
