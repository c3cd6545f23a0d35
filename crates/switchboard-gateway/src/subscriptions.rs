//! Which clients are subscribed to which resources. The host subscribes once for all of them.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use switchboard::call::CallError;
use switchboard::sync::lock;
use switchboard::{Host, ServerName};

/// Subscribers by the server and the address of a resource. A subscriber is the number of a client
/// or of a `subscriptions/listen` request.
#[derive(Debug, Default)]
pub(crate) struct ResourceSubscriptions {
    by_resource: Mutex<HashMap<(ServerName, String), HashSet<u64>>>,
}

impl ResourceSubscriptions {
    /// Subscribes one more, and the host at its server.
    pub(crate) async fn add(
        &self,
        host: &Host,
        server: ServerName,
        uri: &str,
        subscriber: u64,
    ) -> Result<(), CallError> {
        host.subscribe(&server, uri).await?;
        let mut known = lock(&self.by_resource);
        let key = (server, uri.to_owned());
        known.entry(key).or_default().insert(subscriber);
        Ok(())
    }

    /// Ends one subscription; the last one ends the host's.
    pub(crate) async fn remove(&self, host: &Host, uri: &str, subscriber: u64) {
        self.remove_where(host, subscriber, |known| known == uri)
            .await;
    }

    /// Ends all subscriptions of one.
    pub(crate) async fn remove_all(&self, host: &Host, subscriber: u64) {
        self.remove_where(host, subscriber, |_| true).await;
    }

    async fn remove_where(&self, host: &Host, subscriber: u64, is_meant: impl Fn(&str) -> bool) {
        let mut unused = Vec::new();
        lock(&self.by_resource).retain(|(server, uri), subscribers| {
            let was_there = is_meant(uri) && subscribers.remove(&subscriber);
            if was_there && subscribers.is_empty() {
                unused.push((server.clone(), uri.clone()));
            }
            !subscribers.is_empty()
        });
        for (server, uri) in unused {
            // A removed server has no subscription to end.
            let _ = host.unsubscribe(&server, &uri).await;
        }
    }

    /// Whether this client has any.
    pub(crate) fn has(&self, subscriber: u64) -> bool {
        let known = lock(&self.by_resource);
        known
            .values()
            .any(|subscribers| subscribers.contains(&subscriber))
    }

    /// The subscribers of this resource.
    pub(crate) fn subscribers(&self, server: &ServerName, uri: &str) -> HashSet<u64> {
        let known = lock(&self.by_resource);
        let key = (server.clone(), uri.to_owned());
        known.get(&key).cloned().unwrap_or_default()
    }
}
