//! Tests of a server of both eras with one tool that asks with a request (`older`) and one that
//! asks in its result (`newer`): each tool's calls use the connection that its way of asking needs.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard::call::Call;
use switchboard::caller::CallerCapabilities;
use switchboard::config::{Config, Mode, ServerConfig, Sharing};
use switchboard::name::ToolName;
use switchboard::session::Era;
use switchboard::store::{MemoryStore, Store};
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::until;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::peer::{DualEra, Kind, Peer, json_with, status_with};
use crate::support::{TIMEOUT, entry, found};

const FORMS: CallerCapabilities = CallerCapabilities {
    elicit_form: true,
    elicit_url: false,
    sampling: false,
    sampling_tools: false,
};

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

async fn host_of(entry: ServerConfig, store: &Arc<dyn Store>) -> Host {
    let mut config: Config = [entry].into_iter().collect();
    config.permissions.mode = Mode::Yolo;
    let host = HostBuilder::new(config)
        .store(store.clone())
        .capabilities(FORMS)
        .start()
        .await
        .unwrap();
    assert!(
        host.wait_until_settled(TIMEOUT).await,
        "the server does not settle"
    );
    host
}

/// The result or error of a call, and the notices of its caller.
async fn call(host: &Host, tool: &str) -> (String, String) {
    let person = TestCaller::new("person").capabilities(FORMS).arc();
    let arguments: RawJson = "{}".parse().unwrap();
    let call = Call::new(format!("peer/{tool}"), arguments).caller(person.clone());
    let brought = match host.call_with(call).await {
        Ok(result) => result.raw.as_str().to_owned(),
        Err(error) => error.to_string(),
    };
    let notices = person.notices().join("\n");
    (brought, notices)
}

/// Asserts that the call succeeds without a notice.
async fn answered(host: &Host, tool: &str) {
    let (brought, notices) = call(host, tool).await;
    assert!(
        brought.contains(&format!("{tool} is answered")) && notices.is_empty(),
        "{tool}: {brought} {notices}"
    );
}

/// Asserts that the call is refused with this notice.
async fn refused(host: &Host, tool: &str, output: &str) {
    let (brought, notices) = call(host, tool).await;
    assert!(
        !brought.contains("is answered") && notices.contains(output),
        "{tool}: {brought} {notices}"
    );
}

/// A host on which both ways of asking have been refused.
async fn switched_back(peer: &Peer, store: &Arc<dyn Store>) -> Host {
    let host = host_of(entry(&peer.url()), store).await;
    refused(
        &host,
        "older",
        "reconnected with 2025-11-25; this is remembered",
    )
    .await;
    refused(
        &host,
        "newer",
        "sends its questions in the modern form, which protocol 2025-11-25 does not support; reconnected with 2026-07-28; this is remembered. \
         The tool may have begun; call it again. Its tools that send questions in the legacy form use a second connection, with 2025-11-25",
    )
    .await;
    host
}

/// Waits until the catalog has this definition of a tool.
async fn until_listed_as(host: &Host, tool: &str, description: &str) {
    let listed = format!("\"description\":\"{description}\"");
    let is_listed = || {
        let catalog = host.catalog();
        let tool = catalog.resolve(&format!("peer/{tool}")).unwrap();
        tool.definition.raw.as_str().contains(&listed)
    };
    until("the new definition is listed", is_listed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tool_is_called_over_the_connection_that_carries_its_questions() {
    let (peer, store) = (
        Peer::start(Kind::DualEra(DualEra::default())).await,
        store(),
    );
    let host = switched_back(&peer, &store).await;
    for _ in 0..3 {
        tokio::join!(answered(&host, "newer"), answered(&host, "older"));
    }
    assert_eq!(found(&host).0, Era::Modern);
    host.stop().await;

    // The next run uses what was remembered from its first call.
    let host = host_of(entry(&peer.url()), &store).await;
    let second = |host: &Host| {
        let second = host.servers()[0].second_connection().unwrap();
        (second.era, second.state.as_str(), second.tools)
    };
    let older = vec![ToolName::new("older")];
    assert_eq!(second(&host), (Era::Legacy, "idle", older.clone()));
    answered(&host, "older").await;
    assert_eq!(second(&host), (Era::Legacy, "ready", older));
    answered(&host, "newer").await;
    assert_eq!(found(&host).0, Era::Modern);
    host.stop().await;
}

/// Per-caller sessions apply to it as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn per_caller_sessions_apply_to_the_second_connection_too() {
    let (peer, store) = (
        Peer::start(Kind::DualEra(DualEra::default())).await,
        store(),
    );
    switched_back(&peer, &store).await.stop().await;
    let mut entry = entry(&peer.url());
    entry.session = Sharing::PerCaller;
    let host = host_of(entry, &store).await;
    answered(&host, "older").await;
    answered(&host, "newer").await;
    host.stop().await;
}

/// Tools that ask in the older way stay on their connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmed_legacy_server_keeps_its_connection_and_gets_a_modern_one() {
    let (peer, store) = (
        Peer::start(Kind::DualEra(DualEra::default())).await,
        store(),
    );
    let host = host_of(entry(&peer.url()), &store).await;
    refused(&host, "older", "reconnected with 2025-11-25").await;
    answered(&host, "older").await;
    refused(
        &host,
        "newer",
        "sends its questions in the modern form, which protocol 2025-11-25 does not support; from now on this tool is called over a \
         second connection, with 2026-07-28; this is remembered. The tool may have begun; call it again.",
    )
    .await;
    answered(&host, "newer").await;
    answered(&host, "older").await;
    assert_eq!(found(&host).0, Era::Legacy);
    host.stop().await;
}

/// An idempotent tool is called again at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotent_tool_is_called_again_over_the_other_connection() {
    let (peer, store) = (
        Peer::start(Kind::DualEra(DualEra::default())).await,
        store(),
    );
    let mut entry = entry(&peer.url());
    entry.idempotent_tools = vec!["newer".to_owned()];
    let host = host_of(entry, &store).await;
    refused(&host, "older", "reconnected with 2025-11-25").await;
    answered(&host, "older").await;
    let (brought, notices) = call(&host, "newer").await;
    assert!(
        brought.contains("newer is answered") && notices.contains("The call is made again."),
        "{brought} {notices}"
    );
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_neither_connection_carries_is_reported_each_time() {
    let stateless = DualEra {
        is_stateless: true,
        ..DualEra::default()
    };
    let (peer, store) = (Peer::start(Kind::DualEra(stateless)).await, store());
    let host = switched_back(&peer, &store).await;
    for _ in 0..3 {
        refused(
            &host,
            "older",
            "sends its questions in the legacy form, which it supports neither with protocol 2026-07-28 nor with 2025-11-25",
        )
        .await;
        answered(&host, "newer").await;
    }
    host.stop().await;
}

/// A tool whose definition differs on the other connection is not called there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_with_another_definition_on_the_other_connection_is_not_called_there() {
    let differs = DualEra {
        differs: true,
        ..DualEra::default()
    };
    let (peer, store) = (Peer::start(Kind::DualEra(differs)).await, store());
    let host = switched_back(&peer, &store).await;
    until_listed_as(&host, "older", "").await;
    for _ in 0..2 {
        refused(
            &host,
            "older",
            "For this tool, add an entry with `protocol = \"legacy\"`",
        )
        .await;
        answered(&host, "newer").await;
    }
    host.stop().await;
}

const NO_BACK_CHANNEL: &str = "Cannot send 'elicitation/create': this transport context has no back-channel for \
                               server-initiated requests.";

/// The server's response. A question by request is sent on the call's stream first; `answer_to`
/// waits for its answer.
pub(crate) async fn reply(
    stream: &mut TcpStream,
    line: &str,
    is_legacy: bool,
    message: &Value,
    options: DualEra,
    answer_to: impl Future<Output = ()>,
) -> String {
    let with = |key: &str, value: Value| {
        json_with(
            200,
            &json!({"jsonrpc": "2.0", "id": message["id"], key: value}),
        )
    };
    let error = |code: i64, text: &str| with("error", json!({"code": code, "message": text}));
    let text =
        |text: &str| json!({"resultType": "complete", "content": [{"type": "text", "text": text}]});
    let form = json!({"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}});
    match (message["method"].as_str(), &message["params"]["name"]) {
        _ if line.starts_with("GET") => status_with(405, ""),
        _ if line.starts_with("DELETE") => status_with(200, ""),
        (Some("server/discover"), _) => with(
            "result",
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        ),
        (Some("initialize"), _) => with(
            "result",
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "peer", "version": "1"}}),
        )
        .replacen("\r\n", "\r\nMcp-Session-Id: s1\r\n", 1),
        (Some("tools/list"), _) => {
            let is_other = |name: &str| options.differs && is_legacy && name == "older";
            let about = |name: &str| if is_other(name) { "another" } else { "" };
            let tool = |name: &str| json!({"name": name, "description": about(name), "inputSchema": {"type": "object"}});
            with(
                "result",
                json!({"resultType": "complete", "tools": [tool("older"), tool("newer")]}),
            )
        }
        (Some("tools/call"), name) if name == "older" && is_legacy && !options.is_stateless => {
            let question = json!({"jsonrpc": "2.0", "id": format!("about {}", message["id"]),
                "method": "elicitation/create", "params": form});
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            let begun = format!("{head}data: {question}\n\n");
            stream.write_all(begun.as_bytes()).await.unwrap();
            answer_to.await;
            let answer =
                json!({"jsonrpc": "2.0", "id": message["id"], "result": text("older is answered")});
            format!("data: {answer}\n\n")
        }
        (Some("tools/call"), name) if name == "older" => error(-32600, NO_BACK_CHANNEL),
        (Some("tools/call"), _) if is_legacy => error(-32603, "Handler returned an invalid result"),
        (Some("tools/call"), _) if message["params"]["inputResponses"].is_object() => {
            with("result", text("newer is answered"))
        }
        (Some("tools/call"), _) => with(
            "result",
            json!({"resultType": "input_required",
                "inputRequests": {"sure": {"method": "elicitation/create", "params": form}}}),
        ),
        _ => status_with(202, ""),
    }
}
