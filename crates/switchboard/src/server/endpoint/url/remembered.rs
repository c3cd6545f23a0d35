//! The transport and era that worked for a URL, remembered between runs.

use std::sync::Arc;

use super::plan::KnownWire;
use crate::server::launch_store;
use crate::store::{Store, StoreTable};

/// The store's entry for one URL.
#[derive(Debug, Clone)]
pub(super) struct RememberedWires {
    store: Arc<dyn Store>,
    key: String,
}

impl RememberedWires {
    /// For the endpoint at `url`. The key includes the path, because an origin can have several
    /// servers, as a hash, because the path may contain a secret.
    pub(super) fn new(store: Arc<dyn Store>, url: &url::Url) -> Self {
        let path = blake3::hash(url.path().as_bytes()).to_hex();
        Self {
            store,
            key: format!("{} {}", url.origin().ascii_serialization(), &path[..16]),
        }
    }

    pub(super) async fn known(&self) -> Option<KnownWire> {
        let Self { store, key } = self.clone();
        launch_store::read_blocking(move || {
            serde_json::from_str(&launch_store::or_log(store.get(StoreTable::Wires, &key))??).ok()
        })
        .await
    }

    /// Writes the value if it changed. Waits for a short time; a slow write continues.
    pub(super) async fn store(&self, known: KnownWire) {
        let Self { store, key } = self.clone();
        let write = move || {
            let text = serde_json::to_string(&known).ok()?;
            launch_store::put_if_changed(&*store, StoreTable::Wires, &key, &text)
        };
        launch_store::read_blocking(write).await;
    }
}
