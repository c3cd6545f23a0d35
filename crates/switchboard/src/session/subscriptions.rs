//! Subscriptions to resources, and the log level.
//!
//! They belong to the server and outlive its sessions. Each session sends them to its server
//! (`legacy::subscribe`, `modern::listen`) and records the server's responses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use super::RequestFault;
use crate::event::LogLevel;
use crate::sync::lock;

/// The most resources that may be subscribed to.
const MAX_RESOURCES: usize = 1_000;

/// The subscriptions with one server. Clones share them; every session of the server follows them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subscriptions(Arc<watch::Sender<DesiredSubscriptions>>);

/// All subscriptions at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DesiredSubscriptions {
    /// The URIs of the resources.
    pub(super) resources: BTreeSet<String>,
    /// The minimum log level; `None` leaves it to the server.
    pub(super) level: Option<LogLevel>,
    /// The minimum log level of legacy sessions, if `level` is `None`: a modern request names its own.
    pub(super) legacy_level: Option<LogLevel>,
}

impl Subscriptions {
    /// The log level.
    pub(super) fn level(&self) -> Option<LogLevel> {
        self.0.borrow().level
    }

    pub(super) fn set_level(&self, level: LogLevel) {
        self.0.send_modify(|desired| desired.level = Some(level));
    }

    pub(crate) fn set_legacy_level(&self, level: LogLevel) {
        self.0.send_if_modified(|desired| {
            let previous = desired.legacy_level.replace(level);
            previous != Some(level)
        });
    }

    /// Subscribes to a resource. True if it was not subscribed to. The error is that there are too
    /// many.
    pub(crate) fn add(&self, uri: &str) -> Result<bool, RequestFault> {
        let mut has_room = true;
        let is_new = self.0.send_if_modified(|desired| {
            let is_new = !desired.resources.contains(uri);
            has_room = !is_new || desired.resources.len() < MAX_RESOURCES;
            is_new && has_room && desired.resources.insert(uri.to_owned())
        });
        if has_room {
            Ok(is_new)
        } else {
            Err(RequestFault::NotSent(format!(
                "{MAX_RESOURCES} resources are subscribed to already"
            )))
        }
    }

    /// Unsubscribes. True if it was subscribed to.
    pub(crate) fn remove(&self, uri: &str) -> bool {
        self.0
            .send_if_modified(|desired| desired.resources.remove(uri))
    }

    /// Has the sessions request again what has no outcome.
    pub(super) fn renew(&self) {
        self.0.send_modify(|_| {});
    }

    pub(super) fn follow(&self) -> watch::Receiver<DesiredSubscriptions> {
        self.0.subscribe()
    }
}

/// The responses of one session's server to the subscriptions.
#[derive(Debug, Default)]
pub(super) struct SubscriptionStatus {
    /// Written by the session's own task, read by those who wait for an outcome.
    outcomes: watch::Sender<SubscriptionOutcomes>,
    /// The acknowledgements of open `subscriptions/listen` requests, by id.
    acknowledged: Mutex<HashMap<u64, ListenAcknowledgement>>,
    /// Notified with each acknowledgement.
    pub(super) acknowledging: tokio::sync::Notify,
}

/// The server's response to each subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SubscriptionOutcomes {
    /// Incremented when the server has lost all subscriptions.
    pub(super) renewals: u64,
    pub(super) resources: BTreeMap<String, Result<(), RequestFault>>,
    pub(super) level: Option<(LogLevel, Result<(), RequestFault>)>,
}

/// The part of a `subscriptions/listen` request that the server agreed to.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListenAcknowledgement {
    pub(super) tools_list_changed: bool,
    pub(super) prompts_list_changed: bool,
    pub(super) resources_list_changed: bool,
    pub(super) resource_subscriptions: Vec<String>,
}

impl SubscriptionStatus {
    pub(super) fn follow(&self) -> watch::Receiver<SubscriptionOutcomes> {
        self.outcomes.subscribe()
    }

    pub(super) fn now(&self) -> SubscriptionOutcomes {
        self.outcomes.borrow().clone()
    }

    /// Records a response, unless the server has lost all subscriptions since.
    pub(super) fn note(&self, renewals: u64, note: impl FnOnce(&mut SubscriptionOutcomes)) {
        self.outcomes.send_modify(|outcomes| {
            if outcomes.renewals == renewals {
                note(outcomes);
            }
        });
    }

    /// Forgets a refusal before a new attempt. False if there is none.
    pub(super) fn forget_refusal(&self, uri: &str) -> bool {
        self.outcomes.send_if_modified(|outcomes| {
            let is_refused = outcomes.resources.get(uri).is_some_and(Result::is_err);
            is_refused && outcomes.resources.remove(uri).is_some()
        })
    }

    /// Forgets the response to one subscription, which is then requested again.
    pub(super) fn forget(&self, uri: &str) {
        self.outcomes
            .send_if_modified(|outcomes| outcomes.resources.remove(uri).is_some());
    }

    /// Forgets all responses: after a renewed session the server has no subscriptions.
    pub(super) fn reset(&self) {
        self.outcomes.send_modify(|outcomes| {
            *outcomes = SubscriptionOutcomes {
                renewals: outcomes.renewals + 1,
                ..SubscriptionOutcomes::default()
            }
        });
    }

    fn acknowledgements(&self) -> MutexGuard<'_, HashMap<u64, ListenAcknowledgement>> {
        lock(&self.acknowledged)
    }

    /// Records an acknowledgement. Those that were not taken are dropped once their request is no
    /// longer open.
    pub(super) fn acknowledge(
        &self,
        id: u64,
        acknowledged: ListenAcknowledgement,
        is_open: impl Fn(u64) -> bool,
    ) {
        let mut all = self.acknowledgements();
        all.retain(|id, _| is_open(*id));
        all.insert(id, acknowledged);
        drop(all);
        self.acknowledging.notify_one();
    }

    /// Takes the acknowledgement of this request.
    pub(super) fn take_acknowledgement(&self, id: u64) -> Option<ListenAcknowledgement> {
        self.acknowledgements().remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of tasks never take theirs, and a server may acknowledge a request that was never
    /// sent.
    #[test]
    fn an_acknowledgement_is_kept_only_while_its_request_is_open() {
        let status = SubscriptionStatus::default();
        for id in 1..=100 {
            status.acknowledge(id, ListenAcknowledgement::default(), |stands| {
                stands + 1 >= id
            });
        }
        assert_eq!(status.acknowledgements().len(), 2);
        assert_eq!(
            (
                status.take_acknowledgement(100),
                status.take_acknowledgement(7)
            ),
            (Some(ListenAcknowledgement::default()), None)
        );
    }
}
