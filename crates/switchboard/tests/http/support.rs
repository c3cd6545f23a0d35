//! Sessions with the scripted peer, and requests on them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::auth::{Credentials, NoCredentials};
use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId, ElicitAnswer,
    Elicitation, LogLine,
};
use switchboard::config::{Environment, Protocol, Timeouts};
use switchboard::name::ServerName;
use switchboard::secret::Secret;
use switchboard::session::{OpenFault, OpenOptions, RequestFault, Session};
use switchboard::transport::http::{HttpConnector, HttpStack, HttpTarget};
use switchboard::wire::RawJson;
use tokio::task::JoinHandle;

pub(crate) use crate::peer::Peer;

/// The timeout of these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn target(url: &str) -> HttpTarget {
    HttpTarget {
        url: url.parse().unwrap(),
        headers: Vec::new(),
        credentials: Arc::new(NoCredentials),
        max_message_bytes: 1 << 20,
    }
}

pub(crate) fn target_with(url: &str, headers: &[(&str, &str)]) -> HttpTarget {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
        .collect();
    HttpTarget {
        headers,
        ..target(url)
    }
}

pub(crate) fn authorized(url: &str, credentials: Arc<dyn Credentials>) -> HttpTarget {
    HttpTarget {
        credentials,
        ..target(url)
    }
}

pub(crate) fn connector(target: HttpTarget) -> HttpConnector {
    connector_in(&[], target)
}

/// With these environment variables.
pub(crate) fn connector_in(variables: &[(&str, &str)], target: HttpTarget) -> HttpConnector {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    HttpConnector::new(
        HttpStack::new(&Environment::new(variables)).unwrap(),
        target,
    )
}

pub(crate) fn options(protocol: Protocol) -> OpenOptions {
    let mut options = OpenOptions::new(ServerName::new("peer").unwrap());
    options.protocol = protocol;
    options.offers.elicit_form = true;
    options.connect_timeout = TIMEOUT;
    options.max_message_bytes = 1 << 20;
    options
}

/// Opens a session in a task of its own, so that the test can act as the server.
pub(crate) fn open(
    target: HttpTarget,
    protocol: Protocol,
) -> JoinHandle<Result<Arc<Session>, OpenFault>> {
    tokio::spawn(async move { Session::open(&connector(target), options(protocol)).await })
}

/// An open legacy session, and its peer.
pub(crate) async fn legacy(session: Option<&str>) -> (Arc<Session>, Peer) {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Legacy);
    peer.handshake_without_stream(session).await;
    (opening.await.unwrap().unwrap(), peer)
}

/// An open modern session, and its peer.
pub(crate) async fn modern() -> (Arc<Session>, Peer) {
    let mut peer = Peer::start().await;
    let opening = open(target(&peer.url()), Protocol::Modern);
    peer.discover().await;
    (opening.await.unwrap().unwrap(), peer)
}

/// An open modern session over the shared stack: the environment names a proxy, though not for this
/// server.
pub(crate) async fn modern_over_the_stack() -> (Arc<Session>, Peer) {
    let mut peer = Peer::start().await;
    let connector = connector_in(
        &[("https_proxy", "http://127.0.0.1:9")],
        target(&peer.url()),
    );
    let opening =
        tokio::spawn(async move { Session::open(&connector, options(Protocol::Modern)).await });
    peer.discover().await;
    (opening.await.unwrap().unwrap(), peer)
}

/// A request in flight.
pub(crate) type Reading = JoinHandle<Result<RawJson, RequestFault>>;

/// Reads a resource in a task of its own.
pub(crate) fn read(session: &Arc<Session>, uri: &str) -> Reading {
    read_within(session, uri, Timeouts::default())
}

pub(crate) fn read_within(session: &Arc<Session>, uri: &str, timeouts: Timeouts) -> Reading {
    read_as(session, uri, timeouts, Agreeable::default())
}

/// For this caller.
pub(crate) fn read_as(
    session: &Arc<Session>,
    uri: &str,
    timeouts: Timeouts,
    caller: Agreeable,
) -> Reading {
    let (session, uri) = (session.clone(), uri.to_owned());
    tokio::spawn(async move {
        let caller: Arc<dyn Caller> = Arc::new(caller);
        session.read(&uri, &caller, timeouts).await
    })
}

/// A result of `resources/read`.
pub(crate) fn contents(text: &str) -> Value {
    json!({"contents": [{"uri": "a:b", "text": text}]})
}

pub(crate) fn seen(text: &str) -> Result<Value, RequestFault> {
    Ok(contents(text))
}

/// The outcome of a read.
pub(crate) async fn outcome(reading: Reading) -> Result<Value, RequestFault> {
    let outcome = tokio::time::timeout(TIMEOUT, reading)
        .await
        .expect("the request ends")
        .unwrap();
    outcome.map(|result| result.to_value().unwrap())
}

/// A caller that accepts every form, and records the logs of its requests.
#[derive(Clone, Default)]
pub(crate) struct Agreeable(pub(crate) Arc<Mutex<Vec<String>>>);

impl Caller for Agreeable {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("test");
        &ID
    }

    fn capabilities(&self) -> CallerCapabilities {
        CallerCapabilities {
            elicit_form: true,
            ..CallerCapabilities::default()
        }
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    fn log(&self, line: &LogLine) {
        self.0.lock().unwrap().push(line.text.raw().to_owned());
    }

    fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async { ElicitAnswer::Accept(serde_json::Map::new()) })
    }
}
