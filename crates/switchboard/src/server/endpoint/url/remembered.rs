//! What is remembered of an endpoint between runs: the wire and the era that worked.

use std::sync::Arc;

use super::plan::KnownWire;
use crate::server::launch_store;
use crate::store::{Store, StoreTable};

/// The store, as far as one endpoint is concerned.
#[derive(Debug, Clone)]
pub(super) struct RememberedWires {
    store: Arc<dyn Store>,
    key: String,
}

impl RememberedWires {
    /// Of the endpoint at `url`. Servers of different kinds may share an origin, so the path counts
    /// as well; it may hold a key, so it is not written out.
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

    /// Written only where it is news.
    pub(super) async fn store(&self, known: KnownWire) {
        let Self { store, key } = self.clone();
        let write = move || {
            let text = serde_json::to_string(&known).ok()?;
            launch_store::put_if_changed(&*store, StoreTable::Wires, &key, &text)
        };
        launch_store::read_blocking(write).await;
    }
}
