//! The roots that servers may ask for: the host's, shared by all its sessions, or a caller's.

use tokio::sync::watch;
use tokio::time::timeout;

use super::elicitation::ANSWER_TIMEOUT;
use super::in_flight::InFlightCall;
use crate::caller::{Root, RootsAnswer};

/// The host's roots. Clones share them. Whether roots are offered is fixed, since a legacy session
/// advertises it once.
#[derive(Debug, Clone, Default)]
pub struct Roots(Option<watch::Sender<Vec<Root>>>);

/// Receives each change of the roots.
pub(super) type RootChanges = watch::Receiver<Vec<Root>>;

impl Roots {
    /// Offers these roots; `None` offers none.
    pub fn new(roots: Option<Vec<Root>>) -> Self {
        Self(roots.map(watch::Sender::new))
    }

    /// Whether servers may ask for roots.
    pub fn offered(&self) -> bool {
        self.0.is_some()
    }

    /// The current roots.
    pub fn list(&self) -> Option<Vec<Root>> {
        self.0.as_ref().map(|roots| roots.borrow().clone())
    }

    /// Replaces the roots; false if none are offered.
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

    /// Receives every change from now on.
    pub(super) fn changes(&self) -> Option<RootChanges> {
        self.0.as_ref().map(watch::Sender::subscribe)
    }
}

impl InFlightCall {
    /// Asks the caller for its roots; the time does not count against the deadlines.
    pub(super) async fn ask_roots(&self) -> Option<RootsAnswer> {
        let _pause = self.pause_deadlines();
        let asked = timeout(ANSWER_TIMEOUT, self.caller().ask_roots()).await;
        asked.ok().flatten()
    }
}
