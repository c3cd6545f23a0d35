//! The state of a host: all its servers, their catalog, leases of servers, logins, stop. The
//! modules below it know one server at a time.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, broadcast};
use tokio::task::{AbortHandle, JoinSet};

#[cfg(feature = "oauth")]
use crate::auth::{self, LoggedIn, LoggedOut, LoginFault, Opener};
use crate::caller::{Caller, CallerId, Root};
use crate::catalog::{Catalog, CatalogSource, possible_owners};
use crate::event::{Event, Events, NextEvent};
use crate::gate::{Gate, Grants};
use crate::host_tools::RegisteredTools;
use crate::launch::Containment;
use crate::name::{ServerName, Style};
use crate::panics::catch;
use crate::schema::Validators;
use crate::server::{ServerHandle, ServerResources};
#[cfg(feature = "oauth")]
use crate::state::State;
use crate::store::Store;
use crate::sync::{self, lock};

pub(crate) use in_code::{SettingsInCode, rule_in_code};
pub(crate) use initial_state::initial_state;
pub(crate) use reference::HostReference;
use reload_state::ReloadState;
pub(crate) use reload_state::{RetiringServer, wait_ended};
use remember::{GrantWriter, PinWriter, Writes, remembered_grants};
use roster::CurrentServers;
pub(crate) use roster::{LeaseError, Roster, ServerLease};

mod in_code;
mod initial_state;
mod reference;
mod reload_state;
mod remember;
mod roster;

/// How long token refreshes in flight may delay a stop.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// How long changes of servers are collected before the catalog is rebuilt: when many servers start
/// at once, a rebuild for each of them took a quarter of the start-up time.
const REBUILD_DELAY: Duration = Duration::from_millis(5);

/// How many consecutive reloads may replace a server before a request for it fails.
pub(crate) const MAX_RELOADS: usize = 16;

/// All servers behind one gate. Clones share them; they stop when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Host(pub(crate) Arc<HostState>);

/// The state that all clones of a host share.
pub(crate) struct HostState {
    /// Replaced as a whole, while `replacing` is locked. A request keeps what it has loaded.
    current: ArcSwap<CurrentServers>,
    replacing: Mutex<()>,
    /// The resources that servers are started with.
    pub(crate) resources: ServerResources,
    pub(crate) grants: Arc<RwLock<Grants>>,
    pub(crate) validators: Arc<Validators>,
    /// The host tools.
    pub(crate) own: RegisteredTools,
    pub(crate) store: Arc<dyn Store>,
    /// Stores and removes grants, on blocking threads.
    pub(crate) stored_grants: Arc<GrantWriter>,
    /// Stores pins, on blocking threads.
    pins: Arc<PinWriter>,
    /// Writes to the store in flight.
    writes: Writes,
    pub(crate) events: broadcast::Sender<Event>,
    /// Notices from before any listener could subscribe.
    notices: Vec<String>,
    /// The task that rebuilds the catalog when a server changed; ends with the host.
    rebuilder: Mutex<Option<AbortHandle>>,
    /// The servers that start with the host; `None` means every eager one.
    pub(crate) only: Option<Vec<ServerName>>,
    pub(crate) in_code: SettingsInCode,
    /// The default caller, for calls that name none.
    pub(crate) caller: Arc<dyn Caller>,
    /// Whether the notice was given that a caller offers more than servers are told.
    pub(crate) warned_of_offers: AtomicBool,
    pub(crate) reload: ReloadState,
}

impl Host {
    /// The current catalog. It includes at least the offerings of every server that was seen Ready.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.rebuild();
        self.0.catalog()
    }

    /// Problems found while the host started, one line each, safe to show: rules that match no
    /// server, unreadable grants. Later ones are [`Event::Notice`]s.
    pub fn notices(&self) -> &[String] {
        &self.0.notices
    }

    /// Every configured server, in config order. A reload replaces the servers, but not the list
    /// returned here.
    pub fn servers(&self) -> Arc<[ServerHandle]> {
        self.0.roster().servers.clone()
    }

    /// The naming style of tools, for servers whose dialect has none.
    pub fn naming(&self) -> Style {
        self.0.roster().config.naming
    }

    /// The servers that can own this tool name ([`possible_owners`]).
    pub fn servers_for(&self, name: &str) -> Vec<ServerHandle> {
        let roster = self.0.roster();
        let owners = possible_owners(&roster.config, name);
        let servers = roster.servers.iter();
        servers
            .filter(|server| owners.contains(&server.config.name))
            .cloned()
            .collect()
    }

    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<ServerHandle> {
        self.0
            .roster()
            .servers
            .iter()
            .find(|server| server.config.name.as_str() == name)
            .cloned()
    }

    /// Waits until no server is connecting for the first time, at most for `wait`. Returns whether that
    /// is so.
    pub async fn wait_until_settled(&self, wait: Duration) -> bool {
        let all = async {
            for server in self.servers().iter() {
                server.wait_until_settled().await;
            }
        };
        let settled = tokio::time::timeout(wait, all).await.is_ok();
        self.0.rebuild();
        settled
    }

    /// Logs in to a server; `opener` shows the login page. If the server is not connected, it is
    /// then connected.
    #[cfg(feature = "oauth")]
    pub async fn login(
        &self,
        server: &ServerName,
        opener: &dyn Opener,
    ) -> Result<LoggedIn, LoginFault> {
        let handle = self
            .server(server.as_str())
            .ok_or_else(|| LoginFault::unknown(server))?;
        let given = auth::login(
            &handle.config,
            &self.0.resources.environment,
            &self.0.resources.auth,
            opener,
        )
        .await?;
        if !matches!(handle.snapshot().state, State::Ready { .. }) {
            handle.restart().await;
        }
        Ok(given)
    }

    /// Revokes a login and deletes it. An open connection stays open, but its further requests are
    /// sent without the token.
    #[cfg(feature = "oauth")]
    pub async fn logout(&self, server: &ServerName) -> Result<LoggedOut, LoginFault> {
        let handle = self
            .server(server.as_str())
            .ok_or_else(|| LoginFault::unknown(server))?;
        let logged_out = auth::logout(
            &handle.config,
            &self.0.resources.environment,
            &self.0.resources.auth,
        )
        .await?;
        handle.forget_login();
        Ok(logged_out)
    }

    /// Where tokens are stored, for people. May block: it probes the keyring.
    pub fn login_storage(&self) -> String {
        self.0.resources.auth.vault.place()
    }

    /// Subscribes to events from now on.
    pub fn events(&self) -> Events {
        Events(self.0.events.subscribe())
    }

    /// Replaces the roots that servers may ask for, and notifies legacy servers. False if the host
    /// was built without roots: what a session advertises is fixed when it starts.
    pub fn set_roots(&self, roots: Vec<Root>) -> bool {
        self.0.resources.roots.set(roots)
    }

    /// Replaces the roots that legacy servers get outside of calls by those of one caller, or with
    /// `None` by the host's. Calls of other callers never get them. False as for
    /// [`set_roots`](Self::set_roots).
    pub fn set_roots_outside_calls(&self, roots: Option<(CallerId, Vec<Root>)>) -> bool {
        self.0.resources.roots.set_outside_calls(roots)
    }

    /// How child processes are kept from outliving this one.
    pub fn containment(&self) -> Containment {
        self.0.resources.launcher.containment()
    }

    /// Stops every server, in parallel, within the stop timing, and lets token refreshes in flight
    /// finish.
    pub async fn stop(&self) {
        let mut stopping: JoinSet<()> = JoinSet::new();
        self.0.reload.stop_watching();
        // A reload that is being applied would start servers that are not listed yet.
        let _no_reload = self.0.reload.reload_lock.lock().await;
        for server in self
            .servers()
            .iter()
            .cloned()
            .chain(self.0.reload.retiring())
        {
            stopping.spawn(async move { server.stop().await });
        }
        while stopping.join_next().await.is_some() {}
        self.0.finish_writes().await;
        // Last: nothing that could begin a refresh runs any more.
        self.finish_token_refreshes(REFRESH_TIMEOUT).await;
    }

    /// Waits until each token refresh that was sent has been stored, at most this long: if refresh
    /// tokens rotate, a lost response is a lost login. [`Host::stop`] includes this.
    pub async fn finish_token_refreshes(&self, limit: Duration) {
        self.0.resources.auth.refreshes.finish(limit).await;
    }
}

impl HostState {
    /// The state with these servers, without a catalog yet.
    pub(crate) fn new(
        roster: Roster,
        resources: ServerResources,
        own: RegisteredTools,
        caller: Arc<dyn Caller>,
        only: Option<Vec<ServerName>>,
        in_code: SettingsInCode,
    ) -> Self {
        let (store, events) = (resources.store.clone(), resources.events.clone());
        let warnings = roster.gate.warnings().iter();
        let grants = Arc::new(RwLock::new(remembered_grants(&*store, &events)));
        Self {
            notices: warnings
                .map(|warning| format!("warning: {warning}"))
                .collect(),
            current: ArcSwap::from_pointee(CurrentServers {
                roster: Arc::new(roster),
                catalog: Arc::default(),
            }),
            replacing: Mutex::default(),
            resources,
            stored_grants: GrantWriter::new(store.clone(), grants.clone()),
            grants,
            validators: Arc::default(),
            own,
            pins: PinWriter::new(store.clone(), events.clone()),
            writes: Writes::default(),
            store,
            events,
            rebuilder: Mutex::default(),
            only,
            in_code,
            caller,
            warned_of_offers: AtomicBool::default(),
            reload: ReloadState::default(),
        }
    }

    /// Builds the first catalog, and collects the notices among the early events.
    pub(crate) fn begin(mut self, mut early: Events) -> Arc<Self> {
        self.rebuild();
        while let Some(next) = early.try_next() {
            if let NextEvent::Event(Event::Notice { server, line }) = next {
                self.notices.push(match server {
                    Some(server) => format!("server \"{server}\": {line}"),
                    None => line,
                });
            }
        }
        Arc::new(self)
    }

    /// Replaces the roster, then the catalog.
    pub(crate) fn replace_roster(&self, roster: Roster) {
        let one_at_a_time = lock(&self.replacing);
        let catalog = self.catalog();
        self.current.store(Arc::new(CurrentServers {
            roster: Arc::new(roster),
            catalog,
        }));
        drop(one_at_a_time);
        self.rebuild();
    }

    /// Replaces the catalog if the offerings of any server, or the servers themselves, have
    /// changed.
    pub(crate) fn rebuild(&self) {
        if self.current.load().is_up_to_date() {
            return;
        }
        let _one_at_a_time = lock(&self.replacing);
        let current = self.current.load();
        let CurrentServers {
            roster,
            catalog: old,
        } = &**current;
        if current.is_up_to_date() {
            return;
        }
        let parts: Vec<_> = roster.servers.iter().map(catalog_source).collect();
        let host_tools: Vec<_> = (self.own)
            .offered_with(roster.config.servers.values())
            .cloned()
            .collect();
        let mut new = Catalog::build(old, roster.config.naming, &host_tools, &parts);
        new.roster = roster.number;
        new.mark_exposed(&parts);
        self.pin(&new, &roster.gate);
        let event = Event::Catalog {
            generation: new.generation,
            changed: new.changed_since(old),
        };
        self.current.store(Arc::new(CurrentServers {
            roster: roster.clone(),
            catalog: Arc::new(new),
        }));
        // There may be no listener.
        let _ = self.events.send(event);
    }

    /// Pins each definition when it is first seen, so that a later change of it is detected.
    fn pin(&self, catalog: &Catalog, gate: &Gate) {
        let mut wanted = catalog
            .callable()
            .filter(|tool| gate.wants_pin(tool))
            .peekable();
        if wanted.peek().is_none() {
            return;
        }
        let mut grants = sync::write(&self.grants);
        let new: Vec<_> = wanted.filter_map(|tool| grants.pin(tool)).collect();
        drop(grants);
        if !new.is_empty() {
            self.store_pins(new);
        }
    }

    /// Spawns the task that rebuilds the catalog soon after a server has changed. A request that needs
    /// the new catalog earlier calls [`rebuild`](Self::rebuild) itself.
    pub(crate) fn spawn_rebuilder(self: &Arc<Self>, changed: Arc<Notify>) {
        let shared = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            loop {
                changed.notified().await;
                tokio::time::sleep(REBUILD_DELAY).await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                if let Err(panicked) = catch(|| shared.rebuild()) {
                    let line = format!("the catalog could not be rebuilt: {panicked}");
                    let _ = shared.events.send(Event::Notice { server: None, line });
                }
            }
        });
        *lock(&self.rebuilder) = Some(task.abort_handle());
    }
}

/// The catalog source of a server. Reads one snapshot, so that offerings and state are consistent.
fn catalog_source(server: &ServerHandle) -> CatalogSource {
    let now = server.snapshot();
    let (offerings, settled) = (now.offerings.clone(), server.is_settled_at(&now));
    CatalogSource {
        config: server.config.clone(),
        launch: server.launch,
        offerings,
        settled,
    }
}

impl fmt::Debug for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("roster", &self.roster())
            .field("caller", &self.caller.id())
            .finish_non_exhaustive()
    }
}

impl Drop for HostState {
    fn drop(&mut self) {
        if let Some(task) = self
            .rebuilder
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            task.abort();
        }
        // Writes in flight continue.
        self.writes
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .detach_all();
    }
}
