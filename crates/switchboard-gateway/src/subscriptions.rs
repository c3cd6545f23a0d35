//! Which clients are subscribed to which resources. The host subscribes once for all of them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use switchboard::event::is_update_for;
use switchboard::sync::lock;
use switchboard::{Host, ServerName};

use crate::principal::Principal;
use crate::reply::ErrorReply;

/// How many resources of one server the clients of one principal may be subscribed to. A server has
/// a limit for all of them.
const MAX_RESOURCES_OF_PRINCIPAL: usize = 256;

/// Subscribers by the server and the address of a resource.
#[derive(Debug, Default)]
pub(crate) struct ResourceSubscriptions {
    by_resource: Mutex<HashMap<SubscribedResource, ResourceSubscribers>>,
}

/// A resource of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SubscribedResource {
    pub(crate) server: ServerName,
    pub(crate) uri: String,
}

/// The number of a client or of a `subscriptions/listen` request, and whose it is.
#[derive(Debug, Clone)]
pub(crate) struct Subscriber {
    pub(crate) number: u64,
    pub(crate) principal: Principal,
}

#[derive(Debug, Default)]
struct ResourceSubscribers {
    by_number: HashMap<u64, Principal>,
    /// Held while the host subscribes: an attempt that fails ends the subscription that it began, so
    /// the next one must begin after it.
    attempt: Arc<tokio::sync::Mutex<()>>,
}

impl ResourceSubscriptions {
    /// Subscribes one more, and the host at its server. A subscriber whose subscription fails or is
    /// dropped is not subscribed.
    pub(crate) async fn add(
        &self,
        host: &Host,
        resource: &SubscribedResource,
        subscriber: &Subscriber,
    ) -> Result<(), ErrorReply> {
        let is_new = self.insert(resource, subscriber)?;
        let mut attempt = SubscribeAttempt {
            subscriptions: self,
            host,
            resource,
            removes: is_new.then_some(subscriber.number),
        };
        let turn = self.turn(resource);
        let _turn = turn.lock().await;
        host.subscribe(&resource.server, &resource.uri)
            .await
            .map_err(|error| ErrorReply::of_call(&error))?;
        attempt.removes = None;
        Ok(())
    }

    /// Subscribes one more, and the server as soon as it is connected.
    pub(crate) fn add_unconfirmed(
        &self,
        host: &Host,
        resource: &SubscribedResource,
        subscriber: &Subscriber,
    ) -> Result<(), ErrorReply> {
        self.insert(resource, subscriber)?;
        let server = host.server(resource.server.as_str());
        if server.is_some_and(|server| server.subscribe_unconfirmed(&resource.uri)) {
            return Ok(());
        }
        self.remove_where(host, subscriber.number, |known| known == resource);
        Err(ErrorReply::invalid_params(
            "the server takes no more subscriptions",
        ))
    }

    /// True if it was not a subscriber yet.
    fn insert(
        &self,
        resource: &SubscribedResource,
        subscriber: &Subscriber,
    ) -> Result<bool, ErrorReply> {
        let mut known = lock(&self.by_resource);
        let is_own = |(other, subscribers): &(&SubscribedResource, &ResourceSubscribers)| {
            let mut principals = subscribers.by_number.values();
            *other != resource
                && other.server == resource.server
                && principals.any(|own| *own == subscriber.principal)
        };
        if known.iter().filter(is_own).count() >= MAX_RESOURCES_OF_PRINCIPAL {
            let message = format!(
                "this client is subscribed to {MAX_RESOURCES_OF_PRINCIPAL} resources of the server already"
            );
            return Err(ErrorReply::invalid_params(message));
        }
        let subscribers = known.entry(resource.clone()).or_default();
        let previous = subscribers
            .by_number
            .insert(subscriber.number, subscriber.principal.clone());
        Ok(previous.is_none())
    }

    fn turn(&self, resource: &SubscribedResource) -> Arc<tokio::sync::Mutex<()>> {
        let known = lock(&self.by_resource);
        known
            .get(resource)
            .map(|subscribers| subscribers.attempt.clone())
            .unwrap_or_default()
    }

    /// Ends one subscription; the last one ends the host's.
    pub(crate) fn remove(&self, host: &Host, uri: &str, subscriber: u64) {
        self.remove_where(host, subscriber, |known| known.uri == uri);
    }

    /// Ends all subscriptions of one.
    pub(crate) fn remove_all(&self, host: &Host, subscriber: u64) {
        self.remove_where(host, subscriber, |_| true);
    }

    fn remove_where(
        &self,
        host: &Host,
        subscriber: u64,
        is_meant: impl Fn(&SubscribedResource) -> bool,
    ) {
        // Locked until the host's subscriptions have ended, so that none ends after it began again.
        lock(&self.by_resource).retain(|resource, subscribers| {
            let was_there =
                is_meant(resource) && subscribers.by_number.remove(&subscriber).is_some();
            let is_unused = subscribers.by_number.is_empty();
            if was_there && is_unused {
                end_subscription(host, resource);
            }
            !is_unused
        });
    }

    /// Subscribes at servers that a reload has put in the place of others: they know no subscription.
    /// At the others nothing changes.
    pub(crate) fn renew(&self, host: &Host) {
        // Locked meanwhile, so that no subscription begins again after it ended.
        for resource in lock(&self.by_resource).keys() {
            if let Some(server) = host.server(resource.server.as_str()) {
                server.subscribe_unconfirmed(&resource.uri);
            }
        }
    }

    /// The subscribers of this resource, and of those that it is a part of.
    pub(crate) fn subscribers(&self, server: &ServerName, uri: &str) -> HashSet<u64> {
        let known = lock(&self.by_resource);
        let is_meant = |resource: &SubscribedResource| {
            resource.server == *server && is_update_for(&resource.uri, uri)
        };
        let meant = known.iter().filter(|(resource, _)| is_meant(resource));
        let numbers = meant.flat_map(|(_, subscribers)| subscribers.by_number.keys());
        numbers.copied().collect()
    }
}

/// A removed server has no subscription to end.
fn end_subscription(host: &Host, resource: &SubscribedResource) {
    if let Some(server) = host.server(resource.server.as_str()) {
        server.end_subscription(&resource.uri);
    }
}

/// An attempt of the host to subscribe. When it is dropped, the host stays subscribed only if there
/// is a subscriber.
struct SubscribeAttempt<'a> {
    subscriptions: &'a ResourceSubscriptions,
    host: &'a Host,
    resource: &'a SubscribedResource,
    /// The subscriber that is removed, unless the attempt succeeds.
    removes: Option<u64>,
}

impl Drop for SubscribeAttempt<'_> {
    fn drop(&mut self) {
        let mut known = lock(&self.subscriptions.by_resource);
        if let Some(subscribers) = known.get_mut(self.resource) {
            if let Some(number) = self.removes {
                subscribers.by_number.remove(&number);
            }
            if !subscribers.by_number.is_empty() {
                return;
            }
        }
        known.remove(self.resource);
        end_subscription(self.host, self.resource);
    }
}
