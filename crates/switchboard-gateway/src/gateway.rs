//! The gateway: a host, how it is offered, and the clients that are connected.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use switchboard::server::State;
use switchboard::sync::lock;
use switchboard::{Host, ServerName};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::approvals::{Approvals, DenyUnasked};
use crate::changes::{self, Listeners};
use crate::client::{ClientSession, ClientState};
use crate::client_catalog::ClientCatalog;
use crate::client_tasks::ClientTasks;
use crate::cluster::{Alone, Cluster};
use crate::listing::ListingSettings;
use crate::outbound::{Outbound, OutboundMeter, OutboundQueue};
use crate::principal::Principal;
use crate::recorder::{NoRecorder, Recorder};
use crate::request_tasks::RequestTasks;
use crate::running::RunningRequests;
use crate::skills::KnownSkills;
use crate::subscriptions::ResourceSubscriptions;
use crate::suspended::SuspendedCalls;

/// How long after its start a gateway waits for servers that it has never listed. Many clients take
/// an empty first list for all there is.
const FIRST_LISTS: Duration = Duration::from_secs(2);

/// A host offered to clients. Clones share it.
#[derive(Debug, Clone)]
pub struct Gateway(pub(crate) Arc<GatewayState>);

/// What a gateway is made with.
pub struct GatewaySettings {
    /// Decides on calls whose client cannot be asked.
    pub approvals: Arc<dyn Approvals>,
    /// Is told of each request.
    pub recorder: Arc<dyn Recorder>,
    /// How tools are listed.
    pub listing: ListingSettings,
    /// The requests that are with servers.
    pub running: Arc<RunningRequests>,
    /// Seals and claims what clients keep for the gateway.
    pub cluster: Arc<dyn Cluster>,
    /// Counts what waits to be written to clients.
    pub outbound: Arc<OutboundMeter>,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            approvals: Arc::new(DenyUnasked),
            recorder: Arc::new(NoRecorder),
            listing: ListingSettings::default(),
            running: Arc::default(),
            cluster: Arc::new(Alone::ephemeral().expect("the system's randomness is available")),
            outbound: Arc::default(),
        }
    }
}

/// Which servers a client is offered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerSelection {
    /// All of them, under the names of the configured style.
    All,
    /// One, under its own names.
    One(ServerName),
}

/// What all clones of a gateway share.
pub(crate) struct GatewayState {
    pub(crate) host: Host,
    pub(crate) settings: GatewaySettings,
    pub(crate) suspended: SuspendedCalls,
    pub(crate) subscriptions: ResourceSubscriptions,
    pub(crate) tasks: ClientTasks,
    pub(crate) skills: KnownSkills,
    pub(crate) listeners: Listeners,
    pub(crate) request_tasks: RequestTasks,
    /// What each selection offers, as of the last request for it.
    catalogs: Mutex<HashMap<ServerSelection, Arc<ClientCatalog>>>,
    /// The same as clients were last told of it.
    announced: Mutex<HashMap<ServerSelection, Arc<ClientCatalog>>>,
    clients: Mutex<HashMap<u64, Weak<ClientState>>>,
    last_number: AtomicU64,
    started: Instant,
    /// Tells clients of changes; ends with the gateway.
    changes: Mutex<Option<AbortHandle>>,
}

impl Gateway {
    /// Offers a host. Clients are told of its changes from now on.
    pub fn new(host: Host, settings: GatewaySettings) -> Self {
        let state = Arc::new(GatewayState {
            host,
            suspended: SuspendedCalls::new(settings.cluster.clone()),
            settings,
            subscriptions: ResourceSubscriptions::default(),
            tasks: ClientTasks::default(),
            skills: KnownSkills::default(),
            listeners: Listeners::default(),
            request_tasks: RequestTasks::default(),
            catalogs: Mutex::default(),
            announced: Mutex::default(),
            clients: Mutex::default(),
            last_number: AtomicU64::new(0),
            started: Instant::now(),
            changes: Mutex::default(),
        });
        let task = tokio::spawn(changes::report(state.host.events(), Arc::downgrade(&state)));
        *lock(&state.changes) = Some(task.abort_handle());
        Self(state)
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Is told of each request.
    pub(crate) fn recorder(&self) -> &dyn Recorder {
        &*self.0.settings.recorder
    }

    /// Seals and claims what clients keep.
    pub(crate) fn cluster(&self) -> &dyn Cluster {
        &*self.0.settings.cluster
    }

    /// A queue for a client of this gateway, or for one response to it.
    pub fn outbound(&self) -> (Outbound, OutboundQueue) {
        Outbound::metered(&self.0.settings.outbound)
    }

    /// Connects a client: a legacy client's session, a connection that carries either era, or one
    /// modern request. `outbound` gets what belongs to no request.
    pub fn connect(
        &self,
        principal: Principal,
        selection: ServerSelection,
        outbound: Outbound,
    ) -> ClientSession {
        ClientSession::new(self.0.clone(), principal, selection, outbound)
    }

    /// Ends the requests that are with servers: each is answered with an error that says why.
    pub(crate) fn end_requests(&self) {
        self.0.settings.running.end(None);
    }

    /// Ends every request of every client, and the suspended ones. The host goes on.
    pub fn disconnect_all(&self) {
        for client in self.0.clients() {
            client.end();
        }
        self.0.suspended.end_all();
        self.0.tasks.end_all();
    }
}

impl GatewayState {
    /// A number that was not given before.
    pub(crate) fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed)
    }

    /// What a selection offers now.
    pub(crate) fn catalog(&self, selection: &ServerSelection) -> Arc<ClientCatalog> {
        let now = self.host.catalog();
        if let Some(known) = lock(&self.catalogs).get(selection)
            && known.generation == now.generation
        {
            return known.clone();
        }
        let new = Arc::new(ClientCatalog::build(
            &self.host,
            &now,
            selection,
            self.settings.listing,
        ));
        lock(&self.catalogs).insert(selection.clone(), new.clone());
        let mut announced = lock(&self.announced);
        announced
            .entry(selection.clone())
            .or_insert_with(|| new.clone());
        new
    }

    /// Whether a list would lack servers that are being connected for the first time. Those that were
    /// listed before are not waited for: their cached catalogs are offered.
    pub(crate) fn awaits_first_lists(&self, selection: &ServerSelection) -> bool {
        let is_selected = |name: &ServerName| match selection {
            ServerSelection::All => true,
            ServerSelection::One(one) => one == name,
        };
        self.started.elapsed() < FIRST_LISTS
            && self.host.servers().iter().any(|server| {
                let now = server.snapshot();
                is_selected(&server.config.name)
                    && matches!(now.state, State::Connecting { .. })
                    && !now.cached
            })
    }

    /// Waits for these servers, and not for long.
    pub(crate) async fn first_lists(&self, selection: &ServerSelection) {
        let mut events = self.host.events();
        let deadline = self.started + FIRST_LISTS;
        while self.awaits_first_lists(selection) {
            let _ = tokio::time::timeout_at(deadline, events.next()).await;
        }
    }

    /// Every selection that clients were told of.
    pub(crate) fn announced_selections(&self) -> Vec<ServerSelection> {
        lock(&self.announced).keys().cloned().collect()
    }

    /// Clients are told of this now; returns what they were told before.
    pub(crate) fn set_announced(
        &self,
        selection: &ServerSelection,
        new: &Arc<ClientCatalog>,
    ) -> Option<Arc<ClientCatalog>> {
        lock(&self.announced).insert(selection.clone(), new.clone())
    }

    pub(crate) fn add_client(&self, number: u64, client: &Arc<ClientState>) {
        lock(&self.clients).insert(number, Arc::downgrade(client));
    }

    pub(crate) fn remove_client(&self, number: u64) {
        lock(&self.clients).remove(&number);
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
