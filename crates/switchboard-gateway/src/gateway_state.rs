//! The state that all requests of a gateway share: host, settings, clients, catalogs, and suspended
//! calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use serde::Deserialize;
use switchboard::config::Start;
use switchboard::event::LogLevel;
use switchboard::revision::Era;
use switchboard::server::{ServerHandle, Snapshot, State};
use switchboard::sync::lock;
use switchboard::{Host, ServerName};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::client::{ClientKind, ClientState};
use crate::client_catalog::{ClientCatalog, ListKind};
use crate::client_request::ClientRequest;
use crate::client_tasks::ClientTasks;
use crate::known_skills::KnownSkills;
use crate::listeners::Listeners;
use crate::listing::{ToolListing, search};
use crate::lost_servers::LostServers;
use crate::recorder::{RequestOutcome, RequestRecord};
use crate::settings::{GatewaySettings, ServerSelection};
use crate::subscriptions::ResourceSubscriptions;
use crate::suspended::SuspendedCalls;

/// How long after its start a gateway without any cached catalog waits for its first server. Many
/// clients never ask again after an empty first list.
const FIRST_LISTS: Duration = Duration::from_secs(2);

/// The state that clones share.
pub(crate) struct GatewayState {
    pub(crate) host: Host,
    pub(crate) settings: Arc<GatewaySettings>,
    pub(crate) suspended: SuspendedCalls,
    pub(crate) subscriptions: ResourceSubscriptions,
    pub(crate) tasks: ClientTasks,
    pub(crate) skills: KnownSkills,
    pub(crate) listeners: Listeners,
    pub(crate) lost_servers: Arc<LostServers>,
    /// What each selection offers, as of the last request for it.
    catalogs: Mutex<HashMap<ServerSelection, Arc<ClientCatalog>>>,
    /// What each selection offered when clients were last notified of changes.
    announced: Mutex<HashMap<ServerSelection, Arc<ClientCatalog>>>,
    clients: Mutex<HashMap<u64, Weak<ClientState>>>,
    last_number: AtomicU64,
    /// The log level that legacy servers were last asked for.
    log_level: Mutex<Option<LogLevel>>,
    /// When the servers were started.
    started: OnceLock<Instant>,
    /// Notifies clients of changes; ends with the gateway.
    changes: Mutex<Option<AbortHandle>>,
}

impl GatewayState {
    pub(crate) fn new(host: Host, settings: GatewaySettings) -> Self {
        let started = OnceLock::new();
        if !settings.starts_on_request {
            started.get_or_init(Instant::now);
        }
        Self {
            host,
            suspended: SuspendedCalls::new(settings.cluster.clone()),
            lost_servers: Arc::new(LostServers::new(settings.lost_server_grace)),
            settings: Arc::new(settings),
            subscriptions: ResourceSubscriptions::default(),
            tasks: ClientTasks::default(),
            skills: KnownSkills::default(),
            listeners: Listeners::default(),
            catalogs: Mutex::default(),
            announced: Mutex::default(),
            clients: Mutex::default(),
            last_number: AtomicU64::new(0),
            log_level: Mutex::default(),
            started,
            changes: Mutex::default(),
        }
    }

    /// The task that notifies clients of changes; ends with the gateway.
    pub(crate) fn set_changes_task(&self, task: AbortHandle) {
        *lock(&self.changes) = Some(task);
    }

    /// The next unique number.
    pub(crate) fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed)
    }

    /// What a selection offers now.
    pub(crate) fn catalog(&self, selection: &ServerSelection) -> Arc<ClientCatalog> {
        let (now, unlisted) = (self.host.catalog(), self.lost_servers.unlisted());
        if let Some(known) = lock(&self.catalogs).get(selection)
            && known.is_current(&now, &unlisted)
        {
            return known.clone();
        }
        let new = Arc::new(ClientCatalog::build(
            &self.host,
            &now,
            selection,
            unlisted,
            self.settings.listing,
        ));
        lock(&self.catalogs).insert(selection.clone(), new.clone());
        let mut announced = lock(&self.announced);
        announced
            .entry(selection.clone())
            .or_insert_with(|| new.clone());
        new
    }

    /// Whether a list waits: nothing is known of any of these servers, and one connects for the first
    /// time ever.
    pub(crate) fn awaits_first_lists(&self, selection: &ServerSelection) -> bool {
        if self.first_lists_deadline() <= Instant::now() {
            return false;
        }
        let mut is_awaited = false;
        for server in self.selected(selection) {
            let now = server.snapshot();
            // Its cached catalog is read from a file, which takes no time to speak of.
            if now.is_loading_cached() {
                return true;
            }
            if now.cached || now.session.is_some() {
                return false;
            }
            let is_first = !now.is_settled() || self.will_start(&server, &now);
            is_awaited |= is_first && !now.was_unlisted;
        }
        is_awaited
    }

    fn first_lists_deadline(&self) -> Instant {
        *self.started.get_or_init(Instant::now) + FIRST_LISTS
    }

    /// Starts the servers, if the settings leave that to the first request.
    pub(crate) fn start_servers(&self) {
        if !self.settings.starts_on_request || self.started.get().is_some() {
            return;
        }
        self.started.get_or_init(Instant::now);
        for server in self.host.servers().iter().cloned() {
            if self.will_start(&server, &server.snapshot()) {
                // A failure is shown as the server's state.
                tokio::spawn(async move { server.ready(server.config.longest_connect()).await });
            }
        }
    }

    /// Whether the first request starts the server.
    fn will_start(&self, server: &ServerHandle, now: &Snapshot) -> bool {
        self.settings.starts_on_request
            && matches!(now.state, State::Idle)
            && server.config.start == Start::Eager
    }

    fn selected(&self, selection: &ServerSelection) -> Vec<ServerHandle> {
        let servers = self.host.servers();
        let selected = servers
            .iter()
            .filter(|server| selection.includes(&server.config.name));
        selected.cloned().collect()
    }

    /// Waits for the first of these servers, for a short time. Later runs do not wait for those that
    /// are not connected by then.
    pub(crate) async fn first_lists(&self, selection: &ServerSelection) {
        let mut events = self.host.events();
        let deadline = self.first_lists_deadline();
        for server in self.selected(selection) {
            let _ = tokio::time::timeout_at(deadline, server.cache_read()).await;
        }
        while self.awaits_first_lists(selection) {
            let _ = tokio::time::timeout_at(deadline, events.next()).await;
        }
        let selected = self.selected(selection).into_iter();
        let unlisted: Vec<_> = selected
            .filter(|server| {
                let now = server.snapshot();
                now.session.is_none() && !now.cached && !now.was_unlisted
            })
            .collect();
        if !unlisted.is_empty() {
            tokio::spawn(async move {
                for server in unlisted {
                    server.remember_unlisted().await;
                }
            });
        }
    }

    /// Changes of this selection are notified from now on, though nothing was listed yet.
    pub(crate) fn announce_from_now(&self, selection: &ServerSelection) {
        let _ = self.catalog(selection);
    }

    /// Every selection that clients were notified of.
    pub(crate) fn announced_selections(&self) -> Vec<ServerSelection> {
        lock(&self.announced).keys().cloned().collect()
    }

    /// Records what clients are notified of now; returns what they were notified of before.
    pub(crate) fn set_announced(
        &self,
        selection: &ServerSelection,
        new: &Arc<ClientCatalog>,
    ) -> Option<Arc<ClientCatalog>> {
        lock(&self.announced).insert(selection.clone(), new.clone())
    }

    pub(crate) fn add_client(&self, client: &Arc<ClientState>) {
        lock(&self.clients).insert(client.number, Arc::downgrade(client));
    }

    pub(crate) fn remove_client(&self, number: u64) {
        let removed = lock(&self.clients).remove(&number);
        let client = removed.and_then(|client| client.upgrade());
        // Each modern request over HTTP is a client of its own: servers are not asked twice for each.
        let is_connection = |client: &Arc<ClientState>| client.kind != ClientKind::Request;
        let client = client.filter(is_connection);
        if client.is_some_and(|client| client.log_level().is_some()) {
            self.update_log_level();
        }
    }

    /// Sets the log level of all legacy servers, also of those that connect later: the lowest that a
    /// connected client asked for. Without any it stays as it is, since servers have no default to
    /// return to. A modern server gets the level of each client with its requests.
    pub(crate) fn update_log_level(&self) {
        let clients = self.clients();
        let connected = clients
            .iter()
            .filter(|client| client.kind != ClientKind::Request);
        let lowest = connected.filter_map(|client| client.log_level()).min();
        let mut current = lock(&self.log_level);
        *current = lowest.or(*current);
        self.set_log_level(*current);
    }

    /// A client that is one request asks for a level. A higher one changes nothing: another client may
    /// want the lower one.
    pub(crate) fn lower_log_level(&self, level: LogLevel) {
        let mut current = lock(&self.log_level);
        if current.is_none_or(|current| level < current) {
            *current = Some(level);
            self.set_log_level(*current);
        }
    }

    fn set_log_level(&self, level: Option<LogLevel>) {
        let Some(level) = level else { return };
        for server in self.host.servers().iter() {
            server.set_legacy_log_level(level);
        }
    }

    /// A legacy server may ask for roots outside of a call. Then it gets those of the only legacy
    /// client, and the host's while there are several, or if the client has none.
    pub(crate) fn update_roots(&self) {
        // Locked until they are set, so that no earlier state is set after a later one.
        let clients = lock(&self.clients);
        let connected: Vec<_> = clients.values().filter_map(Weak::upgrade).collect();
        let mut legacy = connected
            .iter()
            .filter(|client| client.handshake().is_some());
        let roots = match (legacy.next(), legacy.next()) {
            (Some(only), None) => only.roots().map(|roots| (only.caller_id.clone(), roots)),
            _ => None,
        };
        self.host.set_roots_outside_calls(roots);
    }

    /// The server of a resource, among those that the client is offered: the first in config order that
    /// lists it or has it as a skill's file; else the first with a template for it; otherwise the only
    /// server.
    pub(crate) fn server_of_resource(
        &self,
        selection: &ServerSelection,
        uri: &str,
    ) -> Option<ServerName> {
        if let ServerSelection::One(server) = selection {
            return Some(server.clone());
        }
        let catalog = self.catalog(selection);
        let servers = self.host.servers();
        let listed = catalog.server_that_lists(uri);
        let mut names = servers.iter().map(|server| &server.config.name);
        let named = names.find(|name| listed == Some(*name) || self.skills.has(name, uri));
        let found = named.cloned().or_else(|| catalog.server_with_template(uri));
        found.or_else(|| match &*servers {
            [only] => Some(only.config.name.clone()),
            _ => None,
        })
    }

    /// Whether the client gets `search_tools` and `call_tool` instead of all tools.
    pub(crate) fn offers_search(&self, request: &ClientRequest) -> bool {
        let client = &request.client;
        let listing = self.settings.listing.tools;
        if listing == ToolListing::All || client.selection != ServerSelection::All {
            return false;
        }
        #[derive(Deserialize)]
        struct ClientInfo {
            name: String,
        }
        let info = request.client_info.as_ref();
        let info = info.and_then(|info| info.decode::<ClientInfo>().ok());
        let name = info.map(|info| info.name).unwrap_or_default();
        let catalog = self.catalog(&client.selection);
        let length = catalog.list(ListKind::Tools, Era::Legacy).len();
        search::applies(listing, length, &[client.principal.as_str(), &name])
    }

    /// Whether the request calls `tool`, one of the two tools of the search.
    pub(crate) fn is_search_call(&self, request: &ClientRequest, tool: &str) -> bool {
        request.method == "tools/call"
            && self.settings.listing.tools != ToolListing::All
            && request.params.text("name").as_deref() == Some(tool)
            && self.offers_search(request)
    }

    /// Records a request that no server got: it was answered by the gateway, or no server was found.
    pub(crate) fn record_unsent(&self, request: &ClientRequest, outcome: RequestOutcome<'_>) {
        let params = &request.params;
        let name = ["name", "uri", "ref"].into_iter().find_map(|key| {
            params
                .text(key)
                .or_else(|| Some(params.get(key)?.as_str().into()))
        });
        self.settings.recorder.request_ended(&RequestRecord {
            number: self.settings.running.next_id(),
            principal: &request.client.principal,
            client_info: request.client_info.as_ref(),
            method: &request.method,
            server: None,
            name: name.as_deref().unwrap_or_default(),
            arguments: params.get("arguments"),
            approval: None,
            report: None,
            outcome,
            duration: request.arrived.elapsed(),
        });
    }

    /// Ends the subscriptions of a client or of a `subscriptions/listen` request.
    pub(crate) fn end_subscriptions(&self, subscriber: u64) {
        self.subscriptions.remove_all(&self.host, subscriber);
    }

    /// Whether the client is connected.
    pub(crate) fn has_client(&self, number: u64) -> bool {
        lock(&self.clients).contains_key(&number)
    }

    /// The clients that are connected.
    pub(crate) fn clients(&self) -> Vec<Arc<ClientState>> {
        lock(&self.clients)
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }
}

impl Drop for GatewayState {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.changes).take() {
            task.abort();
        }
    }
}

impl fmt::Debug for GatewayState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}
