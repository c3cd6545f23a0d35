//! A weak reference to the host, for parts that are created before it.

use std::sync::{Arc, OnceLock, Weak};

use super::HostState;

/// A weak reference to a host, set once the host has started.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostReference(Arc<OnceLock<Weak<HostState>>>);

impl HostReference {
    /// Sets the host. Called once for each host.
    pub(crate) fn set(&self, host: &Arc<HostState>) {
        let _ = self.0.set(Arc::downgrade(host));
    }

    /// The host; the error says that there is none.
    pub(crate) fn get(&self) -> Result<Arc<HostState>, String> {
        let host = self.0.get().and_then(Weak::upgrade);
        host.ok_or_else(|| "the host has stopped".to_owned())
    }
}
