//! How a server that is reached by a URL ends, and how one that is not there is told of, as the core-agent document has it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::config::{Dialect, Protocol, ServerConfig};
use switchboard::server::State;
use switchboard::store::{MemoryStore, Store};

use crate::peer::{Kind, Peer};
use crate::support::{call, entry, server, start, state};

fn core_agent(peer: &Peer) -> ServerConfig {
    ServerConfig { dialect: Dialect::CoreAgent, ..entry(&peer.url()) }
}

/// S0-33: even where the server never acknowledges the end of its session, which takes the native rule two seconds.
#[tokio::test]
async fn s0_33_closing_an_http_server_returns_at_once_and_later_calls_say_that_it_is_closed() {
    let peer = Peer::start(Kind::LegacySession).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let host = start(ServerConfig { protocol: Protocol::Legacy, ..core_agent(&peer) }, &store).await;
    assert!(matches!(state(&host), State::Ready { .. }), "{}", state(&host));

    let began = Instant::now();
    server(&host).stop().await;
    let took = began.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");
    peer.until_seen("DELETE /mcp").await;
    let later = call(&host).await.unwrap_err().to_string();
    assert_eq!(later, "server \"peer\": closed; start it again to use it");
    assert_eq!(server(&host).snapshot().pid, None);
    host.stop().await;
}

#[tokio::test]
async fn s0_30_an_http_server_that_answers_404_has_failed_with_what_it_said() {
    let peer = Peer::start(Kind::Always(404, "nothing here")).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let host = start(core_agent(&peer), &store).await;
    let told = state(&host);
    let (State::Failed { error } | State::Backoff { error, .. }) = &told else { panic!("{told}") };
    assert!(error.contains("HTTP 404"), "{error}");
    host.stop().await;
}
