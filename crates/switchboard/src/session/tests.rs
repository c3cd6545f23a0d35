//! Tests of a session against a scripted server, over an in-memory transport, in paused time.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::caller::{
    Approval, ApprovalRequest, BoxFuture, CallerCapabilities, CallerId, ElicitAnswer, Elicitation,
};
use crate::catalog::Tool;
use crate::config::{Asks, Protocol};
use crate::event::Event;
use crate::name::ServerName;
use crate::transport::{
    Closed, ConnectFault, Inbound, MessageKind, MessageOrigin, Transport, TransportProperties,
};
use crate::wire::{Outgoing, parse};

mod asking;
mod clients;
mod deadlines;
mod handshakes;
mod keep_alive;
mod listing;
mod offering;
mod requests;
mod retries;
mod tasks;

/// The server's side of the transport.
struct ScriptedServer {
    inbound: Arc<dyn Inbound>,
    sent: mpsc::UnboundedReceiver<Value>,
    /// The requests whose room the session has released.
    released: Arc<Mutex<Vec<u64>>>,
}

/// Connects to a [`ScriptedServer`].
struct TestConnector {
    sent: Mutex<Option<mpsc::UnboundedSender<Value>>>,
    connected: mpsc::UnboundedSender<Arc<dyn Inbound>>,
    released: Arc<Mutex<Vec<u64>>>,
    properties: TransportProperties,
}

struct TestTransport {
    sent: mpsc::UnboundedSender<Value>,
    released: Arc<Mutex<Vec<u64>>>,
    properties: TransportProperties,
}

impl Connector for TestConnector {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        let sent = self.sent.lock().unwrap().take().unwrap();
        self.connected.send(inbound).unwrap();
        let transport = TestTransport {
            sent,
            released: self.released.clone(),
            properties: self.properties,
        };
        Box::pin(async move { Ok(Arc::new(transport) as Arc<dyn Transport>) })
    }
}

impl Transport for TestTransport {
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed> {
        self.sent
            .send(serde_json::from_slice(message.body).unwrap())
            .map_err(|_| Closed)
    }

    fn wait_for_room(&self, _: MessageKind) -> Option<BoxFuture<'_, ()>> {
        None
    }

    fn cancel(&self, id: u64) -> bool {
        self.released.lock().unwrap().push(id);
        false
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn properties(&self) -> TransportProperties {
        self.properties
    }
}

/// What the session connects to, and the server once it has.
fn wire() -> (TestConnector, impl Future<Output = ScriptedServer>) {
    let (sent, receiver) = mpsc::unbounded_channel();
    let (inbounds, mut connected) = mpsc::unbounded_channel();
    let released: Arc<Mutex<Vec<u64>>> = Arc::default();
    let released_by_session = released.clone();
    let peer = async move {
        ScriptedServer {
            inbound: connected.recv().await.unwrap(),
            sent: receiver,
            released: released_by_session,
        }
    };
    (
        TestConnector {
            sent: Mutex::new(Some(sent)),
            connected: inbounds,
            released,
            properties: TransportProperties::default(),
        },
        peer,
    )
}

impl ScriptedServer {
    /// The session's next message.
    async fn next(&mut self) -> Value {
        self.sent.recv().await.expect("the session sends something")
    }

    /// The session's next message, which must have this method.
    async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Asserts that nothing more was sent so far.
    fn expect_nothing(&mut self) {
        assert_eq!(self.sent.try_recv().ok(), None);
    }

    fn send(&self, message: &Value) {
        self.send_on(message, MessageOrigin::Shared);
    }

    fn send_on(&self, message: &Value, origin: MessageOrigin) {
        parse(&message.to_string(), &RawJson::keep, &mut |message| {
            self.inbound.message(message, origin)
        })
        .unwrap();
    }

    fn answer(&self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    fn respond_error(&self, request: &Value, code: i64) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}}));
    }

    /// Performs the handshake as a legacy server.
    async fn complete_handshake(&mut self) {
        let request = self.expect("initialize").await;
        self.answer(&request, json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "peer"}}));
        self.expect("notifications/initialized").await;
    }
}

fn options(protocol: Protocol) -> OpenOptions {
    OpenOptions {
        protocol,
        offers: CallerCapabilities {
            elicit_form: true,
            elicit_url: true,
            ..CallerCapabilities::default()
        },
        roots: Roots::new(Some(vec![root("file:///work")])),
        max_message_bytes: 1 << 20,
        ..OpenOptions::new(ServerName::new("peer").unwrap())
    }
}

fn root(uri: &str) -> crate::caller::Root {
    crate::caller::Root {
        uri: uri.to_owned(),
        name: None,
    }
}

/// An open session of this era, and its server.
async fn opened(era: Era) -> (Arc<Session>, ScriptedServer) {
    opened_with(
        era,
        options(if era == Era::Modern {
            Protocol::Modern
        } else {
            Protocol::Legacy
        }),
    )
    .await
}

async fn opened_with(era: Era, options: OpenOptions) -> (Arc<Session>, ScriptedServer) {
    let (connector, peer) = wire();
    let open = tokio::spawn(async move { Session::open(&connector, options).await.unwrap() });
    let mut peer = peer.await;
    match era {
        Era::Legacy => peer.complete_handshake().await,
        Era::Modern => {
            let request = peer.expect("server/discover").await;
            peer.answer(&request, json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}));
        }
    }
    (open.await.unwrap(), peer)
}

/// A caller that accepts every form with the field `by` set to its own name.
struct NamedCaller(CallerId);

impl Caller for NamedCaller {
    fn id(&self) -> &CallerId {
        &self.0
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

    fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        let fields = json!({"by": self.0.as_str()}).as_object().unwrap().clone();
        Box::pin(async { ElicitAnswer::Accept(fields) })
    }
}

fn caller(name: &'static str) -> Arc<dyn Caller> {
    Arc::new(NamedCaller(CallerId::new(name)))
}

/// Options for a call of the permit's tool as it is defined there.
fn call_options(timeouts: Timeouts) -> CallOptions {
    CallOptions {
        timeouts,
        since: None,
        definition: None,
        own_definition: None,
    }
}

/// Reads a resource in a task of its own.
fn read(
    session: &Arc<Session>,
    uri: &'static str,
    name: &'static str,
) -> tokio::task::JoinHandle<Result<RawJson, RequestFault>> {
    let session = session.clone();
    tokio::spawn(async move { session.read(uri, &caller(name), Timeouts::default()).await })
}
