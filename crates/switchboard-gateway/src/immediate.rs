//! Requests that are answered at once, because they need no server: handshake, lists, search, tasks,
//! log level.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard::RawJson;
use switchboard::event::LogLevel;
use switchboard::revision::{Era, Revision};

use crate::client::{ClientHandshake, ClientState};
use crate::client_catalog::ListKind;
use crate::client_request::ClientRequest;
use crate::client_tasks;
use crate::gateway_state::GatewayState;
use crate::listing::search;
use crate::params::{ClientCapabilities, RequestParams, SERVER_INFO, TASKS};
use crate::pending_changes;
use crate::recorder::RequestOutcome;
use crate::reply::{self, ErrorReply};
use crate::settings::ServerSelection;
use crate::skills::SKILLS;

/// The result of a request that needs no server, or the error; `None` for all other requests.
pub(crate) fn answer(
    gateway: &Arc<GatewayState>,
    request: &ClientRequest,
) -> Result<Option<Bytes>, ErrorReply> {
    let client = &request.client;
    if let Some(kind) = ListKind::of_method(&request.method) {
        if request.params.get("cursor").is_some() {
            // Lists have one page, so no cursor is valid.
            return Err(ErrorReply::invalid_params("unknown cursor"));
        }
        let catalog = gateway.catalog(&client.selection);
        return Ok(Some(
            match kind {
                ListKind::Tools if gateway.offers_search(request) => {
                    catalog.search_list(request.era)
                }
                kind => catalog.list(kind, request.era),
            }
            .clone(),
        ));
    }
    if gateway.is_search_call(request, search::SEARCH_TOOL) {
        let catalog = gateway.catalog(&client.selection);
        let result = catalog.search(&request.params);
        gateway.record_unsent(request, RequestOutcome::Answered);
        return Ok(Some(match request.era {
            Era::Legacy => result.as_bytes().clone(),
            Era::Modern => reply::completed(&result, ""),
        }));
    }
    if let Some(result) = client_tasks::answer(&gateway.tasks, request)? {
        return Ok(Some(result));
    }
    match (&*request.method, request.era) {
        ("server/discover", Era::Modern) => Ok(Some(discover(gateway, client))),
        ("ping", Era::Legacy) => Ok(Some(Bytes::from_static(b"{}"))),
        ("logging/setLevel", Era::Legacy) => set_log_level(gateway, request).map(Some),
        _ => Ok(None),
    }
}

/// `initialize`: makes the client's session legacy.
pub(crate) fn initialize(
    gateway: &GatewayState,
    client: &ClientState,
    params: &RequestParams,
) -> Result<Bytes, ErrorReply> {
    let requested = params
        .text("protocolVersion")
        .ok_or_else(|| ErrorReply::invalid_params("protocolVersion is missing"))?;
    let revision = Revision::parse_in(Era::Legacy, &requested)
        .unwrap_or_else(|| Revision::newest(Era::Legacy));
    client.set_handshake(ClientHandshake {
        revision,
        // Copied: a shared slice would keep the request's whole buffer in memory.
        client_info: params.get("clientInfo").map(RawJson::copy),
        capabilities: ClientCapabilities::read(params.get("capabilities")),
    });
    gateway.announce_from_now(&client.selection);
    let mut result = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": legacy_capabilities(revision),
        "serverInfo": crate::server_info(),
    });
    if let Some(instructions) = instructions(gateway, &client.selection) {
        result["instructions"] = instructions.into();
    }
    Ok(result.to_string().into())
}

fn discover(gateway: &GatewayState, client: &ClientState) -> Bytes {
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": Revision::MODERN.map(Revision::as_str),
        "capabilities": modern_capabilities(),
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": {SERVER_INFO: crate::server_info()},
    });
    if let Some(instructions) = instructions(gateway, &client.selection) {
        result["instructions"] = instructions.into();
    }
    result.to_string().into()
}

/// The capabilities do not depend on the servers, which may connect later.
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

/// The changes that wait for a person, and the instructions of the connected servers.
fn instructions(gateway: &GatewayState, selection: &ServerSelection) -> Option<String> {
    let pending = gateway.host.pending_changes();
    let pending = pending
        .iter()
        .filter(|change| pending_changes::concerns(change, selection));
    let describe = |change| pending_changes::describe(change, &gateway.settings);
    let mut texts: Vec<String> = pending.map(describe).collect();
    for server in gateway.host.servers().iter() {
        let name = &server.config.name;
        let session = server.snapshot().session.clone();
        let instructions = session.and_then(|session| session.hello().instructions.clone());
        match (selection, instructions) {
            (ServerSelection::One(one), Some(instructions)) if one == name => {
                texts.push(instructions.for_model().0.into_owned());
            }
            (ServerSelection::All, Some(instructions)) => {
                texts.push(format!("{name}: {}", instructions.for_model().0));
            }
            _ => {}
        }
    }
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Servers log from the lowest level that any client asked for; each client gets its own level.
fn set_log_level(gateway: &GatewayState, request: &ClientRequest) -> Result<Bytes, ErrorReply> {
    let name = request.params.text("level").unwrap_or_default();
    let level = LogLevel::read(&name)
        .ok_or_else(|| ErrorReply::invalid_params(format!("unknown log level {name:.40?}")))?;
    request.client.set_log_level(level);
    gateway.update_log_level();
    Ok(Bytes::from_static(b"{}"))
}
