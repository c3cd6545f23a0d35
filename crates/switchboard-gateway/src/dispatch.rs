//! From a method to what answers it. What needs no server is answered at once; the rest on a task of
//! its own.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard::RawJson;
use switchboard::caller::Root;
use switchboard::event::LogLevel;
use switchboard::revision::{Era, Revision};
use switchboard::wire::RequestId;
use tokio::sync::Notify;

use crate::changes;
use crate::client::{ClientHandshake, ClientState};
use crate::client_catalog::ListKind;
use crate::client_tasks;
use crate::gateway::ServerSelection;
use crate::gateway_loop;
use crate::listing::{ToolListing, search};
use crate::outbound::Outbound;
use crate::params::{ClientCapabilities, RequestParams, SERVER_INFO, TASKS};
use crate::reply::{self, ErrorReply};
use crate::request_tasks::BegunRequest;
use crate::server_request;
use crate::skills::{self, SKILLS};

/// A client's request, read.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    pub(crate) client: Arc<ClientState>,
    pub(crate) method: String,
    pub(crate) params: RequestParams,
    pub(crate) era: Era,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) client_info: Option<RawJson>,
}

/// Answers a request, or begins to.
pub(crate) fn request(
    client: &Arc<ClientState>,
    id: RequestId,
    method: String,
    params: Option<&RawJson>,
    outbound: &Outbound,
) {
    match begin(client, &id, method, params, outbound) {
        Ok(Some(result)) => outbound.send(reply::result(&id, &result)),
        Ok(None) => {}
        Err(error) => outbound.send(reply::error(Some(&id), &error)),
    }
}

/// The result, where it is known at once; `None` where a task answers.
fn begin(
    client: &Arc<ClientState>,
    id: &RequestId,
    method: String,
    params: Option<&RawJson>,
    outbound: &Outbound,
) -> Result<Option<Bytes>, ErrorReply> {
    let params = RequestParams::read(params).map_err(ErrorReply::invalid_params)?;
    if method == "initialize" {
        return initialize(client, &params).map(Some);
    }
    let request = ClientRequest::read(client, method, params)?;
    let awaits_servers = ListKind::of_method(&request.method).is_some()
        && client.gateway.awaits_first_lists(&client.selection);
    if !awaits_servers && let Some(result) = answer_at_once(&request)? {
        return Ok(Some(result));
    }
    let cancel = Arc::new(Notify::new());
    let responder = client.begin(id.clone(), outbound.clone(), &cancel)?;
    client.gateway.request_tasks.answer(BegunRequest {
        request,
        responder,
        cancel,
    });
    Ok(None)
}

impl ClientRequest {
    /// Finds the era, and what the client declared in it.
    fn read(
        client: &Arc<ClientState>,
        method: String,
        mut params: RequestParams,
    ) -> Result<Self, ErrorReply> {
        let era = params.meta.era();
        let (capabilities, client_info) = match era {
            Era::Modern => {
                check_modern(&params)?;
                let declared = params.meta.capabilities.take();
                let capabilities = ClientCapabilities::read(declared.as_ref());
                (capabilities, params.meta.client_info.take())
            }
            Era::Legacy => match client.handshake() {
                Some(handshake) => (handshake.capabilities, handshake.client_info.clone()),
                None if method == "ping" => Default::default(),
                None if method == "server/discover" => {
                    let message = "_meta[\"io.modelcontextprotocol/protocolVersion\"] is missing";
                    return Err(ErrorReply::invalid_params(message));
                }
                None => {
                    let message = format!(
                        "{method:.100} came before initialize, and names no protocol version in _meta"
                    );
                    return Err(ErrorReply::invalid_params(message));
                }
            },
        };
        Ok(Self {
            client: client.clone(),
            method,
            params,
            era,
            capabilities,
            client_info,
        })
    }
}

impl ClientRequest {
    /// Whether the client is offered `search_tools` and `call_tool` in place of all tools.
    fn is_offered_search(&self) -> bool {
        let client = &self.client;
        let listing = client.gateway.settings.listing.tools;
        if listing == ToolListing::All || client.selection != ServerSelection::All {
            return false;
        }
        #[derive(Deserialize)]
        struct ClientInfo {
            name: String,
        }
        let said = self.client_info.as_ref();
        let said = said.and_then(|info| info.decode::<ClientInfo>().ok());
        let said = said.map(|info| info.name).unwrap_or_default();
        let catalog = client.gateway.catalog(&client.selection);
        let length = catalog.list(ListKind::Tools, Era::Legacy).len();
        search::applies(listing, length, &[client.principal.as_str(), &said])
    }

    /// Whether this calls one of the two tools of the search.
    pub(crate) fn calls_in_search(&self, tool: &str) -> bool {
        self.method == "tools/call"
            && self.client.gateway.settings.listing.tools != ToolListing::All
            && self.params.text("name").as_deref() == Some(tool)
            && self.is_offered_search()
    }
}

/// What every modern request must say of itself.
fn check_modern(params: &RequestParams) -> Result<(), ErrorReply> {
    if params.meta.revision().is_none() {
        let requested = params.meta.version.as_deref().unwrap_or_default();
        let message = format!("unsupported protocol version {requested:.40?}");
        let supported = Revision::MODERN.map(Revision::as_str);
        return Err(ErrorReply::new(reply::UNSUPPORTED_VERSION, message)
            .with_data(&json!({"supported": supported, "requested": requested})));
    }
    let declared = params.meta.capabilities.as_ref();
    if !declared.is_some_and(|declared| declared.as_str().starts_with('{')) {
        let message = "_meta[\"io.modelcontextprotocol/clientCapabilities\"] must be an object";
        return Err(ErrorReply::invalid_params(message));
    }
    Ok(())
}

/// Results that need no server: the catalog is cached.
fn answer_at_once(request: &ClientRequest) -> Result<Option<Bytes>, ErrorReply> {
    let client = &request.client;
    if let Some(kind) = ListKind::of_method(&request.method) {
        if request.params.get("cursor").is_some() {
            // A list has one page, so no cursor was given out.
            return Err(ErrorReply::invalid_params("unknown cursor"));
        }
        let catalog = client.gateway.catalog(&client.selection);
        return Ok(Some(
            match kind {
                ListKind::Tools if request.is_offered_search() => catalog.search_list(request.era),
                kind => catalog.list(kind, request.era),
            }
            .clone(),
        ));
    }
    if request.calls_in_search(search::SEARCH_TOOL) {
        let catalog = client.gateway.catalog(&client.selection);
        let result = catalog.search(&request.params);
        return Ok(Some(match request.era {
            Era::Legacy => result.as_bytes().clone(),
            Era::Modern => reply::completed(&result, ""),
        }));
    }
    if let Some(result) = client_tasks::answer(request)? {
        return Ok(Some(result));
    }
    match (request.method.as_str(), request.era) {
        ("server/discover", Era::Modern) => Ok(Some(discover(client))),
        ("ping", Era::Legacy) => Ok(Some(Bytes::from_static(b"{}"))),
        ("logging/setLevel", Era::Legacy) => set_log_level(request).map(Some),
        _ => Ok(None),
    }
}

/// Answers a request that needs a server, or stays open.
pub(crate) async fn run(begun: BegunRequest) {
    match begun.request.method.as_str() {
        "tools/call"
        | "prompts/get"
        | "resources/read"
        | "completion/complete"
        | "skills/get"
        | "resources/directory/read" => server_request::run(begun).await,
        // Rare, and larger than the others.
        _ => Box::pin(run_other(begun)).await,
    }
}

async fn run_other(begun: BegunRequest) {
    let BegunRequest {
        request,
        responder,
        cancel,
    } = begun;
    match (request.method.as_str(), request.era) {
        ("skills/list", _) => tokio::select! {
            () = skills::list(&request, responder) => {}
            () = cancel.notified() => {}
        },
        (gateway_loop::METHOD, _) => tokio::select! {
            () = gateway_loop::answer(&request, responder) => {}
            () = cancel.notified() => {}
        },
        ("tasks/result", Era::Legacy) => {
            client_tasks::result(&request, responder, &cancel).await;
        }
        ("subscriptions/listen", Era::Modern) => {
            changes::listen(&request, responder, &cancel).await;
        }
        ("resources/subscribe" | "resources/unsubscribe", Era::Legacy) => {
            tokio::select! {
                outcome = subscribe(&request) => match outcome {
                    Ok(()) => responder.result(b"{}").await,
                    Err(error) => responder.error(&error).await,
                },
                () = cancel.notified() => {}
            }
        }
        (method, _) if ListKind::of_method(method).is_some() => {
            let client = &request.client;
            tokio::select! {
                () = client.gateway.first_lists(&client.selection) => {}
                () = cancel.notified() => return,
            }
            match answer_at_once(&request) {
                Ok(list) => responder.result(&list.unwrap_or_default()).await,
                Err(error) => responder.error(&error).await,
            }
        }
        (method, _) => {
            let message = format!("method {method:.100} is not known");
            let error = ErrorReply::new(reply::METHOD_NOT_FOUND, message);
            responder.error(&error).await;
        }
    }
}

fn initialize(client: &Arc<ClientState>, params: &RequestParams) -> Result<Bytes, ErrorReply> {
    let requested = params
        .text("protocolVersion")
        .ok_or_else(|| ErrorReply::invalid_params("protocolVersion is missing"))?;
    let revision = Revision::parse_in(Era::Legacy, &requested)
        .unwrap_or_else(|| Revision::newest(Era::Legacy));
    client.shake_hands(ClientHandshake {
        revision,
        client_info: params.get("clientInfo").cloned(),
        capabilities: ClientCapabilities::read(params.get("capabilities")),
    });
    let mut result = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": legacy_capabilities(revision),
        "serverInfo": crate::server_info(),
    });
    if let Some(instructions) = instructions(client) {
        result["instructions"] = instructions.into();
    }
    Ok(result.to_string().into())
}

fn discover(client: &ClientState) -> Bytes {
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": Revision::MODERN.map(Revision::as_str),
        "capabilities": modern_capabilities(),
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": {SERVER_INFO: crate::server_info()},
    });
    if let Some(instructions) = instructions(client) {
        result["instructions"] = instructions.into();
    }
    result.to_string().into()
}

/// The same whatever the servers offer: they may come later.
fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "completions": {},
        "extensions": {SKILLS: {"directoryRead": true}},
    })
}

fn legacy_capabilities(revision: Revision) -> Value {
    let mut capabilities = capabilities();
    capabilities["logging"] = json!({});
    if revision == Revision::V2025_11_25 {
        capabilities["tasks"] = client_tasks::legacy_capability();
    }
    capabilities
}

fn modern_capabilities() -> Value {
    let mut capabilities = capabilities();
    capabilities["extensions"][TASKS] = json!({});
    capabilities
}

/// What the servers that are connected say about their use.
fn instructions(client: &ClientState) -> Option<String> {
    let mut texts = Vec::new();
    for server in client.gateway.host.servers().iter() {
        let name = &server.config.name;
        let session = server.snapshot().session.clone();
        let said = session.and_then(|session| session.hello().instructions.clone());
        match (&client.selection, said) {
            (ServerSelection::One(one), Some(said)) if one == name => {
                return Some(said.for_model().0.into_owned());
            }
            (ServerSelection::All, Some(said)) => {
                texts.push(format!("{name}: {}", said.for_model().0));
            }
            _ => {}
        }
    }
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Servers log from the least grave level that a client wants on; each client is sent what it wants.
fn set_log_level(request: &ClientRequest) -> Result<Bytes, ErrorReply> {
    let word = request.params.text("level").unwrap_or_default();
    let level = LogLevel::read(&word)
        .ok_or_else(|| ErrorReply::invalid_params(format!("unknown log level {word:.40?}")))?;
    let client = &request.client;
    client.set_log_level(level);
    let gateway = client.gateway.clone();
    let least = gateway
        .clients()
        .iter()
        .filter_map(|client| client.log_level())
        .min();
    let least = least.unwrap_or(level);
    tokio::spawn(async move {
        for server in gateway.host.servers().iter() {
            // Only servers that are connected: the others are not started for this.
            if server.snapshot().session.is_some() {
                // One that does not log has no level to set.
                let _ = gateway.host.set_log_level(&server.config.name, least).await;
            }
        }
    });
    Ok(Bytes::from_static(b"{}"))
}

async fn subscribe(request: &ClientRequest) -> Result<(), ErrorReply> {
    let (client, gateway) = (&request.client, &request.client.gateway);
    let uri = request
        .params
        .text("uri")
        .ok_or_else(|| ErrorReply::invalid_params("uri is missing"))?;
    if request.method == "resources/unsubscribe" {
        let subscriptions = &gateway.subscriptions;
        subscriptions
            .remove(&gateway.host, &uri, client.number)
            .await;
        return Ok(());
    }
    let server = server_request::server_of_resource(client, &uri)
        .ok_or_else(|| server_request::no_resource(&uri, request.era))?;
    let subscribed = gateway
        .subscriptions
        .add(&gateway.host, server, &uri, client.number);
    subscribed
        .await
        .map_err(|error| server_request::error_reply(&error))
}

/// Takes a notification. What is not known is ignored.
pub(crate) fn notification(client: &Arc<ClientState>, method: &str, params: Option<&RawJson>) {
    #[derive(Deserialize)]
    struct CancelledRequest {
        #[serde(rename = "requestId")]
        id: Box<serde_json::value::RawValue>,
    }
    match method {
        "notifications/initialized" => {
            client.set_initialized();
            ask_roots(client);
        }
        "notifications/roots/list_changed" => ask_roots(client),
        "notifications/cancelled" => {
            let read = params.and_then(|params| params.decode::<CancelledRequest>().ok());
            if let Some(cancelled) = read {
                client.cancel(&request_id(cancelled.id.get()));
            }
        }
        _ => {}
    }
}

fn request_id(text: &str) -> RequestId {
    match text.parse() {
        Ok(number) => RequestId::Number(number),
        Err(_) => RequestId::Other(text.parse().unwrap_or_else(|_| RawJson::from(Value::Null))),
    }
}

/// Reads a client's result of `roots/list`.
pub(crate) fn read_roots(listed: &RawJson) -> Option<Vec<Root>> {
    #[derive(Deserialize)]
    struct ListedRoots {
        roots: Vec<ListedRoot>,
    }
    #[derive(Deserialize)]
    struct ListedRoot {
        uri: String,
        name: Option<String>,
    }
    let ListedRoots { roots } = listed.decode().ok()?;
    let root = |ListedRoot { uri, name }| Root { uri, name };
    Some(roots.into_iter().map(root).collect())
}

/// Asks a legacy client for the folders that servers may work in, if it has any.
fn ask_roots(client: &Arc<ClientState>) {
    if !client
        .handshake()
        .is_some_and(|handshake| handshake.capabilities.roots)
    {
        return;
    }
    let client = client.clone();
    tokio::spawn(async move {
        let asked = client.questions.ask(&client.outbound, "roots/list", b"{}");
        let Ok(Some(Ok(listed))) = tokio::time::timeout(ROOTS_WITHIN, asked).await else {
            return;
        };
        let Some(roots) = read_roots(&listed) else {
            return;
        };
        client.set_roots(roots.clone());
        // A legacy server may ask outside of a call: then the folders of the only client count.
        if client.gateway.clients().len() == 1 {
            client.gateway.host.set_roots(roots);
        }
    });
}

/// How long a client may take to list its folders.
const ROOTS_WITHIN: std::time::Duration = std::time::Duration::from_secs(60);
