//! Loads grants and pins, and writes them on blocking threads: no task of the runtime waits for a
//! file lock.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::HostState;
use crate::event::Event;
use crate::gate::{Grant, Grants};
use crate::name::ServerName;
use crate::store::{Store, StoreError, StoreTable};
use crate::sync::{self, lock};

/// How long a call waits for its grant to be stored. A store gives up earlier; a file system that
/// hangs does not.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a grant or a pin is not stored.
const SECRET_IN_NAME: &str = "a tool's name contains a secret of its entry";

impl HostState {
    /// Stores grants, and waits for that. Grants that cannot be stored apply to this run only, and
    /// a notice says so.
    pub(crate) async fn store_grants(&self, server: &ServerName, grants: Vec<Grant>) {
        let count = grants.len();
        let items: Vec<_> = grants
            .into_iter()
            .filter_map(|grant| Some((self.as_stored(&grant)?, grant)))
            .collect();
        let has_secret = items.len() < count;
        let writer = self.stored_grants.clone();
        let write = tokio::task::spawn_blocking(move || writer.put(items));
        let fault = match timeout(STORE_TIMEOUT, write).await {
            Ok(Ok(Ok(()))) if has_secret => SECRET_IN_NAME.to_owned(),
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(fault))) => fault.to_string(),
            Ok(Err(_)) => StoreError::Failed.to_string(),
            Err(_) => format!(
                "it could not be stored within {} s",
                STORE_TIMEOUT.as_secs()
            ),
        };
        let line = format!("the approval applies to this run only: {fault}");
        let _ = self.events.send(Event::Notice {
            server: Some(server.clone()),
            line,
        });
    }

    /// Drops the grants that another program has revoked. Returns whether there was one. If the store
    /// cannot be read, all stay.
    pub(crate) async fn drop_revoked_grants(&self) -> bool {
        let writer = self.stored_grants.clone();
        let read = tokio::task::spawn_blocking(move || writer.drop_revoked());
        let fault = match timeout(STORE_TIMEOUT, read).await {
            Ok(Ok(Ok(has_dropped))) => return has_dropped,
            Ok(Ok(Err(fault))) => fault.to_string(),
            Ok(Err(_)) => StoreError::Failed.to_string(),
            Err(_) => format!("no answer within {} s", STORE_TIMEOUT.as_secs()),
        };
        tracing::warn!(fault, "which approvals were revoked cannot be read");
        false
    }

    /// Stores pins in the background. [`Host::stop`](super::Host::stop) waits for that.
    pub(crate) fn store_pins(&self, pins: Vec<Grant>) {
        let writer = self.pins.clone();
        let items: Vec<_> = pins.iter().map(|pin| self.as_stored(pin)).collect();
        if items.contains(&None) {
            writer.notice(&SECRET_IN_NAME);
        }
        writer.pending().extend(items.into_iter().flatten());
        let Ok(runtime) = Handle::try_current() else {
            return writer.write();
        };
        let mut writes = lock(&self.writes);
        while writes.try_join_next().is_some() {}
        writes.spawn_blocking_on(move || writer.write(), &runtime);
    }

    /// Key and value. A definition is the server's text, which may contain a secret of the entry: its
    /// text, which is for people, is redacted. What identifies the grant stays as it is, or the next
    /// run would not find it; so `None` if the tool's name contains a secret.
    fn as_stored(&self, grant: &Grant) -> Option<(String, String)> {
        let roster = self.roster();
        let server = roster
            .servers
            .iter()
            .find(|server| server.config.name == grant.id.server);
        let clean = |text: &str| {
            server.map_or_else(|| text.to_owned(), |server| server.stderr.redact(text))
        };
        let name = grant.id.tool.as_wire();
        (clean(name) == name).then(|| {
            let stored = Grant {
                pinned: clean(&grant.pinned),
                ..grant.clone()
            };
            (stored.key(), stored.to_json())
        })
    }

    /// Waits until all pending writes have succeeded or failed.
    pub(crate) async fn finish_writes(&self) {
        let mut writes = std::mem::take(&mut *lock(&self.writes));
        // Slower writes are not awaited; they continue while the program runs.
        let _ = timeout(STORE_TIMEOUT, async {
            while writes.join_next().await.is_some() {}
        })
        .await;
        writes.detach_all();
    }
}

/// Writes in flight.
pub(crate) type Writes = Mutex<JoinSet<()>>;

/// Changes the stored grants, one change at a time: a grant that is revoked while it is being stored
/// does not stay in the store.
#[derive(Debug)]
pub(crate) struct GrantWriter {
    store: Arc<dyn Store>,
    /// The grants that apply in this run.
    grants: Arc<RwLock<Grants>>,
    /// Locked during a change.
    changing: Mutex<()>,
}

impl GrantWriter {
    pub(super) fn new(store: Arc<dyn Store>, grants: Arc<RwLock<Grants>>) -> Arc<Self> {
        Arc::new(Self {
            store,
            grants,
            changing: Mutex::default(),
        })
    }

    /// Stores these keys and values, except those whose grant has been revoked in the meantime.
    fn put(&self, items: Vec<((String, String), Grant)>) -> Result<(), StoreError> {
        let _one_at_a_time = lock(&self.changing);
        let items: Vec<_> = {
            let grants = sync::read(&self.grants);
            let still_given = items.into_iter().filter(|(_, grant)| grants.has(grant));
            still_given.map(|(item, _)| item).collect()
        };
        if items.is_empty() {
            return Ok(());
        }
        self.store.put_all(StoreTable::Grants, &items)?;
        sync::write(&self.grants).mark_stored(items.into_iter().map(|(key, _)| key));
        Ok(())
    }

    /// Drops the grants that another program has removed from the store. Returns whether there was
    /// one.
    fn drop_revoked(&self) -> Result<bool, StoreError> {
        let _one_at_a_time = lock(&self.changing);
        let items = self.store.all(StoreTable::Grants)?;
        let in_store: HashSet<String> = items.into_iter().map(|(key, _)| key).collect();
        Ok(sync::write(&self.grants).drop_revoked(&in_store))
    }

    /// Removes the values of these keys, whose grants have been revoked before.
    pub(crate) fn remove(&self, keys: &[String]) -> Result<(), StoreError> {
        let _one_at_a_time = lock(&self.changing);
        keys.iter()
            .try_for_each(|key| self.store.remove(StoreTable::Grants, key))
    }
}

/// Stores the newest pin of each tool.
#[derive(Debug)]
pub(crate) struct PinWriter {
    pub(super) store: Arc<dyn Store>,
    pub(super) events: broadcast::Sender<Event>,
    /// Keys and values that are not stored yet.
    pending: Mutex<BTreeMap<String, String>>,
    /// Locked while storing, so that an older value never replaces a newer one.
    writing: Mutex<()>,
}

impl PinWriter {
    pub(super) fn new(store: Arc<dyn Store>, events: broadcast::Sender<Event>) -> Arc<Self> {
        Arc::new(Self {
            store,
            events,
            pending: Mutex::default(),
            writing: Mutex::default(),
        })
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        lock(&self.pending)
    }

    fn write(&self) {
        let _one_at_a_time = lock(&self.writing);
        let items: Vec<_> = std::mem::take(&mut *self.pending()).into_iter().collect();
        if items.is_empty() {
            return;
        }
        if let Err(fault) = self.store.put_all(StoreTable::Pins, &items) {
            self.notice(&fault);
        }
    }

    fn notice(&self, fault: &dyn fmt::Display) {
        let line = format!("definitions are pinned for this run only: {fault}");
        // There may be no listener.
        let _ = self.events.send(Event::Notice { server: None, line });
    }
}

/// Loads the stored grants and pins.
pub(super) fn remembered_grants(store: &dyn Store, events: &broadcast::Sender<Event>) -> Grants {
    let mut grants = Grants::default();
    let mut unreadable = Vec::new();
    match store.all(StoreTable::Grants) {
        Ok(items) => unreadable.extend(grants.load(items)),
        Err(fault) => unreadable.push(fault.to_string()),
    }
    match store.all(StoreTable::Pins) {
        Ok(items) => unreadable.extend(grants.load_pins(items)),
        Err(fault) => unreadable.push(fault.to_string()),
    }
    for fault in unreadable {
        // There may be no listener; a grant that cannot be read is asked for again.
        let _ = events.send(Event::Notice {
            server: None,
            line: format!("a stored grant or pin cannot be read: {fault}"),
        });
    }
    grants
}
