//! A host with one URL server, and a store that outlives it.

use std::sync::Arc;
use std::time::Duration;

use switchboard::call::{Call, CallError};
use switchboard::caller::{CallerId, Headless};
use switchboard::config::{Config, Endpoint, HttpEndpoint, Mode, ServerConfig, Source};
use switchboard::name::ServerName;
use switchboard::result::CallResult;
use switchboard::secret::Secret;
use switchboard::server::{DetectedTransport, ServerHandle, State};
use switchboard::session::Era;
use switchboard::store::Store;
use switchboard::{Host, HostBuilder};

/// The timeout of these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A server at this URL, with a header of its own.
pub(crate) fn entry(url: &str) -> ServerConfig {
    let mut endpoint = HttpEndpoint::new(url);
    endpoint
        .headers
        .insert("X-Key".to_owned(), Secret::new("the-key-of-the-entry"));
    ServerConfig::new(
        ServerName::new("peer").unwrap(),
        Source::code(),
        Endpoint::Http(endpoint),
    )
}

/// Starts a host with this one server and waits until it is settled.
pub(crate) async fn start(entry: ServerConfig, store: &Arc<dyn Store>) -> Host {
    let mut config: Config = [entry].into_iter().collect();
    config.permissions.mode = Mode::Yolo;
    let host = HostBuilder::new(config)
        .store(store.clone())
        .start()
        .await
        .unwrap();
    assert!(
        host.wait_until_settled(TIMEOUT).await,
        "the server does not settle"
    );
    host
}

pub(crate) fn server(host: &Host) -> ServerHandle {
    host.server("peer").unwrap()
}

pub(crate) fn state(host: &Host) -> State {
    server(host).snapshot().state.clone()
}

/// The era and the transport of a ready server.
pub(crate) fn found(host: &Host) -> (Era, Option<DetectedTransport>) {
    let snapshot = server(host).snapshot();
    match &snapshot.state {
        State::Ready { era, .. } => (*era, snapshot.wire),
        other => panic!("not ready: {other}"),
    }
}

/// The first failure; another attempt may be in progress.
pub(crate) fn error(host: &Host) -> String {
    let history = server(host).snapshot().history.clone();
    let failure = history
        .iter()
        .find_map(|(_, line)| line.strip_prefix("backoff after failure 1: "));
    let failure = failure.unwrap_or_else(|| panic!("no failure: {history:?}"));
    failure.to_owned()
}

pub(crate) async fn call(host: &Host) -> Result<CallResult, CallError> {
    host.call_with(
        Call::new(
            "peer/one",
            "{}".parse::<switchboard::wire::RawJson>().unwrap(),
        )
        .caller(Arc::new(Headless(CallerId::new("tester")))),
    )
    .await
}
