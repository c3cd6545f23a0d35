//! The state that all requests of a gateway share: host, settings, clients, catalogs, and suspended
//! calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde::Deserialize;
use switchboard::revision::Era;
use switchboard::server::State;
use switchboard::sync::lock;
use switchboard::{Host, ServerName};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::client::ClientState;
use crate::client_catalog::{ClientCatalog, ListKind};
use crate::client_request::ClientRequest;
use crate::client_tasks::ClientTasks;
use crate::listeners::Listeners;
use crate::listing::{ToolListing, search};
use crate::lost_servers::LostServers;
use crate::settings::{GatewaySettings, ServerSelection};
use crate::skills::KnownSkills;
use crate::subscriptions::ResourceSubscriptions;
use crate::suspended::SuspendedCalls;

/// How long after its start a gateway waits for servers without a cached catalog. Many clients never
/// ask again after an empty first list.
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
    pub(crate) lost_servers: LostServers,
    /// What each selection offers, as of the last request for it.
    catalogs: Mutex<HashMap<ServerSelection, Arc<ClientCatalog>>>,
    /// What each selection offered when clients were last notified of changes.
    announced: Mutex<HashMap<ServerSelection, Arc<ClientCatalog>>>,
    clients: Mutex<HashMap<u64, Weak<ClientState>>>,
    last_number: AtomicU64,
    started: Instant,
    /// Notifies clients of changes; ends with the gateway.
    changes: Mutex<Option<AbortHandle>>,
}

impl GatewayState {
    pub(crate) fn new(host: Host, settings: GatewaySettings) -> Self {
        Self {
            host,
            suspended: SuspendedCalls::new(settings.cluster.clone()),
            lost_servers: LostServers::new(settings.lost_server_grace),
            settings: Arc::new(settings),
            subscriptions: ResourceSubscriptions::default(),
            tasks: ClientTasks::default(),
            skills: KnownSkills::default(),
            listeners: Listeners::default(),
            catalogs: Mutex::default(),
            announced: Mutex::default(),
            clients: Mutex::default(),
            last_number: AtomicU64::new(0),
            started: Instant::now(),
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

    /// Whether a server would be missing in a list, because it is still connecting and has no cached
    /// catalog.
    pub(crate) fn awaits_first_lists(&self, selection: &ServerSelection) -> bool {
        self.started.elapsed() < FIRST_LISTS
            && self.host.servers().iter().any(|server| {
                let now = server.snapshot();
                selection.includes(&server.config.name)
                    && matches!(now.state, State::Connecting { .. })
                    && !now.cached
            })
    }

    /// Waits for these servers, for a short time.
    pub(crate) async fn first_lists(&self, selection: &ServerSelection) {
        let mut events = self.host.events();
        let deadline = self.started + FIRST_LISTS;
        while self.awaits_first_lists(selection) {
            let _ = tokio::time::timeout_at(deadline, events.next()).await;
        }
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
        lock(&self.clients).remove(&number);
    }

    /// A legacy server may ask for roots outside of a call. Then it gets those of the only legacy
    /// client, and none while there are several: no client's folders are for the calls of another.
    pub(crate) fn update_roots(&self) {
        // Locked until they are set, so that no earlier state is set after a later one.
        let clients = lock(&self.clients);
        let connected: Vec<_> = clients.values().filter_map(Weak::upgrade).collect();
        let mut legacy = connected
            .iter()
            .filter(|client| client.handshake().is_some());
        let roots = match (legacy.next(), legacy.next()) {
            (Some(only), None) => only.roots().unwrap_or_default(),
            _ => Vec::new(),
        };
        self.host.set_roots(roots);
    }

    /// The server that lists a resource, among those that the client is offered; otherwise the only
    /// server.
    pub(crate) fn server_of_resource(
        &self,
        selection: &ServerSelection,
        uri: &str,
    ) -> Option<ServerName> {
        if let ServerSelection::One(server) = selection {
            return Some(server.clone());
        }
        let listed = self.catalog(selection).server_of_resource(uri);
        let listed = listed.or_else(|| self.skills.server_of(uri));
        listed.or_else(|| match &*self.host.servers() {
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

    /// Ends the subscriptions of a client or of a `subscriptions/listen` request, in a task.
    pub(crate) fn end_subscriptions(self: &Arc<Self>, subscriber: u64) {
        if self.subscriptions.has(subscriber)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let gateway = self.clone();
            runtime.spawn(async move {
                let subscriptions = &gateway.subscriptions;
                subscriptions.remove_all(&gateway.host, subscriber).await;
            });
        }
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
