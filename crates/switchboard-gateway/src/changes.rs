//! Notifications to clients: changed lists and resources, and logs that belong to no call.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Instant;

use serde_json::json;
use switchboard::event::{Event, Events, LogLevel, NextEvent};
use switchboard::server::{ServerHandle, State};
use switchboard::sync::lock;
use switchboard::wire::RequestId;
use switchboard::{RawJson, ServerName};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::client::{ClientState, Responder};
use crate::client_request::ClientRequest;
use crate::gateway_loop;
use crate::gateway_state::GatewayState;
use crate::listeners::{ListChange, ListenFilter, Listener};
use crate::params::{SERVER_INFO, SUBSCRIPTION_ID};
use crate::reply::{self, ErrorReply};
use crate::settings::ServerSelection;

/// How many resources one `subscriptions/listen` may name.
const MAX_RESOURCES: usize = 1024;

/// Passes on events of the host, until the host or the gateway ends.
pub(crate) async fn report(mut events: Events, gateway: Weak<GatewayState>) {
    let mut loop_checks = JoinSet::new();
    let mut check = |gateway: &Arc<GatewayState>, servers: &[ServerHandle]| {
        while loop_checks.try_join_next().is_some() {}
        for server in servers {
            loop_checks.spawn(gateway_loop::check(gateway.clone(), server.clone()));
        }
    };
    let mut sessions = ServerSessions::default();
    // Some were connected before.
    if let Some(gateway) = gateway.upgrade() {
        check(&gateway, &gateway.host.servers());
        sessions.observe_all(&gateway);
    }
    while let Some(next) = events.next().await {
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        if let NextEvent::Event(Event::State { server, state }) = &next {
            sessions.observe(&gateway, server, state);
            if matches!(state, State::Ready { .. }) {
                let server = gateway.host.server(server.as_str());
                check(&gateway, server.as_slice());
            }
        }
        if matches!(next, NextEvent::Gap(_)) {
            sessions.observe_all(&gateway);
        }
        match next {
            // Of missed events only changed lists can be reported again.
            NextEvent::Event(Event::Catalog { .. }) | NextEvent::Gap(_) => report_lists(&gateway),
            NextEvent::Event(Event::ResourceUpdated { server, uri }) => {
                report_resource(&gateway, &server, uri.raw());
            }
            NextEvent::Event(Event::Log {
                server,
                level,
                params,
                ..
            }) => report_log(&gateway, &server, &level, &params),
            _ => {}
        }
    }
}

/// Since when each server is connected.
#[derive(Default)]
struct ServerSessions(HashMap<ServerName, Instant>);

impl ServerSessions {
    fn observe(&mut self, gateway: &GatewayState, server: &ServerName, state: &State) {
        if matches!(state, State::Ready { .. }) {
            let began = self.0.entry(server.clone());
            began.or_insert_with(Instant::now);
        } else if let Some(began) = self.0.remove(server) {
            let recorder = &gateway.settings.recorder;
            recorder.server_session_ended(began.elapsed());
        }
    }

    fn observe_all(&mut self, gateway: &GatewayState) {
        for server in gateway.host.servers().iter() {
            self.observe(gateway, &server.config.name, &server.snapshot().state);
        }
    }
}

fn report_lists(gateway: &GatewayState) {
    for (selection, change) in gateway.announce() {
        for client in gateway.clients() {
            if client.is_initialized() && client.selection == selection {
                for method in change.methods() {
                    let message = reply::notification(method, b"{}");
                    client.outbound.send_once(message);
                }
            }
        }
        for listener in listeners(gateway) {
            if listener.selection == selection {
                for method in change.and(&listener.filter).methods() {
                    listener.send(method, json!({}));
                }
            }
        }
    }
}

fn report_resource(gateway: &GatewayState, server: &ServerName, uri: &str) {
    let subscribers = gateway.subscriptions.subscribers(server, uri);
    let method = "notifications/resources/updated";
    for client in gateway.clients() {
        if subscribers.contains(&client.number) {
            let params = json!({"uri": uri}).to_string();
            let message = reply::notification(method, params.as_bytes());
            client.outbound.send_once(message);
        }
    }
    let known = lock(&gateway.listeners).clone();
    for (number, listener) in known {
        if subscribers.contains(&number) {
            listener.send(method, json!({"uri": uri}));
        }
    }
}

/// A log of a legacy server that belongs to no call goes to a client only if no other client could
/// have caused it.
fn report_log(gateway: &GatewayState, server: &ServerName, level: &str, params: &RawJson) {
    let sees_server = |client: &Arc<ClientState>| client.selection.includes(server);
    let clients: Vec<_> = gateway.clients().into_iter().filter(sees_server).collect();
    let mut busy = clients.iter().filter(|client| client.is_busy());
    let client = match (clients.as_slice(), busy.next(), busy.next()) {
        ([only], _, _) => only,
        (_, Some(only), None) => only,
        _ => return,
    };
    let is_wanted = match (client.log_level(), LogLevel::read(level)) {
        (Some(wanted), Some(level)) => level >= wanted,
        _ => true,
    };
    if client.is_initialized() && is_wanted {
        let message = reply::notification("notifications/message", params.as_bytes());
        client.outbound.send_log(message);
    }
}

fn listeners(gateway: &GatewayState) -> Vec<Arc<Listener>> {
    lock(&gateway.listeners).values().cloned().collect()
}

/// `subscriptions/listen`: acknowledged at once, answered when it ends.
pub(crate) async fn listen(
    gateway: &Arc<GatewayState>,
    request: &ClientRequest,
    responder: Responder,
    cancel: &Notify,
) {
    let filter = match request.params.get("notifications").map(RawJson::decode) {
        None => Ok(ListenFilter::default()),
        Some(read) => read.map_err(|fault| format!("notifications: {fault}")),
    };
    let filter = filter.and_then(|filter: ListenFilter| {
        let count = filter.resource_subscriptions.len();
        match count > MAX_RESOURCES {
            true => Err(format!("{count} resources; at most {MAX_RESOURCES}")),
            false => Ok(filter),
        }
    });
    let mut filter = match filter {
        Ok(filter) => filter,
        Err(fault) => return responder.error(&ErrorReply::invalid_params(fault)).await,
    };
    let number = gateway.number();
    let _end = EndOfListening {
        gateway: gateway.clone(),
        number,
    };
    let mut honoured = HashSet::new();
    for uri in &filter.resource_subscriptions {
        let Some(server) = gateway.server_of_resource(&request.client.selection, uri) else {
            continue;
        };
        let subscribed = gateway
            .subscriptions
            .add(&gateway.host, server, uri, number);
        tokio::select! {
            outcome = subscribed => if outcome.is_ok() { honoured.insert(uri.clone()); },
            () = cancel.notified() => return,
            () = responder.outbound.closed() => return,
        }
    }
    filter
        .resource_subscriptions
        .retain(|uri| honoured.contains(uri));
    let mut id = Vec::new();
    responder.id.write(&mut id);
    let listener = Arc::new(Listener {
        selection: request.client.selection.clone(),
        id: String::from_utf8(id).unwrap_or_default(),
        outbound: responder.outbound.clone(),
        filter,
    });
    listener.acknowledge();
    lock(&gateway.listeners).insert(number, listener);
    tokio::select! {
        () = cancel.notified() => {}
        () = responder.outbound.closed() => {}
        () = request.client.draining() => {}
    }
    let result = ended(&responder.id);
    responder.result(&result).await;
}

/// The result of a stream that ended cleanly.
fn ended(id: &RequestId) -> Vec<u8> {
    let mut out = br#"{"resultType":"complete","_meta":{"#.to_vec();
    out.extend_from_slice(format!(r#""{SUBSCRIPTION_ID}":"#).as_bytes());
    id.write(&mut out);
    let info = format!(r#","{SERVER_INFO}":{}}}}}"#, crate::server_info());
    out.extend_from_slice(info.as_bytes());
    out
}

/// Removes a listener's subscriptions when it is dropped.
struct EndOfListening {
    gateway: Arc<GatewayState>,
    number: u64,
}

impl Drop for EndOfListening {
    fn drop(&mut self) {
        lock(&self.gateway.listeners).remove(&self.number);
        let (gateway, number) = (self.gateway.clone(), self.number);
        if gateway.subscriptions.has(number)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                gateway
                    .subscriptions
                    .remove_all(&gateway.host, number)
                    .await;
            });
        }
    }
}

impl GatewayState {
    /// The lists that changed since the last notification, by selection.
    fn announce(&self) -> Vec<(ServerSelection, ListChange)> {
        let mut changes = Vec::new();
        for selection in self.announced_selections() {
            let new = self.catalog(&selection);
            if let Some(old) = self.set_announced(&selection, &new) {
                changes.push((selection, ListChange::between(&old, &new)));
            }
        }
        changes
    }
}
