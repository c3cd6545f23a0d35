//! The roots that servers may ask for: the host's, shared by all its sessions, or a caller's.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::time::timeout;

use super::elicitation::ANSWER_TIMEOUT;
use super::in_flight::InFlightCall;
use crate::caller::{Root, RootsAnswer};
use crate::sync::lock;

/// The host's roots. Clones share them. Whether roots are offered is fixed, since a legacy session
/// advertises it once.
#[derive(Debug, Clone, Default)]
pub struct Roots(Option<Arc<OfferedRoots>>);

#[derive(Debug)]
struct OfferedRoots {
    /// For the calls of callers that have no roots of their own.
    of_host: Mutex<Vec<Root>>,
    /// For a server that asks outside of calls.
    outside_calls: watch::Sender<Vec<Root>>,
}

/// Receives each change of the roots.
pub(super) type RootChanges = watch::Receiver<Vec<Root>>;

impl Roots {
    /// Offers these roots; `None` offers none.
    pub fn new(roots: Option<Vec<Root>>) -> Self {
        Self(roots.map(|roots| {
            Arc::new(OfferedRoots {
                of_host: Mutex::new(roots.clone()),
                outside_calls: watch::Sender::new(roots),
            })
        }))
    }

    /// Whether servers may ask for roots.
    pub fn offered(&self) -> bool {
        self.0.is_some()
    }

    /// The host's own roots.
    pub fn list(&self) -> Option<Vec<Root>> {
        self.0.as_ref().map(|roots| lock(&roots.of_host).clone())
    }

    /// What a server gets that asks outside of calls.
    pub(super) fn list_outside_calls(&self) -> Option<Vec<Root>> {
        let roots = self.0.as_ref();
        roots.map(|roots| roots.outside_calls.borrow().clone())
    }

    /// Replaces the host's own roots; false if none are offered.
    pub(crate) fn set(&self, roots: Vec<Root>) -> bool {
        if let Some(offered) = &self.0 {
            *lock(&offered.of_host) = roots;
        }
        self.set_outside_calls(None)
    }

    /// Replaces what servers get outside of calls; `None` for the host's own roots.
    pub(crate) fn set_outside_calls(&self, roots: Option<Vec<Root>>) -> bool {
        let Some(offered) = &self.0 else {
            return false;
        };
        let roots = roots.unwrap_or_else(|| lock(&offered.of_host).clone());
        offered.outside_calls.send_if_modified(|now| {
            let differs = *now != roots;
            *now = roots;
            differs
        });
        true
    }

    /// Receives every change from now on.
    pub(super) fn changes(&self) -> Option<RootChanges> {
        let roots = self.0.as_ref();
        roots.map(|roots| roots.outside_calls.subscribe())
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
