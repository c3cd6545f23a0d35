//! The state of reloads, and the replaced servers that finish their calls.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::config::Config;
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
    handles: Vec<ServerHandle>,
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

impl ReloadState {
    /// Stops servers once their calls have ended.
    pub(crate) fn retire(&self, servers: Vec<RetiringServer>) {
        let mut retiring = lock(&self.retiring);
        retiring.handles.retain(|handle| !handle.has_ended());
        while retiring.tasks.try_join_next().is_some() {}
        for RetiringServer { handle, ended } in servers {
            retiring.handles.push(handle.clone());
            retiring.tasks.spawn(async move {
                handle.retire().await;
                drop(ended);
            });
        }
    }

    /// Servers that still have calls in flight.
    pub(crate) fn retiring(&self) -> Vec<ServerHandle> {
        lock(&self.retiring).handles.clone()
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
