//! What holders want to hear of a server beyond the answers to their calls: changes of resources,
//! and how much it logs.
//!
//! The wishes belong to the server and outlive its sessions. Each session tells its server of them
//! and notes what it said to that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::RequestFault;
use crate::event::LogLevel;

/// Nobody looks at more than this at once.
const MAX_RESOURCES: usize = 1_000;

/// What is wanted of one server. Clones share it; every session of the server follows it.
#[derive(Debug, Clone, Default)]
pub struct Wishes(Arc<watch::Sender<Wanted>>);

/// All wishes at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Addresses whose changes are wanted.
    pub(super) resources: BTreeSet<String>,
    /// From which level on the server should log; `None` leaves it to the server.
    pub(super) level: Option<LogLevel>,
}

impl Wishes {
    /// The level that is wanted.
    pub(super) fn level(&self) -> Option<LogLevel> {
        self.0.borrow().level
    }

    pub(super) fn set_level(&self, level: LogLevel) {
        self.0.send_modify(|wanted| wanted.level = Some(level));
    }

    /// Wants to hear of a resource. The error is that there are too many.
    pub(super) fn add(&self, uri: &str) -> Result<(), RequestFault> {
        let mut added = true;
        self.0.send_modify(|wanted| {
            added = wanted.resources.contains(uri) || wanted.resources.len() < MAX_RESOURCES;
            if added {
                wanted.resources.insert(uri.to_owned());
            }
        });
        if added {
            Ok(())
        } else {
            Err(RequestFault::NotAsked(format!(
                "{MAX_RESOURCES} resources are subscribed to already"
            )))
        }
    }

    /// True if it was wanted.
    pub(super) fn remove(&self, uri: &str) -> bool {
        let mut was_wanted = false;
        self.0
            .send_modify(|wanted| was_wanted = wanted.resources.remove(uri));
        was_wanted
    }

    pub(super) fn follow(&self) -> watch::Receiver<Wanted> {
        self.0.subscribe()
    }
}

/// What the server of one session said to the wishes it was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Written by the session's own task, read by whoever waits for an outcome.
    outcomes: watch::Sender<Outcomes>,
    /// What `subscriptions/listen` requests were acknowledged with, by id, while they stand.
    acknowledged: Mutex<HashMap<u64, Acknowledged>>,
    /// Rung with each acknowledgement.
    pub(super) acknowledging: tokio::sync::Notify,
}

/// The server's word on each wish that it was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    /// Grows when the server has forgotten all it was told.
    pub(super) renewals: u64,
    pub(super) resources: BTreeMap<String, Result<(), RequestFault>>,
    pub(super) level: Option<(LogLevel, Result<(), RequestFault>)>,
}

/// The part of a `subscriptions/listen` request that the server agreed to.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Acknowledged {
    pub(super) tools_list_changed: bool,
    pub(super) prompts_list_changed: bool,
    pub(super) resources_list_changed: bool,
    pub(super) resource_subscriptions: Vec<String>,
}

impl Told {
    pub(super) fn follow(&self) -> watch::Receiver<Outcomes> {
        self.outcomes.subscribe()
    }

    pub(super) fn now(&self) -> Outcomes {
        self.outcomes.borrow().clone()
    }

    /// Notes what the server said, unless it has forgotten everything since `renewals` were
    /// counted.
    pub(super) fn note(&self, renewals: u64, note: impl FnOnce(&mut Outcomes)) {
        self.outcomes.send_modify(|outcomes| {
            if outcomes.renewals == renewals {
                note(outcomes);
            }
        });
    }

    /// A refusal of last time does not count for a new try.
    pub(super) fn forget_refusal(&self, uri: &str) {
        self.outcomes.send_modify(|outcomes| {
            if outcomes.resources.get(uri).is_some_and(Result::is_err) {
                outcomes.resources.remove(uri);
            }
        });
    }

    /// The server has begun a new session: it knows nothing of what was told before.
    pub(super) fn renewed(&self) {
        self.outcomes.send_modify(|outcomes| {
            *outcomes = Outcomes {
                renewals: outcomes.renewals + 1,
                ..Outcomes::default()
            }
        });
    }

    fn acknowledgements(&self) -> MutexGuard<'_, HashMap<u64, Acknowledged>> {
        self.acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A standing request was acknowledged. What nobody took of those that stand no more is
    /// forgotten.
    pub(super) fn acknowledge(
        &self,
        id: u64,
        acknowledged: Acknowledged,
        stands: impl Fn(u64) -> bool,
    ) {
        let mut all = self.acknowledgements();
        all.retain(|id, _| stands(*id));
        all.insert(id, acknowledged);
        drop(all);
        self.acknowledging.notify_one();
    }

    /// The acknowledgement of this request, once.
    pub(super) fn take_acknowledged(&self, id: u64) -> Option<Acknowledged> {
        self.acknowledgements().remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody takes those of the requests that tasks hold, and a server may acknowledge what it was
    /// never asked.
    #[test]
    fn an_acknowledgement_is_kept_only_while_its_request_stands() {
        let told = Told::default();
        for id in 1..=100 {
            told.acknowledge(id, Acknowledged::default(), |stands| stands + 1 >= id);
        }
        assert_eq!(told.acknowledgements().len(), 2);
        assert_eq!(
            (told.take_acknowledged(100), told.take_acknowledged(7)),
            (Some(Acknowledged::default()), None)
        );
    }
}
