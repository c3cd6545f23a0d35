//! The folders that servers may ask for: the host's, shared by all its sessions, and told to legacy
//! servers when they change.

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Era;
use super::link::Link;
use crate::caller::Root;

/// The host's folders. Clones share them. Whether there are any to offer is fixed, since a legacy
/// session advertises it once.
#[derive(Debug, Clone, Default)]
pub struct Roots(Option<watch::Sender<Vec<Root>>>);

impl Roots {
    /// Offers these, or none at all.
    pub fn new(roots: Option<Vec<Root>>) -> Self {
        Self(roots.map(watch::Sender::new))
    }

    /// Whether servers may ask.
    pub fn offered(&self) -> bool {
        self.0.is_some()
    }

    /// What they are told.
    pub fn list(&self) -> Option<Vec<Root>> {
        self.0.as_ref().map(|roots| roots.borrow().clone())
    }

    /// Replaces them; false where none are offered.
    pub(crate) fn set(&self, roots: Vec<Root>) -> bool {
        let replace = |sender: &watch::Sender<Vec<Root>>| {
            sender.send_if_modified(|now| {
                let differs = *now != roots;
                *now = roots;
                differs
            });
        };
        self.0.as_ref().map(replace).is_some()
    }

    /// Sees every change from now on.
    pub(super) fn changes(&self) -> Option<watch::Receiver<Vec<Root>>> {
        self.0.as_ref().map(watch::Sender::subscribe)
    }
}

/// The task that tells of changes. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Telling(AbortHandle);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells a legacy server of changes. A modern one asks anew with each call.
pub(super) fn tell(
    link: &Link,
    era: Era,
    changes: Option<watch::Receiver<Vec<Root>>>,
) -> Option<Telling> {
    let mut changes = changes.filter(|_| era == Era::Legacy)?;
    let link = link.clone();
    let task = tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            link.notify("notifications/roots/list_changed", &serde_json::Value::Null);
        }
    });
    Some(Telling(task.abort_handle()))
}
