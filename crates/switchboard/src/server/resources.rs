//! What all server tasks of a host share.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Notify, broadcast};

use super::Connectors;
#[cfg(feature = "http")]
use super::SharedStack;
use crate::auth::AuthContext;
use crate::caller::CallerCapabilities;
use crate::config::Environment;
use crate::event::Event;
use crate::launch::Launcher;
use crate::session::{Roots, SamplingPolicy};
use crate::store::Store;

/// Resources that all server tasks of a host share.
#[derive(Debug, Clone)]
pub(crate) struct ServerResources {
    /// Starts processes.
    pub launcher: Launcher,
    /// The variables that references expand to.
    pub environment: Arc<Environment>,
    /// The HTTP stack of all URL servers.
    #[cfg(feature = "http")]
    pub http: SharedStack,
    /// Logins to URL servers.
    pub auth: AuthContext,
    /// Remembers eras, wires and catalogs.
    pub store: Arc<dyn Store>,
    /// The folder of the servers' log files; `None` writes none.
    pub log_folder: Option<Arc<PathBuf>>,
    /// The parent of the working folders of user-scope servers without `cwd`; `None` runs them in
    /// this process's working folder.
    pub private_folder: Option<Arc<PathBuf>>,
    /// The channel of `Host::events`.
    pub events: broadcast::Sender<Event>,
    /// Notified when a snapshot changed; the host then rebuilds its catalog.
    pub changed: Arc<Notify>,
    /// The client capabilities that legacy sessions advertise.
    pub offers: CallerCapabilities,
    /// The roots that a server may ask for.
    pub roots: Roots,
    /// Decides whether a server's sampling request may reach the caller.
    pub sampling_policy: Option<Arc<dyn SamplingPolicy>>,
    /// The library user's own transports.
    pub connectors: Arc<Connectors>,
    /// Whether a server offers its cached catalog until it is connected.
    pub offers_cached: bool,
}
