//! Tests of URL servers in a gemini file: the connect timeout, which of them stay, and how a lost
//! one is reported.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard::config::{self, ConfigFile, Dialect, Scope};
use switchboard::server::DialectStatus;
use switchboard::{Host, HostBuilder};
use switchboard_testkit::Scratch;

use crate::peer::{Kind, Peer};
use crate::support::{TIMEOUT, call, error, server};

/// A host with a file with this one server; `key` is the file's field for its URL.
async fn open(peer: &Peer, key: &str, mut entry: Value) -> Host {
    entry[key] = peer.url().into();
    let text = json!({ "mcpServers": { "peer": entry } }).to_string();
    let scratch = Scratch::new();
    let file = ConfigFile {
        dialect: Some(Dialect::Gemini),
        ..ConfigFile::new(scratch.write("settings.json", &text), Scope::Given)
    };
    let host = HostBuilder::new(config::load(&[file]).unwrap())
        .start()
        .await
        .unwrap();
    assert!(
        host.wait_until_settled(TIMEOUT).await,
        "the server does not settle"
    );
    host
}

/// Waits until the server is reported as lost, with a reason.
async fn disconnected(host: &Host) -> DialectStatus {
    let server = server(host);
    let mut events = host.events();
    let lost = async {
        loop {
            let message = server.dialect_status();
            if message.status == "DISCONNECTED" && message.error.is_some() {
                return message;
            }
            events.next().await.expect("the host runs");
        }
    };
    tokio::time::timeout(TIMEOUT, lost)
        .await
        .expect("it is DISCONNECTED")
}

/// S2-21: over both transports, with a server that accepts the connection and sends nothing.
#[tokio::test]
async fn s2_21_connecting_by_a_url_takes_no_longer_than_the_timeout() {
    let check = async |key: &str, kind: Kind| {
        let peer = Peer::start(kind).await;
        let began = Instant::now();
        let host = open(&peer, key, json!({ "timeout": 700 })).await;
        let took = began.elapsed();
        assert!(
            took >= Duration::from_millis(700) && took < Duration::from_secs(10),
            "{key}: {took:?}"
        );
        let error = error(&host);
        assert!(
            error.contains("700 ms") || error.contains("0.7 s"),
            "{key}: {error}"
        );
        assert_eq!(disconnected(&host).await.tools, [], "{key}");
        host.stop().await;
    };
    check("httpUrl", Kind::Hangs).await;
    check("url", Kind::SseThatHangs).await;
}

/// S2-35: the session of a server without usable tools is also ended on its side; one with a tool
/// is kept.
#[tokio::test]
async fn s2_35_the_session_of_a_server_by_url_without_usable_tools_ends() {
    let peer = Peer::start(Kind::LegacySession).await;
    let host = open(&peer, "httpUrl", json!({ "excludeTools": ["one"] })).await;
    let message = disconnected(&host).await;
    assert!(
        message
            .error
            .as_ref()
            .unwrap()
            .starts_with("closed: it offers no tools"),
        "{message:?}"
    );
    tokio::time::timeout(TIMEOUT, peer.until_seen("DELETE /mcp"))
        .await
        .expect("its session ends");
    host.stop().await;

    let peer = Peer::start(Kind::LegacySession).await;
    let host = open(&peer, "httpUrl", json!({ "trust": true })).await;
    call(&host).await.unwrap();
    assert_eq!(server(&host).dialect_status().status, "CONNECTED");
    assert!(
        peer.seen().iter().all(|seen| seen.line != "DELETE /mcp"),
        "{:?}",
        peer.seen()
    );
    host.stop().await;
}

/// S2-63: the stream of an SSE server ends and is not opened again.
#[tokio::test]
async fn s2_63_a_gemini_server_whose_event_stream_ends_is_disconnected_with_the_reason() {
    let peer = Peer::start(Kind::Sse(405)).await;
    let host = open(&peer, "url", json!({})).await;
    let message = server(&host).dialect_status();
    assert_eq!((message.status, message.error), ("CONNECTED", None));
    peer.become_kind(Kind::Always(503, "closed for today"));
    peer.disconnect();
    let message = disconnected(&host).await;
    let error = message.error.as_ref().unwrap();
    // The loss itself, or the error of the next attempt.
    assert!(
        error.contains("ended the stream") || error.contains("503"),
        "{message:?}"
    );
    host.stop().await;
}
