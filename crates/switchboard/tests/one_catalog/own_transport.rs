//! Tests of a library user's own transport, with the public API only: listed, gated, called,
//! stopped.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard::call::{Call, CallError};
use switchboard::caller::{Approval, BoxFuture, Caller};
use switchboard::config::{
    Config, Dialect, Endpoint, Permissions, RuleText, ServerConfig, Source, StdioEndpoint,
};
use switchboard::name::ServerName;
use switchboard::server::State;
use switchboard::transport::{
    Closed, ConnectFault, Connector, Inbound, MessageKind, MessageOrigin, Transport,
};
use switchboard::wire::{Outgoing, RawJson, parse};
use switchboard::{Hint, HostBuilder};

use crate::support::{TIMEOUT, caller_that_answers};

/// A server within this process, with the tools `greet` and `erase`.
#[derive(Clone, Default)]
struct InProcessServer(Arc<InProcessState>);

#[derive(Default)]
struct InProcessState {
    inbound: Mutex<Option<Arc<dyn Inbound>>>,
    /// The tools that were called.
    called: Mutex<Vec<String>>,
}

impl Connector for InProcessServer {
    fn connect<'a>(
        &'a self,
        inbound: Arc<dyn Inbound>,
    ) -> BoxFuture<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        *self.0.inbound.lock().unwrap() = Some(inbound);
        Box::pin(async { Ok(Arc::new(self.clone()) as Arc<dyn Transport>) })
    }
}

impl Transport for InProcessServer {
    fn send(&self, message: Outgoing<'_>) -> Result<(), Closed> {
        let inbound = self.0.inbound.lock().unwrap().clone().ok_or(Closed)?;
        let message: Value = serde_json::from_slice(message.body).unwrap();
        let Some(mut answer) = self.answer(&message) else {
            return Ok(());
        };
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = message["id"].clone();
        // Delivered from a task, as a real transport receives asynchronously.
        tokio::spawn(async move {
            let keep = |text: &str| RawJson::parse(text.to_owned()).unwrap();
            parse(&answer.to_string(), &keep, &mut |message| {
                inbound.message(message, MessageOrigin::Shared)
            })
            .unwrap();
        });
        Ok(())
    }

    fn wait_for_room(&self, _: MessageKind) -> Option<BoxFuture<'_, ()>> {
        None
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        if let Some(inbound) = self.0.inbound.lock().unwrap().take() {
            inbound.closed("closed".to_owned());
        }
        Box::pin(async {})
    }
}

impl InProcessServer {
    fn answer(&self, message: &Value) -> Option<Value> {
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        Some(match message["method"].as_str()? {
            "initialize" => {
                json!({"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "own", "version": "1"}}})
            }
            "tools/list" => json!({"result": {"tools": [tool("greet"), tool("erase")]}}),
            "tools/call" => {
                let name = message["params"]["name"].as_str()?.to_owned();
                let text = format!(
                    "{name} says hello to {}",
                    message["params"]["arguments"]["to"]
                );
                self.0.called.lock().unwrap().push(name);
                json!({"result": {"content": [{"type": "text", "text": text}]}})
            }
            _ if message["id"].is_null() => return None,
            _ => json!({"error": {"code": -32601, "message": "unknown method"}}),
        })
    }
}

/// An entry that could not start anything itself.
fn config() -> Config {
    let endpoint = Endpoint::Stdio(StdioEndpoint::new("/nowhere/at-all", [""; 0]));
    let entry = ServerConfig::new(ServerName::new("own").unwrap(), Source::code(), endpoint);
    let deny = RuleText {
        text: "own/erase".to_owned(),
        client: None,
        dialect: Dialect::Native,
        file: Arc::new(PathBuf::from("(code)")),
        line: 1,
    };
    let permissions = Permissions {
        deny: vec![deny],
        configured: true,
        ..Permissions::default()
    };
    Config {
        permissions,
        ..Config::from_iter([entry])
    }
}

/// S1-24: the rest of the library treats the transport like any other: listed, gated, called,
/// stopped, restarted.
#[tokio::test]
async fn s1_24_a_library_users_transport_is_listed_called_through_the_gate_and_stopped() {
    let server = InProcessServer::default();
    let host = HostBuilder::new(config())
        .connector("own", Arc::new(server.clone()))
        .start()
        .await
        .unwrap();
    assert!(host.wait_until_settled(TIMEOUT).await);
    let names: Vec<_> = host
        .catalog()
        .tools()
        .iter()
        .map(|tool| tool.exposed.to_string())
        .collect();
    assert_eq!(names, ["mcp__own__greet", "mcp__own__erase"]);

    let person = caller_that_answers(Approval::Once);
    let call = |tool: &str| {
        host.call_with(
            Call::new(tool, json!({"to": "Anna"})).caller(person.clone() as Arc<dyn Caller>),
        )
    };
    let denied = call("own/erase").await.map(|_| ()).unwrap_err();
    assert!(matches!(denied, CallError::Denied { .. }), "{denied}");
    assert_eq!(
        (person.exposed(), server.0.called.lock().unwrap().clone()),
        (vec![], vec![]),
        "nothing reached it"
    );

    let result = call("mcp__own__greet").await.unwrap();
    assert_eq!(
        result.untrusted_text().unwrap().raw(),
        "greet says hello to \"Anna\""
    );
    assert_eq!(
        (person.exposed(), server.0.called.lock().unwrap().clone()),
        (vec!["mcp__own__greet".into()], vec!["greet".into()])
    );

    let handle = host.server("own").unwrap();
    handle.stop().await;
    assert_eq!(handle.snapshot().state, State::Stopped);
    assert!(
        server.0.inbound.lock().unwrap().is_none(),
        "the transport was closed"
    );
    let later = call("own/greet").await.map(|_| ()).unwrap_err();
    assert_eq!(
        (later.to_string().as_str(), later.hint()),
        ("server \"own\": stopped", Some(Hint::StartAgain))
    );
    assert_eq!(server.0.called.lock().unwrap().len(), 1);

    // A reload connects it again.
    host.reload(config()).await.unwrap();
    assert!(host.wait_until_settled(TIMEOUT).await);
    assert_eq!(
        call("own/greet")
            .await
            .unwrap()
            .untrusted_text()
            .unwrap()
            .raw(),
        "greet says hello to \"Anna\""
    );
    host.stop().await;
}

/// S1-24: a connector without an entry is an error of the program, reported at the start.
#[tokio::test]
async fn s1_24_a_connector_without_an_entry_is_an_error_at_the_start() {
    let started = HostBuilder::new(config())
        .connector("other", Arc::new(InProcessServer::default()))
        .start()
        .await;
    let output = started.map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        output,
        "(code): connectors: no server \"other\" is configured; give its entry the name of its connector"
    );
}
