//! The roots that servers may ask for: the host's, shared by all its sessions, or a caller's.

use tokio::sync::watch;

use super::in_flight::InFlightCall;
use crate::caller::{CallerId, Root, RootsAnswer};

/// The host's roots. Clones share them. Whether roots are offered is fixed, since a legacy session
/// advertises it once.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    shared: Option<watch::Sender<SharedRoots>>,
    /// Whose connection gets them, if callers do not share it.
    connection_of: Option<CallerId>,
}

#[derive(Debug, PartialEq)]
pub(super) struct SharedRoots {
    /// Those of calls whose caller has none of its own, and outside of calls.
    host: Vec<Root>,
    /// Outside of calls, those of this caller take the place of the host's. They are for no call of
    /// another caller.
    outside_calls: Option<(CallerId, Vec<Root>)>,
}

/// Receives each change of the roots.
pub(super) type RootChanges = watch::Receiver<SharedRoots>;

impl Roots {
    /// Offers these roots; `None` offers none.
    pub fn new(roots: Option<Vec<Root>>) -> Self {
        let shared = |host| SharedRoots {
            host,
            outside_calls: None,
        };
        Self {
            shared: roots.map(shared).map(watch::Sender::new),
            connection_of: None,
        }
    }

    /// The same roots, for a connection that only this caller uses.
    pub(crate) fn for_connection_of(&self, caller: CallerId) -> Self {
        Self {
            shared: self.shared.clone(),
            connection_of: Some(caller),
        }
    }

    /// Whether servers may ask for roots.
    pub fn offered(&self) -> bool {
        self.shared.is_some()
    }

    /// The roots during a call whose caller has none of its own; `None` if the host has none either.
    pub(super) fn of_call(&self) -> Option<Vec<Root>> {
        let roots = self.shared.as_ref()?.borrow().host.clone();
        (!roots.is_empty()).then_some(roots)
    }

    /// The roots outside of calls, unless a call of one of these callers may still go on.
    pub(super) fn outside_calls(&self, abandoned_by: &[CallerId]) -> Vec<Root> {
        let Some(shared) = &self.shared else {
            return Vec::new();
        };
        let shared = shared.borrow();
        let of_caller = shared.outside_calls.as_ref().filter(|(caller, _)| {
            let mut users = self.connection_of.iter().chain(abandoned_by);
            users.all(|user| user == caller)
        });
        of_caller.map_or(&shared.host, |(_, roots)| roots).clone()
    }

    /// Replaces the host's roots; false if none are offered.
    pub(crate) fn set(&self, roots: Vec<Root>) -> bool {
        self.modify(|shared| std::mem::replace(&mut shared.host, roots) != shared.host)
    }

    /// Replaces the roots outside of calls: `None` are the host's. False if none are offered.
    pub(crate) fn set_outside_calls(&self, roots: Option<(CallerId, Vec<Root>)>) -> bool {
        self.modify(|shared| {
            std::mem::replace(&mut shared.outside_calls, roots) != shared.outside_calls
        })
    }

    fn modify(&self, modify: impl FnOnce(&mut SharedRoots) -> bool) -> bool {
        let modify = |sender: &watch::Sender<SharedRoots>| sender.send_if_modified(modify);
        self.shared.as_ref().map(modify).is_some()
    }

    /// Receives every change from now on.
    pub(super) fn changes(&self) -> Option<RootChanges> {
        self.shared.as_ref().map(watch::Sender::subscribe)
    }
}

impl InFlightCall {
    /// Asks the caller for its roots.
    pub(super) async fn ask_roots(&self) -> Option<RootsAnswer> {
        self.answer(self.caller().ask_roots()).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T21: outside of calls a caller's roots are for its own connection or a shared one, and not
    /// while an abandoned call of another may still go on.
    #[test]
    fn t21_roots_of_a_caller_are_given_only_where_no_other_can_have_asked() {
        let root = |uri: &str| Root {
            uri: uri.to_owned(),
            name: None,
        };
        let (ada, bob) = (CallerId::new("ada"), CallerId::new("bob"));
        let roots = Roots::new(Some(vec![root("host")]));
        roots.set_outside_calls(Some((ada.clone(), vec![root("ada")])));
        let check = |roots: &Roots, abandoned_by: &[CallerId], expected: &str| {
            assert_eq!(roots.outside_calls(abandoned_by), [root(expected)]);
            assert_eq!(roots.of_call(), Some(vec![root("host")]));
        };
        check(&roots, &[], "ada");
        check(&roots, std::slice::from_ref(&ada), "ada");
        check(&roots, &[ada.clone(), bob.clone()], "host");
        check(&roots.for_connection_of(ada), &[], "ada");
        check(&roots.for_connection_of(bob), &[], "host");
        roots.set_outside_calls(None);
        check(&roots, &[], "host");
    }
}
