//! A scripted peer over an in-memory wire, with paused time.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::caller::{
    Approval, ApprovalRequest, BoxFuture, CallerId, ElicitAnswer, Elicitation, Offers,
};
use crate::catalog::Tool;
use crate::config::Protocol;
use crate::event::Event;
use crate::name::ServerName;
use crate::transport::{
    Closed, ConnectFault, Inbound, MessageKind, MessageOrigin, Transport, TransportProperties,
};
use crate::wire::{Outgoing, parse};

mod asking;
mod deadlines;
mod handshakes;
mod keep_alive;
mod listing;
mod offering;
mod requests;
mod retries;
mod tasks;

/// The server's side of the wire.
struct Peer {
    inbound: Arc<dyn Inbound>,
    sent: mpsc::UnboundedReceiver<Value>,
}

/// Connects to a [`Peer`].
struct Wire {
    sent: Mutex<Option<mpsc::UnboundedSender<Value>>>,
    connected: mpsc::UnboundedSender<Arc<dyn Inbound>>,
    properties: TransportProperties,
}

struct WireTransport {
    sent: mpsc::UnboundedSender<Value>,
    properties: TransportProperties,
}

impl Connector for Wire {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        let sent = self.sent.lock().unwrap().take().unwrap();
        self.connected.send(inbound).unwrap();
        let transport = WireTransport {
            sent,
            properties: self.properties,
        };
        Box::pin(async move { Ok(Arc::new(transport) as Arc<dyn Transport>) })
    }
}

impl Transport for WireTransport {
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed> {
        self.sent
            .send(serde_json::from_slice(message.body).unwrap())
            .map_err(|_| Closed)
    }

    fn wait_for_room(&self, _: MessageKind) -> Option<BoxFuture<'_, ()>> {
        None
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn properties(&self) -> TransportProperties {
        self.properties
    }
}

/// A wire: what the session connects to, and the peer once it has.
fn wire() -> (Wire, impl Future<Output = Peer>) {
    let (sent, receiver) = mpsc::unbounded_channel();
    let (inbounds, mut connected) = mpsc::unbounded_channel();
    let peer = async move {
        Peer {
            inbound: connected.recv().await.unwrap(),
            sent: receiver,
        }
    };
    (
        Wire {
            sent: Mutex::new(Some(sent)),
            connected: inbounds,
            properties: TransportProperties::default(),
        },
        peer,
    )
}

impl Peer {
    /// The next message of ours.
    async fn next(&mut self) -> Value {
        self.sent.recv().await.expect("the session sends something")
    }

    /// The next message of ours, which must be this method.
    async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Nothing more was sent so far.
    fn quiet(&mut self) {
        assert_eq!(self.sent.try_recv().ok(), None);
    }

    fn say(&self, message: &Value) {
        self.say_on(message, MessageOrigin::Shared);
    }

    fn say_on(&self, message: &Value, origin: MessageOrigin) {
        parse(&message.to_string(), &RawJson::keep, &mut |message| {
            self.inbound.message(message, origin)
        })
        .unwrap();
    }

    fn answer(&self, request: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    fn refuse(&self, request: &Value, code: i64) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}}));
    }

    /// Shakes hands as a legacy server.
    async fn welcome(&mut self) {
        let request = self.expect("initialize").await;
        self.answer(&request, json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "peer"}}));
        self.expect("notifications/initialized").await;
    }
}

fn options(protocol: Protocol) -> OpenOptions {
    OpenOptions {
        protocol,
        offers: Offers {
            elicit_form: true,
            elicit_url: true,
            ..Offers::default()
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

/// An open session in the era, and its peer.
async fn opened(era: Era) -> (Arc<Session>, Peer) {
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

async fn opened_with(era: Era, options: OpenOptions) -> (Arc<Session>, Peer) {
    let (connector, peer) = wire();
    let open = tokio::spawn(async move { Session::open(&connector, options).await.unwrap() });
    let mut peer = peer.await;
    match era {
        Era::Legacy => peer.welcome().await,
        Era::Modern => {
            let request = peer.expect("server/discover").await;
            peer.answer(&request, json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}));
        }
    }
    (open.await.unwrap(), peer)
}

/// A caller that accepts every form with the field `by` set to its own name.
struct Named(&'static str);

impl Caller for Named {
    fn id(&self) -> CallerId {
        CallerId::new(self.0)
    }

    fn offers(&self) -> Offers {
        Offers {
            elicit_form: true,
            ..Offers::default()
        }
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        let fields = json!({"by": self.0}).as_object().unwrap().clone();
        Box::pin(async { ElicitAnswer::Accept(fields) })
    }
}

fn caller(name: &'static str) -> Arc<dyn Caller> {
    Arc::new(Named(name))
}

/// A call of this tool as it is defined now.
fn call_options(tool: &Tool, timeouts: Timeouts) -> CallOptions {
    CallOptions {
        timeouts,
        since: None,
        definition: tool.definition.clone(),
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
