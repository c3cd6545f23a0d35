//! The state of reloads, and the replaced servers that finish their calls.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::config::{Config, ServerConfig};
use crate::event::PendingChange;
use crate::future::BoxFuture;
use crate::server::ServerHandle;
use crate::sync::lock;

/// A host's state for reloads.
#[derive(Debug, Default)]
pub(crate) struct ReloadState {
    /// Serializes reloads.
    pub(crate) reload_lock: tokio::sync::Mutex<()>,
    /// The latest configuration of the files, parts of which may be pending.
    pub(crate) latest: Mutex<Option<Arc<Config>>>,
    /// Pending changes, except servers that wait for their first start.
    pub(crate) pending: Mutex<Vec<PendingChange>>,
    /// Why the files cannot be loaded now.
    pub(crate) load_errors: Mutex<Option<Vec<String>>>,
    retiring: Mutex<RetiringServers>,
    /// The file watcher; ends with the host.
    pub(crate) watcher: Mutex<Option<AbortHandle>>,
}

/// Replaced servers that still have calls in flight.
#[derive(Debug, Default)]
struct RetiringServers {
    /// Each with a receiver whose sender is dropped when the server has ended.
    servers: Vec<(ServerHandle, watch::Receiver<()>)>,
    /// Aborted with the host.
    tasks: JoinSet<()>,
}

/// A server that was replaced or removed.
pub(crate) struct RetiringServer {
    handle: ServerHandle,
    /// Dropped when the server has ended.
    pub(crate) ended: watch::Sender<()>,
}

impl RetiringServer {
    pub(crate) fn new(handle: &ServerHandle) -> Self {
        Self {
            handle: handle.clone(),
            ended: watch::Sender::new(()),
        }
    }
}

/// Waits until retired servers have ended.
pub(crate) fn wait_ended(servers: Vec<watch::Receiver<()>>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        for mut retiring_server in servers {
            // Nothing is sent: the wait ends when the sender is dropped.
            while retiring_server.changed().await.is_ok() {}
        }
    })
}

fn has_ended(ended: &watch::Receiver<()>) -> bool {
    ended.has_changed().is_err()
}

impl ReloadState {
    /// Stops servers once their calls have ended.
    pub(crate) fn retire(&self, servers: Vec<RetiringServer>) {
        let mut retiring = lock(&self.retiring);
        (retiring.servers).retain(|(_, ended)| !has_ended(ended));
        while retiring.tasks.try_join_next().is_some() {}
        for RetiringServer { handle, ended } in servers {
            (retiring.servers).push((handle.clone(), ended.subscribe()));
            retiring.tasks.spawn(async move {
                handle.retire().await;
                drop(ended);
            });
        }
    }

    /// Servers that still have calls in flight.
    pub(crate) fn retiring(&self) -> Vec<ServerHandle> {
        let retiring = lock(&self.retiring);
        let handles = retiring.servers.iter().map(|(handle, _)| handle.clone());
        handles.collect()
    }

    /// The ends of the servers that earlier reloads have retired and that have not ended yet, of
    /// those whose entry `is_wanted`.
    pub(crate) fn ends_of(
        &self,
        is_wanted: impl Fn(&ServerConfig) -> bool,
    ) -> Vec<watch::Receiver<()>> {
        let retiring = lock(&self.retiring);
        let wanted = (retiring.servers.iter())
            .filter(|(handle, ended)| is_wanted(&handle.config) && !has_ended(ended));
        wanted.map(|(_, ended)| ended.clone()).collect()
    }

    pub(crate) fn stop_watching(&self) {
        if let Some(watcher) = lock(&self.watcher).take() {
            watcher.abort();
        }
    }
}

impl Drop for ReloadState {
    fn drop(&mut self) {
        self.stop_watching();
    }
}
