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
    inbound: Mutex<Option<Arc<dyn Inbound>>>,
}

struct InProcessTransport(Arc<InProcessServer>);

impl Connector for InProcessTransport {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        *self.0.inbound.lock().unwrap() = Some(inbound);
        Box::pin(
            async move { Ok(Arc::new(InProcessTransport(self.0.clone())) as Arc<dyn Transport>) },
        )
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
                let tools = self.0.tools.lock().unwrap();
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
        self.0.send_to_host(&answer);
        Ok(())
    }

    fn wait_for_room(&self, _: MessageKind) -> Option<BoxFuture<'_, ()>> {
        None
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.0.disconnect("closed");
        Box::pin(async {})
    }
}

impl InProcessServer {
    fn send_to_host(&self, message: &Value) {
        let inbound = self.inbound.lock().unwrap().clone().unwrap();
        // Sent from a task, as a real transport receives asynchronously.
        let message = message.to_string();
        tokio::spawn(async move {
            parse(&message, &RawJson::keep, &mut |message| {
                inbound.message(message, MessageOrigin::Shared)
            })
            .unwrap()
        });
    }

    fn disconnect(&self, reason: &str) {
        if let Some(inbound) = self.inbound.lock().unwrap().take() {
            inbound.closed(reason.to_owned());
        }
    }
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
    let server = Arc::new(InProcessServer::default());
    server.tools.lock().unwrap().push("one");
    let endpoint = Arc::new(ConnectorEndpoint(Arc::new(InProcessTransport(
        server.clone(),
    ))));
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
