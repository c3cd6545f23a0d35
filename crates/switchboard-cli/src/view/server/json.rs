//! `status --json`: each server as an object.

use serde_json::{Value, json};
use switchboard::Host;
use switchboard::config::{Endpoint, HttpTransportKind, ServerConfig, StateNames, Timeouts};
use switchboard::server::{DetectedTransport, SecondConnection, ServerHandle, Snapshot, State};

use super::facts::{memory_bytes, recent, uptime};
use super::{discovery_of, era_word, server_view};
use crate::view::status::ServerView;

/// `{"discovery", "servers": [{"name", "status", "state", "transport", "era", "protocolVersion",
/// "tools", "withheld": [{"tool", "reason"}], "error", "nextAttempt", "command", "url", "cwd",
/// "secondConnection": {"era", "state", "protocolVersion", "tools"}, "timeouts", "dialect",
/// "word"}]}`. `status` is one of three words whatever the dialect; `word`
/// is what the server's own dialect says.
pub(crate) fn status_json(host: &Host, verbose: bool) -> Value {
    let catalog = host.catalog();
    let entry =
        |handle: &ServerHandle| entry(handle, &server_view(handle, &catalog, host), verbose);
    let servers: Vec<_> = host.servers().iter().map(entry).collect();
    json!({ "discovery": discovery_of(host).as_str(), "servers": servers })
}

fn entry(handle: &ServerHandle, view: &ServerView, verbose: bool) -> Value {
    let snapshot = handle.snapshot();
    let (era, version) = match &snapshot.state {
        State::Ready { era, version } => (Some(era_word(*era)), Some(version.clone())),
        _ => (None, None),
    };
    let mut entry = json!({
        "name": view.name,
        "status": snapshot.shown_state().word(StateNames::Three),
        "state": snapshot.state.as_str(),
        "transport": transport_word(&handle.config, &snapshot),
        "era": era,
        "protocolVersion": version,
        "tools": view.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        "withheld": view.withheld.iter().map(|(tool, reason)| json!({ "tool": tool, "reason": reason })).collect::<Vec<_>>(),
        "error": view.why.as_ref().map(|(_, why)| why.as_str()),
        "nextAttempt": view.next_attempt,
        "command": (view.endpoint.0 == "Command").then_some(view.endpoint.1.as_str()),
        "url": (view.endpoint.0 == "URL").then_some(view.endpoint.1.as_str()),
        "cwd": view.working_directory,
        "secondConnection": handle.second_connection().map(second_connection_json),
        "timeouts": timeouts_json(handle.config.timeouts),
        "dialect": handle.config.dialect.profile().name,
        "word": view.dialect_word,
    });
    if verbose {
        entry["endpoint"] = view.endpoint.1.as_str().into();
        entry["pid"] = snapshot.pid.into();
        entry["uptimeSeconds"] = uptime(&snapshot).map(|span| span.as_secs()).into();
        entry["memoryBytes"] = snapshot.pid.and_then(memory_bytes).into();
        entry["restarts"] = snapshot.restarts.into();
        entry["cached"] = snapshot.cached.into();
        entry["history"] = recent(&snapshot).collect::<Vec<_>>().into();
    }
    entry
}

/// The connection of the other era; null for a server that has one connection.
fn second_connection_json(second: SecondConnection) -> Value {
    let version = match &second.state {
        State::Ready { version, .. } => Some(version.as_str()),
        _ => None,
    };
    let tools = second.tools.iter().map(|tool| tool.as_wire());
    json!({
        "era": era_word(second.era),
        "state": second.state.as_str(),
        "protocolVersion": version,
        "tools": tools.collect::<Vec<_>>(),
    })
}

/// In milliseconds.
fn timeouts_json(limits: Timeouts) -> Value {
    let Timeouts {
        connect,
        call,
        call_max,
    } = limits;
    json!({ "connect": connect.as_millis() as u64, "call": call.as_millis() as u64, "callMax": call_max.as_millis() as u64 })
}

/// The transport that worked, or else the one of the entry.
fn transport_word(config: &ServerConfig, snapshot: &Snapshot) -> &'static str {
    match (&config.endpoint, snapshot.wire) {
        (Endpoint::Stdio(_), _) => "stdio",
        (Endpoint::Http(_), Some(DetectedTransport::Sse)) => "sse",
        (Endpoint::Http(_), Some(DetectedTransport::Http)) => "http",
        (Endpoint::Http(http), None) if http.wire == HttpTransportKind::Sse => "sse",
        (Endpoint::Http(_), None) => "http",
        (Endpoint::Invalid(_), _) => "none",
    }
}
