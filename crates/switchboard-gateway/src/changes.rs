//! Notifications to clients: changed lists and resources, logs that belong to no call, and changes
//! that wait for a person.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::json;
use switchboard::event::{Event, Events, LogLevel, NextEvent, SessionCallers};
use switchboard::reload::PendingChange;
use switchboard::server::{ServerHandle, State};
use switchboard::sync::lock;
use switchboard::wire::RequestId;
use switchboard::{CallerId, RawJson, ServerName};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::caller::ELICITATION_COMPLETE;
use crate::client::{ClientState, Responder};
use crate::client_request::ClientRequest;
use crate::client_tasks;
use crate::gateway_loop;
use crate::gateway_state::GatewayState;
use crate::listeners::{ListChange, ListenFilter, Listener};
use crate::lost_servers::LostServers;
use crate::params::{SERVER_INFO, SUBSCRIPTION_ID};
use crate::pending_changes;
use crate::reply::{self, ErrorReply};
use crate::sent_request::SentRequest;
use crate::settings::ServerSelection;
use crate::subscriptions::{SubscribedResource, Subscriber};

/// How many resources one `subscriptions/listen` may name.
const MAX_RESOURCES: usize = 1024;

/// How long the acknowledgement of `subscriptions/listen` waits for servers to confirm.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

/// Passes on events of the host, until the host or the gateway ends.
pub(crate) async fn run(mut events: Events, gateway: Weak<GatewayState>) {
    let Some((mut notifier, lost_servers)) = gateway
        .upgrade()
        .map(|gateway| (ChangeNotifier::new(&gateway), gateway.lost_servers.clone()))
    else {
        return;
    };
    loop {
        let next = next_event(&mut events, &lost_servers).await;
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        match next {
            Ok(Some(event)) => notifier.notify(&gateway, event),
            Ok(None) => return,
            Err(GraceEnded) => notify_of_lost_servers(&gateway),
        }
    }
}

struct ChangeNotifier {
    states: ServerStates,
    /// The changes that clients were notified of, or find in the instructions.
    pending: Vec<PendingChange>,
    loop_checks: JoinSet<()>,
}

impl ChangeNotifier {
    /// Observes the servers that are connected already.
    fn new(gateway: &Arc<GatewayState>) -> Self {
        let mut notifier = Self {
            states: ServerStates::default(),
            pending: gateway.host.pending_changes(),
            loop_checks: JoinSet::new(),
        };
        for server in gateway.host.servers().iter() {
            notifier.check_for_loop(gateway, server);
        }
        notifier.states.observe_all(gateway);
        notifier
    }

    fn check_for_loop(&mut self, gateway: &Arc<GatewayState>, server: &ServerHandle) {
        while self.loop_checks.try_join_next().is_some() {}
        let check = gateway_loop::check(gateway.clone(), server.clone());
        self.loop_checks.spawn(check);
    }

    fn notify(&mut self, gateway: &Arc<GatewayState>, event: NextEvent) {
        if let NextEvent::Event(Event::State { server, state }) = &event {
            self.states.observe(gateway, server, state);
            if matches!(state, State::Ready { .. })
                && let Some(server) = gateway.host.server(server.as_str())
            {
                self.check_for_loop(gateway, &server);
            }
        }
        if matches!(
            event,
            NextEvent::Event(Event::Reloaded(_)) | NextEvent::Lagged(_)
        ) {
            self.states.observe_all(gateway);
            // Servers that are new have no log level and no subscriptions yet.
            gateway.update_log_level();
            gateway.subscriptions.renew(&gateway.host);
            notify_of_pending_changes(gateway, &mut self.pending);
        }
        notify_of_lost_servers(gateway);
        match event {
            // Of missed events only changed lists can be notified again.
            NextEvent::Event(Event::Catalog { .. }) | NextEvent::Lagged(_) => {
                notify_of_lists(gateway);
            }
            NextEvent::Event(Event::ResourceUpdated { server, uri }) => {
                notify_of_resource(gateway, &server, uri.raw());
            }
            NextEvent::Event(Event::Log {
                server,
                level,
                params,
                callers,
                ..
            }) => notify_of_log(gateway, &server, &level, &params, &callers),
            NextEvent::Event(Event::ElicitationComplete { caller, params, .. }) => {
                notify_of_elicitation(gateway, &caller, &params);
            }
            _ => {}
        }
    }
}

/// A lost server's grace period has ended, or may end at another time.
struct GraceEnded;

/// The next event, or the end of a grace period.
async fn next_event(
    events: &mut Events,
    lost_servers: &LostServers,
) -> Result<Option<NextEvent>, GraceEnded> {
    let next = async {
        match lost_servers.next_end() {
            Some(end) => timeout_at(end, events.next()).await.map_err(|_| GraceEnded),
            None => Ok(events.next().await),
        }
    };
    tokio::select! {
        biased;
        next = next => next,
        () = lost_servers.grace_changed() => Err(GraceEnded),
    }
}

/// Since when each server is connected. Observed states also update the gateway's lost servers.
#[derive(Default)]
struct ServerStates {
    connected: HashMap<ServerName, Instant>,
}

impl ServerStates {
    fn observe(&mut self, gateway: &GatewayState, server: &ServerName, state: &State) {
        let now = Instant::now();
        // The state may be that of a server that a reload has replaced or removed.
        if let Some(current) = gateway.host.server(server.as_str()) {
            let current = current.snapshot();
            gateway.lost_servers.observe(server, &current.state, now);
        }
        if matches!(state, State::Ready { .. }) {
            self.connected.entry(server.clone()).or_insert(now);
        } else if let Some(began) = self.connected.remove(server) {
            let recorder = &gateway.settings.recorder;
            recorder.server_session_ended(began.elapsed());
        }
    }

    fn observe_all(&mut self, gateway: &GatewayState) {
        let servers = gateway.host.servers();
        for server in servers.iter() {
            self.observe(gateway, &server.config.name, &server.snapshot().state);
        }
        let is_configured =
            |name: &ServerName| servers.iter().any(|server| server.config.name == *name);
        gateway.lost_servers.retain(is_configured);
    }
}

/// Notifies clients if servers were lost or came back.
fn notify_of_lost_servers(gateway: &GatewayState) {
    if gateway.lost_servers.update(Instant::now()) {
        notify_of_lists(gateway);
    }
}

fn notify_of_lists(gateway: &GatewayState) {
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

fn notify_of_resource(gateway: &GatewayState, server: &ServerName, uri: &str) {
    let subscribers = gateway.subscriptions.subscribers(server, uri);
    let method = "notifications/resources/updated";
    for client in gateway.clients() {
        if subscribers.contains(&client.number) {
            let params = json!({"uri": uri}).to_string();
            let message = reply::notification(method, params.as_bytes());
            client.outbound.send_once(message);
        }
    }
    let listeners = lock(&gateway.listeners).clone();
    for (number, listener) in listeners {
        if subscribers.contains(&number) {
            listener.send(method, json!({"uri": uri}));
        }
    }
}

/// A log of a legacy server that belongs to no call goes to a client only if no other client could
/// have caused it: by a request in flight, or by a call that was in flight at the same time.
fn notify_of_log(
    gateway: &GatewayState,
    server: &ServerName,
    level: &str,
    params: &RawJson,
    callers: &SessionCallers,
) {
    let sees_server = |client: &Arc<ClientState>| client.selection.includes(server);
    let clients: Vec<_> = gateway.clients().into_iter().filter(sees_server).collect();
    let mut busy = clients.iter().filter(|client| client.is_busy());
    let client = match (clients.as_slice(), busy.next(), busy.next()) {
        ([only], _, _) => only,
        (_, Some(only), None) => only,
        _ => return,
    };
    let is_of_others = match callers {
        SessionCallers::None => false,
        SessionCallers::One(caller) => *caller != client.caller_id,
        SessionCallers::Several => true,
    };
    if is_of_others {
        return;
    }
    let passes_level = match (client.log_level(), LogLevel::read(level)) {
        (Some(lowest), Some(level)) => level >= lowest,
        _ => true,
    };
    if client.is_initialized() && passes_level {
        let message = reply::notification("notifications/message", params.as_bytes());
        client.outbound.send_log(message);
    }
}

/// The client that was sent to a page is notified that the server has what it asked for there.
fn notify_of_elicitation(gateway: &GatewayState, caller: &CallerId, params: &RawJson) {
    for client in gateway.clients() {
        if client.is_initialized() && client.caller_id == *caller {
            let message = reply::notification(ELICITATION_COMPLETE, params.as_bytes());
            client.outbound.send(message);
        }
    }
}

/// Sends a log message about each change that began to wait since `known`, to clients that asked for
/// logs. A modern client gets logs of its own requests only.
fn notify_of_pending_changes(gateway: &GatewayState, known: &mut Vec<PendingChange>) {
    let waiting = gateway.host.pending_changes();
    for change in waiting.iter().filter(|change| !known.contains(change)) {
        let text = pending_changes::describe(change, &gateway.settings);
        let level = LogLevel::Warning;
        let params = json!({"level": level.as_str(), "logger": crate::SERVER_NAME, "data": text});
        let message = reply::notification("notifications/message", params.to_string().as_bytes());
        for client in gateway.clients() {
            if client.is_initialized()
                && client.log_level().is_some_and(|lowest| level >= lowest)
                && pending_changes::concerns(change, &client.selection)
            {
                client.outbound.send_log(message.clone());
            }
        }
    }
    *known = waiting;
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
    let mut filter = match read_filter(request) {
        Ok(filter) => filter,
        Err(error) => return responder.error(&error).await,
    };
    let guard = ListenerGuard {
        gateway: gateway.clone(),
        number: gateway.number(),
        ended: CancellationToken::new(),
    };
    let accepted = tokio::select! {
        accepted = subscribe(&guard, request, &filter) => accepted,
        () = cancel.notified() => return,
        () = responder.outbound.closed() => return,
    };
    filter
        .resource_subscriptions
        .retain(|uri| accepted.contains(uri));
    let mut id = Vec::new();
    responder.id.write(&mut id);
    let listener = Arc::new(Listener {
        selection: request.client.selection.clone(),
        id: String::from_utf8(id).unwrap_or_default(),
        outbound: responder.outbound.clone(),
        filter,
    });
    gateway.announce_from_now(&request.client.selection);
    {
        // A change is notified after the acknowledgement, and none is missed.
        let mut listeners = lock(&gateway.listeners);
        listener.acknowledge();
        listeners.insert(guard.number, listener);
    }
    tokio::select! {
        biased;
        // First, because a gateway that disconnects its clients also cancels their requests.
        () = request.client.draining() => {}
        // Nothing is sent for a request that its client has cancelled.
        () = cancel.notified() => return,
        () = responder.outbound.closed() => return,
    }
    let result = listen_result(&responder.id);
    responder.result(&result).await;
}

/// Subscribes to the resources of a `subscriptions/listen` request. Returns those that are accepted.
async fn subscribe(
    guard: &ListenerGuard,
    request: &ClientRequest,
    filter: &ListenFilter,
) -> HashSet<String> {
    let gateway = &guard.gateway;
    let mut subscribing = JoinSet::new();
    let mut sent = Vec::new();
    for uri in &filter.resource_subscriptions {
        let selection = &request.client.selection;
        let Some(server) = gateway.server_of_resource(selection, uri) else {
            continue;
        };
        let record = SentRequest {
            gateway,
            request,
            method: &request.method,
            server: server.clone(),
            name: uri.clone(),
            is_recorded: false,
        };
        let number = sent.len();
        sent.push(Some(record));
        let uri = uri.clone();
        let resource = SubscribedResource { server, uri };
        let subscriber = Subscriber {
            number: guard.number,
            principal: request.client.principal.clone(),
        };
        let (gateway, ended) = (gateway.clone(), guard.ended.clone());
        subscribing.spawn(async move {
            let outcome = subscribe_soon(&gateway, &resource, &subscriber).await;
            // The listener ended its subscriptions before this one began.
            if ended.is_cancelled() {
                gateway.end_subscriptions(subscriber.number);
            }
            (number, resource.uri, outcome)
        });
    }
    let mut accepted = HashSet::new();
    while let Some(subscribed) = subscribing.join_next().await {
        let Ok((number, uri, outcome)) = subscribed else {
            continue;
        };
        if let Some(record) = sent[number].take() {
            let answer = outcome.as_ref().map(drop);
            record.ended(answer.map_err(|error| error.message.to_string()));
        }
        if outcome.is_ok() {
            accepted.insert(uri);
        }
    }
    accepted
}

/// Subscribes to a resource. If the server takes long, because it is not connected for example, the
/// subscription is accepted and begins later.
async fn subscribe_soon(
    gateway: &GatewayState,
    resource: &SubscribedResource,
    subscriber: &Subscriber,
) -> Result<(), ErrorReply> {
    let (subscriptions, host) = (&gateway.subscriptions, &gateway.host);
    let subscribed = subscriptions.add(host, resource, subscriber);
    match timeout(CONFIRM_TIMEOUT, subscribed).await {
        Ok(outcome) => outcome,
        Err(_) => subscriptions.add_unconfirmed(host, resource, subscriber),
    }
}

/// The notifications that the request asks for. The error is for the client.
fn read_filter(request: &ClientRequest) -> Result<ListenFilter, ErrorReply> {
    let filter = match request.params.get("notifications").map(RawJson::decode) {
        None => ListenFilter::default(),
        Some(filter) => {
            filter.map_err(|fault| ErrorReply::invalid_params(format!("notifications: {fault}")))?
        }
    };
    if filter.task_ids.is_some() && !request.capabilities.tasks {
        return Err(client_tasks::missing_capability());
    }
    let count = filter.resource_subscriptions.len();
    match count > MAX_RESOURCES {
        true => Err(ErrorReply::invalid_params(format!(
            "{count} resources; at most {MAX_RESOURCES}"
        ))),
        false => Ok(filter),
    }
}

/// The result of a stream that ended cleanly.
fn listen_result(id: &RequestId) -> Vec<u8> {
    let mut out = br#"{"resultType":"complete","_meta":{"#.to_vec();
    out.extend_from_slice(format!(r#""{SUBSCRIPTION_ID}":"#).as_bytes());
    id.write(&mut out);
    let info = format!(r#","{SERVER_INFO}":{}}}}}"#, crate::server_info());
    out.extend_from_slice(info.as_bytes());
    out
}

/// Removes a listener and its subscriptions when it is dropped.
struct ListenerGuard {
    gateway: Arc<GatewayState>,
    number: u64,
    /// Cancelled when the listener has ended.
    ended: CancellationToken,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        lock(&self.gateway.listeners).remove(&self.number);
        self.ended.cancel();
        self.gateway.end_subscriptions(self.number);
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
