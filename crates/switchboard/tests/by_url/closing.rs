//! Tests of how URL servers of a core-agent file are closed, and how an unreachable one is
//! reported.

use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::config::{self, ConfigFile, Dialect, Environment, Protocol, Scope, ServerConfig};
use switchboard::server::State;
use switchboard::store::{MemoryStore, Store};
use switchboard::{Hint, HostBuilder};

use crate::peer::{Kind, Peer};
use crate::support::{TIMEOUT, call, entry, server, start, state};

fn core_agent(peer: &Peer) -> ServerConfig {
    ServerConfig {
        dialect: Dialect::CoreAgent,
        ..entry(&peer.url())
    }
}

/// S0-33: even if the server never acknowledges the end of its session, which takes two seconds in
/// the native dialect.
#[tokio::test]
async fn s0_33_closing_an_http_server_returns_at_once_and_later_calls_report_it_closed() {
    let peer = Peer::start(Kind::LegacySession).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let host = start(
        ServerConfig {
            protocol: Protocol::Legacy,
            ..core_agent(&peer)
        },
        &store,
    )
    .await;
    assert!(
        matches!(state(&host), State::Ready { .. }),
        "{}",
        state(&host)
    );

    let began = Instant::now();
    server(&host).stop().await;
    let took = began.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");
    peer.until_seen("DELETE /mcp").await;
    let later = call(&host).await.unwrap_err();
    assert_eq!(
        (later.to_string().as_str(), later.hint()),
        ("server \"peer\": stopped", Some(Hint::StartAgain))
    );
    assert_eq!(server(&host).snapshot().pid, None);
    host.stop().await;
}

/// S0-11, S0-12: the entry's headers are sent with every request, with the variables' values.
#[tokio::test]
async fn s0_11_s0_12_the_expanded_headers_of_a_core_agent_entry_are_sent_with_every_request() {
    let check = async |kind: Kind, era: &str| {
        let peer = Peer::start(kind).await;
        let headers = r#"{"Authorization": "Bearer ${env:TOKEN}", "X-Plain": "as it is"}"#;
        let text = format!(
            r#"{{"servers": {{"peer": {{"transport": "http", "url": "{}", "headers": {headers}}}}}, "permissions": {{"mode": "yolo"}}}}"#,
            peer.url()
        );
        let scratch = switchboard_testkit::Scratch::new();
        let file = ConfigFile {
            dialect: Some(Dialect::CoreAgent),
            ..ConfigFile::new(scratch.write("mcp.json", &text), Scope::Given)
        };
        let environment = Environment::new([("TOKEN".to_owned(), "of-the-environment".to_owned())]);
        let host = HostBuilder::new(config::load(&[file]).unwrap())
            .environment(environment)
            .start()
            .await
            .unwrap();
        assert!(host.wait_until_settled(TIMEOUT).await);
        call(&host).await.unwrap();
        let seen = peer.seen();
        assert!(
            seen.iter().any(|seen| seen.line == "POST /mcp tools/call"),
            "{era}: {seen:?}"
        );
        for seen in seen {
            let header = |name: &str| seen.headers.get(name).map(String::as_str);
            let carried = (header("authorization"), header("x-plain"));
            assert_eq!(
                carried,
                (Some("Bearer of-the-environment"), Some("as it is")),
                "{era}: {}",
                seen.line
            );
        }
        host.stop().await;
    };
    check(Kind::Modern, "modern").await;
    check(Kind::Legacy, "legacy").await;
}

#[tokio::test]
async fn s0_30_an_http_server_that_responds_404_fails_with_its_message() {
    let peer = Peer::start(Kind::Always(404, "nothing here")).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let host = start(core_agent(&peer), &store).await;
    let message = state(&host);
    let (State::Failed { error } | State::Backoff { error, .. }) = &message else {
        panic!("{message}")
    };
    assert!(error.contains("HTTP 404"), "{error}");
    host.stop().await;
}
