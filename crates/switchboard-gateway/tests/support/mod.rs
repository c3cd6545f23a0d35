//! Clients of a gateway in memory, in either era, and a host of real servers.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::config::{self, ConfigFile, Scope};
use switchboard::launch::Launcher;
use switchboard::{CallerCapabilities, Host, HostBuilder};
use switchboard_gateway::edge::lines;
use switchboard_gateway::{Gateway, GatewaySettings, Principal, ServerSelection};
use switchboard_testkit::Scratch;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;

/// The longest that anything here may take, on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What clients here can answer.
pub fn all_capabilities() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": true}})
}

/// The entry of a demo server that speaks one era.
pub fn demo(name: &str, era: &str, more: &str) -> String {
    let program = switchboard_testkit::program("switchboard-demo");
    format!("[servers.{name}]\ncommand = {program:?}\nargs = [\"--era\", \"{era}\"]\n{more}\n")
}

/// A host of these servers, settled.
pub async fn host(scratch: &Scratch, tables: &str) -> Host {
    let file = ConfigFile::new(scratch.write("switchboard.toml", tables), Scope::Given);
    let launcher = switchboard_testkit::program("switchboard-launcher");
    let builder = HostBuilder::new(config::load(&[file]).unwrap())
        .launcher(Launcher::start(launcher).unwrap())
        .roots(Vec::new())
        .capabilities(CallerCapabilities {
            elicit_form: true,
            elicit_url: true,
            sampling: true,
            sampling_tools: true,
        });
    let host = builder.start().await.unwrap();
    assert!(
        host.wait_until_settled(PATIENCE).await,
        "the servers do not settle"
    );
    host
}

/// A gateway of these servers.
pub async fn gateway(scratch: &Scratch, tables: &str) -> Gateway {
    Gateway::new(host(scratch, tables).await, GatewaySettings::default())
}

/// Reloads the host with these servers in place of the others.
pub async fn reload(gateway: &Gateway, scratch: &Scratch, tables: &str) {
    let file = ConfigFile::new(scratch.write("switchboard.toml", tables), Scope::Given);
    let config = config::load(&[file]).unwrap();
    gateway.host().reload(config).await.unwrap();
}

/// One client, connected by a stream of lines.
pub struct TestClient {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    /// Ends with the connection; the error says why the gateway closed it.
    pub served: JoinHandle<std::io::Result<()>>,
    /// What is in `_meta` of each request, for a modern client.
    meta: Option<Value>,
    /// Notifications that came so far.
    pub notifications: Vec<Value>,
    /// Questions that came so far.
    pub questions: Vec<Value>,
    /// Answers as JSON text, by the method of the question: a result, or an error object. Other
    /// questions are answered by [`answer`].
    pub raw_answers: HashMap<&'static str, Result<String, String>>,
}

impl TestClient {
    fn connect(gateway: &Gateway, name: &str, selection: ServerSelection) -> Self {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let (gateway, principal) = (gateway.clone(), Principal::new(name));
        let served = tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(theirs);
            lines::serve(&gateway, principal, selection, reader, writer).await
        });
        let (reader, writer) = tokio::io::split(ours);
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
            served,
            meta: None,
            notifications: Vec::new(),
            questions: Vec::new(),
            raw_answers: HashMap::new(),
        }
    }

    /// A legacy client, after its handshake.
    pub async fn legacy(gateway: &Gateway, name: &str, capabilities: Value) -> Self {
        let mut client = Self::connect(gateway, name, ServerSelection::All);
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": name, "version": "1"},
        });
        let answer = client.request(0, "initialize", params).await;
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
        client
            .send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        client
    }

    /// A modern client.
    pub fn modern(gateway: &Gateway, name: &str, capabilities: Value) -> Self {
        let mut client = Self::connect(gateway, name, ServerSelection::All);
        client.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
        }));
        client
    }

    /// Closes the connection, and waits until the gateway has.
    pub async fn disconnect(self) {
        let Self {
            mut writer, served, ..
        } = self;
        writer.shutdown().await.unwrap();
        served.await.unwrap().unwrap();
    }

    /// Sends nothing more.
    pub async fn close_writer(&mut self) {
        self.writer.shutdown().await.unwrap();
    }

    pub async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends, unless the connection is closed.
    pub async fn try_send(&mut self, message: &Value) -> std::io::Result<()> {
        self.writer
            .write_all(format!("{message}\n").as_bytes())
            .await
    }

    /// Sends a line as it is.
    pub async fn send_raw(&mut self, line: &str) {
        self.writer
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    /// The next response as it is; notifications and questions before it are dropped.
    pub async fn next_raw_response(&mut self) -> String {
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
            let line = line.expect("a message comes").unwrap().unwrap();
            if serde_json::from_str::<Value>(&line)
                .unwrap()
                .get("method")
                .is_none()
            {
                return line;
            }
        }
    }

    /// The next message, whatever it is.
    pub async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("a message comes").unwrap();
        serde_json::from_str(&line.expect("the connection is open")).unwrap()
    }

    /// Waits for a notification of this method.
    pub async fn notification(&mut self, method: &str) -> Value {
        loop {
            let known = self
                .notifications
                .iter()
                .position(|known| known["method"] == method);
            if let Some(known) = known {
                return self.notifications.remove(known);
            }
            let message = self.next().await;
            self.notifications.push(message);
        }
    }

    /// Sends a request and waits for its response; questions are answered by [`answer`], in the
    /// way of the client's era.
    pub async fn request(&mut self, id: u64, method: &str, mut params: Value) -> Value {
        if let Some(meta) = &self.meta {
            for (key, value) in meta.as_object().unwrap() {
                params["_meta"][key] = value.clone();
            }
        }
        loop {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            let mut line = request.to_string();
            for (method, answer) in &self.raw_answers {
                let answer = answer.as_deref().unwrap_or_default();
                line = line.replace(&format!("\"@{method}@\""), answer);
            }
            self.send_raw(&line).await;
            let response = self.response(id).await;
            if response["result"]["resultType"] != "input_required" {
                return response;
            }
            let result = &response["result"];
            params["inputResponses"] = json!({});
            for (key, question) in result["inputRequests"].as_object().unwrap() {
                self.questions.push(question.clone());
                let method = question["method"].as_str().unwrap();
                params["inputResponses"][key] = match self.raw_answers.contains_key(method) {
                    true => format!("@{method}@").into(),
                    false => answer(question),
                };
            }
            if let Some(state) = result.get("requestState") {
                params["requestState"] = state.clone();
            }
        }
    }

    async fn response(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "another client's response: {message}");
                return message;
            }
            if message.get("id").is_none() {
                self.notifications.push(message);
                continue;
            }
            let raw = self.raw_answers.get(message["method"].as_str().unwrap());
            let (key, value) = match raw.cloned() {
                Some(Ok(result)) => ("result", result),
                Some(Err(error)) => ("error", error),
                None => ("result", answer(&message).to_string()),
            };
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":{},"{key}":{value}}}"#,
                message["id"]
            );
            self.questions.push(message);
            self.send_raw(&line).await;
        }
    }

    /// Calls a tool; the text of its result.
    pub async fn call(&mut self, id: u64, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments});
        let response = self.request(id, "tools/call", params).await;
        let text = response["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text: {response}"))
            .to_owned()
    }
}

/// What a client here answers.
pub fn answer(question: &Value) -> Value {
    match question["method"].as_str().unwrap() {
        "elicitation/create" => {
            let properties = &question["params"]["requestedSchema"]["properties"];
            let mut content = json!({});
            for (name, property) in properties.as_object().into_iter().flatten() {
                content[name] = match property["type"].as_str() {
                    Some("boolean") => true.into(),
                    _ => property["enum"]
                        .get(0)
                        .cloned()
                        .unwrap_or_else(|| "Ada".into()),
                };
            }
            json!({"action": "accept", "content": content})
        }
        "sampling/createMessage" => {
            json!({"role": "assistant", "content": {"type": "text", "text": "kind"}, "model": "m"})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///work", "name": "work"}]}),
        other => panic!("an unknown question {other}"),
    }
}

/// Stops the host.
pub async fn stop(gateway: Gateway) {
    gateway.disconnect_all();
    gateway.host().stop().await;
}

/// A client of either era.
pub async fn client(gateway: &Gateway, is_modern: bool, name: &str) -> TestClient {
    match is_modern {
        true => TestClient::modern(gateway, name, all_capabilities()),
        false => TestClient::legacy(gateway, name, all_capabilities()).await,
    }
}
