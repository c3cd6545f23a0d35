//! Tests of a library user's own transport under the real session (S1-24).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::endpoint::ConnectorEndpoint;
use super::super::{ServerHandle, State};
use super::script::{connecting, task_setup};
use crate::future::BoxFuture;
use crate::session::Era;
use crate::store::MemoryStore;
use crate::transport::{
    Closed, ConnectFault, Connector, Inbound, MessageKind, MessageOrigin, Transport,
};
use crate::wire::{Outgoing, RawJson, parse};

/// A server in this process, which answers each message as it is sent.
#[derive(Default)]
struct InProcessServer {
    tools: Mutex<Vec<&'static str>>,
    /// The receiver of the newest connection.
    newest: Mutex<Option<Arc<dyn Inbound>>>,
}

pub(super) struct InProcessConnector(Arc<InProcessServer>);

impl InProcessConnector {
    /// To a server with one tool.
    pub(super) fn new() -> Self {
        let server = InProcessServer::default();
        server.tools.lock().unwrap().push("one");
        Self(Arc::new(server))
    }
}

struct InProcessTransport {
    server: Arc<InProcessServer>,
    inbound: Arc<dyn Inbound>,
}

impl Connector for InProcessConnector {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        *self.0.newest.lock().unwrap() = Some(inbound.clone());
        let server = self.0.clone();
        let transport = Arc::new(InProcessTransport { server, inbound });
        Box::pin(async move { Ok(transport as Arc<dyn Transport>) })
    }
}

impl Transport for InProcessTransport {
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed> {
        let message: Value = serde_json::from_slice(message.body).unwrap();
        let answer = match message["method"].as_str() {
            Some("server/discover") => {
                json!({"error": {"code": -32601, "message": "unknown method"}})
            }
            Some("initialize") => {
                json!({"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "own", "version": "1"}}})
            }
            Some("tools/list") => {
                let tools = self.server.tools.lock().unwrap();
                let tools: Vec<_> = tools
                    .iter()
                    .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                    .collect();
                json!({"result": {"tools": tools}})
            }
            _ => return Ok(()),
        };
        let mut answer = answer;
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = message["id"].clone();
        deliver(self.inbound.clone(), &answer);
        Ok(())
    }

    fn wait_for_room(&self, _: MessageKind) -> Option<BoxFuture<'_, ()>> {
        None
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.inbound.closed("closed".to_owned());
        Box::pin(async {})
    }
}

impl InProcessServer {
    fn send_to_host(&self, message: &Value) {
        deliver(self.newest.lock().unwrap().clone().unwrap(), message);
    }

    fn disconnect(&self, reason: &str) {
        if let Some(inbound) = self.newest.lock().unwrap().take() {
            inbound.closed(reason.to_owned());
        }
    }
}

/// Delivers from a task, as a real transport receives asynchronously.
fn deliver(inbound: Arc<dyn Inbound>, message: &Value) {
    let message = message.to_string();
    tokio::spawn(async move {
        parse(&message, &RawJson::keep, &mut |message| {
            inbound.message(message, MessageOrigin::Shared)
        })
        .unwrap()
    });
}

fn names(handle: &ServerHandle) -> Vec<String> {
    handle
        .snapshot()
        .offerings
        .tools
        .iter()
        .map(|tool| tool.name.as_wire().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn s1_24_a_library_users_transport_connects_lists_reconnects_and_stops() {
    let connector = InProcessConnector::new();
    let server = connector.0.clone();
    let endpoint = Arc::new(ConnectorEndpoint(Arc::new(connector)));
    let handle = ServerHandle::spawn_task(
        task_setup(endpoint, Arc::new(MemoryStore::default())),
        connecting(),
    );
    let session = handle.ready(Duration::from_secs(10)).await.unwrap();
    let ready = State::Ready {
        era: Era::Legacy,
        version: "2025-11-25".to_owned(),
    };
    assert_eq!(
        (handle.snapshot().state.clone(), names(&handle)),
        (ready.clone(), vec!["one".to_owned()])
    );

    server.tools.lock().unwrap().push("two");
    server.send_to_host(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    handle
        .snapshot
        .clone()
        .wait_for(|now| now.offerings.tools.len() == 2)
        .await
        .unwrap();

    // The connection is lost and opened again.
    server.disconnect("the other side went away");
    assert_eq!(
        handle.connection_end().await.as_deref(),
        Some("the other side went away")
    );
    let second = handle.ready(Duration::from_secs(10)).await.unwrap();
    assert!(!Arc::ptr_eq(&session, &second));
    assert_eq!(handle.snapshot().state, ready);

    // A call that arrives before the task has noticed the end also waits for the next connection.
    server.disconnect("again");
    let third = handle.ready(Duration::from_secs(10)).await.unwrap();
    assert!(!Arc::ptr_eq(&second, &third));

    handle.stop().await;
    assert_eq!(handle.snapshot().state, State::Stopped);
    third.closed().await;
}
