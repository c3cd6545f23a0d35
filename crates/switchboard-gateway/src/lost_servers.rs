//! Which servers are lost, and which of them are no longer listed. What a lost server offers stays
//! listed for a grace period: most come back soon, and a changed list costs a client's model its
//! prompt cache.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard::ServerName;
use switchboard::server::State;
use switchboard::sync::lock;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The lost servers of a gateway.
#[derive(Debug)]
pub(crate) struct LostServers {
    known: Mutex<KnownLosses>,
    /// Notified when the grace period changes.
    grace_change: Notify,
}

#[derive(Debug)]
struct KnownLosses {
    grace: Duration,
    /// Since when each server has been neither connected nor idle.
    since: HashMap<ServerName, Instant>,
    /// Those whose grace period has ended. Replaced as a whole.
    unlisted: Arc<HashSet<ServerName>>,
}

impl LostServers {
    pub(crate) fn new(grace: Duration) -> Self {
        Self {
            known: Mutex::new(KnownLosses {
                grace,
                since: HashMap::new(),
                unlisted: Arc::default(),
            }),
            grace_change: Notify::new(),
        }
    }

    /// Sets the grace period, also for servers that are lost already.
    pub(crate) fn set_grace(&self, grace: Duration) {
        lock(&self.known).grace = grace;
        self.grace_change.notify_one();
    }

    /// Completes when the grace period has changed.
    pub(crate) async fn grace_changed(&self) {
        self.grace_change.notified().await;
    }

    /// Records a server's state. One that is idle is started when it is used; one that connects is
    /// not back yet.
    pub(crate) fn observe(&self, server: &ServerName, state: &State, now: Instant) {
        let mut known = lock(&self.known);
        if matches!(state, State::Ready { .. } | State::Idle) {
            known.since.remove(server);
        } else if !known.since.contains_key(server) {
            known.since.insert(server.clone(), now);
        }
    }

    /// Forgets servers that are no longer configured.
    pub(crate) fn retain(&self, is_configured: impl Fn(&ServerName) -> bool) {
        lock(&self.known)
            .since
            .retain(|server, _| is_configured(server));
    }

    /// Renews the unlisted servers; true if they changed.
    pub(crate) fn update(&self, now: Instant) -> bool {
        let mut known = lock(&self.known);
        let grace = known.grace;
        let has_ended = |(server, since): (&ServerName, &Instant)| {
            (now >= *since + grace).then(|| server.clone())
        };
        let unlisted: HashSet<_> = known.since.iter().filter_map(has_ended).collect();
        let has_changed = unlisted != *known.unlisted;
        if has_changed {
            known.unlisted = Arc::new(unlisted);
        }
        has_changed
    }

    /// When the next grace period ends.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        let known = lock(&self.known);
        let listed = known.since.iter();
        let listed = listed.filter(|(server, _)| !known.unlisted.contains(*server));
        listed.map(|(_, since)| *since + known.grace).min()
    }

    /// The servers that are not listed.
    pub(crate) fn unlisted(&self) -> Arc<HashSet<ServerName>> {
        lock(&self.known).unlisted.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::time::SystemTime;
    use switchboard::revision::Era;
    use switchboard::server::ConnectStep;

    const GRACE: Duration = Duration::from_secs(300);

    fn down() -> State {
        State::Backoff {
            error: "exited with status 1".to_owned(),
            attempt: 1,
            retry_at: SystemTime::now(),
        }
    }

    fn connecting() -> State {
        State::Connecting {
            since: SystemTime::now(),
            step: ConnectStep::Handshake,
        }
    }

    fn ready() -> State {
        State::Ready {
            era: Era::Modern,
            version: "2026-07-28".to_owned(),
        }
    }

    #[test]
    fn a_lost_server_is_unlisted_after_the_grace_period_and_listed_when_it_is_back() {
        let server = ServerName::new("files").unwrap();
        let lost = LostServers::new(GRACE);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        lost.observe(&server, &ready(), start);
        assert_eq!((lost.update(start), lost.next_end()), (false, None));

        // Attempts to connect do not begin a new grace period.
        lost.observe(&server, &down(), after(10));
        lost.observe(&server, &connecting(), after(200));
        lost.observe(&server, &down(), after(201));
        assert_eq!(lost.next_end(), Some(after(310)));
        assert!(!lost.update(after(309)));
        assert!(lost.update(after(310)));
        assert_eq!(*lost.unlisted(), HashSet::from([server.clone()]));
        assert_eq!(lost.next_end(), None);
        assert!(!lost.update(after(400)));

        lost.observe(&server, &ready(), after(500));
        assert!(lost.update(after(500)));
        assert!(lost.unlisted().is_empty());
    }

    #[test]
    fn a_shorter_grace_period_counts_for_a_server_that_is_lost_already() {
        let server = ServerName::new("files").unwrap();
        let lost = LostServers::new(GRACE);
        let start = Instant::now();
        lost.observe(&server, &down(), start);
        lost.set_grace(Duration::from_secs(10));
        assert_eq!(lost.next_end(), Some(start + Duration::from_secs(10)));
        assert!(lost.update(start + Duration::from_secs(10)));
        assert_eq!(*lost.unlisted(), HashSet::from([server]));
    }

    #[test]
    fn an_idle_server_is_not_lost_and_one_that_is_never_reached_is() {
        let [idle, slow, removed] =
            ["idle", "slow", "removed"].map(|name| ServerName::new(name).unwrap());
        let lost = LostServers::new(GRACE);
        let start = Instant::now();
        lost.observe(&idle, &State::Idle, start);
        lost.observe(&slow, &connecting(), start);
        lost.observe(&removed, &down(), start);
        lost.retain(|server| *server != removed);
        assert!(lost.update(start + GRACE));
        assert_eq!(*lost.unlisted(), HashSet::from([slow]));
    }
}
